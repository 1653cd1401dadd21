// Many calls at once, interleaved at random by a scheduler with real lock semantics: whatever the order, nothing
// deadlocks or starves, every lock is released by its taker, at most one set-up is in flight an inode, no range is lost
// and none is used without a pin, and all calls end. Messages fail at random. DAXCACHE_FULL=1 runs twenty times as
// many schedules.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/guest.h"
#include "daxcache/policies/fifo.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "gtest/gtest.h"
#include "libdaxcache/window_fixture.h"

namespace daxcache {
namespace {

using testing_::At;
using testing_::Watched;

struct Plan {
  ReclaimOptions options;
  std::uint32_t slots = 8;
  std::uint32_t max_slots = 8;
  std::uint32_t files = 3;
  std::uint32_t ranges = 6;  // of each file
  int calls = 200;           // in all
  int at_once = 12;
  int errors_percent = 0;  // of the messages
  bool fifo_locks = true;  // else any waiter may be next
  bool evictions = false;
  bool resizes = false;
};

template <class Win>
class Scheduler {
 public:
  Scheduler(const Plan& plan, std::uint32_t seed)
      : plan_(plan),
        random_(seed),
        window_({}, {.slots = plan.slots, .max_slots = plan.max_slots}, {}),
        guest_(window_, plan.options) {}

  void Run() {
    int started = 0;
    int ended = 0;
    while (ended < plan_.calls && fault_.empty()) {
      while (started < plan_.calls && static_cast<int>(threads_.size()) < plan_.at_once + 1) {
        Start();
        ++started;
      }
      if (plan_.resizes && Below(50) == 0) Resize();
      if (++steps_ > 20000 * static_cast<std::int64_t>(plan_.calls)) return Fault("some call never ends");
      ended += StepSomebody();
      if (steps_ % 16 == 0) Check();
    }
    if (!fault_.empty()) return;
    // Let the worker end, then count: nothing is pinned, taken or in flight.
    while (!threads_.empty() && fault_.empty() && steps_++ < 20000 * static_cast<std::int64_t>(plan_.calls)) {
      StepSomebody();
    }
    Check();
    if (!locks_.empty()) Fault("a lock is still held at the end");
    for (std::uint32_t i = 0; i < window_.capacity(); ++i) {
      const SlotState state = window_.state(SlotId{i});
      const bool rests =
          i < window_.size() ? state == SlotState::kFree || state == SlotState::kMapped : state == SlotState::kRetired;
      if (!rests || (rests && window_.pins(SlotId{i}) != 0)) Fault("a slot is in flight or pinned at the end");
    }
  }

  const std::string& fault() const { return fault_; }
  std::int64_t waits() const { return waits_; }
  std::int64_t removes() const { return removes_; }
  std::int64_t shrunk() const { return shrunk_; }

 private:
  using Call = typename Guest<Win>::Call;
  struct LockName {
    Lock lock;
    FileId file;
    std::uint64_t range;  // kEntry only
    auto operator<=>(const LockName&) const = default;
  };
  enum class Doing { kRunning, kLocking, kMessage, kWaiting, kDelayed };
  struct Thread {
    int id = 0;
    Call call;
    bool worker = false;
    bool eviction = false;
    bool shrink = false;
    bool fault = false;
    Doing doing = Doing::kRunning;
    Action action;
    int answer = 0;
    bool lost = false;
    std::int64_t until = 0;
    std::vector<std::pair<LockName, bool>> held;
  };
  struct LockState {
    std::vector<int> shared;
    int exclusive = -1;
    std::deque<std::pair<int, bool>> waiters;
  };

  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  void Fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }
  Thread* Find(int id) {
    for (Thread& thread : threads_) {
      if (thread.id == id) return &thread;
    }
    return nullptr;
  }

