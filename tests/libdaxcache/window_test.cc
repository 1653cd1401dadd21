// The window's documented rules, one by one, each on a window of a few slots.
#include "daxcache/window.h"

#include <cstdint>
#include <vector>

#include "daxcache/policies/fifo.h"
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
using testing_::Watched;
using testing_::World;
using testing_::Write;

template <class IndexType>
class WindowTest : public testing::Test {
 protected:
  using Win = Window<Watched<LinuxPolicy<IndexType>>>;

  WindowTest() : window_(world_.space(), {.slots = 4, .max_slots = 6}, {}) {}
  ~WindowTest() override { EXPECT_EQ(window_.CheckInvariants(), absl::OkStatus()); }

  static auto Key(std::uint32_t file, std::uint64_t index) { return World<IndexType>::Key(At(file, index)); }

  // Maps a range into the slot at the head of the free list.
  SlotId Map(std::uint32_t file, std::uint64_t index, bool write = false) {
    const SlotId slot = window_.Take();
    EXPECT_NE(slot, kNoSlot);
    EXPECT_TRUE(window_.Bind(slot, Key(file, index), Touching(file, write)).must_map);
    EXPECT_FALSE(window_.Commit(slot, Touching(file, write)));
    return slot;
  }
  static Touch Touching(std::uint32_t file, bool write) { return write ? Write(FileId{file}) : Read(FileId{file}); }
  LookupKind Lookup(std::uint32_t file, std::uint64_t index, bool write = false) {
    return window_.Lookup(Key(file, index), Touching(file, write)).kind;
  }
  // Takes every free slot, in order, and gives them back in the same order.
  std::vector<std::uint32_t> FreeList() {
    std::vector<std::uint32_t> order;
    for (SlotId slot = window_.Take(); slot != kNoSlot; slot = window_.Take()) order.push_back(ToIndex(slot));
    for (const std::uint32_t slot : order) window_.Return(SlotId{slot});
    return order;
  }
  std::vector<std::uint32_t> Invalidate(std::uint32_t file, std::uint64_t first = 0, std::uint64_t last = ~0ull) {
    std::vector<std::uint32_t> slots;
    window_.Invalidate(FileId{file}, first, last, [&](SlotId slot) { slots.push_back(ToIndex(slot)); });
    return slots;
  }
  std::vector<std::uint32_t> Shrink(std::uint32_t by) {
    std::vector<std::uint32_t> slots;
    EXPECT_TRUE(window_.Shrink(by, [&](SlotId slot) { slots.push_back(ToIndex(slot)); }).ok());
    return slots;
  }

  World<IndexType> world_;
  Win window_;
};
using BothIndexes = testing::Types<HashIndex, DenseIndex>;
TYPED_TEST_SUITE(WindowTest, BothIndexes);

TYPED_TEST(WindowTest, FreeSlotsComeFromTheHeadAndGoToTheTail) {
  auto& w = this->window_;
  EXPECT_THAT(this->FreeList(), ElementsAre(0, 1, 2, 3));
  const SlotId first = w.Take();
  EXPECT_EQ(first, SlotId{0});
  EXPECT_EQ(w.state(first), SlotState::kTaken);
  EXPECT_EQ(w.free_slots(), 3u);
  w.Return(first);
  EXPECT_THAT(this->FreeList(), ElementsAre(1, 2, 3, 0));
  for (int i = 0; i < 4; ++i) w.Take();
  EXPECT_EQ(w.Take(), kNoSlot);
  for (const std::uint32_t slot : {2u, 0u, 3u, 1u}) w.Return(SlotId{slot});
  EXPECT_THAT(this->FreeList(), ElementsAre(2, 0, 3, 1));
}

