// What Linux does (fs/fuse/dax.c, 6.1). The worker takes from the head of `busy_ranges`, where ranges stand in the
// order in which they were set up, whatever was used since; the one it picks goes to the tail first, so that a range
// whose reclaim fails is not picked again at once. Inline reclaim, for a read or write that finds nothing free, takes
// the range of that file with the lowest offset. Time O(1) in the background, inline the index's walk of the file;
// space 8 bytes a slot.
#pragma once

#include <string_view>

#include "daxcache/policies/queue_policy.h"

namespace daxcache {
inline namespace v0 {

template <class Index_>
class LinuxPolicy : public QueuePolicy<Index_> {
 public:
  using typename QueuePolicy<Index_>::Key;
  static constexpr std::string_view kName = "linux";
  static constexpr std::string_view kSummary = "Linux's own: first in, first out; inline, the file's lowest offset";
  static constexpr Repeats kRepeats = Repeats::kNone;
  using QueuePolicy<Index_>::QueuePolicy;

  SlotId Victim(const Incoming<Key>* incoming, const auto& candidates) {
    if (candidates.one_file()) return candidates.LowestOffset();
    const SlotId slot = QueuePolicy<Index_>::Victim(incoming, candidates);
    if (slot != kNoSlot) this->queue_.MoveToBack(slot);
    return slot;
  }
};

}  // namespace v0
}  // namespace daxcache
