// Reads logs of strace: what the processes of a command did to files, call by call. Use it for logs that exist already
// (`strace -f -ttt -y -o log CMD`); `daxtrace record` runs strace with the best options and passes what it knows beside
// the log.
//
//   absl::StatusOr<Trace> trace = ReadStrace(bytes, "build.log");
//
// Both layouts are read: that of `-o` (the pid first) and that of standard error (`[pid N]`), with times of `-ttt`,
// `-tt` or `-t`, with `-y` (best: descriptors carry their resolved paths) or without. The reader keeps what the kernel
// keeps: a table of descriptors, a working directory and a root per process, shared or copied as clone(2) says,
// close-on-exec, one file position per open file, the names of each file. Hence a descriptor's file is known even where
// the log does not say it, and so is the offset of each sequential read.
//
// What a log cannot show: loads and stores through mappings (a mapping counts as one touch of all it covers, once a
// task, unless `StraceOptions::kernel` has the page faults); sizes of files never stat'ed (unless
// `StraceOptions::facts` does that); the reads and writes of io_uring and libaio. Calls that leave no record are
// counted in `Trace::report()`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/traces/format.h"
#include "daxcache/traces/input.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// What page-fault and process events of the kernel (perf_event_open) add to a log. Times are those of the log: ns since
// 1970. Ids are those of the log: thread ids.
struct KernelEvents {
  // A file mapping that was faulted in, and when it was made: the path names the file that had it then.
  struct Mapping {
    std::int64_t time_ns = 0;
    std::string path;  // as the kernel spells it, maybe with " (deleted)"
  };
  // The faults of one task in 2 MiB of one file through one kind of mapping.
  struct Faults {
    std::int64_t time_ns = 0;  // of the first
    std::int32_t task = 0;
    std::uint32_t mapping = 0;     // index into `mappings`
    std::uint64_t offset = 0;      // of the page touched first, bytes
    std::uint64_t pages = 0;       // distinct pages touched
    bool shared_writable = false;  // G, not F
  };
  struct Fork {
    std::int64_t time_ns = 0;
    std::int32_t parent = 0;
    std::int32_t child = 0;
  };
  struct CpuTime {
    std::int64_t time_ns = 0;  // any time of the task's life
    std::int32_t task = 0;
    std::uint64_t user_us = 0;
    std::uint64_t system_us = 0;
  };
  std::vector<Mapping> mappings;
  std::vector<Faults> faults;
  std::vector<Fork> forks;
  std::vector<CpuTime> cpu_times;
};

struct StraceOptions {
  // What is known of the file that has a path now, after the run.
  struct FileFacts {
    bool regular = true;  // neither a directory nor a device
    std::uint64_t size = 0;
  };
  // Nothing if no file has that path. Asked once for each file that had the path when the log ended.
  std::function<std::optional<FileFacts>(const std::string& path)> facts;

  // The path without symbolic links, or nothing if it does not exist. Logs with -y need it for programs started and
  // files removed through links alone.
  std::function<std::optional<std::string>(const std::string& path)> canonical;

  // The files that the kernel reads to start a program: itself, its interpreters (`#!`), its loader. By default itself.
  struct Program {
    std::string path;
    bool mapped = true;  // false: a script, of which only the first line is read
  };
  std::function<std::vector<Program>(const std::string& path)> programs;

  // Descriptors that the first process had from the start.
  struct Inherited {
    int descriptor = 0;
    std::string path;  // as /proc/self/fd shows it
    std::uint64_t position = 0;
    bool append = false;
    int same_as = -1;  // the earlier descriptor with which it shares its position
  };
  std::vector<Inherited> inherited;

  const KernelEvents* kernel = nullptr;  // not owned; null: mappings are touched once, as a whole
};

// InvalidArgument (`name:line: expected …, got …`) if the bytes are no strace log, or where a number is beyond what a
// file can have. Lines that are not strace's (a log of standard error holds the command's own words too) are counted.
[[nodiscard]] absl::StatusOr<Trace> ReadStrace(std::string_view bytes, std::string_view name,
                                               const StraceOptions& options = {});

// True if the bytes begin like a log that ReadStrace reads.
bool LooksLikeStrace(std::string_view bytes);

[[nodiscard]] absl::StatusOr<Trace> ReadStraceInput(Input& input);

inline constexpr Format kStraceLog{
    .name = "strace",
    .summary = "log of strace -f -ttt -y: reads, writes, mappings, opens and deletions of a command's processes",
    .extension = ".strace",
    .sniff = LooksLikeStrace,
    .read = ReadStraceInput,
    .write = nullptr,
};

}  // namespace v0
}  // namespace daxcache
