// The kernel's reader-writer semaphore (kernel/locking/rwsem.c, 5.10 to 6.1) as far as it decides who goes on:
//
//  - a reader gets it at once if no writer holds it and nobody waits; else it waits in line;
//  - a writer gets it at once whenever nobody holds it, even if others wait: it steals it from a writer that has been
//    woken and does not run yet;
//  - a writer that finds readers in it spins for a while before it sleeps: if they leave meanwhile, it goes on without
//    having to be woken;
//  - a release wakes the first in line: if that is a reader, it and all other readers in line are given the semaphore
//    there and then; a writer is only woken, and finds out when it runs whether it comes in time;
//  - a writer that has waited for 4 ms forbids stealing (hand-off).
//
// So a task that releases it and soon wants it back for writing (Linux's reclaim worker, range after range of one file)
// wins against a writer that waits (a set-up in that file), and lets waiting readers through (hits) between two ranges.
//
// Who waits is threaded through the tasks: a semaphore is 32 bytes. `waiter_of(task)` finds a task's LockWaiter.
#pragma once

#include <cassert>
#include <cstdint>

namespace daxcache {
inline namespace v0 {

// The part of a task that a semaphore needs.
struct LockWaiter {
  std::uint32_t next = 0xffffffffu;
  bool exclusive = false;
  bool waking = false;        // a waiting writer that has been woken and is about to try
  std::int64_t since_ns = 0;  // when it began to wait
};

// How a waiter is woken.
enum class LockWake : std::uint8_t {
  kGranted,   // sleeps, and holds the semaphore from now on
  kSpinning,  // runs, and holds it: no time passes
  kRetry,     // sleeps; a writer: has to Retry when it runs
};

class RwSemaphore {
 public:
  static constexpr std::uint32_t kNobody = 0xffffffffu;
  // RWSEM_WAIT_TIMEOUT.
  static constexpr std::int64_t kHandOffAfterNs = 4'000'000;
  // A writer spins on readers for some ten microseconds, and on while one of them runs. Long enough for a reader that
  // has been given the semaphore to wake up, look and leave; too short for one that waits for the daemon.
  static constexpr std::int64_t kSpinNs = 50'000;

  bool held() const { return writer_ || readers_ > 0; }
  // A reader would have to wait.
  bool contended() const { return writer_ || head_ != kNobody || spinner_ != kNobody; }

  // True: it is held now. False: the task waits; a release wakes it.
  template <class WaiterOf>
  bool Acquire(std::uint32_t task, bool exclusive, std::int64_t now_ns, const WaiterOf& waiter_of) {
    if (!exclusive && !writer_ && head_ == kNobody) {
      ++readers_;
      return true;
    }
    if (exclusive && !held() && !hand_off_) {
      writer_ = true;
      return true;
    }
    if (exclusive && !writer_ && !hand_off_ && spinner_ == kNobody) {
      spinner_ = task;
      spin_until_ns_ = now_ns + kSpinNs;
      return false;
    }
    Enqueue(task, exclusive, now_ns, waiter_of);
    return false;
  }

  // Calls wake(task, how) for each that is woken.
  template <class WaiterOf, class Wake>
  void Release(bool exclusive, std::int64_t now_ns, const WaiterOf& waiter_of, const Wake& wake) {
    if (exclusive) {
      assert(writer_);
      writer_ = false;
    } else {
      assert(readers_ > 0);
      if (--readers_ > 0) return;
    }
    if (spinner_ != kNobody) {
      const std::uint32_t task = spinner_;
      spinner_ = kNobody;
      if (now_ns <= spin_until_ns_) {
        writer_ = true;
        wake(task, LockWake::kSpinning);
        return;
      }
      Enqueue(task, true, spin_until_ns_, waiter_of);
    }
    if (head_ == kNobody) return;
    if (waiter_of(head_).exclusive) {
      if (waiter_of(head_).waking) return;
      waiter_of(head_).waking = true;
      wake(head_, LockWake::kRetry);
      return;
    }
    // All the readers in line, wherever they stand.
    std::uint32_t* link = &head_;
    tail_ = kNobody;
    while (*link != kNobody) {
      const std::uint32_t task = *link;
      LockWaiter& waiter = waiter_of(task);
      if (waiter.exclusive) {
        tail_ = task;
        link = &waiter.next;
        continue;
      }
      *link = waiter.next;
      ++readers_;
      wake(task, LockWake::kGranted);
    }
  }

  // A woken writer runs. True: it holds the semaphore. False: it sleeps on, and the next release wakes it.
  template <class WaiterOf>
  bool Retry(std::uint32_t task, std::int64_t now_ns, const WaiterOf& waiter_of) {
    LockWaiter& waiter = waiter_of(task);
    assert(head_ == task && waiter.exclusive);
    waiter.waking = false;
    if (held()) {
      hand_off_ = hand_off_ || now_ns - waiter.since_ns > kHandOffAfterNs;
      return false;
    }
    hand_off_ = false;
    head_ = waiter.next;
    if (head_ == kNobody) tail_ = kNobody;
    return writer_ = true;
  }

 private:
  template <class WaiterOf>
  void Enqueue(std::uint32_t task, bool exclusive, std::int64_t now_ns, const WaiterOf& waiter_of) {
    waiter_of(task) = {.exclusive = exclusive, .since_ns = now_ns};
    (head_ == kNobody ? head_ : waiter_of(tail_).next) = task;
    tail_ = task;
  }

  std::int64_t spin_until_ns_ = 0;
  std::uint32_t readers_ = 0;
  std::uint32_t head_ = kNobody;
  std::uint32_t tail_ = kNobody;
  std::uint32_t spinner_ = kNobody;
  bool writer_ = false;
  bool hand_off_ = false;  // the first in line is a writer, and nobody may steal from it
};

}  // namespace v0
}  // namespace daxcache
