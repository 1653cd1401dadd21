#!/usr/bin/env bash
# Installs what was built into a folder of its own and uses it as somebody else would: by find_package, by pkg-config,
# by add_subdirectory. Arguments: the build folder, the source folder, the C++ and the C compiler.
set -euo pipefail
build=$1 source=$2 cxx=$3 cc=$4
here=$source/tests/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { echo "--- $*"; }

say install
DESTDIR='' cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name daxcache.pc)")

# The folders of the source are not there for whoever has the package alone.
if grep -rlF -e "$source" -e "$build" "$work/prefix" --include='*.cmake' --include='*.pc' --include='*.h'; then
  echo "installed files name the folders they were built in" >&2
  exit 1
fi

say 'installed daxsim finds the trace installed with it'
(cd / && "$work/prefix/bin/daxsim" --window 64M --trace kbuild.trace --format csv) | grep -q ',linux,67108864,'

say find_package
cmake -S "$here/find_package" -B "$work/find" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/prefix" \
  >"$work/find.log" || { cat "$work/find.log"; exit 1; }
cmake --build "$work/find"
"$work/find/window_client"
"$work/find/traces_client" "$work"
"$work/find/c_client"
"$work/find/c_client_static"

say pkg-config
read -ra window_flags < <(pkg-config --cflags --libs daxcache)
"$cxx" -std=c++20 "$here/window_client.cc" "${window_flags[@]}" -o "$work/window_client"
"$work/window_client"
read -ra traces_flags < <(pkg-config --cflags --libs daxcache-traces)
"$cxx" -std=c++20 "$here/traces_client.cc" "${traces_flags[@]}" -o "$work/traces_client"
"$work/traces_client" "$work"
version=$(pkg-config --modversion daxcache)
grep -qF "\"$version\"" "$source/libdaxcache/include/daxcache/version.h"

say 'pkg-config, in C: the shared library, then the archive'
read -ra c_flags < <(pkg-config --cflags --libs libdaxcache)
c_warnings=(-std=c11 -Wall -Wextra -Wpedantic -Werror)
"$cc" "${c_warnings[@]}" "$here/c_client.c" "${c_flags[@]}" -o "$work/c_client"
LD_LIBRARY_PATH=$(dirname "$(find "$work/prefix" -name libdaxcache.so)") "$work/c_client"
read -ra static_flags < <(pkg-config --static --cflags --libs libdaxcache)
"$cc" "${c_warnings[@]}" "$here/c_client.c" "${static_flags[@]/-ldaxcache/-l:libdaxcache.a}" -o "$work/c_client_static"
"$work/c_client_static"

say add_subdirectory
cmake -S "$here/add_subdirectory" -B "$work/sub" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DDAXCACHE_SOURCE_DIR="$source" \
  >"$work/sub.log" || { cat "$work/sub.log"; exit 1; }
cmake --build "$work/sub" --target window_client
"$work/sub/window_client"