  void Start() {
    Thread thread;
    thread.id = next_id_++;
    const FileRange range = At(Below(plan_.files), Below(plan_.ranges));
    const std::uint32_t kind = Below(100);
    if (plan_.evictions && kind < 5) {
      thread.call = guest_.StartEviction(range.file);
      thread.eviction = true;
    } else if (kind < 50) {
      thread.call =
          guest_.StartFault(range, {.file = range.file, .op = Below(3) == 0 ? Op::kMappedWrite : Op::kMappedRead});
      thread.fault = true;
    } else {
      const bool write = Below(3) == 0;
      thread.call = guest_.StartCall(range, {.file = range.file, .op = write ? Op::kWrite : Op::kRead}, 1 + Below(3),
                                     write && Below(4) == 0);
    }
    threads_.push_back(thread);
  }
  void StartWorker() {
    Thread thread;
    thread.id = next_id_++;
    thread.worker = true;
    thread.call = guest_.StartWorker();
    worker_runs_ = true;
    worker_queued_ = false;
    threads_.push_back(thread);
  }

  bool Shrinking() const {
    return std::any_of(threads_.begin(), threads_.end(), [](const Thread& thread) { return thread.shrink; });
  }

  // One action of one thread that can go on. The number of calls it ended (0 or 1).
  int StepSomebody() {
    ++clock_;
    if (worker_queued_ && !worker_runs_ && clock_ >= worker_due_) StartWorker();
    std::vector<std::size_t> able;
    std::vector<std::size_t> asleep;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      if (thread.doing == Doing::kRunning) able.push_back(i);
      if (thread.doing == Doing::kMessage || thread.doing == Doing::kDelayed) {
        (clock_ >= thread.until ? able : asleep).push_back(i);
      }
    }
    if (able.empty()) {
      if (!asleep.empty() || (worker_queued_ && !worker_runs_)) return 0;  // time passes
      std::string text = "deadlock:";
      for (const Thread& thread : threads_) {
        text += " " + std::to_string(thread.id) + (thread.worker ? "w" : "") + ":" +
                std::to_string(static_cast<int>(thread.doing)) + "/" +
                std::to_string(static_cast<int>(thread.action.lock));
      }
      Fault(text);
      return 0;
    }
    Thread& thread = threads_[able[Below(static_cast<std::uint32_t>(able.size()))]];
    if (thread.doing == Doing::kMessage) Answered(thread);
    thread.doing = Doing::kRunning;
    thread.action = guest_.Next(thread.call, std::exchange(thread.answer, 0), std::exchange(thread.lost, false));
    return Carry(thread);
  }

