// daxsim: replays recorded traces through a virtiofs DAX window, or runs fio jobs on one in virtual time, and reports
// what it would have done.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/advise.h"
#include "daxcache/sim/find_trace.h"
#include "daxcache/sim/flags.h"
#include "daxcache/sim/lists.h"
#include "daxcache/sim/profile.h"
#include "daxcache/sim/progress.h"
#include "daxcache/sim/report.h"
#include "daxcache/sim/study.h"
#include "daxcache/sim/text.h"
#include "daxcache/sim/timed.h"
#include "daxcache/sim/timed_report.h"
#include "daxcache/sim/validate_command.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/version.h"

namespace {

using namespace daxcache;

constexpr int kExitData = 1;
constexpr int kExitUsage = 2;

// A list with what it names twice named once. `by`: a member function whose answers tell them apart.
template <class T, class By = std::identity>
std::vector<T> Distinct(std::vector<T> all, By by = {}) {
  std::vector<T> distinct;
  for (T& one : all) {
    const auto same = [&](const T& other) { return std::invoke(by, other) == std::invoke(by, one); };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(std::move(one));
  }
  return distinct;
}

struct Settings {
  std::vector<std::string> traces;
  std::string fio;
  std::string profile = "goyal-2020";
  EngineOptions engine;
  bool profile_given = false;
  std::optional<std::uint32_t> jobs;  // a trace as a pool of so many
  bool as_recorded = false;
  std::string driver = "make";
  std::optional<std::uint32_t> daemon_threads;
  std::optional<double> cpu_factor;
  std::optional<std::uint32_t> retouch;
  bool no_dax = false;
  std::optional<CacheMode> cache;
  absl::Duration idle;
  ByteSize grow_from;
  std::optional<std::uint32_t> devices;
  bool advise = false;
  ByteSize guest_ram;
  double accept = 0.05;
  std::vector<ByteSize> windows = {ByteSize(std::uint64_t{4} << 30)};
  std::vector<RangeSize> range_sizes = {RangeSize()};
  std::vector<PolicySpec> policies = {PolicySpec()};  // linux
  std::string mechanics;                              // empty: each policy's own
  std::optional<std::uint32_t> threshold;
  std::optional<std::uint32_t> chunk;
  std::optional<InlineReclaim> calls;
  std::optional<InlineReclaim> faults;
  bool no_remove = false;
  bool map_over = false;
  bool map_extending_writes = false;
  bool keep_deleted = false;
  Footprint footprint;
  std::string format = "table";
  std::string output;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool list_policies = false;
  bool list_formats = false;
};

std::function<absl::Status(std::string_view)> SetInline(std::optional<InlineReclaim>* reclaim) {
  return SetWord({"never", "own", "any"}, [reclaim](std::size_t at) { *reclaim = static_cast<InlineReclaim>(at); });
}

std::function<absl::Status(std::string_view)> SetCount(std::optional<std::uint32_t>* count, std::uint64_t least,
                                                       std::uint64_t most) {
  return [=](std::string_view text) {
    std::uint64_t value = 0;
    const absl::Status status = SetNumber(&value, least, most)(text);
    if (status.ok()) *count = static_cast<std::uint32_t>(value);
    return status;
  };
}

std::function<absl::Status(std::string_view)> SetThreads(std::uint32_t* threads) {
  return [threads](std::string_view text) {
    std::uint64_t value = 0;
    const absl::Status status = SetNumber(&value, 0, 1024)(text);
    if (status.ok()) *threads = static_cast<std::uint32_t>(value);
    return status;
  };
}

std::function<absl::Status(std::string_view)> SetFactor(std::optional<double>* factor) {
  return [factor](std::string_view text) -> absl::Status {
    double value = 0;
    if (!absl::SimpleAtod(AbslView(text), &value) || !(value > 0 && value <= 1e6)) {
      return absl::InvalidArgumentError(absl::StrCat("expected a number above 0, got \"", AbslView(text), "\""));
    }
    *factor = value;
    return absl::OkStatus();
  };
}

// A number of the footprint, checked where it is given so that the error names the flag.
std::function<absl::Status(std::string_view)> SetBytes(Footprint* footprint, std::uint64_t Footprint::*bytes) {
  return [=](std::string_view text) {
    const auto size = ByteSize::Parse(text);
    if (!size.ok()) return size.status();
    footprint->*bytes = size->bytes();
    return footprint->Validate();
  };
}

std::vector<Flag> Flags(Settings& settings) {
  return {
      {.name = "trace",
       .value = "FILE",
       .help = "a trace of any known format, told by its content; also found as FILE.zst, beside it or in traces/data; "
               "\"-\": standard input. May be given several times",
       .set =
           [&](std::string_view text) {
             settings.traces.emplace_back(text);
             return absl::OkStatus();
           },
       .repeatable = true,
       .letter = 't'},
      {.name = "fio",
       .value = "FILE|OPTIONS",
       .help =
           "a fio job file, or fio's options in one argument (\"--rw=randread --bs=4k --size=4g\"): runs the jobs in "
           "virtual time and reports IOPS, latency and where the time went",
       .set = [&](std::string_view text) -> absl::Status {
         if (text.empty()) return absl::InvalidArgumentError("expected a job file or options, got nothing");
         settings.fio = std::string(text);
         return absl::OkStatus();
       }},
      {.name = "profile",
       .value = "NAME|FILE",
       .help = "what things cost in timed runs: a measured machine; default goyal-2020",
       .set =
           [&](std::string_view text) {
             settings.profile = std::string(text);
             settings.profile_given = true;
             return absl::OkStatus();
           }},
      {.name = "daemon-threads",
       .value = "N",
       .help = "threads of the daemon in timed runs; 0: it handles requests in line, one at a time; default: the "
               "profile's",
       .set = SetCount(&settings.daemon_threads, 0, 1024)},
      {.name = "queues",
       .value = "N",
       .help = "request queues in timed runs, each with threads of its own; default 1",
       .set =
           [&](std::string_view text) {
             std::uint64_t value = 0;
             const absl::Status status = SetNumber(&value, 1, 1024)(text);
             if (status.ok()) settings.engine.queues = static_cast<std::uint32_t>(value);
             return status;
           }},
      {.name = "jobs",
       .value = "N",
       .help = "runs the trace in virtual time, as a pool of jobs, N at once: a job is what a child of the driver does",
       .set = SetCount(&settings.jobs, 1, 65536),
       .letter = 'j'},
      {.name = "driver",
       .value = "NAME",
       .help = "of --jobs: the task whose children are the jobs; default make",
       .set =
           [&](std::string_view text) {
             settings.driver = std::string(text);
             return absl::OkStatus();
           }},
      {.name = "as-recorded",
       .value = "",
       .help = "runs the trace in virtual time, each access no earlier than it was recorded",
       .set = SetTrue(&settings.as_recorded)},
      {.name = "vcpus",
       .value = "N",
       .help = "CPUs of the guest, of --jobs; 0, the default: one for each job",
       .set = SetThreads(&settings.engine.vcpus)},
      {.name = "cpu-factor",
       .value = "X",
       .help = "of --jobs: the recorded CPU times are multiplied with it; default: the profile's",
       .set = SetFactor(&settings.cpu_factor)},
      {.name = "retouch",
       .value = "K",
       .help =
           "of --jobs: in each time slice a process uses again the last K ranges that it has faulted in; default: the "
           "profile's",
       .set = SetCount(&settings.retouch, 0, 65536)},
      {.name = "no-dax",
       .value = "",
       .help = "timed runs without a window: all files go through the guest's page cache",
       .set = SetTrue(&settings.no_dax)},
      {.name = "filesystem",
       .value = "virtiofs|9p",
       .help = "timed runs: what serves files without DAX; 9p has none",
       .set = SetWord({"virtiofs", "9p"},
                      [&](std::size_t at) {
                        settings.engine.filesystem = at == 0 ? FileSystem::kVirtiofs : FileSystem::kNineP;
                        settings.no_dax = settings.no_dax || at == 1;
                      })},
      {.name = "cache",
       .value = "MODE",
       .help =
           "timed runs: what the guest caches of files without DAX: none, auto or always; of 9p none, mmap or loose; "
           "default auto, of 9p loose",
       .set = SetWord({"none", "mmap", "auto", "always", "loose"},
                      [&](std::size_t at) { settings.cache = static_cast<CacheMode>(at); })},
      {.name = "xattr",
       .value = "",
       .help =
           "timed runs without DAX on virtiofs: each write asks for the file's capabilities first, as with xattr on",
       .set = SetTrue(&settings.engine.xattr)},
      {.name = "advise",
       .value = "",
       .help = "how large should the window be? Runs --fio, or --trace with --jobs or --as-recorded, under all sizes, "
               "without "
               "DAX, and with small files left out, and says what to choose and why",
       .set = SetTrue(&settings.advise)},
      {.name = "guest-ram",
       .value = "SIZE",
       .help = "memory of the guest: what it leaves is the page cache of files outside the window; default: no limit",
       .set = [&](std::string_view text) -> absl::Status {
         const auto size = ByteSize::Parse(text);
         if (!size.ok()) return size.status();
         if (size->bytes() == 0) return absl::InvalidArgumentError("expected a size above 0, got 0");
         settings.guest_ram = *size;
         return absl::OkStatus();
       }},
      {.name = "accept",
       .value = "PERCENT",
       .help = "of --advise: how much slower than with the best window it may be; default 5",
       .set = [&](std::string_view text) -> absl::Status {
         double percent = 0;
         if (!absl::SimpleAtod(AbslView(text), &percent) || !(percent >= 0 && percent <= 1000)) {
           return absl::InvalidArgumentError(
               absl::StrCat("expected a number of percent from 0 to 1000, got \"", AbslView(text), "\""));
         }
         settings.accept = percent / 100;
         return absl::OkStatus();
       }},
      {.name = "seed",
       .value = "N",
       .help = "of the variation of latencies in timed runs; default 1",
       .set = SetNumber(&settings.engine.seed, 0, std::numeric_limits<std::uint64_t>::max())},
      {.name = "window",
       .value = "SIZE[,SIZE|SIZE..SIZE]",
       .help = "window size, such as 4G or 512MiB; a list or a span (doubling) sweeps (what is named twice in it runs "
               "once); default 4G",
       .set =
           [&](std::string_view text) {
             auto sizes = ParseSizes(text);
             if (sizes.ok()) settings.windows = Distinct(*std::move(sizes));
             return sizes.status();
           },
       .letter = 'w'},
      {.name = "policy",
       .value = "POLICY[,POLICY]",
       .help =
           "who gives way, with options after a colon: lru, per-file:base=arc,min=32K; a list sweeps; default linux. "
           "--list-policies shows all",
       .set =
           [&](std::string_view text) {
             auto policies = ParsePolicyList(text);
             if (policies.ok()) settings.policies = Distinct(*std::move(policies), &PolicySpec::text);
             return policies.status();
           },
       .letter = 'p'},
      {.name = "range-size",
       .value = "SIZE[,SIZE]",
       .help = "what is mapped at a time: a power of two from 4K to 1G; default 2M, as in Linux",
       .set = [&](std::string_view text) -> absl::Status {
         const auto sizes = ParseSizes(text);
         if (!sizes.ok()) return sizes.status();
         settings.range_sizes.clear();
         for (const ByteSize size : *sizes) {
           const auto range = RangeSize::Create(size);
           if (!range.ok()) return range.status();
           settings.range_sizes.push_back(*range);
         }
         settings.range_sizes = Distinct(std::move(settings.range_sizes), &RangeSize::bytes);
         return absl::OkStatus();
       }},
      {.name = "mechanics",
       .value = "linux|demand",
       .help =
           "when ranges are taken back: linux (a worker keeps 20 % free, in chunks of 10) or demand (one victim when "
           "nothing is free); default: linux for the policy linux, demand for the others",
       .set = SetWord({"linux", "demand"}, [&](std::size_t at) { settings.mechanics = at == 0 ? "linux" : "demand"; })},
      {.name = "threshold",
       .value = "PERCENT",
       .help = "the worker runs while fewer than this share is free; 0: no worker",
       .set = SetCount(&settings.threshold, 0, 100)},
      {.name = "chunk",
       .value = "N",
       .help = "ranges the worker frees in a run",
       .set = SetCount(&settings.chunk, 1, kMaxSlots)},
      {.name = "reclaim-idle",
       .value = "TIME",
       .help = "timed runs: ranges that nobody has used for so long (500ms, 2s) are taken back, however many are free; "
               "alone with --mechanics demand",
       .set = [&](std::string_view text) -> absl::Status {
         absl::Duration time;
         if (!absl::ParseDuration(AbslView(text), &time) || time <= absl::ZeroDuration() || time > absl::Hours(24)) {
           return absl::InvalidArgumentError(
               absl::StrCat("expected a time such as 500ms, up to 24h, got \"", AbslView(text), "\""));
         }
         settings.idle = time;
         return absl::OkStatus();
       }},
      {.name = "grow-from",
       .value = "SIZE",
       .help =
           "timed runs: the window begins with SIZE and grows up to --window, 128M at a time, when the worker would be "
           "woken; with --reclaim-idle it shrinks again",
       .set = [&](std::string_view text) -> absl::Status {
         const auto size = ByteSize::Parse(text);
         if (!size.ok()) return size.status();
         if (size->bytes() == 0) return absl::InvalidArgumentError("expected a size above 0, got 0");
         settings.grow_from = *size;
         return absl::OkStatus();
       }},
      {.name = "devices",
       .value = "N",
       .help = "of --fio: so many virtiofs devices, each with an equal part of the window and a daemon of its own",
       .set = SetCount(&settings.devices, 1, 64)},
      {.name = "inline",
       .value = "never|own|any",
       .help = "what read(2) and write(2) take when nothing is free: wait, a range of their own file, or any",
       .set = SetInline(&settings.calls)},
      {.name = "inline-faults",
       .value = "never|own|any",
       .help = "the same for page faults",
       .set = SetInline(&settings.faults)},
      {.name = "no-remove",
       .value = "",
       .help = "send no REMOVEMAPPING for ranges taken back: the host keeps them until the slot is used again",
       .set = SetTrue(&settings.no_remove)},
      {.name = "map-over",
       .value = "",
       .help =
           "a set-up replaces what its slot still maps: no worker, one victim of any file when nothing is free, and no "
           "REMOVEMAPPING (short for --mechanics demand --no-remove)",
       .set = SetTrue(&settings.map_over)},
      {.name = "map-extending-writes",
       .value = "",
       .help = "writes that extend their file use the window too (Linux sends them past it)",
       .set = SetTrue(&settings.map_extending_writes)},
      {.name = "keep-deleted",
       .value = "",
       .help = "deleted files keep their ranges (Linux returns them)",
       .set = SetTrue(&settings.keep_deleted)},
      {.name = "page-size",
       .value = "SIZE",
       .help = "page size of the guest, for its memory cost; default 4K",
       .set = SetBytes(&settings.footprint, &Footprint::page_bytes)},
      {.name = "struct-page-size",
       .value = "SIZE",
       .help = "sizeof(struct page) of the guest; default 64",
       .set = SetBytes(&settings.footprint, &Footprint::struct_page_bytes)},
      {.name = "mapping-size",
       .value = "SIZE",
       .help = "sizeof(struct fuse_dax_mapping) of the guest; default 112",
       .set = SetBytes(&settings.footprint, &Footprint::mapping_bytes)},
      {.name = "host-page-size",
       .value = "SIZE",
       .help = "page size of the host, for its memory cost; default 4K",
       .set = SetBytes(&settings.footprint, &Footprint::host_page_bytes)},
      {.name = "vma-size",
       .value = "SIZE",
       .help = "what a mapping costs the host: sizeof(struct vm_area_struct) and its share of the tree; default 200",
       .set = SetBytes(&settings.footprint, &Footprint::vma_bytes)},
      {.name = "table-entry-size",
       .value = "SIZE",
       .help = "a page table entry of the host, on either level; default 8",
       .set = SetBytes(&settings.footprint, &Footprint::table_entry_bytes)},
      {.name = "format",
       .value = "table|csv|json",
       .help = "table for people, csv and json for programs (docs/daxsim.md lists the keys)",
       .set = SetWord({"table", "csv", "json"},
                      [&](std::size_t at) {
                        constexpr const char* kNames[] = {"table", "csv", "json"};
                        settings.format = kNames[at];
                      })},
      {.name = "output",
       .value = "FILE",
       .help = "write the report there instead of to standard output (\"-\")",
       .set = [&](std::string_view text) -> absl::Status {
         if (text.empty()) return absl::InvalidArgumentError("expected a file, got nothing");
         settings.output = text == "-" ? "" : std::string(text);
         return absl::OkStatus();
       },
       .letter = 'o'},
      {.name = "threads",
       .value = "N",
       .help = "runs at a time; default: the number of processors. Reports do not depend on it",
       .set = SetNumber(&settings.threads, 1, 1024)},
      {.name = "list-policies",
       .value = "",
       .help = "show the policies and their options",
       .set = SetTrue(&settings.list_policies)},
      {.name = "list-formats", .value = "", .help = "show the trace formats", .set = SetTrue(&settings.list_formats)},
  };
}

constexpr std::string_view kEpilogue =
    R"(Examples:
  daxsim --window 4G --trace kbuild.trace                       one window, everything about it
  daxsim --window 64M..16G --policy linux,lru,arc --trace kbuild.trace
                                                                a table: which policy, how large
  daxsim -w 1G --range-size 2M,64K -t kbuild.trace              smaller ranges
  daxsim -w 1G -p lru,per-file:base=lru,min=32K -t kbuild.trace small files kept out of the window
  daxsim -w 64M..4G -t kbuild.trace --format csv -o sweep.csv   for a spreadsheet
  daxsim -w 1G..64G --fio randread.fio                          a fio job file in virtual time
  daxsim -w 2G --fio "--rw=randread --bs=4k --size=4g --ioengine=psync --runtime=20"
  daxsim -w 1G,4G -t kbuild.trace --jobs 128 --vcpus 16         the recorded build again, as make -j128 on 16 CPUs

Two commands of their own (each with --help): "daxsim validate" shows predictions beside published measurements,
"daxsim fit" fits the parameters of a profile to them.

Sizes are powers of two: 4G, 64MiB, 1.5g. Exit status: 0, 1 for data that cannot be used, 2 for a wrong command line.
)";

