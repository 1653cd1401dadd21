// Runs of replay over one trace: what `daxsim` does. A `Study` holds a trace and what runs share (the range streams,
// the next uses, the touched pages), each made when first needed; `Sweep` runs every combination of window, policy and
// range size on all cores and gives the results in the order asked for.
//
//   Study study(*std::move(trace));
//   absl::StatusOr<std::vector<RunResult>> results = Sweep(study, runs, {.threads = 2});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/file_rules.h"
#include "daxcache/footprint.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/range.h"
#include "daxcache/sim/replay.h"
#include "daxcache/sim/stats.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/traces/trace.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

struct RunSpec {
  ByteSize window;
  RangeSize range_size;
  PolicySpec policy;
  ReplayOptions options;
  Footprint footprint;
};

// How much of the mapped ranges of files of one size class was ever touched.
struct TouchedClass {
  std::uint64_t up_to = 0;  // file size, bytes (size_classes.h); the last class has the largest number
  std::uint64_t files = 0;  // with a range that was ever mapped
  std::uint64_t ranges = 0;
  double share = 0;  // mean over those ranges: touched bytes / range size
};

struct Occupancy {
  std::int64_t time_ns = 0;
  std::uint64_t ranges = 0;  // mapped
  std::uint64_t files = 0;   // with a range mapped
};

struct FileCost {
  FileId file = kNoFile;
  std::uint64_t setups = 0;
};

struct RunResult {
  RunSpec spec;
  std::uint64_t ranges = 0;    // of the window
  std::uint64_t accesses = 0;  // records that read, write or map bytes
  std::uint64_t touches = 0;   // ranges touched by them: hits + misses + non_dax_touches
  std::uint64_t hits = 0;
  ReplayCounts counts;
  std::uint64_t non_dax_touches = 0;          // of files that may not use the window
  std::uint64_t extending_write_touches = 0;  // of writes that went past the window because they extend their file
  std::uint64_t peak_ranges = 0;
  std::uint64_t peak_files = 0;
  std::uint64_t mapped_ranges_ever = 0;  // distinct
  std::uint64_t touched_bytes = 0;       // of those, in pages
  double touched_share = 0;              // touched_bytes / (mapped_ranges_ever * range size)
  std::vector<TouchedClass> touched_classes;
  std::vector<Occupancy> occupancy;  // about 64 points from the first record to the last
  std::vector<FileCost> costliest;   // the ten files with most set-ups
  std::uint64_t guest_bytes = 0;
  std::uint64_t host_bytes = 0;
  std::uint64_t break_even_file_size = 0;

  double MissRatio() const {
    const std::uint64_t seen = hits + counts.misses;
    return seen == 0 ? 0 : static_cast<double>(counts.misses) / static_cast<double>(seen);
  }
};

class Study {
 public:
  explicit Study(Trace trace);
  const Trace& trace() const { return trace_; }
  // By file id: what per-file rules go by.
  const std::vector<FileFacts>& files() const { return files_; }

  // Any thread may ask; the first makes it.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const RangeStream>> Stream(RangeSize range_size, bool folded);
  [[nodiscard]] absl::StatusOr<const std::vector<std::uint32_t>*> NextUse(RangeSize range_size, bool folded,
                                                                          bool map_extending_writes);
  [[nodiscard]] absl::StatusOr<const std::vector<std::uint32_t>*> Touched(RangeSize range_size,
                                                                          bool map_extending_writes);

 private:
  template <class T>
  struct Lazy {
    std::once_flag once;
    absl::Status status;
    T value;
  };
  template <class T>
  Lazy<T>& Entry(std::map<int, Lazy<T>>& entries, int key);

  Trace trace_;
  std::vector<FileFacts> files_;
  std::mutex mutex_;  // guards the maps; entries stay where they are
  std::map<int, Lazy<std::shared_ptr<const RangeStream>>> streams_;
  std::map<int, Lazy<std::vector<std::uint32_t>>> next_uses_;
  std::map<int, Lazy<std::vector<std::uint32_t>>> touched_;
};

// What a policy's rules cannot do with this trace, which is seldom what was meant: patterns that no file matches, and
// files that would have to become hot. A line each.
[[nodiscard]] std::vector<std::string> Remarks(const Trace& trace, const PolicySpec& policy);

// InvalidArgument, as RunReplay gives it, without running.
[[nodiscard]] absl::Status Validate(const RunSpec& spec);

// InvalidArgument for a window of no range or of more than 2^24, mechanics or policy that make no sense. A tail of the
// window shorter than a range is unused, as in Linux. `sampled` is called up to 64 times on the way.
[[nodiscard]] absl::StatusOr<RunResult> RunReplay(Study& study, const RunSpec& spec,
                                                  const std::function<void()>& sampled = nullptr);

struct SweepOptions {
  int threads = 1;
  std::function<void(double share_done)> progress;  // called now and then, from any thread, one at a time
};
[[nodiscard]] absl::StatusOr<std::vector<RunResult>> Sweep(Study& study, const std::vector<RunSpec>& specs,
                                                           const SweepOptions& options);

}  // namespace v0
}  // namespace daxcache