TYPED_TEST(WindowTest, MissMapHit) {
  auto& w = this->window_;
  EXPECT_EQ(this->Lookup(0, 1), LookupKind::kMiss);
  EXPECT_TRUE(w.Admit(this->Key(0, 1), Read(FileId{0})));
  EXPECT_EQ(w.policy().misses, 1);
  const SlotId slot = w.Take();
  EXPECT_TRUE(w.Bind(slot, this->Key(0, 1), Read(FileId{0})).must_map);
  // In flight: findable, and busy.
  const LookupResult busy = w.Lookup(this->Key(0, 1), Read(FileId{0}));
  EXPECT_EQ(busy.kind, LookupKind::kBusy);
  EXPECT_EQ(busy.slot, slot);
  EXPECT_EQ(busy.state, SlotState::kMapping);
  EXPECT_EQ(w.mapped_slots(), 0u);
  EXPECT_EQ(w.policy().maps, 0);
  EXPECT_FALSE(w.Commit(slot, Read(FileId{0})));
  EXPECT_EQ(w.mapped_slots(), 1u);
  EXPECT_EQ(w.policy().maps, 1);
  const LookupResult hit = w.Lookup(this->Key(0, 1), Read(FileId{0}));
  EXPECT_EQ(hit.kind, LookupKind::kHit);
  EXPECT_EQ(hit.slot, slot);
  EXPECT_EQ(w.policy().hits, 1);
  EXPECT_EQ(w.range(slot), At(0, 1));
}

TYPED_TEST(WindowTest, ARacerLosesItsSlotToTheTail) {
  auto& w = this->window_;
  const SlotId a = w.Take();
  const SlotId b = w.Take();
  EXPECT_TRUE(w.Bind(a, this->Key(0, 0), Read(FileId{0})).must_map);
  const auto lost = w.Bind(b, this->Key(0, 0), Read(FileId{0}));
  EXPECT_FALSE(lost.must_map);
  EXPECT_EQ(lost.other, a);
  EXPECT_THAT(this->FreeList(), ElementsAre(2, 3, 1));
  EXPECT_FALSE(w.Commit(a, Read(FileId{0})));
}

TYPED_TEST(WindowTest, ASetupThatFailsGivesTheSlotToTheTail) {
  auto& w = this->window_;
  const SlotId slot = w.Take();
  EXPECT_TRUE(w.Bind(slot, this->Key(0, 0), Read(FileId{0})).must_map);
  EXPECT_FALSE(w.Abort(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_THAT(this->FreeList(), ElementsAre(1, 2, 3, 0));
  EXPECT_EQ(w.policy().maps, 0);
}

TYPED_TEST(WindowTest, WritesNeedAWritableRangeAndMakeItDirty) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  EXPECT_FALSE(w.writable(slot));
  EXPECT_FALSE(w.dirty(slot));
  EXPECT_EQ(this->Lookup(0, 0, true), LookupKind::kMustUpgrade);
  EXPECT_FALSE(w.dirty(slot));
  EXPECT_EQ(w.policy().hits, 0);  // the answers other than Hit change nothing
  w.Pin(slot);
  w.BeginUpgrade(slot);
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kBusy);
  EXPECT_EQ(w.mapped_slots(), 0u);
  EXPECT_EQ(w.pins(slot), 1u);  // an upgrade keeps the pins
  EXPECT_FALSE(w.Commit(slot, Write(FileId{0})));
  EXPECT_EQ(w.pins(slot), 1u);
  EXPECT_TRUE(w.writable(slot));
  EXPECT_TRUE(w.dirty(slot));
  EXPECT_EQ(w.policy().maps, 1);
  EXPECT_EQ(w.policy().hits, 1);  // the upgrade is the access
  EXPECT_FALSE(w.Unpin(slot));
  EXPECT_EQ(this->Lookup(0, 0, true), LookupKind::kHit);
}

