// The classes by which reports group files: their size, up to a limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// The largest size of each class, bytes. What Linux maps at a time, 2 MiB, is one of them.
inline constexpr std::array<std::uint64_t, 11> kSizeClasses = {
    0, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 16 << 20, 64 << 20, 1 << 30, ~std::uint64_t{0}};

constexpr std::size_t SizeClassOf(std::uint64_t size) {
  std::size_t at = 0;
  while (size > kSizeClasses[at]) ++at;
  return at;
}

// "empty", "up to 64K", "over 1G".
inline std::string SizeClassName(std::size_t at) {
  if (at == 0) return "empty";
  const bool last = at + 1 == kSizeClasses.size();
  return absl::StrCat(last ? "over " : "up to ", ByteSize(kSizeClasses[last ? at - 1 : at]).ToString());
}

}  // namespace v0
}  // namespace daxcache
