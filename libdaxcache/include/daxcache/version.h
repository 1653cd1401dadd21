// The one place where the version stands: CMake, the package files and `--version` read it from here.
#pragma once

#define DAXCACHE_VERSION_MAJOR 0
#define DAXCACHE_VERSION_MINOR 1
#define DAXCACHE_VERSION_PATCH 0
#define DAXCACHE_VERSION "0.1.0"