TYPED_TEST(WindowTest, AWritableRangeIsDirtyOnceWritten) {
  auto& w = this->window_;
  const SlotId written = this->Map(0, 0, true);
  EXPECT_TRUE(w.writable(written));
  EXPECT_TRUE(w.dirty(written));
  // A daemon may map for writing what is only read yet.
  const SlotId slot = w.Take();
  EXPECT_TRUE(w.Bind(slot, this->Key(0, 1), Write(FileId{0})).must_map);
  EXPECT_FALSE(w.Commit(slot, Read(FileId{0})));
  EXPECT_TRUE(w.writable(slot));
  EXPECT_FALSE(w.dirty(slot));
  EXPECT_EQ(this->Lookup(0, 1), LookupKind::kHit);
  EXPECT_FALSE(w.dirty(slot));
  EXPECT_EQ(this->Lookup(0, 1, true), LookupKind::kHit);
  EXPECT_TRUE(w.dirty(slot));
}

TYPED_TEST(WindowTest, AnUpgradeThatFailsFallsBackToReading) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.BeginUpgrade(slot);
  EXPECT_FALSE(w.Abort(slot));
  EXPECT_EQ(w.state(slot), SlotState::kMapped);
  EXPECT_FALSE(w.writable(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
}

TYPED_TEST(WindowTest, AnUpgradeThatLosesTheMapping) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.BeginUpgrade(slot);
  EXPECT_TRUE(w.AbortLost(slot));
  EXPECT_TRUE(w.lost(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_EQ(w.policy().gone, 1);
  w.CommitReclaim(slot);
  EXPECT_FALSE(w.lost(slot));
  EXPECT_THAT(this->FreeList(), ElementsAre(1, 2, 3, 0));
}

TYPED_TEST(WindowTest, AnUpgradeThatLosesAMappingInUse) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.Pin(slot);
  w.Pin(slot);
  w.BeginUpgrade(slot);
  EXPECT_FALSE(w.AbortLost(slot));
  // Nobody finds it, and it is nobody's victim: its range may be mapped elsewhere.
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_EQ(w.BeginReclaim(Scope::Any()), kNoSlot);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_EQ(this->Map(0, 0), SlotId{1});
  EXPECT_FALSE(w.Unpin(slot));
  EXPECT_EQ(w.policy().gone, 0);
  EXPECT_TRUE(w.Unpin(slot));
  EXPECT_EQ(w.policy().gone, 1);
  EXPECT_TRUE(w.lost(slot));
  EXPECT_EQ(w.state(slot), SlotState::kReclaiming);
  w.CommitReclaim(slot);
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
  EXPECT_THAT(this->FreeList(), ElementsAre(2, 3, 0));
}

TYPED_TEST(WindowTest, AReclaimedRangeIsBusyUntilItIsGone) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  EXPECT_EQ(w.BeginReclaim(Scope::Any()), slot);
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kBusy);
  EXPECT_FALSE(w.CanReclaim(slot));
  EXPECT_EQ(w.BeginReclaim(Scope::Any()), kNoSlot);
  EXPECT_TRUE(w.AbortReclaim(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
  EXPECT_EQ(w.BeginReclaim(Scope::Any(), this->Key(1, 0), Read(FileId{1})), slot);
  w.CommitReclaim(slot);
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_EQ(w.policy().reclaimed, 1);
  EXPECT_THAT(this->FreeList(), ElementsAre(1, 2, 3, 0));
}

TYPED_TEST(WindowTest, ARangeReclaimedForItselfDoesNotPassTheFreeList) {
  auto& w = this->window_;
  for (std::uint64_t i = 0; i < 4; ++i) this->Map(0, i);
  const SlotId slot = w.BeginReclaim(Scope::File(FileId{0}));
  EXPECT_TRUE(w.CommitReclaimAndTake(slot));
  EXPECT_EQ(w.free_slots(), 0u);
  EXPECT_TRUE(w.Bind(slot, this->Key(1, 1), Write(FileId{1})).must_map);
  EXPECT_FALSE(w.Commit(slot, Write(FileId{1})));
  EXPECT_EQ(this->Lookup(1, 1, true), LookupKind::kHit);
}

TYPED_TEST(WindowTest, PinnedRangesAreNoCandidates) {
  auto& w = this->window_;
  const SlotId a = this->Map(0, 0);
  const SlotId b = this->Map(0, 1);
  w.Pin(a);
  EXPECT_EQ(w.PickVictim(Scope::Any()), b);
  w.Pin(b);
  EXPECT_EQ(w.PickVictim(Scope::Any()), kNoSlot);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{0})), kNoSlot);
  w.Pin(a);
  EXPECT_FALSE(w.Unpin(a));
  EXPECT_EQ(w.PickVictim(Scope::Any()), kNoSlot);
  EXPECT_FALSE(w.Unpin(a));
  EXPECT_EQ(w.PickVictim(Scope::Any()), a);
  EXPECT_FALSE(w.Unpin(b));
}

