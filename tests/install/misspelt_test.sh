#!/usr/bin/env bash
# A policy whose hook is spelt wrong does not compile, and the message names the concept and the hook. Arguments: the
# source folder, the C++ compiler.
set -euo pipefail
source=$1 cxx=$2
compile=("$cxx" -std=c++20 -fsyntax-only "-I$source/libdaxcache/include" "-I$source/policies/include"
  "$source/tests/install/misspelt_policy.cc")
"${compile[@]}" -DDAXCACHE_SPELT_RIGHT
if output=$("${compile[@]}" 2>&1); then
  echo "a policy without OnHit compiles" >&2
  exit 1
fi
for expected in Policy OnHit; do
  if ! grep -q "$expected" <<<"$output"; then
    printf '%s\n' "$output"
    echo "the message does not name $expected" >&2
    exit 1
  fi
done
