#!/usr/bin/env bash
# clang-format would change nothing. Skipped where there is no clang-format. Argument: the source folder.
set -euo pipefail
cd "$1"
command -v clang-format >/dev/null || exit 77
rooms=()
for room in libdaxcache policies traces sim bench python tests; do
  if [[ -d $room ]]; then rooms+=("$room"); fi
done
find "${rooms[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -not -path '*/corpus/*' |
  xargs clang-format --dry-run --Werror
