// The generators: the right distribution, and the same trace everywhere.
#include "daxcache/traces/generators.h"

#include <cmath>
#include <vector>

#include "daxcache/traces/range_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint64_t> Counts(const Trace& trace, std::uint32_t ranges) {
  std::vector<std::uint64_t> counts(ranges);
  for (std::uint64_t i = 0; i < trace.size(); ++i) ++counts[trace[i].offset >> RangeSize().shift()];
  return counts;
}

// The statistic of Pearson's test; its mean is ranges - 1 and its deviation sqrt(2 * (ranges - 1)).
double ChiSquare(const std::vector<std::uint64_t>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double difference = static_cast<double>(counts[i]) - expected[i];
    sum += difference * difference / expected[i];
  }
  return sum;
}

TEST(Random, KnownValues) {
  // splitmix64 from 0 gives e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec, and xoshiro256**
  // from that state these.
  Random random(0);
  EXPECT_EQ(random.Next(), 0x99ec5f36cb75f2b4u);
  EXPECT_EQ(random.Next(), 0xbf6e1f784956452au);
  EXPECT_EQ(random.Next(), 0x1a5f849d4933e6e0u);
}

TEST(Zipf, FollowsTheLaw) {
  for (const double theta : {0.0, 0.5, 0.99, 1.0, 1.2, 2.0}) {
    constexpr std::uint32_t kRanges = 100;
    constexpr std::uint64_t kAccesses = 400000;
    const Trace trace = *ZipfTrace({.theta = theta, .ranges = kRanges, .accesses = kAccesses, .seed = 5});
    double sum = 0;
    for (int k = 1; k <= 100; ++k) sum += std::pow(k, -theta);
    std::vector<double> expected;
    for (int k = 1; k <= 100; ++k) expected.push_back(std::pow(k, -theta) / sum * kAccesses);
    // Five deviations above the mean.
    EXPECT_LT(ChiSquare(Counts(trace, kRanges), expected), 99 + 5 * std::sqrt(2.0 * 99)) << theta;
  }
}

TEST(Zipf, OneMillionRanges) {
  const Trace trace = *ZipfTrace({.theta = 1.0, .ranges = 1'000'000, .accesses = 1'000'000, .seed = 2});
  double harmonic = 0;
  for (int k = 1'000'000; k > 0; --k) harmonic += 1.0 / k;
  std::uint64_t first = 0, upper_half = 0;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const std::uint64_t range = trace[i].offset >> 21;
    ASSERT_LT(range, 1'000'000u);
    first += range == 0;
    upper_half += range >= 500'000;
  }
  EXPECT_NEAR(static_cast<double>(first), 1e6 / harmonic, 5 * std::sqrt(1e6 / harmonic));
  EXPECT_NEAR(static_cast<double>(upper_half), 1e6 * std::log(2) / harmonic,
              5 * std::sqrt(1e6 * std::log(2) / harmonic));
}

TEST(Zipf, TheSameEverywhereAndOtherForOtherSeeds) {
  const Trace a = *ZipfTrace({.theta = 1.0, .ranges = 1000, .accesses = 12, .seed = 1});
  std::vector<std::uint64_t> ranges;
  for (std::uint64_t i = 0; i < a.size(); ++i) ranges.push_back(a[i].offset >> 21);
  EXPECT_THAT(ranges, ::testing::ElementsAre(7, 2, 574, 391, 697, 143, 71, 381, 867, 2, 44, 57));
  const Trace b = *ZipfTrace({.theta = 1.0, .ranges = 1000, .accesses = 12, .seed = 2});
  std::uint64_t same = 0;
  for (std::uint64_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
  EXPECT_LT(same, 12u);
}

TEST(Uniform, IsUniform) {
  const Trace trace = *UniformTrace({.ranges = 64, .accesses = 200000, .seed = 3});
  EXPECT_LT(ChiSquare(Counts(trace, 64), std::vector<double>(64, 200000 / 64.0)), 63 + 5 * std::sqrt(2.0 * 63));
}

TEST(Loop, GoesRound) {
  const Trace trace = *LoopTrace({.ranges = 3, .accesses = 7});
  for (std::uint64_t i = 0; i < 7; ++i) {
    const Access expected{.time_ns = static_cast<std::int64_t>(i) * 1000,
                          .task = TaskId{0},
                          .file = FileId{0},
                          .op = Op::kRead,
                          .offset = (i % 3) << 21,
                          .length = 4096};
    EXPECT_EQ(trace[i], expected);
  }
  EXPECT_EQ(trace.files()[0].size, 3u << 21);
}

TEST(Generators, RefuseWhatTheyCannotDo) {
  EXPECT_THAT(MessageOf(ZipfTrace({.ranges = 0}).status()), HasSubstr("ranges"));
  EXPECT_THAT(MessageOf(ZipfTrace({.theta = -1}).status()), HasSubstr("theta"));
  EXPECT_THAT(MessageOf(ZipfTrace({.theta = std::nan("")}).status()), HasSubstr("theta"));
  EXPECT_THAT(MessageOf(UniformTrace({.ranges = 1u << 29}).status()), HasSubstr("ranges"));
  EXPECT_THAT(MessageOf(LoopTrace({.accesses = ~0ull}).status()), HasSubstr("accesses"));
}

}  // namespace
}  // namespace daxcache
