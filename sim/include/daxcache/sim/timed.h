// Timed runs: the jobs of a fio job file on one mount, with a window of some size, a policy, mechanics and what things
// cost. Jobs that stand between two stonewalls run at the same time; the mount lives through all of them.
//
//   TimedSpec spec{.window = ByteSize(std::uint64_t{4} << 30), .costs = profile.costs};
//   absl::StatusOr<TimedResult> result = RunFioJobs(*jobs, spec);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/range.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/timed_engine.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

struct TimedSpec {
  ByteSize window;
  RangeSize range_size;
  PolicySpec policy;
  ReclaimOptions mechanics;
  CostModel costs;
  EngineOptions engine;
};

struct TimedJob {
  FioJob job;
  ProcessResult total;       // of its processes: sums; from the first's begin to the last's end
  std::int64_t time_ns = 0;  // summed over its processes

  double Seconds() const { return static_cast<double>(total.end_ns - total.begin_ns) * 1e-9; }
  double Iops() const { return Seconds() > 0 ? static_cast<double>(total.reads + total.writes) / Seconds() : 0; }
  double ReadIops() const { return Seconds() > 0 ? static_cast<double>(total.reads) / Seconds() : 0; }
  double WriteIops() const { return Seconds() > 0 ? static_cast<double>(total.writes) / Seconds() : 0; }
  // Of the accesses to ranges, those that needed no set-up.
  double HitRatio() const {
    return total.hits > 0 ? 1 - std::min(1.0, static_cast<double>(total.misses) / static_cast<double>(total.hits)) : 0;
  }
};

struct TimedResult {
  TimedSpec spec;
  std::uint64_t ranges = 0;
  std::vector<TimedJob> jobs;     // in the order of the job file
  std::int64_t time_ns = 0;       // of all
  double daemon_utilization = 0;  // share of the time in which a daemon thread was busy, 0 to 1
  std::uint64_t daemon_requests = 0;
};

// InvalidArgument, without running: a window without a range, a policy that looks ahead, too many ranges.
[[nodiscard]] absl::Status ValidateTimed(const FioJobFile& file, const TimedSpec& spec);

// `progress`, if given, hears after each phase how much is done (0 to 1); it returns false to stop: Cancelled.
[[nodiscard]] absl::StatusOr<TimedResult> RunFioJobs(const FioJobFile& file, const TimedSpec& spec,
                                                     const std::function<bool(double)>& progress = nullptr);

// Several runs of the same jobs, `threads` at a time; results in the order of `specs`, the same whatever the number of
// threads. `progress` is called from one thread at a time, with the share that is done.
[[nodiscard]] absl::StatusOr<std::vector<TimedResult>> RunTimedSweep(
    const FioJobFile& file, const std::vector<TimedSpec>& specs, int threads,
    const std::function<void(double)>& progress = nullptr);

}  // namespace v0
}  // namespace daxcache
