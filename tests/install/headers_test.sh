#!/usr/bin/env bash
# Every header that is installed compiles by itself, twice in one file, without warnings: one by one with clang++, which
# is faster, and all in one file with g++ (DAXCACHE_FULL=1: one by one with both). Argument: the source folder.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rooms=(libdaxcache policies traces)
includes=()
for room in "${rooms[@]}"; do includes+=("-I$source/$room/include"); done

# One file a header: its own include, then the same again.
for room in "${rooms[@]}"; do
  (cd "$source/$room/include" && find daxcache -name '*.h')
done | sort >"$work/headers"
while read -r header; do
  printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$work/${header//\//_}.cc"
done <"$work/headers"
[[ -s $work/headers ]]

flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
one_by_one() {
  echo "--- $1: $(wc -l <"$work/headers") headers one by one"
  find "$work" -name 'daxcache_*.cc' -print0 | xargs -0 -n 1 -P "$(nproc)" "$1" "${flags[@]}" "${includes[@]}"
}
if command -v clang++ >/dev/null; then one_by_one clang++; fi
if [[ ${DAXCACHE_FULL:-} == 1 ]] || ! command -v clang++ >/dev/null; then
  one_by_one g++
else
  echo "--- g++: all in one file"
  sed 's/.*/#include "&"/' "$work/headers" >"$work/all.cc"
  g++ "${flags[@]}" "${includes[@]}" "$work/all.cc"
fi
