// Ranges of a file: the unit in which the window maps. A range is `RangeSize` bytes of one file at a multiple of that
// size; Linux fixes it at 2 MiB (FUSE_DAX_SHIFT 21 in fs/fuse/dax.c), the model takes any power of two from 4 KiB to 1
// GiB.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/ids.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

class RangeSize {
 public:
  // 2 MiB, as Linux has it.
  constexpr RangeSize() = default;

  // InvalidArgument unless `size` is a power of two from 4 KiB to 1 GiB.
  [[nodiscard]] static absl::StatusOr<RangeSize> Create(ByteSize size) {
    if (!std::has_single_bit(size.bytes()) || size.bytes() < (1u << 12) || size.bytes() > (1u << 30)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a range size that is a power of two from 4K to 1G, got ", size.ToString()));
    }
    RangeSize range;
    range.shift_ = std::countr_zero(size.bytes());
    return range;
  }

  constexpr std::uint64_t bytes() const { return std::uint64_t{1} << shift_; }
  constexpr int shift() const { return shift_; }
  friend constexpr bool operator==(RangeSize, RangeSize) = default;

  // The first and last range that `length` > 0 bytes at `offset` touch. The caller has checked that the sum does not
  // overflow.
  constexpr std::uint64_t First(std::uint64_t offset) const { return offset >> shift_; }
  constexpr std::uint64_t Last(std::uint64_t offset, std::uint64_t length) const {
    return (offset + (length - 1)) >> shift_;
  }

 private:
  int shift_ = 21;
};

// A range by name: which file, and which range of it (offset / range size).
struct FileRange {
  FileId file = kNoFile;
  std::uint64_t index = 0;
  friend constexpr auto operator<=>(const FileRange&, const FileRange&) = default;
};

}  // namespace v0
}  // namespace daxcache
