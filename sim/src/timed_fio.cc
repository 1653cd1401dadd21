// Timed runs of the jobs of a fio job file.
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daxcache/sim/fio_stream.h"
#include "daxcache/sim/timed.h"
#include "timed_runs.h"

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
  std::vector<FileFacts> Facts() const {
    std::vector<FileFacts> facts(sizes_.size());
    for (const auto& [name, number] : numbers_) facts[number] = {.path = name, .size = sizes_[number]};
    return facts;
  }

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

std::string_view PatternName(const FioJob& job) {
  if (job.read_percent == 100) return job.random ? "randread" : "read";
  if (job.read_percent == 0) return job.random ? "randwrite" : "write";
  return job.random ? "randrw" : "rw";
}

// A file that the guest does not cache cannot be mapped (FOPEN_DIRECT_IO); with 9p, not to be written.
bool Supported(const FioJob& job, const EngineOptions& options) {
  if (options.dax || options.cache != CacheMode::kNone || job.engine != FioEngine::kMmap) return true;
  return options.filesystem == FileSystem::kNineP && job.read_percent == 100;
}

// How many I/Os a process has under way: with libaio on virtiofs, past the window, as many as it asks for; 9p waits for
// each. A process that paces itself is taken to wait too.
std::uint32_t Lanes(const FioJob& job, const EngineOptions& options) {
  constexpr std::uint32_t kMost = 1024;  // that a virtqueue holds
  const bool waits = options.dax || options.filesystem == FileSystem::kNineP || job.engine != FioEngine::kLibaio ||
                     job.rate_iops > 0 || job.think_ns > 0;
  return waits ? 1 : std::min(job.iodepth, kMost);
}

// Runs the processes on the devices in turn, all from the same moment on. The lanes of one stay together.
std::vector<ProcessResult> RunOn(std::span<const std::unique_ptr<TimedEngine>> devices,
                                 const std::vector<TimedEngine::Process>& processes) {
  std::int64_t now_ns = 0;
  for (const auto& device : devices) now_ns = std::max(now_ns, device->now_ns());
  std::vector<std::vector<std::size_t>> of_device(devices.size());
  std::size_t turn = 0;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (i > 0 && processes[i].source != processes[i - 1].source) ++turn;
    of_device[turn % devices.size()].push_back(i);
  }
  std::vector<ProcessResult> results(processes.size());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<TimedEngine::Process> own;
    for (const std::size_t i : of_device[d]) own.push_back(processes[i]);
    devices[d]->RestUntil(now_ns);
    const auto elsewhere = static_cast<std::uint32_t>(processes.size() - own.size());
    const std::vector<ProcessResult> done = devices[d]->Run(own, elsewhere);
    for (std::size_t at = 0; at < done.size(); ++at) results[of_device[d][at]] = done[at];
  }
  return results;
}

}  // namespace

std::vector<std::uint64_t> FileSizes(const FioJobFile& file) {
  FileTable table;
  for (const FioJob& job : file.jobs) FilesOf(job, table);
  return table.sizes();
}

absl::Status ValidateTimed(const FioJobFile& file, const TimedSpec& spec) {
  return ValidateTimedSpec(FileSizes(file), spec);
}

absl::StatusOr<TimedResult> RunFioJobs(const FioJobFile& file, const TimedSpec& spec,
                                       const std::function<void(double)>& progress) {
  if (absl::Status status = ValidateTimed(file, spec); !status.ok()) return status;
  FileTable table;
  std::vector<JobFiles> files;
  for (const FioJob& job : file.jobs) files.push_back(FilesOf(job, table));
  const std::vector<FileFacts> facts = table.Facts();
  std::vector<std::unique_ptr<TimedEngine>> devices;
  TimedResult result;
  result.spec = spec;
  for (std::size_t begin = 0; begin < file.jobs.size();) {
    std::size_t end = begin + 1;
    while (end < file.jobs.size() && !file.jobs[end].stonewall) ++end;
    const bool drop = std::any_of(file.jobs.begin() + static_cast<std::ptrdiff_t>(begin),
                                  file.jobs.begin() + static_cast<std::ptrdiff_t>(end),
                                  [](const FioJob& job) { return job.drop_caches; });
    if (drop || devices.empty()) {
      // Without its caches a mount is as good as new: the guest has forgotten the inodes, and returned their ranges.
      Finish(devices, result);
      devices.clear();
      for (std::uint32_t i = 0; i < spec.devices; ++i) devices.push_back(MakeEngine(table.sizes(), facts, spec, false));
    }
    std::vector<FioStream> streams;
    std::vector<TimedEngine::SharedCpu> cpus;
    for (std::size_t i = begin; i < end; ++i) {
      for (std::uint32_t process = 0; process < file.jobs[i].numjobs; ++process) {
        streams.emplace_back(file.jobs[i], process);
        if (!file.jobs[i].invalidate) continue;
        for (const std::uint32_t number : files[i][process]) {
          for (const auto& device : devices) device->DropPages(number);
        }
      }
    }
    cpus.resize(streams.size());
    std::vector<TimedEngine::Process> processes;
    for (std::size_t i = begin, at = 0; i < end; ++i) {
      const FioJob& job = file.jobs[i];
      for (std::uint32_t process = 0; process < job.numjobs; ++process, ++at) {
        if (!Supported(job, spec.engine)) continue;
        const TimedEngine::Process one = {
            .source = &streams[at],
            .path = PathOf(job.engine),
            .files = files[i][process],
            .start_ns = static_cast<std::int64_t>(job.start_delay_ns),
            .runtime_ns = static_cast<std::int64_t>(job.runtime_ns),
            .interval_ns = job.rate_iops > 0 ? static_cast<std::int64_t>(1'000'000'000 / job.rate_iops) : 0,
            .think_ns = static_cast<std::int64_t>(job.think_ns),
            .think_blocks = job.think_blocks,
            .direct = job.direct && job.engine != FioEngine::kMmap};
        const std::uint32_t lanes = Lanes(job, spec.engine);
        processes.insert(processes.end(), lanes, one);
        if (lanes == 1) continue;
        for (std::uint32_t lane = 1; lane <= lanes; ++lane) processes[processes.size() - lane].shared = &cpus[at];
      }
    }
    const std::vector<ProcessResult> results = RunOn(devices, processes);
    for (std::size_t i = begin, at = 0; i < end; ++i) {
      const FioJob& job = file.jobs[i];
      const std::size_t lanes = Supported(job, spec.engine) ? std::size_t{job.numjobs} * Lanes(job, spec.engine) : 0;
      TimedJob timed;
      if (lanes > 0) timed = Sum(std::span(results).subspan(at, lanes));
      timed.supported = lanes > 0;
      timed.processes = job.numjobs;
      timed.name = job.name;
      timed.pattern = PatternName(job);
      timed.engine = job.engine_name;
      at += lanes;
      result.jobs.push_back(std::move(timed));
    }
    begin = end;
    if (progress) progress(static_cast<double>(end) / static_cast<double>(file.jobs.size()));
  }
  Finish(devices, result);
  return result;
}

}  // namespace v0
}  // namespace daxcache