TYPED_TEST(WindowTest, OfOneFileTheLowestOffset) {
  auto& w = this->window_;
  this->Map(1, 0);
  this->Map(0, 5);
  const SlotId low = this->Map(0, 2);
  const SlotId middle = this->Map(0, 3);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{0})), low);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{0})), low);  // picking one's own moves nothing
  w.Pin(low);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{0})), middle);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{2})), kNoSlot);
  EXPECT_FALSE(w.Unpin(low));
}

TYPED_TEST(WindowTest, InTheBackgroundTheOldestWhateverWasUsed) {
  auto& w = this->window_;
  const SlotId a = this->Map(0, 0);
  const SlotId b = this->Map(0, 1);
  const SlotId c = this->Map(0, 2);
  this->Lookup(0, 0);
  // What is picked goes to the tail, so that a range that cannot be reclaimed is not picked again at once.
  EXPECT_EQ(w.PickVictim(Scope::Any()), a);
  EXPECT_EQ(w.PickVictim(Scope::Any()), b);
  EXPECT_EQ(w.PickVictim(Scope::Any()), c);
  EXPECT_EQ(w.PickVictim(Scope::Any()), a);
}

// --- files that go away
// -----------------------------------------------------------------------------------------------

TYPED_TEST(WindowTest, InvalidateInDescendingOrderOfOffset) {
  auto& w = this->window_;
  const SlotId five = this->Map(0, 5);
  const SlotId one = this->Map(0, 1);
  const SlotId other = this->Map(1, 3);
  const SlotId three = this->Map(0, 3);
  EXPECT_THAT(this->Invalidate(0), ElementsAre(ToIndex(five), ToIndex(three), ToIndex(one)));
  EXPECT_EQ(this->Lookup(0, 5), LookupKind::kMiss);  // unfindable at once
  EXPECT_EQ(w.free_slots(), 0u);                     // but free only when removed
  EXPECT_EQ(w.policy().gone, 3);
  EXPECT_EQ(w.state(other), SlotState::kMapped);
  for (const SlotId slot : {five, three, one}) w.CommitReclaim(slot);
  EXPECT_EQ(w.free_slots(), 3u);
  EXPECT_EQ(w.policy().reclaimed, 0);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
}

TYPED_TEST(WindowTest, InvalidateATail) {
  auto& w = this->window_;
  this->Map(0, 0);
  const SlotId two = this->Map(0, 2);
  const SlotId four = this->Map(0, 4);
  const SlotId eight = this->Map(0, 8);
  EXPECT_THAT(this->Invalidate(0, 5), ElementsAre(ToIndex(eight)));
  EXPECT_THAT(this->Invalidate(0, 1, 3), ElementsAre(ToIndex(two)));
  EXPECT_EQ(this->Lookup(0, 4), LookupKind::kHit);
  EXPECT_THAT(this->Invalidate(0, 4, 4), ElementsAre(ToIndex(four)));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
  for (const SlotId slot : {two, four, eight}) w.CommitReclaim(slot);
}

