// What is to be done so that the host has what a journal tells of (journal.h): nothing is done here, so that a journal
// that cannot be right is refused before anything is.
//
//   absl::StatusOr<RecoveryPlan> plan = PlanRecovery(journal, geometry, /*host_keeps=*/true, /*maps_over=*/true);
//   …unmap plan->unmap, whether or not it is there; account for plan->taken; map plan->map, in this order…
//
// Undecided is what the journal says is: slots whose intent has no result, and areas of irregular mappings; and extents
// that lie in such a slot, because the list of extents is written last. A decided slot that overlaps extents took their
// place, and the list was not written any more.
//
// Cost: O(slots + extents log extents), for each 16 comparisons or so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/extent_map.h"
#include "daxcache/ids.h"
#include "daxcache/journal.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/snapshot.h"

namespace daxcache {
inline namespace v0 {

struct RecoveryPlan {
  std::vector<Extent> unmap;
  std::vector<SavedMapping> taken;  // the host has them
  std::vector<SavedMapping> map;    // later ones lie over earlier ones
};

// DataLoss, with what was expected, for what no allocator writes. `host_keeps`: the host has its mappings still;
// `maps_over`: as of the backend.
[[nodiscard]] inline absl::StatusOr<RecoveryPlan> PlanRecovery(const Journal& journal, const SnapshotGeometry& geometry,
                                                               bool host_keeps, bool maps_over) {
  constexpr std::uint64_t kAllFlags =
      JournalMapping::kMapped | JournalMapping::kWritable | JournalMapping::kKept | JournalMapping::kGuests;
  constexpr std::uint64_t kLargestOffset = std::numeric_limits<std::int64_t>::max();
  const auto in_window = [&](const Extent& extent) {
    return extent.length > 0 && (extent.offset | extent.length) % geometry.page_bytes == 0 &&
           extent.offset <= geometry.window_bytes && extent.length <= geometry.window_bytes - extent.offset;
  };
  const auto sound = [&](const JournalMapping& mapping, std::uint64_t length, std::uint64_t alignment) {
    return (mapping.flags & ~kAllFlags) == 0 && mapping.file_offset % alignment == 0 && length <= kLargestOffset &&
           mapping.file_offset <= kLargestOffset - length;
  };
  const auto overlap = [](const Extent& a, const Extent& b) {
    return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
  };
  const auto in_any = [&](const std::vector<Extent>& many, const Extent& extent) {
    return std::any_of(many.begin(), many.end(), [&](const Extent& one) { return overlap(one, extent); });
  };

  const std::vector<Extent> areas = journal.Areas();
  for (const Extent& area : areas) {
    if (!in_window(area)) return absl::DataLossError("expected a journal whose areas lie in the window");
  }
  const std::vector<Journal::ExtentEntry> extents = journal.Extents();
  ExtentMap left(/*merges=*/false);  // of the extents, without what slots took the place of
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < extents.size(); ++i) {
    const auto& [window, mapping] = extents[i];
    if (!in_window(window) || window.offset < end || !(mapping.flags & JournalMapping::kMapped) ||
        !sound(mapping, window.length, geometry.page_bytes)) {
      return absl::DataLossError(absl::StrCat("expected extent ", i, " of the journal to lie in the window"));
    }
    end = window.offset + window.length;
    left.Insert(window, {.file = FileId{i}, .file_offset = mapping.file_offset});
  }

  RecoveryPlan plan;
  const auto place = [&](const Extent& window, const JournalMapping& mapping, std::uint64_t file_offset,
                         bool undecided) {
    const bool mapped = mapping.flags & JournalMapping::kMapped;
    const bool kept = mapping.flags & JournalMapping::kKept;
    // What is mapped over needs no unmapping, so that the guest never faults into nothing.
    if (host_keeps && ((mapped && kept) || (undecided && !(maps_over && mapped)))) plan.unmap.push_back(window);
    if (!mapped || kept) return;
    (host_keeps && !undecided ? plan.taken : plan.map)
        .push_back({.window = window,
                    .file_offset = file_offset,
                    .file = mapping.file,
                    .writable = (mapping.flags & JournalMapping::kWritable) != 0,
                    .guests = (mapping.flags & JournalMapping::kGuests) != 0});
  };
  // Slots first: where a range was just being cut into extents, these are what is left of it.
  std::vector<Extent> undecided_slots;
  for (std::uint32_t i = 0; i < journal.geometry().slots; ++i) {
    bool undecided = false;
    const JournalMapping mapping = journal.At(i, &undecided);
    const Extent window{i * geometry.range_bytes, geometry.range_bytes};
    const bool mapped = mapping.flags & JournalMapping::kMapped;
    if (mapped && !sound(mapping, window.length, geometry.range_bytes)) {
      return absl::DataLossError(absl::StrCat("expected slot ", i, " of the journal to hold a range of a file"));
    }
    const bool in_area = in_any(areas, window);
    if (undecided) undecided_slots.push_back(window);
    if (mapped && !in_area) {
      if (!maps_over && left.Straddles(window)) {
        return absl::DataLossError(absl::StrCat("expected slot ", i, " of the journal to overlap no extent"));
      }
      left.Carve(window);
    }
    place(window, mapping, mapping.file_offset, undecided || in_area);
  }
  for (const auto& [offset, part] : left.all()) {
    const Extent window{offset, part.length};
    const bool undecided = in_any(areas, window) || in_any(undecided_slots, window);
    place(window, extents[ToIndex(part.file)].mapping, part.file_offset, undecided);
  }
  if (host_keeps && maps_over) plan.unmap.insert(plan.unmap.end(), areas.begin(), areas.end());
  return plan;
}

}  // namespace v0
}  // namespace daxcache
