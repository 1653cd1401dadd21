// The published kernel build (J. Xu, August 2021: `make vmlinux -j128` in a guest of 16 vCPUs, without DAX and with
// windows of 64 MiB to 4 GiB) and what the model says of it: a build recorded with two jobs at a time on two CPUs, run
// as a pool of 128 jobs on 16. What is compared is the time with a window ÷ the time without DAX.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/sim/job_pool.h"
#include "daxcache/sim/profile.h"

namespace daxcache {
inline namespace v0 {

// A row of the table.
struct BuildRow {
  std::uint32_t window_mib = 0;  // 0: without DAX
  double seconds = 0;
};

struct BuildPrediction {
  BuildRow row;
  double seconds = 0;
  double published_ratio = 0;  // to the row without DAX
  double ratio = 0;            // the same as predicted
  double ratio_half_k = 0;     // with half the ranges that a task uses again in a time slice (`Profile::retouch`) …
  double ratio_double_k = 0;   // … and with twice as many
};

// NotFound, or InvalidArgument as "path:line: expected …, got …"; so without a row without DAX.
[[nodiscard]] absl::StatusOr<std::vector<BuildRow>> ReadKernelBuild(const std::string& path);

// `progress` hears which share is done (0 to 1).
[[nodiscard]] absl::StatusOr<std::vector<BuildPrediction>> PredictBuild(
    const std::vector<BuildRow>& rows, const JobPool& pool, const Profile& profile, int threads,
    const std::function<void(double)>& progress = nullptr);

// Fits three numbers to the table, from `start` on: the machine's speed (`cpu_factor`, from the row without DAX), what
// a request takes, there and back (one factor for all kinds), and `retouch`, of 1, 2 and 4; the last two by the least
// sum of squares of ln(predicted / published). `report` hears of each step.
[[nodiscard]] absl::StatusOr<Profile> FitBuild(const std::vector<BuildRow>& rows, const JobPool& pool,
                                               const Profile& start, int threads,
                                               const std::function<void(const std::string&)>& report);

}  // namespace v0
}  // namespace daxcache
