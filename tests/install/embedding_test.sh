#!/usr/bin/env bash
# The programs of docs/embedding.md compile as they stand there, without warnings, and run; so do the integrations. Rust
# is compiled where there is a rustc. Arguments: the source folder, the folder of libdaxcache.so and .a, the C and the
# C++ compiler.
set -euo pipefail
source=$1 library=$2 cc=$3 cxx=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$library
warnings=(-Wall -Wextra -Werror)
say() { echo "--- $*"; }

# A block of code whose first line is a comment that names a file is that file.
(cd "$work" && awk '/^```/ { if (file) close(file); file = ""; first = !first; next }
  first && !file && /^\/\/ [a-z_]+\.(cc|c|rs)$/ { file = $2 }
  file { print > file }' "$source/docs/embedding.md")
for program in cpp_daemon.cc c_daemon.c rust_daemon.rs vmm.cc; do
  [[ -s $work/$program ]] || { echo "docs/embedding.md: no program $program" >&2; exit 1; }
done

say libdaxcache.so exports what daxcache.h declares
sed -nE '/^DAXCACHE_API/,/;/p' "$source/libdaxcache/include/daxcache/daxcache.h" | grep -oE '\<daxcache_[a-z_]+\(' |
  tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only "$library/libdaxcache.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
diff "$work/declared" "$work/exported"

say C
"$cc" -std=c11 -D_GNU_SOURCE "${warnings[@]}" -Wpedantic -Wconversion "-I$source/libdaxcache/include" \
  "$work/c_daemon.c" "-L$library" -ldaxcache -o "$work/c_daemon"
"$work/c_daemon"

say virtiofsd
ops=$source/libdaxcache/integrations/virtiofsd
"$cc" -std=c11 -D_GNU_SOURCE "${warnings[@]}" "-I$source/libdaxcache/include" "-I$source/tests/install/virtiofsd" \
  "-I$ops" "$ops/daxcache_ops.c" "$source/tests/install/virtiofsd/client.c" "-L$library" -ldaxcache -o "$work/virtiofsd"
"$work/virtiofsd"

say C++
read -ra abseil < <(pkg-config --cflags --libs absl_status absl_statusor absl_strings absl_time)
for program in cpp_daemon vmm; do
  "$cxx" -std=c++20 "${warnings[@]}" "-I$source/libdaxcache/include" "-I$source/policies/include" "$work/$program.cc" \
    "${abseil[@]}" -pthread -o "$work/$program"
  "$work/$program"
done

if ! command -v rustc >/dev/null || ! rustc --version >/dev/null 2>&1; then
  echo 'no rustc: the Rust integration was not compiled'
  exit
fi
say Rust
rustc --edition 2021 -D warnings --crate-type rlib --crate-name daxcache \
  "$source/libdaxcache/integrations/rust/src/lib.rs" -L "native=$library" -o "$work/libdaxcache.rlib"
rustc --edition 2021 -D warnings --extern "daxcache=$work/libdaxcache.rlib" -L "native=$library" \
  "$work/rust_daemon.rs" -o "$work/rust_daemon"
"$work/rust_daemon"
