// Least recently used: the range whose last access lies furthest back is given up.
// R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger: "Evaluation techniques for storage hierarchies", IBM Systems
// Journal 9(2), 1970. Time O(1), space 8 bytes a slot.
#pragma once

#include <string_view>

#include "daxcache/policies/queue_policy.h"

namespace daxcache {
inline namespace v0 {

template <class Index_>
class LruPolicy : public QueuePolicy<Index_> {
 public:
  static constexpr std::string_view kName = "lru";
  static constexpr std::string_view kSummary = "least recently used";
  static constexpr Repeats kRepeats = Repeats::kNone;
  using QueuePolicy<Index_>::QueuePolicy;

  void OnHit(SlotId slot, const Touch&) { this->queue_.MoveToBack(slot); }
  void Prefetch(SlotId slot) const { this->queue_.Prefetch(slot); }
};

}  // namespace v0
}  // namespace daxcache
