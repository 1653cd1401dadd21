// The window's promises about memory: nothing is allocated after construction, whatever happens, and window and policy
// together take at most 64 bytes a slot.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "allocations.h"
#include "daxcache/guest.h"
#include "daxcache/policies/fifo.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/window.h"
#include "gtest/gtest.h"
#include "libdaxcache/window_fixture.h"

namespace daxcache {
namespace {

using testing_::At;

template <class Policy>
class WindowMemoryTest : public testing::Test {};
using Policies = testing::Types<LinuxPolicy<HashIndex>, LruPolicy<HashIndex>, FifoPolicy<HashIndex>>;
TYPED_TEST_SUITE(WindowMemoryTest, Policies);

TYPED_TEST(WindowMemoryTest, AtMost64BytesASlot) {
  constexpr std::uint32_t kSlots = 65536;
  const std::size_t before = testing_::AllocationsSoFar().bytes;
  const Window<TypeParam> window({}, {.slots = kSlots}, {});
  const std::size_t bytes = testing_::AllocationsSoFar().bytes - before + sizeof(window);
  EXPECT_LE(bytes, 64u * kSlots) << static_cast<double>(bytes) / kSlots << " bytes a slot";
  EXPECT_GT(bytes, 16u * kSlots);  // or the count does not work
}

TYPED_TEST(WindowMemoryTest, NothingIsAllocatedAfterConstruction) {
  constexpr std::uint32_t kSlots = 64;
  using Win = Window<TypeParam>;
  for (const bool linux_mechanics : {true, false}) {
    Win window({}, {.slots = kSlots, .max_slots = 2 * kSlots}, {});
    Guest<Win> guest(window, linux_mechanics ? ReclaimOptions::Linux() : ReclaimOptions::Demand());
    std::mt19937 bits(5);
    const auto random = [&bits] { return static_cast<std::uint32_t>(bits()); };
    const std::size_t before = testing_::AllocationsSoFar().count;
    const auto run = [&](typename Guest<Win>::Call call) {
      std::uint32_t steps = 0;
      bool kicked = false;
      for (Action action = guest.Next(call); action.step != Step::kDone;) {
        kicked = kicked || action.step == Step::kKickWorker;
        const bool asked = action.step == Step::kSetup || action.step == Step::kRemove || action.step == Step::kUpgrade;
        action = guest.Next(call, asked && random() % 32 == 0 ? -5 : 0, random() % 2 == 0);
        if (++steps > 100000) return false;
      }
      return kicked;
    };
    for (int i = 0; i < 20000; ++i) {
      const FileRange key = At(random() % 20, random() % 40);
      const Touch touch{.file = key.file, .op = static_cast<Op>(random() % 4)};
      bool kicked = false;
      switch (random() % 8) {
        case 0: kicked = run(guest.StartEviction(key.file)); break;
        case 1:
          window.Invalidate(key.file, key.index, key.index + 3, [&](SlotId slot) { window.CommitReclaim(slot); });
          break;
        case 2:
          if (random() % 8 == 0) (void)window.Grow(random() % (window.capacity() - window.size() + 1));
          break;
        case 3:
          if (random() % 8 != 0 || window.size() <= kSlots) break;
          kicked = run(guest.StartShrink(random() % (window.size() - kSlots)));
          break;
        default: kicked = run(IsMapped(touch.op) ? guest.StartFault(key, touch) : guest.StartCall(key, touch, 3));
      }
      while (kicked) kicked = run(guest.StartWorker());
    }
    EXPECT_EQ(testing_::AllocationsSoFar().count, before);
    EXPECT_EQ(window.CheckInvariants(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace daxcache
