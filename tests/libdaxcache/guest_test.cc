// The guest's protocol, step by step: the exact sequence of locks, messages and wake-ups of fs/fuse/dax.c (6.1) for
// each kind of access, eviction and worker run, and what changes under other mechanics.
#include "daxcache/guest.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libdaxcache/window_fixture.h"

namespace daxcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_::At;
using testing_::Read;
using testing_::Write;

// An action in a few words: "lock dax:3 x", "setup 5 write", "freed 2 background wake".
std::string Text(const Action& action) {
  constexpr const char* kLocks[] = {"inode", "invalidate", "entry", "dax"};
  const std::string lock =
      absl::StrCat(kLocks[static_cast<int>(action.lock)], ":", ToIndex(action.file), action.exclusive ? " x" : " s");
  const std::string slot = absl::StrCat(ToIndex(action.slot));
  constexpr const char* kCauses[] = {"unused", "background", "inline", "evicted", "shrunk"};
  switch (action.step) {
    case Step::kLock: return "lock " + lock;
    case Step::kUnlock: return "unlock " + lock;
    case Step::kSetup: return absl::StrCat("setup ", slot, action.exclusive ? " write" : " read");
    case Step::kUpgrade: return absl::StrCat("upgrade ", slot, action.exclusive ? " write" : " read");
    case Step::kRemove: return absl::StrCat("remove ", slot, " of ", action.count);
    case Step::kZap: return absl::StrCat("zap ", slot);
    case Step::kUse: return absl::StrCat("use ", slot);
    case Step::kUseDirect: return "direct";
    case Step::kWaitForRange: return absl::StrCat("wait", action.exclusive ? " x" : " s");
    case Step::kFreed:
      return absl::StrCat("freed ", slot, " ", kCauses[static_cast<int>(action.cause)], action.wake ? " wake" : "");
    case Step::kKickWorker: return absl::StrCat("kick ", action.delay_ns);
    case Step::kTryAgain: return "again";
    case Step::kDone: return absl::StrCat("done ", action.error);
  }
  return "?";
}

class GuestTest : public testing::Test {
 protected:
  using Win = Window<LinuxPolicy<HashIndex>>;
  using Call = Guest<Win>::Call;
  using Answer = std::function<int(const Action&)>;
  using Steps = std::vector<std::string>;

  // No worker unless a test asks for one: its kicks would stand in every sequence.
  static ReclaimOptions Quiet() {
    ReclaimOptions options;
    options.threshold_percent = 0;
    return options;
  }
  void Make(std::uint32_t slots, const ReclaimOptions& options) {
    window_.emplace(HashIndex::Space{}, WindowOptions{.slots = slots, .max_slots = slots},
                    LinuxPolicy<HashIndex>::Options{});
    guest_.emplace(*window_, options);
  }
  void TearDown() override {
    if (window_) {
      EXPECT_EQ(window_->CheckInvariants(), absl::OkStatus());
    }
  }

  // Goes on with a call until it is done, or until `stop` (which is the last of the steps told).
  Steps Continue(Call& call, const std::string& stop = "", const Answer& answer = {}, int error = 0) {
    Steps steps;
    for (int i = 0; i < 10000; ++i) {
      const Action action = guest_->Next(call, error);
      steps.push_back(Text(action));
      if (action.step == Step::kDone || steps.back() == stop) return steps;
      error = answer ? answer(action) : 0;
    }
    ADD_FAILURE() << "the call does not end";
    return steps;
  }
  Steps Run(Call call, const Answer& answer = {}) { return Continue(call, "", answer); }
  Call ReadAt(std::uint32_t file, std::uint64_t index) {
    return guest_->StartCall(At(file, index), Read(FileId{file}));
  }
  Call WriteAt(std::uint32_t file, std::uint64_t index) {
    return guest_->StartCall(At(file, index), Write(FileId{file}));
  }
  Call FaultAt(std::uint32_t file, std::uint64_t index, bool write = false) {
    return guest_->StartFault(At(file, index),
                              {.file = FileId{file}, .op = write ? Op::kMappedWrite : Op::kMappedRead});
  }
  // Maps ranges without looking at the steps.
  void Map(std::uint32_t file, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t index = first; index <= last; ++index) Run(ReadAt(file, index));
  }
  static Answer Fail(Step step, int error) {
    return [=](const Action& action) { return action.step == step ? error : 0; };
  }

  std::optional<Win> window_;
  std::optional<Guest<Win>> guest_;
};

// --- hits and misses
// --------------------------------------------------------------------------------------------------

TEST_F(GuestTest, ReadMiss) {
  Make(4, Quiet());
  EXPECT_THAT(Run(ReadAt(7, 0)),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s",  // not there
                          "lock dax:7 x", "setup 0 read", "unlock dax:7 x", "use 0", "unlock inode:7 s", "done 0"));
  EXPECT_FALSE(window_->writable(SlotId{0}));
  EXPECT_FALSE(window_->dirty(SlotId{0}));
  EXPECT_EQ(window_->pins(SlotId{0}), 0u);
}

