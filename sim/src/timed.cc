// See daxcache/sim/timed.h.
#include "daxcache/sim/timed.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/fio_stream.h"
#include "daxcache/sim/replay.h"

namespace daxcache {
inline namespace v0 {
namespace {

// The files of all jobs, numbered in the order in which they are first named; jobs that name the same file share it.
class FileTable {
 public:
  std::uint32_t Number(const std::string& name, std::uint64_t size) {
    const auto [at, added] = numbers_.try_emplace(name, static_cast<std::uint32_t>(sizes_.size()));
    if (added) {
      sizes_.push_back(size);
    } else {
      sizes_[at->second] = std::max(sizes_[at->second], size);
    }
    return at->second;
  }
  const std::vector<std::uint64_t>& sizes() const { return sizes_; }

 private:
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::uint64_t> sizes_;
};

// By process of a job: the files it uses.
using JobFiles = std::vector<std::vector<std::uint32_t>>;

JobFiles FilesOf(const FioJob& job, FileTable& table) {
  JobFiles files;
  for (std::uint32_t process = 0; process < job.numjobs; ++process) {
    const std::vector<std::uint64_t> sizes = FioStream(job, process).FileSizes();
    std::vector<std::uint32_t>& numbers = files.emplace_back();
    for (std::uint32_t i = 0; i < sizes.size(); ++i) {
      numbers.push_back(table.Number(job.FileName(process, i), sizes[i]));
    }
  }
  return files;
}

IoPath PathOf(FioEngine engine) {
  switch (engine) {
    case FioEngine::kSync: return IoPath::kCall;
    case FioEngine::kLibaio: return IoPath::kAio;
    case FioEngine::kMmap: return IoPath::kMmap;
  }
  return IoPath::kCall;
}

void Add(const ProcessResult& from, ProcessResult& to) {
  to.reads += from.reads;
  to.writes += from.writes;
  to.bytes += from.bytes;
  to.hits += from.hits;
  to.misses += from.misses;
  to.upgrades += from.upgrades;
  to.faults += from.faults;
  to.begin_ns = std::min(to.begin_ns, from.begin_ns);
  to.end_ns = std::max(to.end_ns, from.end_ns);
  for (std::size_t i = 0; i < kNumSpent; ++i) to.spent_ns[i] += from.spent_ns[i];
  to.latency.Merge(from.latency);
}

std::string_view PatternName(const FioJob& job) {
  if (job.read_percent == 100) return job.random ? "randread" : "read";
  if (job.read_percent == 0) return job.random ? "randwrite" : "write";
  return job.random ? "randrw" : "rw";
}

template <class Engine>
Engine MakeEngine(const std::vector<std::uint64_t>& sizes, const TimedSpec& spec,
                  const typename Engine::PolicyOptions& policy) {
  const auto slots = static_cast<std::uint32_t>(spec.window.bytes() >> spec.range_size.shift());
  return Engine(sizes, spec.range_size, {.slots = slots, .max_slots = slots}, policy, spec.mechanics, spec.costs,
                spec.engine);
}

// What a run is besides its jobs.
template <class Engine>
void Finish(const Engine& engine, TimedResult& result) {
  result.ranges = engine.window().size();
  result.time_ns = engine.now_ns();
  result.daemon_requests = engine.daemon().requests();
  if (result.time_ns > 0) {
    result.daemon_utilization = std::min(1.0, static_cast<double>(engine.daemon().busy_ns()) /
                                                  static_cast<double>(result.time_ns) / engine.daemon().threads());
  }
}

// The processes of one job together.
TimedJob Sum(std::span<const ProcessResult> results) {
  TimedJob job;
  job.processes = static_cast<std::uint32_t>(results.size());
  job.total = results[0];
  job.time_ns = results[0].end_ns - results[0].begin_ns;
  for (const ProcessResult& one : results.subspan(1)) {
    Add(one, job.total);
    job.time_ns += one.end_ns - one.begin_ns;
  }
  return job;
}

template <class P>
absl::StatusOr<TimedResult> Run(const FioJobFile& file, const TimedSpec& spec, const typename P::Options& policy,
                                const std::function<void(double)>& progress) {
  using Engine = TimedEngine<P, FioStream>;
  FileTable table;
  std::vector<JobFiles> files;
  for (const FioJob& job : file.jobs) files.push_back(FilesOf(job, table));
  auto engine = MakeEngine<Engine>(table.sizes(), spec, policy);
  TimedResult result;
  result.spec = spec;
  for (std::size_t begin = 0; begin < file.jobs.size();) {
    std::size_t end = begin + 1;
    while (end < file.jobs.size() && !file.jobs[end].stonewall) ++end;
    std::vector<FioStream> streams;
    std::vector<typename Engine::Process> processes;
    for (std::size_t i = begin; i < end; ++i) {
      for (std::uint32_t process = 0; process < file.jobs[i].numjobs; ++process) {
        streams.emplace_back(file.jobs[i], process);
      }
    }
    for (std::size_t i = begin, at = 0; i < end; ++i) {
      const FioJob& job = file.jobs[i];
      for (std::uint32_t process = 0; process < job.numjobs; ++process, ++at) {
        processes.push_back(
            {.stream = &streams[at],
             .path = PathOf(job.engine),
             .files = files[i][process],
             .start_ns = static_cast<std::int64_t>(job.start_delay_ns),
             .runtime_ns = static_cast<std::int64_t>(job.runtime_ns),
             .interval_ns = job.rate_iops > 0 ? static_cast<std::int64_t>(1'000'000'000 / job.rate_iops) : 0,
             .think_ns = static_cast<std::int64_t>(job.think_ns),
             .think_blocks = job.think_blocks});
      }
    }
    const std::vector<ProcessResult> results = engine.Run(processes);
    for (std::size_t i = begin, at = 0; i < end; ++i) {
      const FioJob& job = file.jobs[i];
      TimedJob timed = Sum(std::span(results).subspan(at, job.numjobs));
      timed.name = job.name;
      timed.pattern = PatternName(job);
      timed.engine = job.engine_name;
      at += file.jobs[i].numjobs;
      result.jobs.push_back(std::move(timed));
    }
    begin = end;
    if (progress) progress(static_cast<double>(end) / static_cast<double>(file.jobs.size()));
  }
  Finish(engine, result);
  return result;
}

template <class P>
TimedResult Run(const JobPool& pool, const PoolOptions& options, const TimedSpec& spec,
                const typename P::Options& policy, const std::function<void(double)>& progress) {
  using Engine = TimedEngine<P, JobPool::Lane>;
  auto engine = MakeEngine<Engine>(pool.sizes(), spec, policy);
  JobPool::Run run(pool, options.cpu_factor, progress);
  const auto count =
      static_cast<std::uint32_t>(std::min<std::size_t>(pool.jobs(), pool.lanes() > 0 ? pool.lanes() : options.jobs));
  std::vector<JobPool::Lane> lanes(count, JobPool::Lane(run));
  std::vector<typename Engine::Process> processes;
  for (JobPool::Lane& lane : lanes) processes.push_back({.stream = &lane});
  const std::vector<ProcessResult> results = engine.Run(processes);
  TimedResult result;
  result.spec = spec;
  TimedJob& job = result.jobs.emplace_back(Sum(results));
  job.name = pool.trace().source();
  job.pattern = "recorded";
  // Lanes that had nothing left to do ended early, but their job is the whole.
  Finish(engine, result);
  return result;
}

absl::Status Validate(const std::vector<std::uint64_t>& sizes, const TimedSpec& spec) {
  const std::uint64_t slots = spec.window.bytes() >> spec.range_size.shift();
  if (slots == 0 || slots > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat("expected a window of 1 to ", kMaxSlots, " ranges of ",
                                                   ByteSize(spec.range_size.bytes()).ToString(), ", got ",
                                                   spec.window.ToString()));
  }
  if (absl::Status status = spec.mechanics.Validate(); !status.ok()) return status;
  if (spec.mechanics.chunk > slots && slots < 2) {
    return absl::InvalidArgumentError("expected a window of at least 2 ranges for a timed run");
  }
  std::uint64_t ranges = 0;
  for (const std::uint64_t size : sizes) {
    ranges += (size >> spec.range_size.shift()) + 1;
    if (ranges > (std::uint64_t{1} << 28)) {
      return absl::InvalidArgumentError("expected files of at most 2^28 ranges together; try a larger range size");
    }
  }
  return Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options&) -> absl::Status {
    if constexpr (NeedsNextUse<P>) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.policy.text(), " looks ahead in the recorded order, which a timed run does not keep to"));
    } else if constexpr (SeesFiles<P>) {
      return absl::UnimplementedError("per-file is not yet possible in timed runs");
    }
    return absl::OkStatus();
  });
}

