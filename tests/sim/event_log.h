// The events of a run, to be compared with those of another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daxcache/event.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

// Takes replay's events, and an allocator's by `Add`. Whether a range had been there before is left out: only replay
// remembers that.
struct EventLog {
  static constexpr bool kWantsHits = true;
  std::vector<Event> events;
  void operator()(Event event, std::uint32_t) {
    event.repeated = false;
    events.push_back(event);
  }
  static void Add(void* log, const Event& event) { (*static_cast<EventLog*>(log))(event, 0); }
};

template <class AnyEvent>
void ExpectSameEvents(const std::vector<AnyEvent>& got, const std::vector<AnyEvent>& expected) {
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    ASSERT_TRUE(got[i] == expected[i]) << "event " << i << " of " << expected.size();
  }
  ASSERT_EQ(got.size(), expected.size());
}

}  // namespace daxcache::testing_
