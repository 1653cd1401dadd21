// The core of the discrete-event simulation: which task goes on next, and when. Times are integer nanoseconds; events
// of the same time come in the order in which they were posted, so that a run is the same on every machine. A task has
// at most one event pending.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace daxcache {
inline namespace v0 {

class EventQueue {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  bool empty() const { return heap_.empty(); }
  // When the next event is due; kNever if there is none.
  std::int64_t next_time() const { return heap_.empty() ? kNever : heap_.front().time; }

  void Post(std::int64_t time_ns, std::uint32_t task) {
    heap_.push_back({});
    std::size_t at = heap_.size() - 1;
    const Event event{time_ns, posted_++, task};
    while (at > 0 && event < heap_[(at - 1) / 4]) {
      heap_[at] = heap_[(at - 1) / 4];
      at = (at - 1) / 4;
    }
    heap_[at] = event;
  }

  // The task whose event is due next; its time was next_time().
  std::uint32_t Pop() {
    assert(!heap_.empty());
    const std::uint32_t task = heap_.front().task;
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return task;
    std::size_t at = 0;
    for (;;) {
      const std::size_t first = at * 4 + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      const std::size_t end = first + 4 < heap_.size() ? first + 4 : heap_.size();
      for (std::size_t child = first + 1; child < end; ++child) {
        if (heap_[child] < heap_[least]) least = child;
      }
      if (!(heap_[least] < last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return task;
  }

 private:
  struct Event {
    std::int64_t time = 0;
    std::uint64_t order = 0;
    std::uint32_t task = 0;
    bool operator<(const Event& other) const { return time != other.time ? time < other.time : order < other.order; }
  };
  std::vector<Event> heap_;  // of four branches: shallower than two, and a node's children share a cache line or two
  std::uint64_t posted_ = 0;
};

}  // namespace v0
}  // namespace daxcache