TYPED_TEST(WindowTest, APinnedRangeIsDoomedAndReclaimedAtTheLastUnpin) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.Pin(slot);
  w.Pin(slot);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_TRUE(w.doomed(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  // The same range may be mapped anew meanwhile.
  const SlotId again = this->Map(0, 0);
  EXPECT_NE(again, slot);
  EXPECT_EQ(w.CheckInvariants(), absl::OkStatus());
  EXPECT_FALSE(w.Unpin(slot));
  EXPECT_TRUE(w.Unpin(slot));
  EXPECT_EQ(w.state(slot), SlotState::kReclaiming);
  EXPECT_FALSE(w.AbortReclaim(slot));  // it has nowhere to go back to
  w.CommitReclaim(slot);
  EXPECT_EQ(w.state(slot), SlotState::kFree);
  EXPECT_FALSE(w.doomed(slot));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
}

TYPED_TEST(WindowTest, ARangeInFlightIsDoomedAndReclaimedWhenItLands) {
  auto& w = this->window_;
  const SlotId slot = w.Take();
  EXPECT_TRUE(w.Bind(slot, this->Key(0, 0), Read(FileId{0})).must_map);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_TRUE(w.Commit(slot, Read(FileId{0})));
  EXPECT_EQ(w.policy().gone, 1);
  w.CommitReclaim(slot);

  const SlotId failing = w.Take();
  EXPECT_TRUE(w.Bind(failing, this->Key(0, 0), Read(FileId{0})).must_map);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_FALSE(w.Abort(failing));  // free already
  EXPECT_EQ(w.free_slots(), 4u);

  const SlotId upgraded = this->Map(0, 0);
  w.BeginUpgrade(upgraded);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_TRUE(w.Commit(upgraded, Write(FileId{0})));
  w.CommitReclaim(upgraded);

  const SlotId unchanged = this->Map(0, 0);
  w.BeginUpgrade(unchanged);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_TRUE(w.Abort(unchanged));
  w.CommitReclaim(unchanged);
  EXPECT_EQ(w.free_slots(), 4u);
}

TYPED_TEST(WindowTest, ARangeBeingReclaimedCannotStayOnceItsFileIsGone) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.BeginReclaim(slot);
  EXPECT_THAT(this->Invalidate(0), IsEmpty());
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_FALSE(w.AbortReclaim(slot));
  w.CommitReclaim(slot);
  EXPECT_EQ(w.policy().gone, 1);
  EXPECT_EQ(w.free_slots(), 4u);
}

// --- offsets that the guest chose
// -------------------------------------------------------------------------------------

TYPED_TEST(WindowTest, BindAtTakesAFreeSlotOutOfTheMiddle) {
  auto& w = this->window_;
  EXPECT_TRUE(w.BindAt(SlotId{2}, this->Key(0, 0), Read(FileId{0})).must_map);
  EXPECT_FALSE(w.Commit(SlotId{2}, Read(FileId{0})));
  EXPECT_THAT(this->FreeList(), ElementsAre(0, 1, 3));
  EXPECT_FALSE(w.BindAt(SlotId{4}, this->Key(0, 1), Read(FileId{0})).must_map);  // beyond the window
  EXPECT_FALSE(w.BindAt(SlotId{5}, this->Key(0, 1), Read(FileId{0})).must_map);
  EXPECT_FALSE(w.BindAt(kNoSlot, this->Key(0, 1), Read(FileId{0})).must_map);
}

TYPED_TEST(WindowTest, BindAtReplacesAndTellsWhatWasThere) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0, true);
  const auto bound = w.BindAt(slot, this->Key(1, 1), Read(FileId{1}));
  EXPECT_TRUE(bound.must_map);
  EXPECT_TRUE(bound.held.any);
  EXPECT_TRUE(bound.held.writable);
  EXPECT_TRUE(bound.held.dirty);
  EXPECT_EQ(bound.held.key, this->Key(0, 0));
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kMiss);
  EXPECT_FALSE(w.Commit(slot, Read(FileId{1})));
  EXPECT_EQ(this->Lookup(1, 1), LookupKind::kHit);
  EXPECT_FALSE(w.writable(slot));
  EXPECT_FALSE(w.dirty(slot));
}

