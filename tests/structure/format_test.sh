#!/usr/bin/env bash
# clang-format would change nothing. Skipped where there is no clang-format. Argument: the source folder.
set -euo pipefail
cd "$1"
command -v clang-format >/dev/null || exit 77
find libdaxcache policies traces sim bench python tests -type f \( -name '*.h' -o -name '*.cc' \) \
  -not -path '*/corpus/*' 2>/dev/null | xargs clang-format --dry-run --Werror
