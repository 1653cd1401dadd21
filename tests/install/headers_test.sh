#!/usr/bin/env bash
# Every header that is installed compiles by itself, twice in one file, without warnings: here all in one file, in order
# and in reverse, since most have a test that includes them first; one by one, with g++ and clang++, if DAXCACHE_FULL=1.
# Argument: the source folder.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rooms=(libdaxcache policies traces)
includes=()
for room in "${rooms[@]}"; do includes+=("-I$source/$room/include"); done

for room in "${rooms[@]}"; do
  (cd "$source/$room/include" && find daxcache -name '*.h')
done | sort >"$work/headers"
[[ -s $work/headers ]]
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)

if [[ ${DAXCACHE_FULL:-} != 1 ]]; then
  sed 's/.*/#include "&"/' "$work/headers" >"$work/all.cc"
  tac "$work/all.cc" >"$work/reverse.cc"
  sed 's/.*/#include "&"/' "$work/headers" >>"$work/reverse.cc"
  for file in all reverse; do g++ "${flags[@]}" "${includes[@]}" "$work/$file.cc"; done
  exit
fi

while read -r header; do
  printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$work/${header//\//_}.cc"
done <"$work/headers"
for compiler in g++ clang++; do
  echo "--- $compiler: $(wc -l <"$work/headers") headers one by one"
  find "$work" -name 'daxcache_*.cc' -print0 | xargs -0 -n 1 -P "$(nproc)" "$compiler" "${flags[@]}" "${includes[@]}"
done
