// The generators: each is a rule for the next range, and one loop that makes accesses of it.
#include "daxcache/traces/generators.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::uint64_t kAccessBytes = 4096;
constexpr std::int64_t kPeriodNs = 1000;
constexpr std::uint32_t kMaxGeneratedRanges = 1u << 28;

template <class NextRange>
absl::StatusOr<Trace> Generate(std::string_view name, std::string source, std::uint32_t ranges, std::uint64_t accesses,
                               RangeSize range_size, NextRange next_range) {
  TraceBuilder builder;
  const TaskId task = builder.AddTask({.parent = kNoTask,
                                       .start_ns = 0,
                                       .end_ns = static_cast<std::int64_t>(accesses) * kPeriodNs,
                                       .user_us = 0,
                                       .system_us = 0,
                                       .name = name});
  const FileId file = builder.AddFile(name, ranges * range_size.bytes());
  for (std::uint64_t i = 0; i < accesses; ++i) {
    const absl::Status status = builder.Add({.time_ns = static_cast<std::int64_t>(i) * kPeriodNs,
                                             .task = task,
                                             .file = file,
                                             .op = Op::kRead,
                                             .offset = next_range(i) * range_size.bytes(),
                                             .length = kAccessBytes});
    if (!status.ok()) return status;
  }
  return builder.Finish(std::move(source), std::string(name), MappedTouches::kNone);
}

absl::Status CheckCounts(std::uint32_t ranges, std::uint64_t accesses) {
  if (ranges == 0 || ranges > kMaxGeneratedRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected from 1 to ", kMaxGeneratedRanges, " ranges, got ", ranges));
  }
  if (accesses > (std::uint64_t{1} << 48)) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most 2^48 accesses, got ", accesses));
  }
  return absl::OkStatus();
}

// Draws from a fixed distribution over 0 … n - 1: a column is drawn evenly, and then either it or its alias.
class AliasTable {
 public:
  explicit AliasTable(const std::vector<double>& weights) : columns_(weights.size()) {
    const std::size_t n = weights.size();
    double sum = 0;
    for (std::size_t i = n; i > 0; --i) sum += weights[i - 1];  // zipf's weights: the small ones first
    std::vector<double> scaled(n);
    std::vector<std::uint32_t> small;
    std::vector<std::uint32_t> large;
    for (std::size_t i = 0; i < n; ++i) {
      scaled[i] = weights[i] / sum * static_cast<double>(n);
      (scaled[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
    }
    while (!small.empty() && !large.empty()) {
      const std::uint32_t poor = small.back();
      const std::uint32_t rich = large.back();
      small.pop_back();
      columns_[poor] = {.threshold = static_cast<std::uint64_t>(scaled[poor] * 0x1p64), .alias = rich};
      scaled[rich] -= 1 - scaled[poor];
      if (scaled[rich] < 1) {
        large.pop_back();
        small.push_back(rich);
      }
    }
    // What is left has weight 1 but for rounding.
    for (const std::vector<std::uint32_t>* rest : {&small, &large}) {
      for (const std::uint32_t i : *rest)
        columns_[i] = {.threshold = std::numeric_limits<std::uint64_t>::max(), .alias = i};
    }
  }

  std::uint32_t Draw(Random& random) const {
    // The upper half of the product is the column, the lower half how far into it.
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide{random.Next()} * columns_.size();
    const std::uint32_t i = static_cast<std::uint32_t>(product >> 64);
    return static_cast<std::uint64_t>(product) < columns_[i].threshold ? i : columns_[i].alias;
  }

 private:
  struct Column {
    std::uint64_t threshold = 0;
    std::uint32_t alias = 0;
  };
  std::vector<Column> columns_;
};

// k^theta, without libm's `pow` where the result can be had exactly rounded.
double Power(double k, double theta) {
  if (theta == 0) return 1;
  if (theta == 0.5) return std::sqrt(k);
  if (theta == 1) return k;
  if (theta == 2) return k * k;
  return std::pow(k, theta);
}

}  // namespace

absl::StatusOr<Trace> ZipfTrace(const ZipfOptions& options) {
  if (absl::Status status = CheckCounts(options.ranges, options.accesses); !status.ok()) return status;
  if (!(options.theta >= 0 && options.theta <= 20)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a theta from 0 to 20, got ", options.theta));
  }
  std::vector<double> weights(options.ranges);
  for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = 1 / Power(static_cast<double>(k + 1), options.theta);
  const AliasTable table(weights);
  weights = {};
  Random random(options.seed);
  return Generate("zipf",
                  absl::StrCat("zipf:theta=", options.theta, ",ranges=", options.ranges, ",accesses=", options.accesses,
                               ",seed=", options.seed),
                  options.ranges, options.accesses, options.range_size,
                  [&](std::uint64_t) -> std::uint64_t { return table.Draw(random); });
}

absl::StatusOr<Trace> UniformTrace(const GeneratorOptions& options) {
  if (absl::Status status = CheckCounts(options.ranges, options.accesses); !status.ok()) return status;
  Random random(options.seed);
  return Generate(
      "uniform",
      absl::StrCat("uniform:ranges=", options.ranges, ",accesses=", options.accesses, ",seed=", options.seed),
      options.ranges, options.accesses, options.range_size,
      [&](std::uint64_t) { return random.Below(options.ranges); });
}

absl::StatusOr<Trace> LoopTrace(const GeneratorOptions& options) {
  if (absl::Status status = CheckCounts(options.ranges, options.accesses); !status.ok()) return status;
  return Generate("loop", absl::StrCat("loop:ranges=", options.ranges, ",accesses=", options.accesses), options.ranges,
                  options.accesses, options.range_size, [&](std::uint64_t i) { return i % options.ranges; });
}

}  // namespace v0
}  // namespace daxcache
