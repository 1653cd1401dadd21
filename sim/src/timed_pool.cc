// Timed runs of the jobs of a recorded trace.
#include <string>
#include <utility>

#include "daxcache/sim/job_pool.h"
#include "daxcache/sim/timed.h"
#include "timed_runs.h"

namespace daxcache {
inline namespace v0 {

absl::Status ValidateTimed(const JobPool& pool, const TimedSpec& spec) {
  if (!spec.engine.dax && (spec.engine.filesystem != FileSystem::kVirtiofs || spec.engine.cache == CacheMode::kNone)) {
    return absl::InvalidArgumentError(
        "expected virtiofs with cache=auto or always: recorded jobs map their programs, and what 9p takes to open a "
        "file "
        "is not known");
  }
  if (spec.devices > 1) return absl::InvalidArgumentError("expected one device: recorded jobs share all their files");
  return ValidateTimedSpec(pool.sizes(), spec);
}

absl::StatusOr<TimedResult> RunPool(const JobPool& pool, const PoolOptions& options, const TimedSpec& spec,
                                    const std::function<void(double)>& progress) {
  if (options.jobs == 0 || !(options.cpu_factor > 0)) {
    return absl::InvalidArgumentError("expected at least one job at a time, and a factor of CPU times above 0");
  }
  if (absl::Status status = ValidateTimed(pool, spec); !status.ok()) return status;
  std::vector<FileFacts> facts;
  for (std::size_t i = 0; i < pool.sizes().size(); ++i) {
    facts.push_back({.path = pool.trace().files()[i].path, .size = pool.sizes()[i]});
  }
  const std::unique_ptr<TimedEngine> engine = MakeEngine(pool.sizes(), facts, spec, true);
  JobPool::Run run(pool, options.cpu_factor, progress);
  const auto count =
      static_cast<std::uint32_t>(std::min<std::size_t>(pool.jobs(), pool.lanes() > 0 ? pool.lanes() : options.jobs));
  std::vector<JobPool::Lane> lanes(count, JobPool::Lane(run));
  std::vector<TimedEngine::Process> processes;
  processes.reserve(lanes.size());
  for (JobPool::Lane& lane : lanes) processes.push_back({.source = &lane});
  const std::vector<ProcessResult> results = engine->Run(processes);
  TimedResult result;
  result.spec = spec;
  TimedJob& job = result.jobs.emplace_back(Sum(results));
  job.name = pool.trace().source();
  job.pattern = "recorded";
  // Lanes that had nothing left to do ended early, but their job is the whole.
  Finish(std::span(&engine, 1), result);
  return result;
}

}  // namespace v0
}  // namespace daxcache