// Calls run with the policy that `spec` names, which has been validated.
template <class F>
absl::StatusOr<TimedResult> WithPolicy(const TimedSpec& spec, F run) {
  absl::StatusOr<TimedResult> result = absl::InternalError("no such policy");
  const absl::Status status = Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options& options) {
    if constexpr (!NeedsNextUse<P> && !SeesFiles<P>) {
      result = run.template operator()<P>(options);
    } else {
      (void)options;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace

absl::Status ValidateTimed(const FioJobFile& file, const TimedSpec& spec) {
  FileTable table;
  for (const FioJob& job : file.jobs) FilesOf(job, table);
  return Validate(table.sizes(), spec);
}

absl::Status ValidateTimed(const JobPool& pool, const TimedSpec& spec) {
  return Validate(pool.sizes(), spec);
}

absl::StatusOr<TimedResult> RunFioJobs(const FioJobFile& file, const TimedSpec& spec,
                                       const std::function<void(double)>& progress) {
  if (absl::Status status = ValidateTimed(file, spec); !status.ok()) return status;
  return WithPolicy(spec,
                    [&]<class P>(const typename P::Options& policy) { return Run<P>(file, spec, policy, progress); });
}

absl::StatusOr<TimedResult> RunPool(const JobPool& pool, const PoolOptions& options, const TimedSpec& spec,
                                    const std::function<void(double)>& progress) {
  if (options.jobs == 0 || !(options.cpu_factor > 0)) {
    return absl::InvalidArgumentError("expected at least one job at a time, and a factor of CPU times above 0");
  }
  if (absl::Status status = ValidateTimed(pool, spec); !status.ok()) return status;
  return WithPolicy(
      spec, [&]<class P>(const typename P::Options& policy) { return Run<P>(pool, options, spec, policy, progress); });
}

absl::StatusOr<std::vector<TimedResult>> RunTimedSweep(const TimedRun& run, const std::vector<TimedSpec>& specs,
                                                       int threads, const std::function<void(double)>& progress) {
  std::vector<absl::StatusOr<TimedResult>> results(specs.size(), absl::UnknownError("not run"));
  std::vector<double> done(specs.size());
  std::mutex mutex;  // guards `done`, and the caller's progress
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < specs.size(); i = next++) {
      results[i] = run(specs[i], [&](double share) {
        const std::lock_guard lock(mutex);
        done[i] = share;
        if (progress) {
          progress(std::accumulate(done.begin(), done.end(), 0.0) / static_cast<double>(specs.size()));
        }
      });
    }
  };
  std::vector<std::thread> helpers;
  const auto wanted = static_cast<std::size_t>(std::max(1, threads));
  for (std::size_t i = 1; i < std::min(wanted, specs.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  std::vector<TimedResult> all;
  for (auto& result : results) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

}  // namespace v0
}  // namespace daxcache
