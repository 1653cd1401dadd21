// The guest's CPUs and who runs on them, by task number. Tasks that wake up go before those whose slice is over, and
// take the CPU of one of these as soon as it comes to the end of what it computes; as Linux's scheduler has it, for
// which a task that slept has had less than its share.
#pragma once

#include <cstdint>
#include <deque>

namespace daxcache {
inline namespace v0 {

class Cpus {
 public:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // `count` 0: as many as there are tasks.
  explicit Cpus(std::uint32_t count) : limited_(count > 0), free_(count) {}

  bool limited() const { return limited_; }
  // A free CPU, if there is one.
  bool Take() {
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  void WaitAwake(std::uint32_t task) { awake_.push_back(task); }
  void WaitForSlice(std::uint32_t task) { expired_.push_back(task); }
  // A CPU is given up: who gets it, or kNobody, and then it is free.
  std::uint32_t Release() {
    std::deque<std::uint32_t>& first = awake_.empty() ? expired_ : awake_;
    if (first.empty()) {
      ++free_;
      return kNobody;
    }
    const std::uint32_t next = first.front();
    first.pop_front();
    return next;
  }
  // Whether one that computes has to give way: to those who woke up; at the end of its slice, to anybody.
  bool Wanted(bool slice_is_over) const { return !awake_.empty() || (slice_is_over && !expired_.empty()); }

 private:
  bool limited_;
  std::uint32_t free_;
  std::deque<std::uint32_t> awake_;    // have a wake-up to see to
  std::deque<std::uint32_t> expired_;  // have used up their slice
};

}  // namespace v0
}  // namespace daxcache