  int Carry(Thread& thread) {
    const Action& action = thread.action;
    switch (action.step) {
      case Step::kLock: return Acquire(thread), 0;
      case Step::kUnlock: return Release(thread), 0;
      case Step::kSetup:
        Expect(window_.state(action.slot) == SlotState::kMapping, "set-up of a slot that is not being mapped");
        Send(thread);
        if (++setups_[action.file] > 1) Fault("two set-ups in flight for one inode");
        return 0;
      case Step::kUpgrade:
        Expect(window_.state(action.slot) == SlotState::kUpgrading && window_.pins(action.slot) > 0,
               "upgrade of a slot that is not being upgraded");
        Expect(action.exclusive, "upgrade for reading");
        Send(thread);
        if (++setups_[action.file] > 1) Fault("two set-ups in flight for one inode");
        return 0;
      case Step::kRemove: {
        ++removes_;
        SlotId slot = action.slot;
        for (std::uint32_t i = 0; i < action.count; ++i) {
          Expect(window_.state(slot) == SlotState::kReclaiming && window_.pins(slot) == 0,
                 "removal of a slot that is not being reclaimed");
          if (action.count > 1) slot = guest_.NextInBatch(slot);
        }
        if (!thread.eviction && action.cause != Cause::kEvicted && !window_.doomed(action.slot)) {
          Expect(Holds(thread, {Lock::kDax, action.file, 0}, true), "removal without the semaphore");
        }
        thread.doing = Doing::kMessage;
        thread.until = clock_ + 1 + Below(30);
        return 0;
      }
      case Step::kZap:
        // A shrunk range cannot be found any more, so it needs no lock.
        Expect(window_.doomed(action.slot) || Holds(thread, {Lock::kInvalidate, action.file, 0}, true),
               "zap without the invalidate lock");
        Expect(thread.call.victim_key().file == action.file, "zap of another file's range");
        return 0;
      case Step::kUse: {
        Expect(window_.pins(action.slot) > 0, "use without a pin");
        Expect(window_.key(action.slot) == thread.call.key(), "use of another range");
        const SlotState state = window_.state(action.slot);
        Expect(state == SlotState::kMapped || state == SlotState::kUpgrading, "use of a slot that is not mapped");
        Expect(!IsWrite(thread.call.touch().op) || window_.writable(action.slot), "write through a read-only range");
        Expect(Holds(thread, {thread.fault ? Lock::kInvalidate : Lock::kInode, action.file, 0},
                     !thread.fault && IsWrite(thread.call.touch().op)),
               "use without the outer lock");
        thread.doing = Doing::kDelayed;
        thread.until = clock_ + Below(20);
        return 0;
      }
      case Step::kUseDirect:
        thread.doing = Doing::kDelayed;
        thread.until = clock_ + Below(20);
        return 0;
      case Step::kWaitForRange:
        ++waits_;
        Expect(window_.free_slots() == 0, "sleep although a range is free");
        Expect(action.exclusive == !thread.fault, "faults wait together, calls one at a time");
        for (const auto& [lock, exclusive] : thread.held) {
          Expect(!thread.fault && lock.lock == Lock::kInode, "sleep with a lock that reclaim may need");
        }
        if (!thread.fault && Below(200) == 0) {  // killed
          thread.answer = -4;
          return 0;
        }
        thread.doing = Doing::kWaiting;
        waiters_.push_back(thread.id);
        return 0;
      case Step::kFreed:
        Expect(action.wake == (window_.state(action.slot) == SlotState::kFree), "waking for a range that is not free");
        Expect(action.cause != Cause::kShrunk || plan_.resizes, "shrunk without a shrink");
        Expect(!thread.shrink || action.cause == Cause::kShrunk, "shrunk for another cause");
        shrunk_ += action.cause == Cause::kShrunk;
        if (action.wake) Wake();
        return 0;
      case Step::kKickWorker:
        Expect(!worker_queued_, "the worker is queued twice");
        worker_queued_ = true;
        worker_due_ = clock_ + (action.delay_ns == 0 ? 1 : 40);
        return 0;
      case Step::kTryAgain:
        thread.doing = Doing::kDelayed;
        thread.until = clock_ + 1 + Below(4);
        return 0;
      case Step::kDone: {
        Expect(thread.held.empty(), "done with a lock held");
        Expect(plan_.errors_percent > 0 || action.error == 0 || action.error == -4, "an error out of nowhere");
        const bool counts = !thread.worker && !thread.shrink;
        if (thread.worker) worker_runs_ = false;
        std::swap(thread, threads_.back());
        threads_.pop_back();
        return counts ? 1 : 0;
      }
    }
    return 0;
  }

  void Expect(bool holds, const char* what) {
    if (!holds) Fault(what);
  }
  void Send(Thread& thread) {
    Expect(Holds(thread, {Lock::kDax, thread.action.file, 0}, true), "set-up without the semaphore");
    thread.doing = Doing::kMessage;
    thread.until = clock_ + 1 + Below(30);
  }
  void Answered(Thread& thread) {
    if (thread.action.step == Step::kSetup || thread.action.step == Step::kUpgrade) --setups_[thread.action.file];
    thread.answer = static_cast<int>(Below(100)) < plan_.errors_percent ? -5 : 0;
    thread.lost = thread.action.step == Step::kUpgrade && thread.answer != 0 && Below(2) == 0;
  }

