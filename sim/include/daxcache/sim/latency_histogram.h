// How long things took, in buckets that are 1/32 of their value wide (as HdrHistogram's with two significant digits):
// percentiles are exact to 3 %. Recording is a few instructions; memory is 15 KiB.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace daxcache {
inline namespace v0 {

class LatencyHistogram {
 public:
  void Record(std::int64_t ns) { ++counts_[BucketOf(ns < 0 ? 0 : static_cast<std::uint64_t>(ns))]; }

  void Merge(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : counts_) sum += n;
    return sum;
  }

  // The middle of the bucket below which at least `share` (0 to 1) of what was recorded lies; 0 if nothing was.
  std::int64_t Quantile(double share) const {
    const std::uint64_t total = count();
    if (total == 0) return 0;
    const double wanted = share * static_cast<double>(total);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (counts_[i] > 0 && static_cast<double>(seen) >= wanted) return Middle(i);
    }
    return Middle(counts_.size() - 1);
  }

  // The share of what was recorded that took less than `ns`, by whole buckets.
  double ShareBelow(std::int64_t ns) const {
    const std::uint64_t total = count();
    if (total == 0) return 0;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < BucketOf(static_cast<std::uint64_t>(ns)); ++i) seen += counts_[i];
    return static_cast<double>(seen) / static_cast<double>(total);
  }

 private:
  static constexpr int kBits = 5;
  static constexpr std::uint64_t kSteps = std::uint64_t{1} << kBits;

  static std::size_t BucketOf(std::uint64_t ns) {
    if (ns < kSteps) return static_cast<std::size_t>(ns);
    const int shift = static_cast<int>(std::bit_width(ns)) - kBits - 1;
    return static_cast<std::size_t>((static_cast<std::uint64_t>(shift) + 1) * kSteps + ((ns >> shift) & (kSteps - 1)));
  }
  static std::int64_t Middle(std::size_t bucket) {
    if (bucket < kSteps) return static_cast<std::int64_t>(bucket);
    const int shift = static_cast<int>(bucket / kSteps) - 1;
    const std::uint64_t low = (kSteps + bucket % kSteps) << shift;
    return static_cast<std::int64_t>(low + ((std::uint64_t{1} << shift) >> 1));
  }

  std::array<std::uint64_t, (64 - kBits) * kSteps> counts_{};
};

}  // namespace v0
}  // namespace daxcache
