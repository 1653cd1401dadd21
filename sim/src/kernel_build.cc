// See daxcache/sim/kernel_build.h.
#include "daxcache/sim/kernel_build.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/text.h"
#include "daxcache/sim/timed.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kHeader = "dax,cache,window_mib,wall_s";
constexpr std::uint32_t kJobs = 128;
constexpr std::uint32_t kVcpus = 16;

TimedSpec SpecOf(const BuildRow& row, const Profile& profile, std::uint32_t retouch) {
  TimedSpec spec;
  spec.window = ByteSize(std::uint64_t{std::max(row.window_mib, 64u)} << 20);
  spec.mechanics = ReclaimOptions::Linux();
  spec.costs = profile.costs;
  spec.engine = {.vcpus = kVcpus, .retouch = retouch, .dax = row.window_mib > 0, .jiffy_ns = profile.jiffy_ns};
  return spec;
}

// Seconds, by spec.
absl::StatusOr<std::vector<double>> Run(const JobPool& pool, double cpu_factor, const std::vector<TimedSpec>& specs,
                                        int threads, const std::function<void(double)>& progress = nullptr) {
  const auto results = RunTimedSweep(Runs(pool, {.jobs = kJobs, .cpu_factor = cpu_factor}), specs, threads, progress);
  if (!results.ok()) return results.status();
  std::vector<double> seconds;
  for (const TimedResult& result : *results) seconds.push_back(static_cast<double>(result.time_ns) * 1e-9);
  return seconds;
}

const BuildRow& WithoutDax(const std::vector<BuildRow>& rows) {
  return *std::find_if(rows.begin(), rows.end(), [](const BuildRow& row) { return row.window_mib == 0; });
}

// What a request takes, whichever: the way to the daemon, handling it, and the way back. The way is two wake-ups, so
// that the guest's own wake-ups scale with it.
void ScaleRequests(double factor, Profile& profile) {
  for (double CostModel::*cost :
       {&CostModel::service_ns, &CostModel::read_only_ns, &CostModel::mmap_ns, &CostModel::wake_ns}) {
    profile.costs.*cost *= factor;
  }
  for (double DirectCosts::*cost : {&DirectCosts::request_ns, &DirectCosts::page_ns, &DirectCosts::notify_ns}) {
    profile.costs.direct.*cost *= factor;
  }
}

}  // namespace

absl::StatusOr<std::vector<BuildRow>> ReadKernelBuild(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  std::vector<BuildRow> rows;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto fault = [&](std::string_view expected) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": expected ", AbslView(expected), ", got \"", Printable(line), "\""));
    };
    if (number == 1) {
      if (line != kHeader) return fault(kHeader);
      continue;
    }
    std::vector<std::string_view> fields;
    std::string_view rest = line;
    for (std::size_t comma = 0; comma != std::string_view::npos; rest.remove_prefix(std::min(rest.size(), comma + 1))) {
      comma = rest.find(',');
      fields.push_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
    }
    const auto parse = [](std::string_view text, auto& value) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() && end == text.data() + text.size();
    };
    BuildRow row;
    if (fields.size() != 4 || !parse(fields[2], row.window_mib) || !parse(fields[3], row.seconds) ||
        !(row.seconds > 0) || row.window_mib > (1u << 24) || (fields[0] == "1") != (row.window_mib > 0)) {
      return fault("0 or 1, a cache mode, MiB of window (0 without DAX), seconds above 0");
    }
    rows.push_back(row);
  }
  const auto without = std::count_if(rows.begin(), rows.end(), [](const BuildRow& row) { return row.window_mib == 0; });
  if (without != 1 || rows.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected one row without DAX and others with"));
  }
  return rows;
}