  LockName Name(const Thread& thread) const {
    const Action& action = thread.action;
    return {action.lock, action.file, action.lock == Lock::kEntry ? thread.call.key().index : 0};
  }
  static bool Holds(const Thread& thread, const LockName& name, bool exclusive) {
    return std::find(thread.held.begin(), thread.held.end(), std::pair(name, exclusive)) != thread.held.end();
  }
  void Acquire(Thread& thread) {
    const LockName name = Name(thread);
    for (const auto& [lock, exclusive] : thread.held) {
      Expect(lock != name, "a lock taken twice");
      Expect(lock.lock != Lock::kDax, "a lock taken under the semaphore");
    }
    thread.doing = Doing::kLocking;
    locks_[name].waiters.emplace_back(thread.id, thread.action.exclusive);
    Grant(name);
  }
  void Release(Thread& thread) {
    const LockName name = Name(thread);
    const auto at = std::find(thread.held.begin(), thread.held.end(), std::pair(name, thread.action.exclusive));
    if (at == thread.held.end()) return Fault("a lock released that was not taken so");
    thread.held.erase(at);
    LockState& lock = locks_[name];
    if (thread.action.exclusive) {
      lock.exclusive = -1;
    } else {
      std::erase(lock.shared, thread.id);
    }
    Grant(name);
  }
  // Readers share; a writer is alone. In order of arrival, or any of those that can have it.
  void Grant(const LockName& name) {
    LockState& lock = locks_[name];
    for (;;) {
      std::vector<std::size_t> able;
      for (std::size_t i = 0; i < lock.waiters.size(); ++i) {
        const bool exclusive = lock.waiters[i].second;
        if (lock.exclusive < 0 && (!exclusive || lock.shared.empty())) able.push_back(i);
        if (plan_.fifo_locks) break;
      }
      if (able.empty()) break;
      const std::size_t chosen = able[Below(static_cast<std::uint32_t>(able.size()))];
      const auto [id, exclusive] = lock.waiters[chosen];
      lock.waiters.erase(lock.waiters.begin() + static_cast<std::ptrdiff_t>(chosen));
      if (exclusive) {
        lock.exclusive = id;
      } else {
        lock.shared.push_back(id);
      }
      Thread* thread = Find(id);
      thread->held.emplace_back(name, exclusive);
      thread->doing = Doing::kRunning;
    }
    if (lock.exclusive < 0 && lock.shared.empty() && lock.waiters.empty()) locks_.erase(name);
  }
  // All faults, and the first call.
  void Wake() {
    bool call_woken = false;
    std::vector<int> still;
    for (const int id : waiters_) {
      Thread* thread = Find(id);
      if (thread->fault || !call_woken) {
        call_woken = call_woken || !thread->fault;
        thread->doing = Doing::kRunning;
      } else {
        still.push_back(id);
      }
    }
    waiters_ = still;
  }

  void Resize() {
    const std::uint32_t by = Below(3);
    const std::uint32_t free = window_.free_slots();
    if (Below(2) == 0 && by <= window_.capacity() - window_.size()) {
      Expect(window_.Grow(by).ok(), "grow");
    } else if (by > 0 && window_.size() > by + 2 && !Shrinking()) {
      Thread thread;
      thread.id = next_id_++;
      thread.call = guest_.StartShrink(by);
      thread.shrink = true;
      threads_.push_back(thread);
    }
    for (std::uint32_t i = free; i < window_.free_slots(); ++i) Wake();
  }

  void Check() {
    const absl::Status status = window_.CheckInvariants();
    if (!status.ok()) return Fault(std::string(status.message()));
    std::uint32_t counts[7] = {};
    for (std::uint32_t i = 0; i < window_.capacity(); ++i) ++counts[static_cast<int>(window_.state(SlotId{i}))];
    const auto count = [&](SlotState state) { return counts[static_cast<int>(state)]; };
    Expect(count(SlotState::kFree) == window_.free_slots(), "free slots miscounted");
    // What is taken is in somebody's hands, and what is in flight has somebody waiting for it.
    Expect(count(SlotState::kTaken) <= threads_.size(), "slots taken by nobody");
    std::uint32_t in_flight = 0;
    for (const Thread& thread : threads_) {
      const Step step = thread.action.step;
      if (thread.doing == Doing::kMessage && (step == Step::kSetup || step == Step::kUpgrade)) ++in_flight;
    }
    Expect(count(SlotState::kMapping) + count(SlotState::kUpgrading) == in_flight, "slots in flight miscounted");
  }

