// `daxsim --advise`: how large should the window be? Runs a workload under every size from 64 MiB to twice its data and
// without DAX, finds the smallest window that is nearly as fast as the best, and what leaving small files out would
// change; and says so, with the reasons, in plain words.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/footprint.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/timed.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// What is to be run: the jobs of a job file or of a trace.
struct Workload {
  TimedRun run;
  std::vector<std::uint64_t> file_bytes;  // the files that it uses
};

struct AdviseOptions {
  TimedSpec spec;               // everything but the window
  double accept = 0.05;         // a window may be so much slower than the best
  std::uint64_t guest_ram = 0;  // bytes; 0: the guest's page cache has no limit
  Footprint footprint;
  int threads = 1;
};

// A way to run the workload, and what came of it.
struct AdviceRow {
  bool dax = true;
  ByteSize window;  // without DAX 0
  PolicySpec policy;
  double seconds = 0;                  // for the same work: that of the run with the largest window
  std::uint64_t misses = 0;            // set-ups
  std::uint64_t guest_bytes = 0;       // of guest memory for the window, used or not
  std::uint64_t page_cache_bytes = 0;  // of the guest's page cache that the files outside the window fill
};

struct Advice {
  std::uint64_t ranges = 0;             // of all files
  std::vector<AdviceRow> rows;          // without DAX; then by window
  std::vector<AdviceRow> left_out;      // the smallest windows that do, if files below 32K, 256K, 2M are left out
  AdviceRow best;                       // the fastest window
  AdviceRow recommended;                // without DAX, if no window is as fast
  std::optional<ByteSize> slower_from;  // from here on, larger windows are slower
  std::vector<std::string> reasons;     // sentences
};

// The page cache that a guest of so much memory has beside a window, bytes: what the window's struct pages and, of
// 128 MiB, kernel and programs leave; at least 1 MiB.
std::uint64_t PageCacheBytes(std::uint64_t guest_ram, std::uint64_t window_bytes);

// InvalidArgument if the files are empty; the errors of the runs. `progress` hears which share is done, about.
[[nodiscard]] absl::StatusOr<Advice> Advise(const Workload& workload, const AdviseOptions& options,
                                            const std::function<void(double)>& progress = nullptr);

std::string AdviceText(const Advice& advice, const std::string& title);
std::string AdviceJson(const Advice& advice, const std::string& profile);

}  // namespace v0
}  // namespace daxcache