TYPED_TEST(WindowTest, AFailedReplacementLeavesWhatTheHostKept) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0, true);
  const auto bound = w.BindAt(slot, this->Key(1, 1), Read(FileId{1}));
  EXPECT_FALSE(w.Abort(slot, bound.held));
  EXPECT_EQ(this->Lookup(1, 1), LookupKind::kMiss);
  EXPECT_EQ(this->Lookup(0, 0, true), LookupKind::kHit);
  EXPECT_TRUE(w.dirty(slot));
}

// The file of the range that did not come goes away while it is in flight; what the host kept is another's.
TYPED_TEST(WindowTest, AFailedReplacementOfAVanishedFileLeavesTheOther) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  const auto bound = w.BindAt(slot, this->Key(1, 1), Read(FileId{1}));
  EXPECT_THAT(this->Invalidate(1), IsEmpty());
  EXPECT_FALSE(w.Abort(slot, bound.held));
  EXPECT_EQ(w.CheckInvariants(), absl::OkStatus());
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
  EXPECT_FALSE(w.doomed(slot));
}

// The slot lies beyond the window's new end when the replacement fails: what was kept goes too, and is not found.
TYPED_TEST(WindowTest, AFailedReplacementBeyondTheEndIsReclaimed) {
  auto& w = this->window_;
  for (std::uint64_t i = 0; i < 4; ++i) this->Map(0, i);
  const auto bound = w.BindAt(SlotId{3}, this->Key(1, 1), Read(FileId{1}));
  EXPECT_THAT(this->Shrink(1), IsEmpty());
  EXPECT_TRUE(w.Abort(SlotId{3}, bound.held));
  EXPECT_EQ(this->Lookup(0, 3), LookupKind::kMiss);
  w.CommitReclaim(SlotId{3});
  EXPECT_EQ(w.state(SlotId{3}), SlotState::kRetired);
}

TYPED_TEST(WindowTest, BindAtLeavesWhatIsInUseOrInFlight) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.Pin(slot);
  EXPECT_FALSE(w.BindAt(slot, this->Key(1, 1), Read(FileId{1})).must_map);
  EXPECT_FALSE(w.Unpin(slot));
  w.BeginUpgrade(slot);
  EXPECT_FALSE(w.BindAt(slot, this->Key(1, 1), Read(FileId{1})).must_map);
  EXPECT_FALSE(w.Commit(slot, Write(FileId{0})));
  w.BeginReclaim(slot);
  EXPECT_FALSE(w.BindAt(slot, this->Key(1, 1), Read(FileId{1})).must_map);
  w.CommitReclaim(slot);
  EXPECT_EQ(this->Lookup(1, 1), LookupKind::kMiss);
}

TYPED_TEST(WindowTest, OneRangeAtSeveralOffsets) {
  auto& w = this->window_;
  for (const std::uint32_t slot : {1u, 3u, 0u}) {
    EXPECT_TRUE(w.BindAt(SlotId{slot}, this->Key(0, 2), Read(FileId{0})).must_map);
    EXPECT_FALSE(w.Commit(SlotId{slot}, Read(FileId{0})));
  }
  EXPECT_EQ(w.Find(this->Key(0, 2)), SlotId{1});
  EXPECT_EQ(w.CheckInvariants(), absl::OkStatus());
  // The one that is found goes: another is found.
  w.BeginReclaim(SlotId{1});
  w.CommitReclaim(SlotId{1});
  const SlotId next = w.Find(this->Key(0, 2));
  EXPECT_TRUE(next == SlotId{0} || next == SlotId{3});
  EXPECT_EQ(w.CheckInvariants(), absl::OkStatus());
  // A pinned one hides none of the others from an inline reclaim.
  w.Pin(next);
  const SlotId last = next == SlotId{0} ? SlotId{3} : SlotId{0};
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{0})), last);
  EXPECT_FALSE(w.Unpin(next));
  // All go with the file.
  EXPECT_THAT(this->Invalidate(0), testing::UnorderedElementsAre(0, 3));
  w.CommitReclaim(SlotId{0});
  w.CommitReclaim(SlotId{3});
  EXPECT_EQ(w.free_slots(), 4u);
}