  Plan plan_;
  std::mt19937 random_;
  Win window_;
  Guest<Win> guest_;
  std::vector<Thread> threads_;
  std::map<LockName, LockState> locks_;
  std::map<FileId, int> setups_;  // in flight
  std::vector<int> waiters_;
  bool worker_queued_ = false;
  bool worker_runs_ = false;
  std::int64_t worker_due_ = 0;
  std::int64_t clock_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t removes_ = 0;
  std::int64_t shrunk_ = 0;
  int next_id_ = 0;
  std::string fault_;
};

template <class Policy>
class GuestScheduleTest : public testing::Test {
 protected:
  static int Seeds(int usually) {
    const char* full = std::getenv("DAXCACHE_FULL");
    return full != nullptr && *full == '1' ? 20 * usually : usually;
  }
  // Every combination of lock order, errors, evictions and resizing.
  static void Run(const Plan& base, int seeds) {
    std::int64_t waits = 0;
    std::int64_t removes = 0;
    std::int64_t shrunk = 0;
    for (int shape = 0; shape < 16; ++shape) {
      Plan plan = base;
      plan.fifo_locks = shape & 1;
      plan.errors_percent = shape & 2 ? 10 : 0;
      plan.evictions = shape & 4;
      plan.resizes = shape & 8;
      if (plan.resizes) plan.max_slots = plan.slots + 6;
      for (int seed = 0; seed < Seeds(seeds); ++seed) {
        Scheduler<Window<Watched<Policy>>> scheduler(plan, static_cast<std::uint32_t>(seed * 16 + shape));
        scheduler.Run();
        ASSERT_EQ(scheduler.fault(), "") << "seed " << seed << " shape " << shape;
        waits += scheduler.waits();
        removes += scheduler.removes();
        shrunk += scheduler.shrunk();
      }
    }
    waits_ += waits;
    EXPECT_GT(shrunk, 0);
    EXPECT_TRUE(removes > 0 || !base.options.send_remove);
  }
  static inline std::int64_t waits_ = 0;
};
using Policies = testing::Types<LinuxPolicy<HashIndex>, LruPolicy<HashIndex>, FifoPolicy<HashIndex>>;
TYPED_TEST_SUITE(GuestScheduleTest, Policies);

TYPED_TEST(GuestScheduleTest, LinuxMechanics) {
  this->Run({.options = ReclaimOptions::Linux()}, 6);
  EXPECT_GT(this->waits_, 0);
}
TYPED_TEST(GuestScheduleTest, LinuxMechanicsAlmostNoRanges) {
  this->Run({.options = ReclaimOptions::Linux(), .slots = 2, .max_slots = 2}, 6);
}
TYPED_TEST(GuestScheduleTest, LinuxMechanicsOneFile) {
  this->Run({.options = ReclaimOptions::Linux(), .slots = 4, .max_slots = 4, .files = 1, .ranges = 9}, 6);
}
TYPED_TEST(GuestScheduleTest, Demand) {
  this->Run({.options = ReclaimOptions::Demand()}, 6);
}
TYPED_TEST(GuestScheduleTest, DemandAlmostNoRanges) {
  this->Run({.options = ReclaimOptions::Demand(), .slots = 2, .max_slots = 2, .at_once = 20}, 6);
}
TYPED_TEST(GuestScheduleTest, FaultsReclaimToo) {
  Plan plan;
  plan.options.faults = InlineReclaim::kOwnFile;
  this->Run(plan, 4);
  plan.options.faults = InlineReclaim::kAnyFile;
  this->Run(plan, 4);
}
TYPED_TEST(GuestScheduleTest, OnlyTheWorkerReclaims) {
  Plan plan;
  plan.options.calls = InlineReclaim::kNever;
  this->Run(plan, 4);
}
TYPED_TEST(GuestScheduleTest, NoRemovals) {
  Plan plan;
  plan.options.send_remove = false;
  this->Run(plan, 4);
  plan.options = ReclaimOptions::Demand();
  plan.options.send_remove = false;
  this->Run(plan, 4);
}

}  // namespace
}  // namespace daxcache
