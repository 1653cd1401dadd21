// What a mapping allocator is made with. Defaults are what a daemon for Linux guests wants.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daxcache/event.h"
#include "daxcache/file_rules.h"
#include "daxcache/ids.h"
#include "daxcache/journal.h"
#include "daxcache/range.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// Ranges that the guest gives back may stay mapped on the host: a set-up that brings the same range back then costs no
// system call, and any other replaces it, so that the call for the removal is saved in any case.
struct LazyUnmap {
  bool enabled = false;
  std::uint32_t max_kept = std::numeric_limits<std::uint32_t>::max();  // the oldest go
  absl::Duration idle = absl::InfiniteDuration();                      // after so long, at a Tick
};

// How many VMAs the window may take (vm.max_map_count is for the whole process).
struct MapCount {
  std::uint64_t budget = 0;  // 0: vm.max_map_count, less what the process has mapped already
  std::uint64_t spare = 64;  // kept back for upgrades, which can split a VMA
  bool warn_only = false;    // a window that can exceed the budget is not refused; set-ups that would are (-ENOMEM)
  // The caller maps a file through one descriptor always (not through one opened for each request), so that the kernel
  // merges neighbouring ranges of it. Otherwise each counts by itself.
  bool one_descriptor_per_file = false;
};

struct AllocatorOptions {
  ByteSize window = {};      // what the guest sees at first; a multiple of a page
  ByteSize max_window = {};  // 0: as `window`; Grow moves within it
  RangeSize range = {};      // Linux: 2 MiB
  std::uint64_t page_bytes = 4096;
  std::uint32_t max_readers = 64;  // threads that Find and Pin
  std::uint32_t files = 1024;      // how many to make room for at once
  std::uint64_t seed = 0;          // of hashes; a random number where a guest may choose files and ranges
  LazyUnmap lazy = {};
  MapCount map_count = {};
  // Bytes past the end of a file, whose size is known, are zero pages at once and not only when touched: for a daemon
  // that is its only writer, and calls OnSizeChanged. Needs a backend with an address.
  bool clamp = false;
  bool prefault = false;  // fill the page tables at set-up
  // Where the allocator chooses.
  bool contiguous = true;  // beside the range before it, if that place is free
  ReclaimOptions reclaim = ReclaimOptions::Demand();
  FileRuleOptions rules = {};  // which files FUSE_ATTR_DAX is for
  // Where every change is noted before and after it is made, for `Recover` in the next process; outlives the allocator.
  Journal* journal = nullptr;
  // Told of every event, under the allocator's mutex: it may not call back.
  void (*on_event)(void* context, const Event& event) = nullptr;
  void* event_context = nullptr;

  [[nodiscard]] absl::Status Validate() const {
    if (!std::has_single_bit(page_bytes) || page_bytes < 4096 || page_bytes > range.bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a page size that is a power of two from 4096 to the range's, got ", page_bytes));
    }
    for (const ByteSize size : {window, max_window}) {
      if (size.bytes() % page_bytes != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected a window that is a multiple of a page, got ", size.ToString()));
      }
      if (size.bytes() >> range.shift() > kMaxSlots) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected a window of at most ", kMaxSlots, " ranges, got ", size.ToString()));
      }
    }
    if (window.bytes() < range.bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a window of at least one range, got ", window.ToString()));
    }
    if (max_window.bytes() != 0 && max_window < window) {
      return absl::InvalidArgumentError(absl::StrCat("expected a window of at most ", max_window.ToString(),
                                                     " (the capacity), got ", window.ToString()));
    }
    if (lazy.idle < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected an idle time that is not negative, got ", absl::FormatDuration(lazy.idle)));
    }
    if (absl::Status status = reclaim.Validate(); !status.ok()) return status;
    return rules.Validate();
  }
};

}  // namespace v0
}  // namespace daxcache
