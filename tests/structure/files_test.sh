#!/usr/bin/env bash
# Each file opens with a paragraph that says what it is; headers are guarded; the version stands in one place; nothing
# is left to be done, and no path of one machine is in the tree. Argument: the source folder.
set -euo pipefail
cd "$1"
status=0
bad() {
  echo "$1"
  status=1
}

sources() {
  find libdaxcache policies traces sim bench python tests -type f \( -name '*.h' -o -name '*.cc' \) \
    -not -path '*/corpus/*' 2>/dev/null | sort
}

while read -r file; do
  [[ $(head -c 3 "$file") == '// ' ]] || bad "$file:1: expected a comment that says what the file is"
  if [[ $file == *.h ]] && ! grep -qx '#pragma once' "$file"; then bad "$file: expected #pragma once"; fi
  [[ -z $(tail -c 1 "$file") ]] || bad "$file: expected a newline at the end"
done < <(sources)

while read -r script; do
  [[ $(sed -n 2p "$script") == '# '* ]] || bad "$script:2: expected a comment that says what the script is"
done < <(find tests scripts .ci -type f \( -name '*.sh' -o -path 'scripts/[a-z]*' -o -path '.ci/run' \) \
  -not -name '*.txt' -not -name '*.py' | sort)

# The version: version.h alone. (CHANGELOG.md tells of it, as it should.)
version=$(sed -nE 's/^#define DAXCACHE_VERSION "(.*)"/\1/p' libdaxcache/include/daxcache/version.h)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || bad "version.h: expected a version, got \"$version\""
parts=$(sed -nE 's/^#define DAXCACHE_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)/\2/p' libdaxcache/include/daxcache/version.h)
[[ $(tr '\n' . <<<"$parts") == "$version." ]] || bad "version.h: the parts are not those of $version"
if grep -rnF "\"$version\"" --include='*.h' --include='*.cc' --include='*.py' --include=CMakeLists.txt --include='*.cmake' \
  libdaxcache policies traces sim bench python CMakeLists.txt cmake 2>/dev/null |
  grep -v '^libdaxcache/include/daxcache/version.h:'; then
  bad "the version stands in more places than version.h"
fi

# What this looks for is spelt so that it does not find itself.
text=(--include='*.h' --include='*.cc' --include='*.py' --include='*.sh' --include='*.md' --include='*.cmake'
  --include='CMakeLists.txt' --include='*.json' --exclude-dir=build --exclude-dir=.git --exclude-dir=data
  --exclude-dir=corpus)
if grep -rnE "TO""DO|FIX""ME" "${text[@]}" .; then bad "something is left to be done"; fi
if grep -rnE "/(wo""rk|ho""me/[a-z]+|ro""ot|Us""ers)/[a-z]" "${text[@]}" --exclude-dir=traces . |
  grep -vE '_test\.cc:|include=|docs/|README'; then
  bad "a path of one machine"
fi
exit $status