TEST_F(GuestTest, ReadHit) {
  Make(4, Quiet());
  Map(7, 0, 0);
  EXPECT_THAT(Run(ReadAt(7, 0)),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s", "use 0", "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, WriteMissAndHit) {
  Make(4, Quiet());
  EXPECT_THAT(Run(WriteAt(7, 0)),
              ElementsAre("lock inode:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 0 write",
                          "unlock dax:7 x", "use 0", "unlock inode:7 x", "done 0"));
  EXPECT_TRUE(window_->dirty(SlotId{0}));
  EXPECT_THAT(Run(WriteAt(7, 0)),
              ElementsAre("lock inode:7 x", "lock dax:7 s", "unlock dax:7 s", "use 0", "unlock inode:7 x", "done 0"));
}

TEST_F(GuestTest, FaultMissAndHit) {
  Make(4, Quiet());
  EXPECT_THAT(Run(FaultAt(7, 0)), ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s",
                                              "lock dax:7 x", "setup 0 read", "unlock dax:7 x", "use 0",
                                              "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
  EXPECT_THAT(Run(FaultAt(7, 0)), ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s",
                                              "use 0", "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
}

TEST_F(GuestTest, TheRangeIsPinnedWhileItIsUsed) {
  Make(4, Quiet());
  Call call = ReadAt(7, 0);
  Continue(call, "use 0");
  EXPECT_EQ(window_->pins(SlotId{0}), 1u);
  EXPECT_EQ(call.slot(), SlotId{0});
  Continue(call);
  EXPECT_EQ(window_->pins(SlotId{0}), 0u);
}

TEST_F(GuestTest, AnAccessOfSeveralRanges) {
  Make(4, Quiet());
  Map(7, 1, 1);
  EXPECT_THAT(Run(guest_->StartCall(At(7, 0), Read(FileId{7}), 3)),
              ElementsAre("lock inode:7 s",  //
                          "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 1 read", "unlock dax:7 x", "use 1",
                          "lock dax:7 s", "unlock dax:7 s", "use 0",  //
                          "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 2 read", "unlock dax:7 x", "use 2",
                          "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, AWriteThatExtendsItsFileKeepsOut) {
  Make(4, Quiet());
  Map(7, 0, 0);
  EXPECT_THAT(Run(guest_->StartCall(At(7, 0), Write(FileId{7}), 2, true)),
              ElementsAre("lock inode:7 x", "direct", "unlock inode:7 x", "done 0"));
  EXPECT_FALSE(window_->dirty(SlotId{0}));
  EXPECT_EQ(window_->mapped_slots(), 1u);
}

// --- upgrades
// ---------------------------------------------------------------------------------------------------------

TEST_F(GuestTest, AWriteUpgradesAReadOnlyRange) {
  Make(4, Quiet());
  Map(7, 0, 0);
  EXPECT_THAT(Run(WriteAt(7, 0)),
              ElementsAre("lock inode:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "upgrade 0 write",
                          "unlock dax:7 x", "use 0", "unlock inode:7 x", "done 0"));
  EXPECT_TRUE(window_->writable(SlotId{0}));
  EXPECT_TRUE(window_->dirty(SlotId{0}));
}

TEST_F(GuestTest, AFaultUpgradesToo) {
  Make(4, Quiet());
  Map(7, 0, 0);
  EXPECT_THAT(
      Run(FaultAt(7, 0, true)),
      ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x",
                  "upgrade 0 write", "unlock dax:7 x", "use 0", "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
}

TEST_F(GuestTest, AFailedUpgradeEndsTheCallAndLeavesTheRange) {
  Make(4, Quiet());
  Map(7, 0, 0);
  EXPECT_THAT(Run(WriteAt(7, 0), Fail(Step::kUpgrade, -12)),
              ElementsAre("lock inode:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "upgrade 0 write",
                          "unlock dax:7 x", "unlock inode:7 x", "done -12"));
  EXPECT_EQ(window_->state(SlotId{0}), SlotState::kMapped);
  EXPECT_FALSE(window_->writable(SlotId{0}));
  EXPECT_FALSE(window_->dirty(SlotId{0}));
  EXPECT_EQ(window_->pins(SlotId{0}), 0u);
}

TEST_F(GuestTest, AnUpgradeThatLosesTheMappingEndsTheCallAndTheRange) {
  Make(4, Quiet());
  Map(7, 0, 0);
  Call call = WriteAt(7, 0);
  Continue(call, "upgrade 0 write");
  Steps steps;
  for (Action action = guest_->Next(call, -12, true);; action = guest_->Next(call)) {
    steps.push_back(Text(action));
    if (action.step == Step::kDone) break;
  }
  // Readers may still have it in their page tables; the host has nothing left to remove.
  EXPECT_THAT(steps, ElementsAre("unlock dax:7 x", "zap 0", "freed 0 evicted wake", "unlock inode:7 x", "done -12"));
  EXPECT_EQ(call.victim_key(), At(7, 0));
  EXPECT_EQ(window_->Find(At(7, 0)), kNoSlot);
  EXPECT_EQ(window_->free_slots(), 4u);
}

TEST_F(GuestTest, AnUpgradeThatLosesAMappingInUseFreesItAtTheLastUse) {
  Make(4, Quiet());
  Map(7, 0, 0);
  Call reader = FaultAt(7, 0);
  Continue(reader, "use 0");
  Call waits = FaultAt(7, 0, true);  // wants to upgrade too
  Continue(waits, "lock dax:7 x");
  Call call = FaultAt(7, 0, true);
  Continue(call, "upgrade 0 write");
  EXPECT_EQ(Text(guest_->Next(call, -12, true)), "unlock dax:7 x");
  EXPECT_THAT(Continue(call), ElementsAre("unlock entry:7 x", "unlock invalidate:7 s", "done -12"));
  EXPECT_EQ(window_->Find(At(7, 0)), kNoSlot);
  // Whoever waited for the upgrade maps the range anew.
  EXPECT_THAT(Continue(waits),
              ElementsAre("unlock dax:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 1 write",
                          "unlock dax:7 x", "use 1", "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
  EXPECT_THAT(Continue(reader),
              ElementsAre("zap 0", "freed 0 evicted wake", "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
  EXPECT_EQ(window_->Find(At(7, 0)), SlotId{1});
  EXPECT_EQ(window_->free_slots(), 3u);
}

TEST_F(GuestTest, OnlyAFailedUpgradeLosesAMapping) {
  Make(4, Quiet());
  Map(7, 0, 0);
  Call call = WriteAt(7, 0);
  Continue(call, "upgrade 0 write");
  EXPECT_EQ(Text(guest_->Next(call, 0, true)), "unlock dax:7 x");
  EXPECT_THAT(Continue(call), ElementsAre("use 0", "unlock inode:7 x", "done 0"));
  EXPECT_TRUE(window_->writable(SlotId{0}));
}

TEST_F(GuestTest, TwoWantToUpgradeOneDoes) {
  Make(4, Quiet());
  Map(7, 0, 0);
  Call a = FaultAt(7, 0, true);
  Call b = WriteAt(7, 0);
  Continue(a, "lock dax:7 x");
  Continue(b, "lock dax:7 x");
  EXPECT_EQ(window_->pins(SlotId{0}), 2u);  // it stays while the semaphore is let go
  EXPECT_THAT(Continue(a), ElementsAre("upgrade 0 write", "unlock dax:7 x", "use 0", "unlock entry:7 x",
                                       "unlock invalidate:7 s", "done 0"));
  EXPECT_THAT(Continue(b), ElementsAre("unlock dax:7 x", "use 0", "unlock inode:7 x", "done 0"));
}

// --- races and errors of set-ups
// --------------------------------------------------------------------------------------

TEST_F(GuestTest, ARacerGivesItsRangeBackToTheTail) {
  Make(4, Quiet());
  Call a = ReadAt(7, 0);
  Call b = ReadAt(7, 0);
  Continue(a, "lock dax:7 x");
  Continue(b, "lock dax:7 x");
  EXPECT_EQ(window_->free_slots(), 2u);  // n racers cut the free list by n for a while
  Continue(a);
  EXPECT_THAT(Continue(b), ElementsAre("freed 1 unused wake", "unlock dax:7 x", "use 0", "unlock inode:7 s", "done 0"));
  EXPECT_EQ(window_->free_slots(), 3u);
  EXPECT_EQ(window_->Take(), SlotId{2});
  EXPECT_EQ(window_->Take(), SlotId{3});
  EXPECT_EQ(window_->Take(), SlotId{1});
  for (const std::uint32_t slot : {1u, 2u, 3u}) window_->Return(SlotId{slot});
}

TEST_F(GuestTest, AFailedSetupGivesTheRangeBackAndEndsTheCall) {
  Make(4, Quiet());
  EXPECT_THAT(Run(guest_->StartCall(At(7, 0), Read(FileId{7}), 3), Fail(Step::kSetup, -5)),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 0 read",
                          "freed 0 unused wake", "unlock dax:7 x", "unlock inode:7 s", "done -5"));
  EXPECT_EQ(window_->free_slots(), 4u);
  EXPECT_THAT(Run(FaultAt(7, 0), Fail(Step::kSetup, -12)),
              ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x",
                          "setup 1 read", "freed 1 unused wake", "unlock dax:7 x", "unlock entry:7 x",
                          "unlock invalidate:7 s", "done -12"));
  EXPECT_EQ(window_->free_slots(), 4u);
}

// --- nothing free
// -----------------------------------------------------------------------------------------------------

TEST_F(GuestTest, AFaultWithNothingFreeWaitsAndBeginsAnew) {
  Make(2, Quiet());
  Map(1, 0, 1);
  Call call = FaultAt(7, 0);
  EXPECT_THAT(Continue(call, "wait s"),
              ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s", "unlock entry:7 x",
                          "unlock invalidate:7 s", "wait s"));
  Run(guest_->StartEviction(FileId{1}));
  EXPECT_THAT(Continue(call), ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s",
                                          "lock dax:7 x", "setup 1 read", "unlock dax:7 x", "use 1", "unlock entry:7 x",
                                          "unlock invalidate:7 s", "done 0"));
}

TEST_F(GuestTest, AFaultThatWakesForNothingSleepsAgain) {
  Make(1, Quiet());
  Map(1, 0, 0);
  Call call = FaultAt(7, 0);
  Continue(call, "wait s");
  EXPECT_THAT(Continue(call, "wait s"),
              ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s", "unlock entry:7 x",
                          "unlock invalidate:7 s", "wait s"));
}

TEST_F(GuestTest, AFaultDoesNotSleepIfARangeWasFreedMeanwhile) {
  Make(1, Quiet());
  Map(1, 0, 0);
  Call call = FaultAt(7, 0);
  Continue(call, "unlock entry:7 x");
  Run(guest_->StartEviction(FileId{1}));
  const Steps steps = Continue(call);
  EXPECT_THAT(steps, testing::Not(testing::Contains("wait s")));
  EXPECT_EQ(steps.back(), "done 0");
}

TEST_F(GuestTest, ACallWithNothingFreeTakesTheLowestOffsetOfItsOwnFile) {
  Make(3, Quiet());
  Map(1, 0, 0);
  Map(7, 6, 6);
  Map(7, 4, 4);
  // The range reclaimed inline is used directly and wakes nobody.
  EXPECT_THAT(Run(ReadAt(7, 9)),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s",  //
                          "lock invalidate:7 x", "lock dax:7 s", "unlock dax:7 s", "zap 2", "lock dax:7 x", "zap 2",
                          "remove 2 of 1", "freed 2 inline", "unlock dax:7 x", "unlock invalidate:7 x",  //
                          "lock dax:7 x", "setup 2 read", "unlock dax:7 x", "use 2", "unlock inode:7 s", "done 0"));
  EXPECT_EQ(window_->Find(At(7, 4)), kNoSlot);
  EXPECT_NE(window_->Find(At(7, 6)), kNoSlot);
  EXPECT_NE(window_->Find(At(1, 0)), kNoSlot);
}

TEST_F(GuestTest, ACallWhoseFileHasNoRangesWaitsExclusively) {
  Make(2, Quiet());
  Map(1, 0, 1);
  Call call = ReadAt(7, 0);
  EXPECT_THAT(Continue(call, "wait x"),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s", "lock invalidate:7 x", "lock dax:7 s",
                          "unlock dax:7 s", "unlock invalidate:7 x", "wait x"));
  Run(guest_->StartEviction(FileId{1}));
  EXPECT_THAT(Continue(call),
              ElementsAre("lock dax:7 x", "setup 1 read", "unlock dax:7 x", "use 1", "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, AWaitingCallCanBeKilled) {
  Make(1, Quiet());
  Map(1, 0, 0);
  Call call = WriteAt(7, 0);
  Continue(call, "wait x");
  EXPECT_THAT(Continue(call, "", {}, -4), ElementsAre("unlock inode:7 x", "done -4"));
  // A fault sleeps uninterruptibly: whatever the driver says, it begins anew.
  Call fault = FaultAt(7, 0);
  Continue(fault, "wait s");
  EXPECT_EQ(Continue(fault, "wait s", {}, -4).front(), "lock invalidate:7 s");
}

TEST_F(GuestTest, ACallWhoseRangesAreAllInUseTriesAgain) {
  Make(1, Quiet());
  Call user = ReadAt(7, 0);
  Continue(user, "use 0");
  Call call = ReadAt(7, 1);
  EXPECT_THAT(Continue(call, "again"),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s", "lock invalidate:7 x", "lock dax:7 s",
                          "unlock dax:7 s", "unlock invalidate:7 x", "again"));
  EXPECT_THAT(Continue(call, "again"),
              ElementsAre("lock invalidate:7 x", "lock dax:7 s", "unlock dax:7 s", "unlock invalidate:7 x", "again"));
  Continue(user);
  EXPECT_THAT(Continue(call),
              ElementsAre("lock invalidate:7 x", "lock dax:7 s", "unlock dax:7 s", "zap 0", "lock dax:7 x", "zap 0",
                          "remove 0 of 1", "freed 0 inline", "unlock dax:7 x", "unlock invalidate:7 x", "lock dax:7 x",
                          "setup 0 read", "unlock dax:7 x", "use 0", "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, AnErrorOfAnInlineRemovalIsNotSeen) {
  Make(1, Quiet());
  Map(7, 0, 0);
  const Steps steps = Run(ReadAt(7, 1), Fail(Step::kRemove, -5));
  EXPECT_THAT(steps, testing::Contains("freed 0 inline"));
  EXPECT_EQ(steps.back(), "done 0");
  EXPECT_NE(window_->Find(At(7, 1)), kNoSlot);
}

TEST_F(GuestTest, AFailedZapEndsTheCall) {
  Make(1, Quiet());
  Map(7, 0, 0);
  for (const int fails : {1, 2}) {  // the first, under the invalidate lock; the second, under the semaphore too
    int zaps = 0;
    const Steps steps =
        Run(ReadAt(7, 1), [&](const Action& action) { return action.step == Step::kZap && ++zaps == fails ? -5 : 0; });
    EXPECT_EQ(zaps, fails);
    EXPECT_THAT((Steps{steps.end() - 3, steps.end()}),
                ElementsAre("unlock invalidate:7 x", "unlock inode:7 s", "done -5"));
    EXPECT_EQ(window_->state(SlotId{0}), SlotState::kMapped);
  }
}

TEST_F(GuestTest, AVictimThatCameIntoUseIsLeft) {
  Make(1, Quiet());
  Map(7, 0, 0);
  Call call = ReadAt(7, 1);
  Continue(call, "zap 0");
  window_->Pin(SlotId{0});  // by an access whose look-up came first
  EXPECT_THAT(Continue(call, "again"),
              ElementsAre("lock dax:7 x", "unlock dax:7 x", "unlock invalidate:7 x", "lock invalidate:7 x",
                          "lock dax:7 s", "unlock dax:7 s", "unlock invalidate:7 x", "again"));
  EXPECT_FALSE(window_->Unpin(SlotId{0}));
  EXPECT_EQ(Continue(call).back(), "done 0");
}

// --- the worker
// -------------------------------------------------------------------------------------------------------

TEST_F(GuestTest, AMissBelowTheThresholdKicksTheWorkerOnce) {
  Make(10, ReclaimOptions::Linux());  // threshold 2
  Map(1, 0, 7);
  EXPECT_EQ(window_->free_slots(), 2u);
  EXPECT_THAT(Run(ReadAt(1, 8)),
              ElementsAre("lock inode:1 s", "lock dax:1 s", "unlock dax:1 s", "kick 0", "lock dax:1 x", "setup 8 read",
                          "unlock dax:1 x", "use 8", "unlock inode:1 s", "done 0"));
  // A kick that comes while a run is pending does nothing.
  EXPECT_THAT(Run(ReadAt(1, 9)), testing::Not(testing::Contains("kick 0")));
  EXPECT_EQ(window_->free_slots(), 0u);
}

TEST_F(GuestTest, ARunFreesAChunkOfTheOldest) {
  Make(20, ReclaimOptions::Linux());
  Map(1, 0, 19);
  Call worker = guest_->StartWorker();
  Steps expected;
  for (int slot = 0; slot < 10; ++slot) {
    for (const std::string& step :
         {absl::StrCat("lock invalidate:1 x"), absl::StrCat("zap ", slot), absl::StrCat("lock dax:1 x"),
          absl::StrCat("zap ", slot), absl::StrCat("remove ", slot, " of 1"),
          absl::StrCat("freed ", slot, " background wake"), absl::StrCat("unlock dax:1 x"),
          absl::StrCat("unlock invalidate:1 x")}) {
      expected.push_back(step);
    }
  }
  expected.push_back("done 0");
  EXPECT_EQ(Continue(worker), expected);
  EXPECT_EQ(window_->free_slots(), 10u);  // more than the threshold of 4: not looked at within a run
}

TEST_F(GuestTest, StillBelowTheThresholdTheNextRunIsDelayed) {
  ReclaimOptions options;
  options.chunk = 3;
  options.delay = absl::Milliseconds(4);
  Make(50, options);  // threshold 10
  Map(1, 0, 49);
  Call worker = guest_->StartWorker();
  const Steps steps = Continue(worker);
  EXPECT_EQ(window_->free_slots(), 3u);
  EXPECT_EQ(steps[steps.size() - 2], "kick 4000000");
  // One that comes while the delayed run is pending does nothing, not even shorten the delay.
  EXPECT_THAT(Run(ReadAt(2, 0)), testing::Not(testing::Contains("kick 0")));
}

TEST_F(GuestTest, AKickDuringARunQueuesTheNextAtOnce) {
  ReclaimOptions options;
  options.chunk = 2;
  Make(50, options);
  Map(1, 0, 49);
  Call worker = guest_->StartWorker();
  Continue(worker, "freed 0 background wake");
  EXPECT_THAT(Run(ReadAt(2, 0)), testing::Contains("kick 0"));
  const Steps rest = Continue(worker);
  EXPECT_EQ(rest.back(), "done 0");
  for (const std::string& step : rest) EXPECT_FALSE(step.starts_with("kick")) << step;
}

TEST_F(GuestTest, RangesInUseOrVanishedCountAsAttempts) {
  ReclaimOptions options;
  options.chunk = 3;
  Make(10, options);
  Map(1, 0, 9);
  window_->Pin(SlotId{0});  // in use when picked: passed over, no attempt
  Call worker = guest_->StartWorker();
  EXPECT_THAT(Continue(worker, "zap 1"), ElementsAre("lock invalidate:1 x", "zap 1"));
  window_->Pin(SlotId{1});  // came into use after it was picked: an attempt
  EXPECT_THAT(Continue(worker, "lock invalidate:1 x"),
              ElementsAre("lock dax:1 x", "unlock dax:1 x", "unlock invalidate:1 x", "lock invalidate:1 x"));
  // Vanished between pick and lock: an attempt.
  window_->Invalidate(FileId{1}, 2, 2, [&](SlotId slot) { window_->CommitReclaim(slot); });
  EXPECT_THAT(Continue(worker),
              ElementsAre("zap 2", "lock dax:1 x", "unlock dax:1 x", "unlock invalidate:1 x",  //
                          "lock invalidate:1 x", "zap 3", "lock dax:1 x", "zap 3", "remove 3 of 1",
                          "freed 3 background wake", "unlock dax:1 x", "unlock invalidate:1 x", "done 0"));
  EXPECT_FALSE(window_->Unpin(SlotId{0}));
  EXPECT_FALSE(window_->Unpin(SlotId{1}));
}

TEST_F(GuestTest, AFailedZapEndsTheRun) {
  Make(10, ReclaimOptions::Linux());
  Map(1, 0, 9);
  Call worker = guest_->StartWorker();
  EXPECT_THAT(Continue(worker, "", Fail(Step::kZap, -5)),
              ElementsAre("lock invalidate:1 x", "zap 0", "unlock invalidate:1 x", "kick 1000000", "done -5"));
  EXPECT_EQ(window_->state(SlotId{0}), SlotState::kMapped);
  // It was moved to the tail when it was picked: the next run begins with another.
  Call next = guest_->StartWorker();
  EXPECT_THAT(Continue(next, "zap 1"), ElementsAre("lock invalidate:1 x", "zap 1"));
  Continue(next);
}

TEST_F(GuestTest, AnErrorOfARemovalIsOnlyLogged) {
  Make(20, ReclaimOptions::Linux());
  Map(1, 0, 19);
  Call worker = guest_->StartWorker();
  EXPECT_EQ(Continue(worker, "", Fail(Step::kRemove, -5)).back(), "done 0");
  EXPECT_EQ(window_->free_slots(), 10u);
}

TEST_F(GuestTest, AWorkerWithNothingToFreeEnds) {
  Make(10, ReclaimOptions::Linux());
  EXPECT_THAT(Run(guest_->StartWorker()), ElementsAre("done 0"));
}

TEST_F(GuestTest, AWorkerTakesFromTheFileThatThePolicySays) {
  Make(4, ReclaimOptions::Linux());
  Map(3, 0, 0);
  Map(5, 0, 0);
  Call worker = guest_->StartWorker();
  EXPECT_THAT(Continue(worker),
              ElementsAre("lock invalidate:3 x", "zap 0", "lock dax:3 x", "zap 0", "remove 0 of 1",
                          "freed 0 background wake", "unlock dax:3 x", "unlock invalidate:3 x",  //
                          "lock invalidate:5 x", "zap 1", "lock dax:5 x", "zap 1", "remove 1 of 1",
                          "freed 1 background wake", "unlock dax:5 x", "unlock invalidate:5 x", "done 0"));
}

// --- evictions
// --------------------------------------------------------------------------------------------------------

TEST_F(GuestTest, AnEvictionRemovesInDescendingOrderAndFreesAtTheEnd) {
  Make(4, Quiet());
  Map(7, 2, 2);
  Map(7, 0, 0);
  Map(7, 5, 5);
  Map(1, 0, 0);
  Call call = guest_->StartEviction(FileId{7});
  const Action remove = guest_->Next(call);
  EXPECT_EQ(Text(remove), "remove 2 of 3");  // offset 5
  EXPECT_EQ(guest_->NextInBatch(SlotId{2}), SlotId{0});
  EXPECT_EQ(guest_->NextInBatch(SlotId{0}), SlotId{1});
  EXPECT_EQ(guest_->NextInBatch(SlotId{1}), kNoSlot);
  EXPECT_THAT(Continue(call),
              ElementsAre("freed 2 evicted wake", "freed 0 evicted wake", "freed 1 evicted wake", "done 0"));
  EXPECT_NE(window_->Find(At(1, 0)), kNoSlot);
}

TEST_F(GuestTest, AnEvictionOfNothing) {
  Make(4, Quiet());
  EXPECT_THAT(Run(guest_->StartEviction(FileId{7})), ElementsAre("done 0"));
}

TEST_F(GuestTest, BatchesOf256AndNoneFreeUntilAllAreAnswered) {
  Make(600, Quiet());
  Map(7, 0, 599);
  for (const int error : {0, -5}) {  // an error ends the sending; all are freed
    Call call = guest_->StartEviction(FileId{7});
    std::vector<std::uint32_t> counts;
    std::uint64_t expected = 600;
    Action action = guest_->Next(call);
    for (; action.step == Step::kRemove; action = guest_->Next(call, error)) {
      EXPECT_EQ(window_->free_slots(), 0u);
      counts.push_back(action.count);
      SlotId slot = action.slot;
      for (std::uint32_t i = 0; i < action.count; ++i, slot = guest_->NextInBatch(slot)) {
        EXPECT_EQ(window_->range(slot), At(7, --expected));
      }
    }
    if (error == 0) {
      EXPECT_THAT(counts, ElementsAre(256, 256, 88));
    } else {
      EXPECT_THAT(counts, ElementsAre(256));
    }
    int freed = 0;
    for (; action.step == Step::kFreed; action = guest_->Next(call)) {
      EXPECT_TRUE(action.wake);
      EXPECT_EQ(action.cause, Cause::kEvicted);
      EXPECT_EQ(window_->free_slots(), static_cast<std::uint32_t>(++freed));
    }
    EXPECT_EQ(Text(action), "done 0");
    EXPECT_EQ(freed, 600);
    Map(7, 0, 599);
  }
}

TEST_F(GuestTest, ExactlyOneBatch) {
  Make(256, Quiet());
  Map(7, 0, 255);
  const Steps steps = Run(guest_->StartEviction(FileId{7}));
  EXPECT_EQ(steps.size(), 1u + 256u + 1u);
  EXPECT_EQ(steps.front(), "remove 255 of 256");
}

TEST_F(GuestTest, ARangeInUseIsRemovedByItsLastUser) {
  Make(4, Quiet());
  Call a = ReadAt(7, 0);
  Continue(a, "use 0");
  Call b = FaultAt(7, 0);
  Continue(b, "use 0");
  EXPECT_THAT(Run(guest_->StartEviction(FileId{7})), ElementsAre("done 0"));
  EXPECT_THAT(Continue(a), ElementsAre("unlock inode:7 s", "done 0"));
  EXPECT_THAT(Continue(b), ElementsAre("remove 0 of 1", "freed 0 evicted wake", "unlock entry:7 x",
                                       "unlock invalidate:7 s", "done 0"));
  EXPECT_EQ(window_->free_slots(), 4u);
}

TEST_F(GuestTest, ARangeWhoseFileGoesDuringItsSetupIsUsedAndRemoved) {
  Make(4, Quiet());
  Call call = ReadAt(7, 0);
  Continue(call, "setup 0 read");
  EXPECT_THAT(Run(guest_->StartEviction(FileId{7})), ElementsAre("done 0"));
  EXPECT_THAT(Continue(call), ElementsAre("unlock dax:7 x", "use 0", "remove 0 of 1", "freed 0 evicted wake",
                                          "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, ARangeWhoseFileGoesBeforeItsUpgradeIsMappedAnew) {
  Make(4, Quiet());
  Map(7, 0, 0);
  Call call = WriteAt(7, 0);
  Continue(call, "lock dax:7 x");
  EXPECT_THAT(Run(guest_->StartEviction(FileId{7})), ElementsAre("done 0"));
  EXPECT_THAT(Continue(call),
              ElementsAre("unlock dax:7 x", "remove 0 of 1", "freed 0 evicted wake", "lock dax:7 s", "unlock dax:7 s",
                          "lock dax:7 x", "setup 1 write", "unlock dax:7 x", "use 1", "unlock inode:7 x", "done 0"));
}

// --- a smaller window
// --------------------------------------------------------------------------------------------------

TEST_F(GuestTest, AShrinkTakesTheEndOfTheWindowOutOfPageTablesAndRemovesIt) {
  Make(6, Quiet());
  Map(7, 0, 1);
  Map(1, 0, 1);
  Call call = guest_->StartShrink(4);  // two of them free
  EXPECT_THAT(Continue(call, "zap 2"), ElementsAre("zap 3", "zap 2"));
  EXPECT_EQ(call.victim_key(), At(1, 0));
  EXPECT_EQ(window_->size(), 2u);
  EXPECT_EQ(window_->Find(At(1, 0)), kNoSlot);
  const Action remove = guest_->Next(call);
  EXPECT_EQ(Text(remove), "remove 3 of 2");
  EXPECT_EQ(remove.cause, Cause::kShrunk);
  EXPECT_EQ(guest_->NextInBatch(SlotId{3}), SlotId{2});
  EXPECT_THAT(Continue(call), ElementsAre("freed 3 shrunk", "freed 2 shrunk", "done 0"));
  EXPECT_EQ(window_->state(SlotId{3}), SlotState::kRetired);
  EXPECT_NE(window_->Find(At(7, 1)), kNoSlot);
}

TEST_F(GuestTest, AShrinkSendsInBatchesWhateverTheAnswers) {
  Make(600, Quiet());
  Map(7, 0, 599);
  std::vector<std::uint32_t> counts;
  const Steps steps = Run(guest_->StartShrink(599), [&](const Action& action) {
    if (action.step == Step::kRemove) counts.push_back(action.count);
    return -5;  // of removals and of zaps
  });
  EXPECT_THAT(counts, ElementsAre(256, 256, 87));
  EXPECT_EQ(steps.size(), 599u + 3u + 599u + 1u);
  EXPECT_EQ(steps.back(), "done 0");
  EXPECT_EQ(window_->mapped_slots(), 1u);
}

TEST_F(GuestTest, AShrinkToNothingIsRefused) {
  Make(4, Quiet());
  Map(7, 0, 3);
  EXPECT_THAT(Run(guest_->StartShrink(4)), ElementsAre("done -22"));
  EXPECT_EQ(window_->size(), 4u);
  EXPECT_EQ(window_->mapped_slots(), 4u);
}

TEST_F(GuestTest, AShrunkRangeInUseGoesWithItsLastUser) {
  Make(4, Quiet());
  Map(1, 0, 2);
  Call a = FaultAt(7, 0);
  Continue(a, "use 3");
  Call b = ReadAt(7, 0);
  Continue(b, "use 3");
  EXPECT_THAT(Run(guest_->StartShrink(1)), ElementsAre("done 0"));
  EXPECT_THAT(Continue(b), ElementsAre("unlock inode:7 s", "done 0"));
  EXPECT_THAT(Continue(a), ElementsAre("zap 3", "remove 3 of 1", "freed 3 shrunk", "unlock entry:7 x",
                                       "unlock invalidate:7 s", "done 0"));
  EXPECT_EQ(window_->state(SlotId{3}), SlotState::kRetired);
}

TEST_F(GuestTest, AShrunkRangeIsAShrunkOneWhenTheWindowHasGrownAgain) {
  Make(4, Quiet());
  Map(1, 0, 2);
  Call call = ReadAt(7, 0);
  Continue(call, "setup 3 read");
  EXPECT_THAT(Run(guest_->StartShrink(1)), ElementsAre("done 0"));
  ASSERT_TRUE(window_->Grow(1).ok());
  // Its file goes too; what doomed it first is what it is told of.
  EXPECT_THAT(Run(guest_->StartEviction(FileId{7})), ElementsAre("done 0"));
  EXPECT_THAT(Continue(call), ElementsAre("unlock dax:7 x", "use 3", "zap 3", "remove 3 of 1", "freed 3 shrunk wake",
                                          "unlock inode:7 s", "done 0"));
  EXPECT_EQ(window_->state(SlotId{3}), SlotState::kFree);
  EXPECT_FALSE(window_->shrunk(SlotId{3}));
}

TEST_F(GuestTest, AShrinkBelowTheThresholdKicksTheWorker) {
  Make(20, ReclaimOptions::Linux());  // threshold 4
  Map(7, 0, 9);
  EXPECT_THAT(Run(guest_->StartShrink(10)), ElementsAre("kick 0", "done 0"));
  EXPECT_THAT(Run(guest_->StartShrink(1)), ElementsAre("zap 9", "remove 9 of 1", "freed 9 shrunk", "done 0"));
}

// --- other mechanics
// --------------------------------------------------------------------------------------------------

TEST_F(GuestTest, WithoutRemovalsNothingIsSent) {
  ReclaimOptions options;
  options.send_remove = false;
  Make(10, options);
  Map(1, 0, 9);
  Call worker = guest_->StartWorker();
  const Steps steps = Continue(worker);
  EXPECT_EQ(window_->free_slots(), 10u);
  for (const std::string& step : steps) EXPECT_FALSE(step.starts_with("remove")) << step;
  Map(2, 0, 1);
  EXPECT_THAT(Run(guest_->StartEviction(FileId{2})),
              ElementsAre("freed 1 evicted wake", "freed 0 evicted wake", "done 0"));
  Call user = ReadAt(3, 0);
  const Steps begun = Continue(user, "use 2");
  Run(guest_->StartEviction(FileId{3}));
  EXPECT_THAT(Continue(user), ElementsAre("freed 2 evicted wake", "unlock inode:3 s", "done 0"));
}

TEST_F(GuestTest, OnDemandACallTakesAnyFilesRange) {
  Make(2, ReclaimOptions::Demand());
  Map(1, 0, 0);
  Map(7, 0, 0);
  EXPECT_THAT(Run(ReadAt(7, 9)),
              ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s",  //
                          "lock invalidate:1 x", "zap 0", "lock dax:1 x", "zap 0", "remove 0 of 1", "freed 0 inline",
                          "unlock dax:1 x", "unlock invalidate:1 x",  //
                          "lock dax:7 x", "setup 0 read", "unlock dax:7 x", "use 0", "unlock inode:7 s", "done 0"));
}

TEST_F(GuestTest, OnDemandAFaultLetsGoOfItsLocksFirst) {
  Make(1, ReclaimOptions::Demand());
  Map(7, 0, 0);
  EXPECT_THAT(Run(FaultAt(7, 9)), ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s",
                                              "unlock entry:7 x", "unlock invalidate:7 s",  //
                                              "lock invalidate:7 x", "zap 0", "lock dax:7 x", "zap 0", "remove 0 of 1",
                                              "freed 0 inline", "unlock dax:7 x", "unlock invalidate:7 x",  //
                                              "lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "unlock dax:7 s",
                                              "lock dax:7 x", "setup 0 read", "unlock dax:7 x", "use 0",
                                              "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
}

TEST_F(GuestTest, OnDemandAFaultThatFindsItsRangeMappedMeanwhile) {
  Make(2, ReclaimOptions::Demand());
  Map(1, 0, 1);
  Call fault = FaultAt(7, 0);
  Continue(fault, "unlock invalidate:1 x");
  Run(ReadAt(7, 0));  // takes the other range
  EXPECT_THAT(Continue(fault),
              ElementsAre("lock invalidate:7 s", "lock entry:7 x", "lock dax:7 s", "freed 0 unused wake",
                          "unlock dax:7 s", "use 1", "unlock entry:7 x", "unlock invalidate:7 s", "done 0"));
  EXPECT_EQ(window_->free_slots(), 1u);
}

TEST_F(GuestTest, OnDemandAFailedZapInAFaultEndsItWithoutLocks) {
  Make(1, ReclaimOptions::Demand());
  Map(7, 0, 0);
  const Steps steps = Run(FaultAt(7, 9), Fail(Step::kZap, -5));
  EXPECT_THAT((Steps{steps.end() - 3, steps.end()}), ElementsAre("zap 0", "unlock invalidate:7 x", "done -5"));
}

TEST_F(GuestTest, OnDemandWithEverythingInUseItTriesAgain) {
  Make(1, ReclaimOptions::Demand());
  Call user = ReadAt(1, 0);
  Continue(user, "use 0");
  Call call = ReadAt(7, 0);
  EXPECT_THAT(Continue(call, "again"), ElementsAre("lock inode:7 s", "lock dax:7 s", "unlock dax:7 s", "again"));
  Call fault = FaultAt(8, 0);
  EXPECT_EQ(Continue(fault, "again").back(), "again");
  EXPECT_THAT(Continue(fault, "again"),  // from the beginning, having let go of everything
              ElementsAre("lock invalidate:8 s", "lock entry:8 x", "lock dax:8 s", "unlock dax:8 s", "unlock entry:8 x",
                          "unlock invalidate:8 s", "again"));
  Continue(user);
  EXPECT_EQ(Continue(call).back(), "done 0");
  EXPECT_EQ(Continue(fault).back(), "done 0");
}

TEST_F(GuestTest, FaultsMayReclaimFromTheirOwnFile) {
  ReclaimOptions options = Quiet();
  options.threshold_percent = 20;
  options.faults = InlineReclaim::kOwnFile;
  Make(2, options);
  Map(7, 0, 0);
  Map(1, 0, 0);
  const Steps steps = Run(FaultAt(7, 1));
  EXPECT_THAT(steps, testing::Contains("freed 0 inline"));
  EXPECT_EQ(steps.back(), "done 0");
  // And sleep, having let go of everything, if it has none.
  Call fault = FaultAt(9, 0);
  const Steps waits = Continue(fault, "wait s");
  EXPECT_THAT((Steps{waits.end() - 5, waits.end()}),
              ElementsAre("lock invalidate:9 x", "lock dax:9 s", "unlock dax:9 s", "unlock invalidate:9 x", "wait s"));
}

// --- admission
// --------------------------------------------------------------------------------------------------------

// Admits what the test says, and counts how often it is asked.
template <class Index_>
class ChoosyPolicy : public LruPolicy<Index_> {
 public:
  using typename LruPolicy<Index_>::Key;
  static constexpr std::string_view kName = "choosy";
  using LruPolicy<Index_>::LruPolicy;
  void OnMiss(const Key&, const Touch&) { ++misses; }
  bool Admit(const Key& key, const Touch&, std::uint32_t) {
    ++asked;
    return key.index % 2 == 0;
  }
  int misses = 0;
  int asked = 0;
};

TEST(GuestAdmissionTest, WhatIsNotAdmittedGoesPastTheWindow) {
  using Win = Window<ChoosyPolicy<HashIndex>>;
  Win window({}, {.slots = 4}, {});
  Guest<Win> guest(window, ReclaimOptions::Demand());
  auto call = guest.StartCall(At(7, 0), Read(FileId{7}), 3);
  std::vector<std::string> steps;
  for (Action action = guest.Next(call);; action = guest.Next(call)) {
    steps.push_back(Text(action));
    if (action.step == Step::kDone) break;
  }
  EXPECT_THAT(steps, ElementsAre("lock inode:7 s",  //
                                 "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 0 read", "unlock dax:7 x",
                                 "use 0",                                     //
                                 "lock dax:7 s", "unlock dax:7 s", "direct",  //
                                 "lock dax:7 s", "unlock dax:7 s", "lock dax:7 x", "setup 1 read", "unlock dax:7 x",
                                 "use 1", "unlock inode:7 s", "done 0"));
  EXPECT_EQ(window.policy().asked, 3);
  EXPECT_EQ(window.policy().misses, 3);
}

// However often a fault begins anew, its miss is one miss.
TEST(GuestAdmissionTest, OneMissAnAccess) {
  using Win = Window<ChoosyPolicy<HashIndex>>;
  Win window({}, {.slots = 1}, {});
  Guest<Win> guest(window, ReclaimOptions::Linux());
  const auto other = window.Take();
  auto fault = guest.StartFault(At(7, 0), {.file = FileId{7}, .op = Op::kMappedRead});
  int waits = 0;
  for (Action action = guest.Next(fault); action.step != Step::kDone; action = guest.Next(fault)) {
    if (action.step == Step::kWaitForRange && ++waits == 3) window.Return(other);
  }
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(window.policy().misses, 1);
}

}  // namespace
}  // namespace daxcache
