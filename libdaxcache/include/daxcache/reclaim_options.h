// When the guest takes ranges back. Mechanics say *when*, a policy says *what*: any policy runs under any mechanics.
//
//   Linux()   what fs/fuse/dax.c does (6.1): a worker frees ranges in chunks of 10 while fewer than 20 % are free; a
//             read(2) or write(2) that finds none free takes one of its own file's; a page fault waits.
//   Demand()  what textbook caches do: one victim, of any file, when nothing is free, and no worker.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace daxcache {
inline namespace v0 {

enum class InlineReclaim : std::uint8_t {
  kNever,    // wait until somebody frees a range
  kOwnFile,  // take a range of the file being accessed; wait if it has none
  kAnyFile,  // take any range
};

struct ReclaimOptions {
  // The worker runs while fewer than max(1, ⌊ranges · threshold / 100⌋) ranges are free. 0 to 100; 0: no worker.
  // FUSE_DAX_RECLAIM_THRESHOLD.
  std::uint32_t threshold_percent = 20;
  // Ranges freed in one run of the worker. FUSE_DAX_RECLAIM_CHUNK.
  std::uint32_t chunk = 10;
  // How long the worker rests between runs when the threshold is not reached (drivers with a clock only).
  absl::Duration delay = absl::Milliseconds(1);
  // Ranges that nobody has used for so long are taken back in the background, however many are free; zero: none are.
  // (A guest sees loads and stores through its page tables by their accessed bits.) Drivers with a clock only.
  absl::Duration idle;
  // What read(2) and write(2) do when nothing is free, and what a page fault does.
  InlineReclaim calls = InlineReclaim::kOwnFile;
  InlineReclaim faults = InlineReclaim::kNever;
  // Whether FUSE_REMOVEMAPPING is sent for a range taken back. Without it the host keeps the mapping until the slot is
  // used again.
  bool send_remove = true;

  static ReclaimOptions Linux() { return {}; }
  static ReclaimOptions Demand() {
    ReclaimOptions options;
    options.threshold_percent = 0;
    options.calls = InlineReclaim::kAnyFile;
    options.faults = InlineReclaim::kAnyFile;
    return options;
  }

  // Free ranges below which the worker runs; 0 if there is no worker.
  std::uint32_t Threshold(std::uint32_t ranges) const {
    if (threshold_percent == 0) return 0;
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(std::uint64_t{ranges} * threshold_percent / 100));
  }

  [[nodiscard]] absl::Status Validate() const {
    if (threshold_percent > 100) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a reclaim threshold from 0 to 100 percent, got ", threshold_percent));
    }
    if (chunk == 0) return absl::InvalidArgumentError("expected a reclaim chunk of at least 1 range, got 0");
    if (delay < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a reclaim delay that is not negative, got ", absl::FormatDuration(delay)));
    }
    if (idle < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected an idle time that is not negative, got ", absl::FormatDuration(idle)));
    }
    if (threshold_percent == 0 && (calls != InlineReclaim::kAnyFile || faults != InlineReclaim::kAnyFile)) {
      return absl::InvalidArgumentError(
          "expected a worker (threshold above 0) or reclaim from any file in calls and faults: "
          "with neither, an access to a full window would wait for ever");
    }
    return absl::OkStatus();
  }
};

}  // namespace v0
}  // namespace daxcache
