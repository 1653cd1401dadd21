// Timed runs on one mount, with a window of some size, a policy, mechanics and what things cost: the jobs of a fio job
// file, or of a recorded trace. fio's jobs that stand between two stonewalls run at the same time; the mount lives
// through all of them.
//
//   TimedSpec spec{.window = ByteSize(std::uint64_t{4} << 30), .costs = profile.costs};
//   absl::StatusOr<TimedResult> result = RunFioJobs(*jobs, spec);
//
//   spec.engine = {.vcpus = 16, .retouch = 4};
//   absl::StatusOr<TimedResult> build = RunPool(*JobPool::Create(trace, {.driver = "make"}), {.jobs = 128}, spec);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/range.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/job_pool.h"
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
  // virtiofs devices, each with an equal part of the window and a daemon of its own; fio's processes take turns with
  // them. Recorded jobs have one.
  std::uint32_t devices = 1;
};

struct TimedJob {
  std::string name;
  std::string_view pattern;  // "randread", …; of recorded jobs "recorded"
  std::string engine;        // fio's name of it; of recorded jobs empty
  std::uint32_t processes = 1;
  bool supported = true;     // false: how its files are cached does not allow what it does, and it did nothing
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
  std::uint64_t host_mappings = 0;     // ranges that the host maps at the end
  std::uint64_t page_cache_bytes = 0;  // of the guest's, at the end: files that did not use the window
};

struct PoolOptions {
  std::uint32_t jobs = 1;  // at most so many at once, as with `make -j`; as recorded: does not matter
  double cpu_factor = 1;   // what the recorded CPU times are multiplied with, for a machine of another speed
};

// InvalidArgument, without running: a window without a range, a policy that looks ahead, too many ranges.
[[nodiscard]] absl::Status ValidateTimed(const FioJobFile& file, const TimedSpec& spec);
[[nodiscard]] absl::Status ValidateTimed(const JobPool& pool, const TimedSpec& spec);

// Of the files that the jobs use, bytes.
std::vector<std::uint64_t> FileSizes(const FioJobFile& file);

// `progress`, if given, hears after each phase how much is done (0 to 1).
[[nodiscard]] absl::StatusOr<TimedResult> RunFioJobs(const FioJobFile& file, const TimedSpec& spec,
                                                     const std::function<void(double)>& progress = nullptr);

// The jobs of a recorded trace: one TimedJob. Without DAX (`EngineOptions::dax`) the window does not matter.
[[nodiscard]] absl::StatusOr<TimedResult> RunPool(const JobPool& pool, const PoolOptions& options,
                                                  const TimedSpec& spec,
                                                  const std::function<void(double)>& progress = nullptr);

// Runs the same jobs under each of `specs`, `threads` runs at a time; results in the order of `specs`, the same
// whatever the number of threads. `run` does one of them and says how far it is. `progress` is called from one thread
// at a time, with the share that is done.
using TimedRun = std::function<absl::StatusOr<TimedResult>(const TimedSpec&, const std::function<void(double)>&)>;
inline TimedRun Runs(const FioJobFile& file) {  // which has to outlive it
  return [&file](const TimedSpec& spec, const auto& progress) { return RunFioJobs(file, spec, progress); };
}
inline TimedRun Runs(const JobPool& pool, const PoolOptions& options) {  // which has to outlive it
  return
      [&pool, options](const TimedSpec& spec, const auto& progress) { return RunPool(pool, options, spec, progress); };
}
[[nodiscard]] absl::StatusOr<std::vector<TimedResult>> RunTimedSweep(
    const TimedRun& run, const std::vector<TimedSpec>& specs, int threads,
    const std::function<void(double)>& progress = nullptr);

}  // namespace v0
}  // namespace daxcache
