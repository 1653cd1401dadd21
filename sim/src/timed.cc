// See daxcache/sim/timed.h.
#include "daxcache/sim/timed.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
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

template <class P>
absl::StatusOr<TimedResult> Run(const FioJobFile& file, const TimedSpec& spec, const typename P::Options& policy,
                                const std::function<bool(double)>& progress) {
  using Engine = TimedEngine<P, FioStream>;
  FileTable table;
  std::vector<JobFiles> files;
  for (const FioJob& job : file.jobs) files.push_back(FilesOf(job, table));
  const auto slots = static_cast<std::uint32_t>(spec.window.bytes() >> spec.range_size.shift());
  Engine engine(table.sizes(), spec.range_size, {.slots = slots, .max_slots = slots}, policy, spec.mechanics,
                spec.costs, spec.engine);
  TimedResult result;
  result.spec = spec;
  result.ranges = slots;
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
      TimedJob timed;
      timed.job = file.jobs[i];
      timed.total = results[at];
      timed.time_ns = results[at].end_ns - results[at].begin_ns;
      for (std::uint32_t process = 1; process < file.jobs[i].numjobs; ++process) {
        const ProcessResult& one = results[at + process];
        Add(one, timed.total);
        timed.time_ns += one.end_ns - one.begin_ns;
      }
      at += file.jobs[i].numjobs;
      result.jobs.push_back(std::move(timed));
    }
    begin = end;
    if (progress && !progress(static_cast<double>(end) / static_cast<double>(file.jobs.size()))) {
      return absl::CancelledError("stopped");
    }
  }
  result.time_ns = engine.now_ns();
  result.daemon_requests = engine.daemon().requests();
  if (result.time_ns > 0) {
    result.daemon_utilization = std::min(1.0, static_cast<double>(engine.daemon().busy_ns()) /
                                                  static_cast<double>(result.time_ns) / engine.daemon().threads());
  }
  return result;
}

}  // namespace

absl::Status ValidateTimed(const FioJobFile& file, const TimedSpec& spec) {
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
  FileTable table;
  for (const FioJob& job : file.jobs) FilesOf(job, table);
  std::uint64_t ranges = 0;
  for (const std::uint64_t size : table.sizes()) {
    ranges += (size >> spec.range_size.shift()) + 1;
    if (ranges > (std::uint64_t{1} << 28)) {
      return absl::InvalidArgumentError("expected files of at most 2^28 ranges together; try a larger range size");
    }
  }
  return Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options&) -> absl::Status {
    if constexpr (NeedsNextUse<P>) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.policy.text(), " looks ahead in a recorded trace, which a timed run is not"));
    } else if constexpr (SeesFiles<P>) {
      return absl::UnimplementedError("per-file is not yet possible in timed runs");
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<TimedResult> RunFioJobs(const FioJobFile& file, const TimedSpec& spec,
                                       const std::function<bool(double)>& progress) {
  if (absl::Status status = ValidateTimed(file, spec); !status.ok()) return status;
  absl::StatusOr<TimedResult> result = absl::InternalError("no such policy");
  const absl::Status status = Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options& options) {
    if constexpr (!NeedsNextUse<P> && !SeesFiles<P>) {
      result = Run<P>(file, spec, options, progress);
    } else {
      (void)options;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<std::vector<TimedResult>> RunTimedSweep(const FioJobFile& file, const std::vector<TimedSpec>& specs,
                                                       int threads, const std::function<void(double)>& progress) {
  std::vector<absl::StatusOr<TimedResult>> results(specs.size(), absl::UnknownError("not run"));
  std::vector<double> done(specs.size());
  std::mutex mutex;  // guards `done`, and the caller's progress
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < specs.size(); i = next++) {
      results[i] = RunFioJobs(file, specs[i], [&](double share) {
        const std::lock_guard lock(mutex);
        done[i] = share;
        if (progress) {
          progress(std::accumulate(done.begin(), done.end(), 0.0) / static_cast<double>(specs.size()));
        }
        return true;
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