absl::StatusOr<Trace> Read(const std::string& path) {
  Progress progress("reading " + path);
  return ReadTrace(path, {.progress = [&](std::uint64_t done, std::uint64_t total) {
                     if (total > 0) progress.Update(static_cast<double>(done) / static_cast<double>(total));
                     return true;
                   }});
}

ReplayOptions OptionsFor(const Settings& settings, const PolicySpec& policy) {
  const bool linux_mechanics =
      settings.mechanics.empty() ? policy.core() == LinuxPolicy<DenseIndex>::kName : settings.mechanics == "linux";
  ReplayOptions options;
  options.mechanics = linux_mechanics && !settings.map_over ? ReclaimOptions::Linux() : ReclaimOptions::Demand();
  if (settings.threshold) options.mechanics.threshold_percent = *settings.threshold;
  if (settings.chunk) options.mechanics.chunk = *settings.chunk;
  if (settings.calls) options.mechanics.calls = *settings.calls;
  if (settings.faults) options.mechanics.faults = *settings.faults;
  if (settings.no_remove || settings.map_over) options.mechanics.send_remove = false;
  options.map_extending_writes = settings.map_extending_writes;
  options.keep_deleted = settings.keep_deleted;
  return options;
}

std::vector<RunSpec> Specs(const Settings& settings) {
  std::vector<RunSpec> specs;
  for (const RangeSize range_size : settings.range_sizes) {
    for (const ByteSize window : settings.windows) {
      for (const PolicySpec& policy : settings.policies) {
        specs.push_back({.window = window,
                         .range_size = range_size,
                         .policy = policy,
                         .options = OptionsFor(settings, policy),
                         .footprint = settings.footprint});
      }
    }
  }
  return specs;
}

