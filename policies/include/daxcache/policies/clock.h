// CLOCK, also called second chance: one bit a range says that it was used since the hand last came by. The hand gives a
// range whose bit is set a second chance, clearing the bit, and takes the first whose bit is clear. A range comes in
// with its bit clear, so that one access alone earns no second chance. Nearly as good as LRU where LRU is good, and a
// hit writes one byte and moves nothing: what hardware's accessed bits can feed.
//
// F. J. Corbató: "A paging experiment with the Multics system", in: In Honor of Philip M. Morse, MIT Press, 1969.
// Time O(1) amortized (each step of the hand that does not end a search undoes a hit), but that Victim walks past
// ranges that are pinned or of other files. Space 9 bytes a slot.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/policies/queue_policy.h"

namespace daxcache {
inline namespace v0 {

// The circle is kept as a queue whose front is where the hand stands: passing a range by is moving it to the back. What
// is put in the place of a victim then stands at the back too, where the hand comes last, as on the circle.
template <class Index_>
class ClockPolicy : public QueuePolicy<Index_> {
 public:
  using Index = Index_;
  using typename QueuePolicy<Index_>::Key;
  using typename QueuePolicy<Index_>::Options;
  static constexpr std::string_view kName = "clock";
  static constexpr std::string_view kSummary = "second chance: a range used since the hand came by is passed over once";
  static constexpr Repeats kRepeats = Repeats::kOnce;

  ClockPolicy(const Options& options, const typename Index::Space& space, std::uint32_t max_slots)
      : QueuePolicy<Index_>(options, space, max_slots), used_(max_slots) {}

  void OnMap(SlotId slot, const Key& key, const Touch& touch) {
    used_[ToIndex(slot)] = 0;
    QueuePolicy<Index_>::OnMap(slot, key, touch);
  }
  void OnHit(SlotId slot, const Touch&) { used_[ToIndex(slot)] = 1; }
  void Prefetch(SlotId slot) const { __builtin_prefetch(&used_[ToIndex(slot)], 1); }

  // Ranges that may not be taken keep their bit and their place: they are in use, or none of the scope's business.
  SlotId Victim(const Incoming<Key>*, const auto& candidates) {
    SlotId slot = this->queue_.Front();
    for (std::uint32_t steps = this->size_; steps > 0; --steps) {
      const SlotId next = this->queue_.Next(slot);
      if (candidates(slot)) {
        if (!used_[ToIndex(slot)]) return slot;
        used_[ToIndex(slot)] = 0;
        this->queue_.MoveToBack(slot);
      }
      slot = next;
    }
    // Once around, and every candidate had its bit set: the first that was passed is the first to be met again.
    return QueuePolicy<Index_>::Victim(nullptr, candidates);
  }

  // Whether the hand would pass `slot` by.
  bool used(SlotId slot) const { return used_[ToIndex(slot)] != 0; }

 private:
  std::vector<std::uint8_t> used_;  // a byte, not a bit, a slot: a hit then needs no read
};

}  // namespace v0
}  // namespace daxcache
