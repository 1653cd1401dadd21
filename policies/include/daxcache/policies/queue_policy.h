// What FIFO, LRU and Linux's own policy have in common: one list of slots, oldest first, whose first candidate is the
// victim. 8 bytes a slot; every operation O(1), but that Victim walks past ranges that are pinned or of other files.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policies/options.h"
#include "daxcache/policies/slot_list.h"
#include "daxcache/policy.h"

namespace daxcache {
inline namespace v0 {

template <class Index_>
class QueuePolicy {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  using Options = NoOptions;

  QueuePolicy(const Options&, const typename Index::Space&, std::uint32_t max_slots) : queue_(max_slots) {}

  void OnResize(std::uint32_t) {}
  void OnMap(SlotId slot, const Key&, const Touch&) {
    queue_.PushBack(slot);
    ++size_;
  }
  void OnHit(SlotId, const Touch&) {}
  void OnMiss(const Key&, const Touch&) {}
  bool Admit(const Key&, const Touch&, std::uint32_t) { return true; }
  void OnUnmap(SlotId slot, const Key&, Unmap) {
    queue_.Erase(slot);
    --size_;
  }
  SlotId Victim(const Incoming<Key>*, const auto& candidates) {
    SlotId slot = queue_.Front();
    while (slot != kNoSlot && !candidates(slot)) slot = queue_.Next(slot);
    // The next victim will most likely be the one behind this one, which nobody has looked at for long.
    if constexpr (requires { candidates.Prefetch(slot); }) {
      if (slot == kNoSlot) return slot;
      if (const SlotId next = queue_.Next(slot); next != kNoSlot) {
        candidates.Prefetch(next);
        queue_.Prefetch(next);
      }
    }
    return slot;
  }
  [[nodiscard]] absl::Status CheckInvariants() const {
    return queue_.CheckList(0, size_, [](SlotId) { return true; });
  }

 protected:
  SlotLists queue_;
  std::uint32_t size_ = 0;
};

}  // namespace v0
}  // namespace daxcache