std::string PolicyHelp() {
  std::string text;
  for (const PolicyInfo& policy : BuiltinPolicyInfos()) {
    absl::StrAppend(&text, AbslView(policy.name),
                    std::string(std::max<std::size_t>(15, policy.name.size() + 1) - policy.name.size(), ' '),
                    AbslView(policy.summary), "\n");
    for (const PolicyInfo::Option& option : policy.options) {
      absl::StrAppend(&text, "                 ", AbslView(option.name), "=", AbslView(option.value), "  ",
                      AbslView(option.help), "\n");
    }
  }
  return text +
         R"(Options stand after a colon, separated by commas: random:seed=7. A comma within a value is written \, and a
backslash \\ (in a shell, both within quotes).

GLOB, a pattern for paths:
  *      any run of characters, / not among them     **     any run at all: /usr/**
  ?      one character, but not /                    **/    any folders, or none: /home/**/.cache/*
  [a-z]  one of these; [!a-z] one of the rest        \x     the character x itself
With a / in it, a pattern must match the whole path; without, it is about the file's name: *.so
)";
}

int Fail(const absl::Status& status, int code) {
  std::cerr << "daxsim: " << status.message() << "\n";
  if (code == kExitUsage) std::cerr << "Try \"daxsim --help\".\n";
  return code;
}

// To a file, or to standard output.
int Print(const std::string& text, const std::string& path = "") {
  if (path.empty()) {
    std::cout << text << std::flush;
    return std::cout ? 0 : Fail(absl::UnavailableError("cannot write to standard output"), kExitData);
  }
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (out) return 0;
  return Fail(absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno))), kExitData);
}

// What a timed run does: the jobs of a job file, or those of a trace.
struct TimedWork {
  std::string title;
  std::function<absl::Status(const TimedSpec&)> validate;
  Workload workload;
  std::shared_ptr<const void> keeps;  // what the workload refers to
};

absl::StatusOr<TimedWork> FioWork(const Settings& settings) {
  const bool options = settings.fio.starts_with("--");
  auto parsed = options ? ParseFioCommandLine(settings.fio) : ReadFioJobFile(settings.fio);
  if (!parsed.ok()) return parsed.status();
  for (const std::string& warning : parsed->warnings) std::cerr << "daxsim: warning: " << warning << "\n";
  const auto jobs = std::make_shared<const FioJobFile>(*std::move(parsed));
  TimedWork work;
  work.title = options ? "fio " + settings.fio : settings.fio;
  work.validate = [jobs](const TimedSpec& spec) { return ValidateTimed(*jobs, spec); };
  work.workload.run = Runs(*jobs);
  work.workload.file_bytes = FileSizes(*jobs);
  work.keeps = jobs;
  return work;
}

absl::StatusOr<TimedWork> TraceWork(const Settings& settings, const Profile& profile) {
  const absl::StatusOr<std::string> path = FindTrace(settings.traces[0]);
  if (!path.ok()) return path.status();
  const absl::StatusOr<Trace> trace = Read(*path);
  if (!trace.ok()) return trace.status();
  auto created = JobPool::Create(*trace, {.driver = settings.driver, .as_recorded = settings.as_recorded});
  if (!created.ok())
    return absl::Status(created.status().code(), absl::StrCat(*path, ": ", created.status().message()));
  const auto pool = std::make_shared<const JobPool>(*std::move(created));
  const PoolOptions options = {.jobs = settings.jobs.value_or(1),
                               .cpu_factor = settings.cpu_factor.value_or(profile.cpu_factor)};
  std::string how = ", each task at its recorded times";
  if (!settings.as_recorded) {
    how = absl::StrCat(", ", Grouped(pool->jobs()), " jobs, ", options.jobs, " at once, on ",
                       settings.engine.vcpus == 0 ? "as many" : absl::StrCat(settings.engine.vcpus), " CPUs");
  }
  TimedWork work;
  work.title = *path + how;
  work.validate = [pool](const TimedSpec& spec) { return ValidateTimed(*pool, spec); };
  work.workload.run = Runs(*pool, options);
  work.workload.file_bytes = pool->sizes();
  work.keeps = pool;
  return work;
}

// The jobs on every window with every policy, on all cores.
int RunTimed(const Settings& settings, const std::vector<RunSpec>& specs) {
  const auto profile = LoadProfile(settings.profile);
  if (!profile.ok()) return Fail(profile.status(), absl::IsNotFound(profile.status()) ? kExitUsage : kExitData);
  if (const absl::Status has = profile->RequireDax(); !has.ok()) return Fail(has, kExitUsage);
  const auto work = settings.fio.empty() ? TraceWork(settings, *profile) : FioWork(settings);
  if (!work.ok()) return Fail(work.status(), settings.fio.starts_with("--") ? kExitUsage : kExitData);
  std::vector<TimedSpec> timed;
  for (const RunSpec& spec : specs) {
    timed.push_back({.window = spec.window,
                     .range_size = spec.range_size,
                     .policy = spec.policy,
                     .mechanics = spec.options.mechanics,
                     .costs = profile->costs,
                     .engine = settings.engine});
    timed.back().engine.jiffy_ns = profile->jiffy_ns;
    timed.back().engine.dax = !settings.no_dax;
    timed.back().mechanics.idle = settings.idle;
    timed.back().devices = settings.devices.value_or(1);
    if (settings.grow_from.bytes() > 0) {
      const std::uint64_t first = settings.grow_from.bytes() / timed.back().devices >> spec.range_size.shift();
      timed.back().engine.grow_from = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(first, 1, kMaxSlots));
    }
    timed.back().engine.cache = settings.cache.value_or(
        settings.engine.filesystem == FileSystem::kNineP ? CacheMode::kLoose : CacheMode::kAuto);
    if (settings.guest_ram.bytes() > 0) {
      const std::uint64_t window = settings.no_dax ? 0 : spec.window.bytes();
      timed.back().engine.page_cache_pages = PageCacheBytes(settings.guest_ram.bytes(), window) / PageCache::kPageBytes;
    }
    timed.back().engine.daemon_threads = settings.daemon_threads.value_or(profile->daemon_threads);
    timed.back().engine.xattr = settings.engine.xattr || profile->xattr;
    timed.back().engine.retouch = settings.retouch.value_or(profile->retouch);
    if (const absl::Status valid = work->validate(timed.back()); !valid.ok()) return Fail(valid, kExitUsage);
  }
  const std::string title = work->title + ", profile " + profile->name + " (" + profile->summary + ")";
  if (settings.advise) {
    Progress progress("trying sizes");
    const auto advice = Advise(work->workload,
                               {.spec = timed.front(),
                                .accept = settings.accept,
                                .guest_ram = settings.guest_ram.bytes(),
                                .footprint = settings.footprint,
                                .threads = static_cast<int>(settings.threads)},
                               [&](double share) { progress.Update(share); });
    if (!advice.ok()) return Fail(advice.status(), kExitData);
    return Print(settings.format == "json" ? AdviceJson(*advice, profile->name) : AdviceText(*advice, title),
                 settings.output);
  }
  const auto results = [&] {
    Progress progress("running " + work->title);
    return RunTimedSweep(work->workload.run, timed, static_cast<int>(settings.threads),
                         [&](double share) { progress.Update(share); });
  }();
  if (!results.ok()) return Fail(results.status(), kExitData);
  return Print(settings.format == "json"  ? TimedJsonReport(profile->name, *results)
               : settings.format == "csv" ? TimedCsvReport(*results)
                                          : TimedTableReport(title, *results),
               settings.output);
}

int Run(const std::vector<std::string>& arguments) {
  Settings settings;
  CommandLine line(
      "daxsim --trace FILE | --fio JOBS [--window SIZE] [--policy POLICY] …",
      "Replays a recorded trace through a virtiofs DAX window (hits, misses, reclaims, what the window costs), or runs "
      "fio jobs on one in virtual time (IOPS, latency).",
      Flags(settings), std::string(kEpilogue));
  const auto rest = line.Parse(arguments);
  if (!rest.ok()) return Fail(rest.status(), kExitUsage);
  if (line.help_wanted()) {
    return Print(line.Help());
  }
  if (line.version_wanted()) {
    return Print("daxsim " DAXCACHE_VERSION "\n");
  }
  if (settings.list_policies) {
    return Print(PolicyHelp());
  }
  if (settings.list_formats) {
    TextTable table({"format", "extension", "written", ""}, {true, true, true, true});
    for (const Format& format : kTraceFormats) {
      table.Add({std::string(format.name), std::string(format.extension), format.write != nullptr ? "yes" : "no",
                 std::string(format.summary)});
    }
    return Print(table.ToString("") + "Formats are told by content, not by name; each may be compressed with zstd.\n");
  }
  if (!rest->empty()) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat("unexpected argument \"", rest->front(), "\": traces are given with --trace")),
                kExitUsage);
  }
  if (settings.traces.empty() && settings.fio.empty()) {
    return Fail(absl::InvalidArgumentError("expected --trace FILE or --fio FILE, got neither"), kExitUsage);
  }
  if (!settings.traces.empty() && !settings.fio.empty()) {
    return Fail(absl::InvalidArgumentError("expected --trace or --fio, got both"), kExitUsage);
  }
  const bool timed_trace = settings.jobs || settings.as_recorded;
  if (timed_trace && (settings.traces.size() != 1 || (settings.jobs && settings.as_recorded))) {
    return Fail(absl::InvalidArgumentError("expected one --trace with --jobs or --as-recorded, and one of these"),
                kExitUsage);
  }
  if (!settings.traces.empty() && settings.profile_given && !timed_trace) {
    return Fail(absl::InvalidArgumentError("--profile: a trace is replayed without a clock; expected --jobs or "
                                           "--as-recorded with it, for a timed run"),
                kExitUsage);
  }
  if (!timed_trace && (settings.engine.vcpus > 0 || settings.cpu_factor || settings.retouch)) {
    return Fail(absl::InvalidArgumentError("--vcpus, --cpu-factor and --retouch are of a trace that is run with --jobs "
                                           "or --as-recorded"),
                kExitUsage);
  }
  const std::string_view of_timed = settings.cache                         ? "--cache"
                                    : settings.no_dax                      ? "--no-dax"
                                    : settings.idle > absl::ZeroDuration() ? "--reclaim-idle"
                                    : settings.grow_from.bytes() > 0       ? "--grow-from"
                                    : settings.devices                     ? "--devices"
                                                                           : "";
  if (!of_timed.empty() && !timed_trace && settings.fio.empty()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    AbslView(of_timed), " is of timed runs: expected --fio, --jobs or --as-recorded with it")),
                kExitUsage);
  }
  if (settings.advise && settings.fio.empty() && !timed_trace) {
    return Fail(absl::InvalidArgumentError("--advise: expected --fio, or --jobs N or --as-recorded with the trace, to "
                                           "know how it runs"),
                kExitUsage);
  }
  const bool one_window = settings.devices.value_or(1) == 1 && settings.grow_from.bytes() == 0;
  if (settings.advise && (settings.policies.size() > 1 || settings.range_sizes.size() > 1 || settings.no_dax ||
                          !one_window || settings.format == "csv")) {
    return Fail(
        absl::InvalidArgumentError("--advise: expected one policy and one range size, DAX, one device, a window "
                                   "that does not grow, and a table or JSON"),
        kExitUsage);
  }
  if (settings.map_over && !settings.mechanics.empty()) {
    return Fail(absl::InvalidArgumentError("--map-over: expected no --mechanics with it, for it has its own"),
                kExitUsage);
  }
  const std::vector<RunSpec> specs = Specs(settings);
  if (!settings.fio.empty() || timed_trace) return RunTimed(settings, specs);
  for (const RunSpec& spec : specs) {
    if (spec.footprint.page_bytes > spec.range_size.bytes()) {
      return Fail(absl::InvalidArgumentError(absl::StrCat("--page-size: expected pages no larger than a range of ",
                                                          ByteSize(spec.range_size.bytes()).ToString(), ", got ",
                                                          ByteSize(spec.footprint.page_bytes).ToString())),
                  kExitUsage);
    }
    if (const absl::Status valid = Validate(spec); !valid.ok()) return Fail(valid, kExitUsage);
  }
  if (std::count(settings.traces.begin(), settings.traces.end(), "-") > 1) {
    return Fail(absl::InvalidArgumentError("--trace: expected standard input (-) once, got it twice"), kExitUsage);
  }
  std::vector<TraceRuns> all;
  for (const std::string& name : Distinct(settings.traces)) {
    const absl::StatusOr<std::string> path = name == "-" ? name : FindTrace(name);
    if (!path.ok()) return Fail(path.status(), kExitData);
    std::error_code ignored;
    if (!settings.output.empty() && std::filesystem::equivalent(settings.output, *path, ignored)) {
      return Fail(
          absl::InvalidArgumentError(absl::StrCat("--output: expected another file than the trace, got ", *path)),
          kExitUsage);
    }
    absl::StatusOr<Trace> trace = Read(*path);
    if (!trace.ok()) return Fail(trace.status(), kExitData);
    const auto study = std::make_shared<Study>(*std::move(trace));
    for (const PolicySpec& policy : settings.policies) {
      for (const std::string& remark : Remarks(study->trace(), policy)) {
        std::cerr << "daxsim: warning: " << *path << ": " << remark << "\n";
      }
    }
    Progress progress("replaying " + *path);
    auto runs = Sweep(*study, specs, {.threads = static_cast<int>(settings.threads), .progress = [&](double share) {
                                        progress.Update(share);
                                      }});
    if (!runs.ok()) {
      return Fail(absl::Status(runs.status().code(), absl::StrCat(*path, ": ", runs.status().message())), kExitData);
    }
    all.push_back({study, *std::move(runs)});
  }
  const std::string report = settings.format == "json"  ? JsonReport(all)
                             : settings.format == "csv" ? CsvReport(all)
                                                        : TableReport(all);
  return Print(report, settings.output);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && (arguments[0] == "validate" || arguments[0] == "fit")) {
      return daxcache::ValidateCommand(arguments);
    }
    return Run(arguments);
  } catch (const std::bad_alloc&) {
    return Fail(absl::ResourceExhaustedError("not enough memory for this trace"), kExitData);
  }
}
