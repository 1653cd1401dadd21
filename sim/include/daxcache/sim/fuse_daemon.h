// The daemon at the other end of the FUSE queues: it handles the requests of each first come, first served, in
// `threads` threads (0 or 1: in line, one at a time). A thread that is busy goes on to the next request without being
// notified; an idle one runs only when the notification has arrived. A part of what maps and unmaps is done under the
// VMM's mmap lock: one at a time however many threads and queues there are, and the vCPUs' first touches of pages wait
// for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace daxcache {
inline namespace v0 {

class FuseDaemon {
 public:
  explicit FuseDaemon(std::uint32_t threads, std::uint32_t queues = 1)
      : threads_(std::max<std::uint32_t>(1, threads)), free_at_(std::size_t{threads_} * std::max(1u, queues)) {}

  struct Handled {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
  };
  // So long idle, and the CPUs that a request comes by one after another (the daemon's, the VMM's, the one that takes
  // the guest's interrupt) are in a deep sleep, and each takes so long to leave it: target residency and exit latency
  // of C6 on the Xeons of 2017 (Linux, drivers/idle/intel_idle.c, skx_cstates).
  static constexpr std::int64_t kDeepSleepNs = 600'000;
  static constexpr std::int64_t kAwakenNs = 3 * 133'000;

  // A request sent at `now_ns` (never before the last one) whose notification takes `notify_ns` and its handling
  // `service_ns`, the last `locked_ns` of it under the mmap lock. It goes to a queue by `sender`: each has its own.
  Handled Submit(std::int64_t now_ns, std::int64_t notify_ns, std::int64_t service_ns, std::int64_t locked_ns,
                 std::uint32_t sender = 0) {
    DropPast(now_ns);
    const std::size_t queue = sender % (free_at_.size() / threads_);
    const auto first = free_at_.begin() + static_cast<std::ptrdiff_t>(queue * threads_);
    std::int64_t& thread = *std::min_element(first, first + threads_);
    // Whichever thread takes it runs where the last request was handled, or near.
    if (now_ns - last_end_ns_ > kDeepSleepNs) notify_ns += kAwakenNs;
    const std::int64_t begin = thread > now_ns ? thread : now_ns + notify_ns;
    locked_ns = std::min(locked_ns, service_ns);
    std::int64_t end = begin + service_ns;
    if (locked_ns > 0) {
      const std::int64_t lock_at = std::max(end - locked_ns, locked_.empty() ? 0 : locked_.back().end_ns);
      end = lock_at + locked_ns;
      locked_.push_back({lock_at, end});
    }
    thread = end;
    last_end_ns_ = std::max(last_end_ns_, end);
    queued_ns_ += begin - now_ns;
    busy_ns_ += end - begin;
    ++requests_;
    return {begin, end};
  }

  // How long what needs the mmap lock at `now_ns` (never earlier than the last time) has to wait for it.
  std::int64_t LockedFor(std::int64_t now_ns) {
    DropPast(now_ns);
    return locked_.empty() || locked_.front().begin_ns > now_ns ? 0 : locked_.front().end_ns - now_ns;
  }

  std::uint32_t threads() const { return static_cast<std::uint32_t>(free_at_.size()); }  // of all queues
  std::uint64_t requests() const { return requests_; }
  std::int64_t busy_ns() const { return busy_ns_; }      // summed over the threads
  std::int64_t queued_ns() const { return queued_ns_; }  // from sent to begun, summed over the requests

 private:
  void DropPast(std::int64_t now_ns) {
    while (!locked_.empty() && locked_.front().end_ns <= now_ns) locked_.pop_front();
  }

  std::uint32_t threads_;              // of each queue
  std::vector<std::int64_t> free_at_;  // by queue and thread: when it has handled what it was given
  std::int64_t last_end_ns_ = 0;       // … whichever
  std::deque<Handled> locked_;         // when the mmap lock is held, from now on
  std::int64_t busy_ns_ = 0;
  std::int64_t queued_ns_ = 0;
  std::uint64_t requests_ = 0;
};

}  // namespace v0
}  // namespace daxcache
