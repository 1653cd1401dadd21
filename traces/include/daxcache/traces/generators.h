// Traces made up by rule, for benchmarks, tests and textbook comparisons. One access is a read of 4 KiB at the start of
// one range of a single file; access i happens at i microseconds. The same options give the same trace, byte for byte,
// everywhere (for zipf with a theta other than 0, 0.5, 1 and 2, as far as the platform's `pow` agrees in the last bit).
//
//   absl::StatusOr<Trace> trace = ZipfTrace({.theta = 1.0, .ranges = 1'000'000, .accesses = 50'000'000, .seed = 1});
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "daxcache/range.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021), its state
// filled by splitmix64 (Steele, Lea and Flood, OOPSLA 2014). The standard library's generators would do, but not its
// distributions: those differ from one library to another.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t Next() {
    const std::uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // From 0 to n - 1, n > 0; each as likely as the others but for a share of n / 2^64.
  std::uint64_t Below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{Next()} * n) >> 64);
  }

 private:
  static std::uint64_t Rotate(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
  std::uint64_t state_[4];
};

struct GeneratorOptions {
  std::uint32_t ranges = 1'000'000;  // 1 to 2^28, of the file
  std::uint64_t accesses = 1'000'000;
  std::uint64_t seed = 1;  // not used by LoopTrace
  RangeSize range_size = {};
};

struct ZipfOptions {
  double theta = 1.0;  // 0 to 20; 0 is uniform
  std::uint32_t ranges = 1'000'000;
  std::uint64_t accesses = 1'000'000;
  std::uint64_t seed = 1;
  RangeSize range_size = {};
};

// Range k (from 0) with a probability proportional to 1 / (k + 1)^theta. Drawn by the alias method (Walker, ACM TOMS
// 3(3), 1977; tables as in Vose, IEEE TSE 17(9), 1991): exact to the rounding of the tables for any theta, where the
// closed formula used by many benchmarks is an approximation and fails at 1; one random number an access. Takes 16
// bytes a range while it works.
[[nodiscard]] absl::StatusOr<Trace> ZipfTrace(const ZipfOptions& options);

// Every range as likely as the others.
[[nodiscard]] absl::StatusOr<Trace> UniformTrace(const GeneratorOptions& options);

// 0, 1, 2 … and from the start again: a sequential read if `accesses` is at most `ranges`, else a loop.
[[nodiscard]] absl::StatusOr<Trace> LoopTrace(const GeneratorOptions& options);

}  // namespace v0
}  // namespace daxcache
