// First in, first out: the range that was mapped longest ago is given up, used since or not.
// Time O(1), space 8 bytes a slot.
#pragma once

#include <string_view>

#include "daxcache/policies/queue_policy.h"

namespace daxcache {
inline namespace v0 {

template <class Index_>
class FifoPolicy : public QueuePolicy<Index_> {
 public:
  static constexpr std::string_view kName = "fifo";
  static constexpr std::string_view kSummary = "first in, first out: hits change nothing";
  static constexpr Repeats kRepeats = Repeats::kNone;
  using QueuePolicy<Index_>::QueuePolicy;
};

}  // namespace v0
}  // namespace daxcache
