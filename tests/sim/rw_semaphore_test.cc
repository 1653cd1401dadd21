// Who gets a semaphore when: each rule of rw_semaphore.h by itself, and random traffic in which nobody is forgotten and
// writers are alone.
#include "daxcache/sim/rw_semaphore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class RwSemaphoreTest : public ::testing::Test {
 protected:
  using Woken = std::vector<std::pair<std::uint32_t, LockWake>>;

  bool Read(std::uint32_t task, std::int64_t now = 0) { return lock_.Acquire(task, false, now, waiters_); }
  bool Write(std::uint32_t task, std::int64_t now = 0) { return lock_.Acquire(task, true, now, waiters_); }
  Woken Release(bool exclusive, std::int64_t now = 0) {
    Woken woken;
    lock_.Release(exclusive, now, waiters_, [&](std::uint32_t task, LockWake how) { woken.emplace_back(task, how); });
    return woken;
  }
  bool Retry(std::uint32_t task, std::int64_t now = 0) { return lock_.Retry(task, now, waiters_); }

  struct Waiters {
    std::vector<LockWaiter>* all;
    LockWaiter& operator()(std::uint32_t task) const { return (*all)[task]; }
  };
  std::vector<LockWaiter> all_ = std::vector<LockWaiter>(64);
  Waiters waiters_{&all_};
  RwSemaphore lock_;
};

TEST_F(RwSemaphoreTest, ReadersShareIt) {
  EXPECT_TRUE(Read(1));
  EXPECT_TRUE(Read(2));
  EXPECT_TRUE(lock_.held());
  EXPECT_THAT(Release(false), IsEmpty());
  EXPECT_THAT(Release(false), IsEmpty());
  EXPECT_FALSE(lock_.held());
  EXPECT_TRUE(Write(3));
}

TEST_F(RwSemaphoreTest, AReleaseGivesItToAllReadersInLineAndPassesWritersBy) {
  ASSERT_TRUE(Write(1));
  EXPECT_FALSE(Read(2));
  EXPECT_FALSE(Write(3));
  EXPECT_FALSE(Read(4));
  EXPECT_THAT(Release(true), ElementsAre(Pair(2u, LockWake::kGranted), Pair(4u, LockWake::kGranted)));
  EXPECT_FALSE(Read(5)) << "a writer waits in line";
  EXPECT_THAT(Release(false), IsEmpty());
  EXPECT_THAT(Release(false), ElementsAre(Pair(3u, LockWake::kRetry)));
  EXPECT_TRUE(Retry(3));
  EXPECT_THAT(Release(true), ElementsAre(Pair(5u, LockWake::kGranted)));
}

TEST_F(RwSemaphoreTest, AWriterStealsItFromOneThatWakesUp) {
  ASSERT_TRUE(Write(1));
  EXPECT_FALSE(Write(2));
  EXPECT_THAT(Release(true), ElementsAre(Pair(2u, LockWake::kRetry)));
  EXPECT_TRUE(Write(1)) << "nobody holds it";
  EXPECT_FALSE(Retry(2));
  EXPECT_THAT(Release(true), ElementsAre(Pair(2u, LockWake::kRetry)));
  EXPECT_TRUE(Retry(2));
}

TEST_F(RwSemaphoreTest, AfterFourMillisecondsStealingEnds) {
  ASSERT_TRUE(Write(1, 0));
  EXPECT_FALSE(Write(2, 0));
  (void)Release(true, RwSemaphore::kHandOffAfterNs);
  EXPECT_TRUE(Write(1, RwSemaphore::kHandOffAfterNs));
  EXPECT_FALSE(Retry(2, RwSemaphore::kHandOffAfterNs + 1));
  EXPECT_THAT(Release(true), ElementsAre(Pair(2u, LockWake::kRetry)));
  EXPECT_FALSE(Write(1)) << "handed off to 2";
  EXPECT_TRUE(Retry(2));
}

TEST_F(RwSemaphoreTest, AWriterSpinsOnReadersAndGoesOnAtOnce) {
  ASSERT_TRUE(Read(1));
  EXPECT_FALSE(Write(2, 0));
  EXPECT_THAT(Release(false, RwSemaphore::kSpinNs), ElementsAre(Pair(2u, LockWake::kSpinning)));
  EXPECT_TRUE(lock_.held());
}

TEST_F(RwSemaphoreTest, AWriterThatHasSpunTooLongSleeps) {
  ASSERT_TRUE(Read(1));
  EXPECT_FALSE(Write(2, 0));
  EXPECT_THAT(Release(false, RwSemaphore::kSpinNs + 1), ElementsAre(Pair(2u, LockWake::kRetry)));
  EXPECT_FALSE(lock_.held());
  EXPECT_TRUE(Retry(2));
}

// Tasks that take it, hold it for a while and come again, in virtual time: a writer is always alone, nobody waits for
// ever, and in the end it is free.
TEST_F(RwSemaphoreTest, RandomTraffic) {
  std::mt19937_64 random(7);
  struct Event {
    std::int64_t time;
    std::uint32_t task;
    bool operator<(const Event& other) const { return time != other.time ? time > other.time : task > other.task; }
  };
  enum class Phase { kOutside, kInside, kAsleep, kRetries };
  std::priority_queue<Event> events;
  std::vector<Phase> phases(16, Phase::kOutside);
  std::vector<bool> exclusive(16);
  std::vector<int> times(16);
  int inside = 0;
  bool writer_inside = false;
  const auto enter = [&](std::uint32_t task) {
    phases[task] = Phase::kInside;
    ++inside;
    writer_inside = writer_inside || exclusive[task];
    ASSERT_TRUE(inside == 1 || !writer_inside);
  };
  for (std::uint32_t task = 0; task < 16; ++task) events.push({static_cast<std::int64_t>(random() % 1000), task});
  while (!events.empty()) {
    const std::int64_t now = events.top().time;
    const std::uint32_t task = events.top().task;
    events.pop();
    const auto later = [&] { events.push({now + 1 + static_cast<std::int64_t>(random() % 100'000), task}); };
    switch (phases[task]) {
      case Phase::kOutside:
        if (++times[task] > 500) break;
        exclusive[task] = random() % 3 == 0;
        if (lock_.Acquire(task, exclusive[task], now, waiters_)) {
          enter(task);
          later();
        } else {
          phases[task] = Phase::kAsleep;
        }
        break;
      case Phase::kRetries:
        if (Retry(task, now)) {
          enter(task);
          later();
        } else {
          phases[task] = Phase::kAsleep;
        }
        break;
      case Phase::kInside:
        --inside;
        writer_inside = false;
        phases[task] = Phase::kOutside;
        for (const auto& [other, how] : Release(exclusive[task], now)) {
          ASSERT_EQ(phases[other], Phase::kAsleep);
          if (how == LockWake::kRetry) {
            phases[other] = Phase::kRetries;
          } else {
            enter(other);
          }
          events.push({now + (how == LockWake::kSpinning ? 0 : static_cast<std::int64_t>(random() % 50'000)), other});
        }
        later();
        break;
      case Phase::kAsleep: FAIL() << "task " << task << " runs and was not woken";
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(inside, 0);
  EXPECT_FALSE(lock_.held());
  EXPECT_FALSE(lock_.contended());
  for (std::uint32_t task = 0; task < 16; ++task) EXPECT_EQ(times[task], 501) << task;
}

}  // namespace
}  // namespace daxcache
