// Packs one column of a trace while its values come in, in blocks, and in the end into the one `Column` that a Trace
// holds. Internal to the traces room: used by TraceBuilder, so that a trace under construction takes about the bytes of
// the finished one instead of 8 a value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {
namespace internal {

// The least number of bytes, of 0, 1, 2, 4 and 8, that holds `max`.
constexpr int WidthFor(std::uint64_t max) {
  if (max == 0) return 0;
  if (max < 0x100) return 1;
  if (max < 0x1'0000) return 2;
  return max < 0x1'0000'0000 ? 4 : 8;
}

// Calls `f` with a zero of the unsigned type of that many bytes (1, 2, 4 or 8).
template <class F>
void WithWidth(int width, F f) {
  switch (width) {
    case 1: f(std::uint8_t{0}); break;
    case 2: f(std::uint16_t{0}); break;
    case 4: f(std::uint32_t{0}); break;
    case 8: f(std::uint64_t{0}); break;
    default: break;
  }
}

class ColumnBuilder {
 public:
  void AddBlock(std::span<const std::uint64_t> values) {
    if (values.empty()) return;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    Block block;
    block.count = values.size();
    block.base = *low;
    // The greatest common divisor of all distances from the least value; 0 while all are equal. Almost every distance
    // is a multiple of what was found so far, so one division a value is the usual cost, and none once it is 1.
    std::uint64_t divisor = 0;
    for (const std::uint64_t value : values) {
      const std::uint64_t distance = value - block.base;
      if (divisor == 1) break;
      if (divisor == 0 ? distance != 0 : distance % divisor != 0) divisor = std::gcd(divisor, distance);
    }
    block.scale = std::max<std::uint64_t>(divisor, 1);
    block.width = WidthFor((*high - block.base) / block.scale);
    block.bytes = std::make_unique_for_overwrite<std::byte[]>(values.size() * static_cast<std::size_t>(block.width));
    const int shift = std::has_single_bit(block.scale) ? std::countr_zero(block.scale) : -1;
    WithWidth(block.width, [&]<class T>(T) {
      std::byte* out = block.bytes.get();
      for (const std::uint64_t value : values) {
        const std::uint64_t distance = value - block.base;
        const T raw = static_cast<T>(shift >= 0 ? distance >> shift : distance / block.scale);
        std::memcpy(out, &raw, sizeof raw);
        out += sizeof raw;
      }
    });
    if (blocks_.empty()) {
      first_ = low_ = block.base;
      high_ = *high;
    }
    const std::uint64_t apart = block.base > first_ ? block.base - first_ : first_ - block.base;
    divisor_ = std::gcd(std::gcd(divisor_, divisor), apart);
    low_ = std::min(low_, block.base);
    high_ = std::max(high_, *high);
    count_ += block.count;
    blocks_.push_back(std::move(block));
  }

  // The whole column, in as few bytes a value as its span needs and at least `min_width`; `storage` owns its bytes.
  // The builder is empty afterwards.
  Column Finish(int min_width, std::vector<std::shared_ptr<const void>>& storage) {
    const std::uint64_t scale = std::max<std::uint64_t>(divisor_, 1);
    const int width = std::max(WidthFor((high_ - low_) / scale), count_ == 0 ? 0 : min_width);
    std::shared_ptr<std::byte[]> bytes(new std::byte[count_ * static_cast<std::size_t>(width)]);
    WithWidth(width, [&]<class To>(To) {
      std::byte* out = bytes.get();
      for (Block& block : blocks_) {
        // Both divisions are exact: `scale` divides every block's own and the distances between blocks.
        const std::uint64_t base = (block.base - low_) / scale;
        const std::uint64_t factor = block.scale / scale;
        if (block.width == 0) {
          const To raw = static_cast<To>(base);
          for (std::uint64_t i = 0; i < block.count; ++i, out += sizeof raw) std::memcpy(out, &raw, sizeof raw);
        }
        WithWidth(block.width, [&]<class From>(From) {
          const std::byte* in = block.bytes.get();
          for (std::uint64_t i = 0; i < block.count; ++i, in += sizeof(From), out += sizeof(To)) {
            From packed;
            std::memcpy(&packed, in, sizeof packed);
            const To raw = static_cast<To>(base + factor * packed);
            std::memcpy(out, &raw, sizeof raw);
          }
        });
        block.bytes.reset();
      }
    });
    const Column column(bytes.get(), width, low_, scale);
    storage.push_back(std::move(bytes));
    *this = ColumnBuilder();
    return column;
  }

 private:
  struct Block {
    std::uint64_t count = 0;
    std::uint64_t base = 0;
    std::uint64_t scale = 1;
    int width = 0;
    std::unique_ptr<std::byte[]> bytes;
  };

  std::vector<Block> blocks_;
  std::uint64_t count_ = 0;
  std::uint64_t first_ = 0;  // base of the first block
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
  std::uint64_t divisor_ = 0;
};

}  // namespace internal
}  // namespace v0
}  // namespace daxcache
