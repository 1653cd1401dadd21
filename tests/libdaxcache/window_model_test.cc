// Long random runs of legal calls on the window and on the naive model beside it: every answer and every slot's state
// have to agree, and the window's own invariants hold after each call. DAXCACHE_FULL=1 makes the runs fifty times as
// long.
#include "libdaxcache/window_model.h"

#include <cstdint>
#include <cstdlib>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "daxcache/policies/fifo.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/window.h"
#include "gtest/gtest.h"
#include "libdaxcache/window_fixture.h"

namespace daxcache {
namespace {

using testing_::kFiles;
using testing_::kRanges;
using testing_::Order;
using testing_::Watched;
using testing_::WindowModel;
using testing_::World;

template <template <class> class Base, class IndexType, Order kOrderOf>
struct Case {
  using Index = IndexType;
  using Policy = Watched<Base<IndexType>>;
  static constexpr Order kOrder = kOrderOf;
};

template <class CaseType>
class WindowModelTest : public testing::Test {
 protected:
  using Win = Window<typename CaseType::Policy>;
  using Held = typename Win::Held;

  void Run(std::uint32_t seed, std::uint32_t slots, std::uint32_t max_slots, int steps, bool resizes) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", slots " << slots << " of " << max_slots);
    world_ = {};
    Win window(world_.space(), {.slots = slots, .max_slots = max_slots}, {});
    WindowModel model(slots, max_slots, CaseType::kOrder);
    random_.seed(seed);
    kept_.assign(max_slots, {});
    for (int step = 0; step < steps; ++step) {
      Step(window, model, resizes);
      Compare(window, model);
      if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) {
        FAIL() << "at step " << step << ": " << last_;
      }
    }
  }

 private:
  struct Kept {  // what a replaced slot held, for both, until the replacement lands
    Held held;
    WindowModel::Held model;
  };

  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  // A slot in one of the states, or kNone.
  template <class Wanted>
  std::uint32_t Some(const WindowModel& model, const Wanted& wanted) {
    const auto n = static_cast<std::uint32_t>(model.slots.size());
    const std::uint32_t start = Below(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t slot = (start + i) % n;
      if (wanted(model.slots[slot])) return slot;
    }
    return WindowModel::kNone;
  }
  std::uint32_t InState(const WindowModel& model, SlotState state) {
    return Some(model, [=](const WindowModel::Slot& s) { return s.state == state; });
  }

  void Step(Win& window, WindowModel& model, bool resizes) {
    using Slot = WindowModel::Slot;
    const FileRange range{FileId{Below(kFiles)}, Below(kRanges)};
    const auto key = World<typename CaseType::Index>::Key(range);
    const bool write = Below(3) == 0;
    const Touch touch = write ? testing_::Write(range.file) : testing_::Read(range.file);
    switch (Below(21)) {
      case 0:
      case 1:
      case 2: {
        last_ = "Lookup";
        const LookupResult found = window.Lookup(key, touch);
        EXPECT_EQ(found.kind, model.Lookup(range, write));
        EXPECT_EQ(ToIndex(found.slot), model.Find(range));
        if (found.kind == LookupKind::kMiss) {
          EXPECT_TRUE(window.Admit(key, touch));
        } else {
          EXPECT_EQ(found.state, model.slots[ToIndex(found.slot)].state);
        }
        break;
      }
      case 3:
        last_ = "Take";
        if (model.slots[0].state == SlotState::kTaken && Below(2) == 0) break;
        EXPECT_EQ(ToIndex(window.Take()), model.Take());
        break;
      case 4: {
        last_ = "Return";
        const std::uint32_t slot = InState(model, SlotState::kTaken);
        if (slot == WindowModel::kNone || Below(4) != 0) break;
        window.Return(SlotId{slot});
        model.Return(slot);
        break;
      }
      case 5:
      case 6: {
        last_ = "Bind";
        const std::uint32_t slot = InState(model, SlotState::kTaken);
        if (slot == WindowModel::kNone) break;
        const std::uint32_t other = model.Find(range);
        kept_[slot] = {};
        const auto bound = window.Bind(SlotId{slot}, key, touch);
        EXPECT_EQ(bound.must_map, model.Bind(slot, range, write));
        EXPECT_EQ(ToIndex(bound.other), other);
        break;
      }
      case 7: {
        last_ = "BindAt";
        const std::uint32_t slot = Below(static_cast<std::uint32_t>(model.slots.size()) + 1);
        const auto bound = window.BindAt(SlotId{slot}, key, touch);
        const auto [must_map, held] = model.BindAt(slot, range, write);
        EXPECT_EQ(bound.must_map, must_map);
        EXPECT_EQ(bound.held.any, held.any);
        if (held.any) {
          EXPECT_EQ(bound.held.key, World<typename CaseType::Index>::Key(held.range));
          EXPECT_EQ(bound.held.writable, held.writable);
          EXPECT_EQ(bound.held.dirty, held.dirty);
        }
        if (must_map) kept_[slot] = {bound.held, held};
        break;
      }
      case 8:
      case 9:
      case 10: {
        last_ = "Commit";
        const std::uint32_t slot = Some(
            model, [](const Slot& s) { return s.state == SlotState::kMapping || s.state == SlotState::kUpgrading; });
        if (slot == WindowModel::kNone) break;
        const Slot& s = model.slots[slot];
        const bool dirties = s.state == SlotState::kUpgrading || (s.writable && Below(4) != 0);
        const Touch of = dirties ? testing_::Write(s.range.file) : testing_::Read(s.range.file);
        if (Below(2) == 0) {  // as the guest does: in use from the first moment
          window.Pin(SlotId{slot});
          ++model.slots[slot].pins;
        }
        EXPECT_EQ(window.Commit(SlotId{slot}, of), model.Commit(slot, dirties));
        break;
      }
      case 11: {
        last_ = "Abort";
        const std::uint32_t slot = Some(model, [](const Slot& s) {
          return (s.state == SlotState::kMapping && s.pins == 0) || s.state == SlotState::kUpgrading;
        });
        if (slot == WindowModel::kNone) break;
        const Kept kept = Below(2) == 0 ? Kept{} : kept_[slot];
        EXPECT_EQ(window.Abort(SlotId{slot}, kept.held), model.Abort(slot, kept.model));
        break;
      }
      case 12: {
        last_ = "BeginUpgrade or AbortLost";
        if (Below(4) == 0) {
          const std::uint32_t slot = InState(model, SlotState::kUpgrading);
          if (slot == WindowModel::kNone) break;
          EXPECT_EQ(window.AbortLost(SlotId{slot}), model.AbortLost(slot));
          break;
        }
        const std::uint32_t slot =
            Some(model, [](const Slot& s) { return s.state == SlotState::kMapped && !s.writable; });
        if (slot == WindowModel::kNone) break;
        window.BeginUpgrade(SlotId{slot});
        model.BeginUpgrade(slot);
        break;
      }
      case 13: {
        last_ = "Pin";
        const std::uint32_t slot = Some(
            model, [](const Slot& s) { return s.state == SlotState::kMapped || s.state == SlotState::kUpgrading; });
        if (slot == WindowModel::kNone) break;
        window.Pin(SlotId{slot});
        ++model.slots[slot].pins;
        break;
      }
      case 14:
      case 15: {
        last_ = "Unpin";
        const std::uint32_t slot = Some(model, [](const Slot& s) { return s.pins > 0; });
        if (slot == WindowModel::kNone) break;
        EXPECT_EQ(window.Unpin(SlotId{slot}), model.Unpin(slot));
        break;
      }
      case 16: {
        last_ = "Observe";
        const std::uint32_t slot = InState(model, SlotState::kMapped);
        if (slot == WindowModel::kNone) break;
        window.Observe(SlotId{slot}, testing_::Read(model.slots[slot].range.file));
        model.Used(slot);
        break;
      }
      case 17: {
        last_ = "PickVictim";
        const FileId file = Below(2) == 0 ? kNoFile : range.file;
        const Scope scope = file == kNoFile ? Scope::Any() : Scope::File(file);
        const SlotId slot = Below(2) == 0 ? window.PickVictim(scope) : window.PickVictim(scope, key, touch);
        const std::uint32_t expected = model.Pick(file);
        EXPECT_EQ(ToIndex(slot), expected);
        if (expected == WindowModel::kNone || Below(3) == 0) break;
        EXPECT_TRUE(window.CanReclaim(slot));
        window.BeginReclaim(slot);
        model.BeginReclaim(expected);
        break;
      }
      case 18: {
        last_ = "CommitReclaim or AbortReclaim";
        const std::uint32_t slot = InState(model, SlotState::kReclaiming);
        if (slot == WindowModel::kNone) break;
        const std::uint32_t how = Below(4);
        if (how == 0) {
          const bool stays = window.AbortReclaim(SlotId{slot});
          EXPECT_EQ(stays, model.AbortReclaim(slot));
          if (stays) break;
        }
        if (how == 1) {
          EXPECT_EQ(window.CommitReclaimAndTake(SlotId{slot}), model.CommitReclaimAndTake(slot));
          break;
        }
        window.CommitReclaim(SlotId{slot});
        model.CommitReclaim(slot);
        break;
      }
      case 19: {
        last_ = "Invalidate";
        if (Below(3) != 0) break;
        const std::uint32_t how = Below(3);
        const std::uint64_t first = how == 0 ? 0 : Below(kRanges);
        const std::uint64_t last = how == 2 ? first + Below(3) : ~std::uint64_t{0};
        std::vector<std::uint32_t> slots;
        window.Invalidate(range.file, first, last, [&](SlotId slot) { slots.push_back(ToIndex(slot)); });
        EXPECT_EQ(slots, model.Invalidate(range.file, first, last));
        for (Kept& kept : kept_) {
          const FileRange& of = kept.model.range;
          if (of.file == range.file && of.index >= first && of.index <= last) kept = {};
        }
        break;
      }
      default: {
        last_ = "Grow or Shrink";
        if (!resizes || Below(3) != 0) break;
        if (Below(2) == 0) {
          const std::uint32_t by = Below(window.capacity() - window.size() + 2);
          if (window.Grow(by).ok()) {
            EXPECT_LE(model.size + by, window.capacity());
            model.Grow(by);
          } else {
            EXPECT_GT(model.size + by, window.capacity());
          }
        } else {
          const std::uint32_t by = Below(window.size() + 1);
          std::vector<std::uint32_t> slots;
          if (window.Shrink(by, [&](SlotId slot) { slots.push_back(ToIndex(slot)); }).ok()) {
            EXPECT_LT(by, model.size);
            EXPECT_EQ(slots, model.Shrink(by));
          } else {
            EXPECT_GE(by, model.size);
          }
        }
        break;
      }
    }
  }

  void Compare(const Win& window, const WindowModel& model) {
    ASSERT_EQ(window.CheckInvariants(), absl::OkStatus());
    EXPECT_EQ(window.size(), model.size);
    EXPECT_EQ(window.policy().size, model.size);
    EXPECT_EQ(window.free_slots(), model.free.size());
    std::uint32_t mapped = 0;
    for (std::uint32_t i = 0; i < model.slots.size(); ++i) {
      const WindowModel::Slot& s = model.slots[i];
      const SlotId slot{i};
      if (s.state == SlotState::kMapped) ++mapped;
      EXPECT_EQ(window.state(slot), s.state) << "slot " << i;
      EXPECT_EQ(window.pins(slot), s.pins) << "slot " << i;
      if (s.state < SlotState::kMapping || s.state == SlotState::kRetired) continue;
      EXPECT_EQ(window.range(slot), s.range) << "slot " << i;
      EXPECT_EQ(window.doomed(slot), s.doomed) << "slot " << i;
      EXPECT_EQ(window.shrunk(slot), s.shrunk) << "slot " << i;
      EXPECT_EQ(window.lost(slot), s.lost) << "slot " << i;
      EXPECT_EQ(window.writable(slot), s.writable) << "slot " << i;
      EXPECT_EQ(window.dirty(slot), s.dirty) << "slot " << i;
    }
    EXPECT_EQ(window.mapped_slots(), mapped);
  }

  std::mt19937 random_;
  World<typename CaseType::Index> world_;
  std::vector<Kept> kept_;
  const char* last_ = "";
};