TYPED_TEST(WindowTest, BindAtOfTheSameRangeInItsOwnSlot) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 2);
  EXPECT_TRUE(w.BindAt(slot, this->Key(0, 2), Write(FileId{0})).must_map);
  EXPECT_FALSE(w.Commit(slot, Write(FileId{0})));
  EXPECT_EQ(this->Lookup(0, 2, true), LookupKind::kHit);
}

// --- the window's size
// ------------------------------------------------------------------------------------------------

TYPED_TEST(WindowTest, GrowAddsToTheTail) {
  auto& w = this->window_;
  EXPECT_TRUE(w.Grow(2).ok());
  EXPECT_EQ(w.size(), 6u);
  EXPECT_EQ(w.policy().size, 6u);
  EXPECT_THAT(this->FreeList(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(w.Grow(1).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(w.Grow(0xffffffffu).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(w.size(), 6u);
}

TYPED_TEST(WindowTest, ShrinkKeepsAtLeastOneRange) {
  auto& w = this->window_;
  const auto none = [](SlotId) {};
  EXPECT_EQ(w.Shrink(4, none).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(w.Shrink(0xffffffffu, none).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(w.Shrink(3, none).ok());
  EXPECT_EQ(w.size(), 1u);
  EXPECT_EQ(w.free_slots(), 1u);
}

TYPED_TEST(WindowTest, ShrinkRetiresAndGrowBringsBack) {
  auto& w = this->window_;
  const SlotId kept = this->Map(0, 0);
  this->Map(0, 1);
  const SlotId mapped = this->Map(0, 2);
  EXPECT_THAT(this->Shrink(3), ElementsAre(2, 1));  // slot 3 was free; 2 and 1 are to be removed
  EXPECT_EQ(w.state(SlotId{3}), SlotState::kRetired);
  EXPECT_EQ(this->Lookup(0, 2), LookupKind::kMiss);
  EXPECT_EQ(this->Lookup(0, 0), LookupKind::kHit);
  w.CommitReclaim(mapped);
  EXPECT_EQ(w.state(mapped), SlotState::kRetired);
  EXPECT_EQ(w.free_slots(), 0u);
  // Grown again before slot 1 is removed: it comes back by itself when it is.
  EXPECT_TRUE(w.Grow(3).ok());
  EXPECT_THAT(this->FreeList(), ElementsAre(2, 3));
  w.CommitReclaim(SlotId{1});
  EXPECT_THAT(this->FreeList(), ElementsAre(2, 3, 1));
  EXPECT_EQ(w.state(kept), SlotState::kMapped);
}

TYPED_TEST(WindowTest, ShrinkUnderThoseInUse) {
  auto& w = this->window_;
  const SlotId a = this->Map(0, 0);
  const SlotId pinned = this->Map(0, 1);
  w.Pin(pinned);
  const SlotId taken = w.Take();
  const SlotId flying = w.Take();
  EXPECT_TRUE(w.Bind(flying, this->Key(0, 3), Read(FileId{0})).must_map);
  EXPECT_THAT(this->Shrink(3), IsEmpty());
  EXPECT_TRUE(w.doomed(pinned));
  EXPECT_EQ(this->Lookup(0, 1), LookupKind::kMiss);
  EXPECT_TRUE(w.Unpin(pinned));
  w.CommitReclaim(pinned);
  EXPECT_EQ(w.state(pinned), SlotState::kRetired);
  const auto lost = w.Bind(taken, this->Key(0, 2), Read(FileId{0}));
  EXPECT_FALSE(lost.must_map);
  EXPECT_EQ(lost.other, kNoSlot);  // nobody mapped it: look again
  EXPECT_EQ(w.state(taken), SlotState::kRetired);
  EXPECT_TRUE(w.Commit(flying, Read(FileId{0})));
  w.CommitReclaim(flying);
  EXPECT_EQ(w.state(flying), SlotState::kRetired);
  EXPECT_EQ(w.state(a), SlotState::kMapped);
}

TYPED_TEST(WindowTest, ShrinkUnderARemovalThatFails) {
  auto& w = this->window_;
  for (std::uint64_t i = 0; i < 4; ++i) this->Map(0, i);
  w.BeginReclaim(SlotId{3});
  EXPECT_THAT(this->Shrink(1), IsEmpty());
  EXPECT_EQ(this->Lookup(0, 3), LookupKind::kMiss);
  EXPECT_FALSE(w.AbortReclaim(SlotId{3}));  // cannot stay beyond the end
  w.CommitReclaim(SlotId{3});
  EXPECT_EQ(w.state(SlotId{3}), SlotState::kRetired);
}

TYPED_TEST(WindowTest, ShrinkUnderAReclaimForItself) {
  auto& w = this->window_;
  for (std::uint64_t i = 0; i < 4; ++i) this->Map(0, i);
  w.BeginReclaim(SlotId{3});
  EXPECT_THAT(this->Shrink(1), IsEmpty());
  EXPECT_FALSE(w.CommitReclaimAndTake(SlotId{3}));
  EXPECT_EQ(w.state(SlotId{3}), SlotState::kRetired);
}

TYPED_TEST(WindowTest, ObservedIsAHitWithoutAPin) {
  auto& w = this->window_;
  const SlotId slot = this->Map(0, 0);
  w.Observe(slot, Read(FileId{0}));
  EXPECT_EQ(w.policy().hits, 1);
  EXPECT_EQ(w.pins(slot), 0u);
}

TEST(LruWindowTest, HitsAndObservationsKeepARangeLonger) {
  Window<LruPolicy<HashIndex>> w({}, {.slots = 3}, {});
  std::vector<SlotId> slots;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const SlotId slot = w.Take();
    ASSERT_TRUE(w.Bind(slot, At(0, i), Read(FileId{0})).must_map);
    ASSERT_FALSE(w.Commit(slot, Read(FileId{0})));
    slots.push_back(slot);
  }
  EXPECT_EQ(w.PickVictim(Scope::Any()), slots[0]);
  EXPECT_EQ(w.Lookup(At(0, 0), Read(FileId{0})).kind, LookupKind::kHit);
  EXPECT_EQ(w.PickVictim(Scope::Any()), slots[1]);
  w.Observe(slots[1], Read(FileId{0}));
  EXPECT_EQ(w.PickVictim(Scope::Any()), slots[2]);
  EXPECT_EQ(w.PickVictim(Scope::File(FileId{1})), kNoSlot);
}

TEST(FifoWindowTest, HitsChangeNothing) {
  Window<FifoPolicy<HashIndex>> w({}, {.slots = 2}, {});
  for (std::uint64_t i = 0; i < 2; ++i) {
    const SlotId slot = w.Take();
    ASSERT_TRUE(w.Bind(slot, At(0, i), Read(FileId{0})).must_map);
    ASSERT_FALSE(w.Commit(slot, Read(FileId{0})));
  }
  EXPECT_EQ(w.Lookup(At(0, 0), Read(FileId{0})).kind, LookupKind::kHit);
  EXPECT_EQ(w.PickVictim(Scope::Any()), SlotId{0});
  EXPECT_EQ(w.PickVictim(Scope::Any()), SlotId{0});
}

TEST(WindowOptionsTest, Validate) {
  EXPECT_TRUE((WindowOptions{.slots = 1}).Validate().ok());
  EXPECT_TRUE((WindowOptions{.slots = kMaxSlots}).Validate().ok());
  EXPECT_TRUE((WindowOptions{.slots = 1, .max_slots = kMaxSlots}).Validate().ok());
  EXPECT_FALSE((WindowOptions{}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.slots = kMaxSlots + 1}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.slots = 1, .max_slots = kMaxSlots + 1}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.slots = 2, .max_slots = 1}).Validate().ok());
}

}  // namespace
}  // namespace daxcache