absl::StatusOr<std::vector<BuildPrediction>> PredictBuild(const std::vector<BuildRow>& rows, const JobPool& pool,
                                                          const Profile& profile, int threads,
                                                          const std::function<void(double)>& progress) {
  // Without DAX nothing is taken away, so k does not matter.
  std::vector<TimedSpec> specs = {SpecOf(WithoutDax(rows), profile, 0)};
  for (const BuildRow& row : rows) {
    if (row.window_mib == 0) continue;
    for (const std::uint32_t k : {profile.retouch, profile.retouch / 2, profile.retouch * 2}) {
      specs.push_back(SpecOf(row, profile, k));
    }
  }
  const auto seconds = Run(pool, profile.cpu_factor, specs, threads, progress);
  if (!seconds.ok()) return seconds.status();
  const double without = seconds->front();
  std::vector<BuildPrediction> predictions;
  std::size_t at = 1;
  for (const BuildRow& row : rows) {
    BuildPrediction one{.row = row,
                        .seconds = without,
                        .published_ratio = row.seconds / WithoutDax(rows).seconds,
                        .ratio = 1,
                        .ratio_half_k = 1,
                        .ratio_double_k = 1};
    if (row.window_mib > 0) {
      one.seconds = (*seconds)[at];
      one.ratio = (*seconds)[at] / without;
      one.ratio_half_k = (*seconds)[at + 1] / without;
      one.ratio_double_k = (*seconds)[at + 2] / without;
      at += 3;
    }
    predictions.push_back(one);
  }
  return predictions;
}

absl::StatusOr<Profile> FitBuild(const std::vector<BuildRow>& rows, const JobPool& pool, const Profile& start,
                                 int threads, const std::function<void(const std::string&)>& report) {
  struct Tried {
    double factor = 0;
    double cpu_factor = 0;
    double sum = 0;
  };
  absl::Status failed;
  // The machine's speed follows from the row without DAX, in which time is very nearly linear in it.
  const auto speed = [&](const Profile& profile, double guess) {
    for (int i = 0; i < 2 && failed.ok(); ++i) {
      const auto seconds = Run(pool, guess, {SpecOf(WithoutDax(rows), profile, 0)}, threads);
      failed = seconds.status();
      if (failed.ok()) guess *= WithoutDax(rows).seconds / seconds->front();
    }
    return guess;
  };
  const auto attempt = [&](double factor, std::uint32_t retouch, double guess) {
    Tried tried{.factor = factor, .cpu_factor = guess};
    Profile profile = start;
    ScaleRequests(factor, profile);
    tried.cpu_factor = speed(profile, guess);
    std::vector<TimedSpec> specs;
    for (const BuildRow& row : rows) {
      if (row.window_mib > 0) specs.push_back(SpecOf(row, profile, retouch));
    }
    const auto seconds = failed.ok() ? Run(pool, tried.cpu_factor, specs, threads) : failed;
    failed = seconds.status();
    if (!failed.ok()) return tried;
    std::string text = absl::StrCat("requests × ", factor, ", k ", retouch, ", CPU × ", tried.cpu_factor, ":");
    std::size_t at = 0;
    for (const BuildRow& row : rows) {
      if (row.window_mib == 0) continue;
      const double error = std::log((*seconds)[at++] / row.seconds);
      tried.sum += error * error;
      absl::StrAppend(&text, " ", row.window_mib, " MiB ", error > 0 ? "+" : "", error);
    }
    report(text);
    return tried;
  };
  Tried best;
  std::uint32_t best_retouch = 0;
  for (const std::uint32_t retouch : {1u, 2u, 4u}) {
    // Golden section on the logarithm of the factor.
    constexpr double kGolden = 0.6180339887498949;
    double low = std::log(0.1);
    double high = std::log(1.0);
    double guess = best.cpu_factor > 0 ? best.cpu_factor : start.cpu_factor;
    const auto at = [&](double x) {
      const Tried tried = attempt(std::exp(x), retouch, guess);
      guess = tried.cpu_factor;
      if (failed.ok() && (best.factor == 0 || tried.sum < best.sum)) {
        best = tried;
        best_retouch = retouch;
      }
      return tried.sum;
    };
    double left = high - kGolden * (high - low);
    double right = low + kGolden * (high - low);
    double left_sum = at(left);
    double right_sum = at(right);
    while (high - low > 0.02 && failed.ok()) {
      if (left_sum < right_sum) {
        high = std::exchange(right, left);
        right_sum = left_sum;
        left = high - kGolden * (high - low);
        left_sum = at(left);
      } else {
        low = std::exchange(left, right);
        left_sum = right_sum;
        right = low + kGolden * (high - low);
        right_sum = at(right);
      }
    }
  }
  if (!failed.ok()) return failed;
  Profile fitted = start;
  ScaleRequests(best.factor, fitted);
  fitted.has_pool = true;
  fitted.cpu_factor = std::round(best.cpu_factor * 1e4) / 1e4;
  fitted.retouch = best_retouch;
  return fitted;
}

}  // namespace v0
}  // namespace daxcache