using Cases = testing::Types<Case<LinuxPolicy, HashIndex, Order::kLinux>, Case<LinuxPolicy, DenseIndex, Order::kLinux>,
                             Case<LruPolicy, HashIndex, Order::kLru>, Case<LruPolicy, DenseIndex, Order::kLru>,
                             Case<FifoPolicy, HashIndex, Order::kFifo>>;
TYPED_TEST_SUITE(WindowModelTest, Cases);

int Length() {
  const char* full = std::getenv("DAXCACHE_FULL");
  return full != nullptr && *full == '1' ? 50 : 1;
}

TYPED_TEST(WindowModelTest, FixedSize) {
  for (int i = 0; i < Length(); ++i) {
    const auto seed = static_cast<std::uint32_t>(10 * i);
    this->Run(seed + 1, 1, 1, 5000, false);
    this->Run(seed + 2, 5, 5, 20000, false);
    this->Run(seed + 3, 24, 24, 20000, false);
    this->Run(seed + 4, 80, 80, 10000, false);  // more slots than ranges
  }
}

TYPED_TEST(WindowModelTest, GrowsAndShrinks) {
  for (int i = 0; i < Length(); ++i) {
    const auto seed = static_cast<std::uint32_t>(10 * i);
    this->Run(seed + 5, 1, 4, 10000, true);
    this->Run(seed + 6, 12, 16, 30000, true);
    this->Run(seed + 7, 3, 40, 20000, true);
  }
}

}  // namespace
}  // namespace daxcache
