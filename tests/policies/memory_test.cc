// What a window and its policy allocate: at most 64 bytes a slot for the lean ones, and nothing once they stand.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/window.h"
#include "policies/drive.h"

namespace daxcache {
namespace {

using Tested = decltype(BasePolicies<HashIndex>::Join(PolicyList<PerFilePolicy<ArcPolicy<HashIndex>>>{}));

template <class P>
double BytesASlot() {
  constexpr std::uint32_t kSlots = 65536;
  const std::size_t before = testing_::AllocationsSoFar().bytes;
  const Window<P> window({}, {.slots = kSlots, .max_slots = kSlots}, {});
  return static_cast<double>(testing_::AllocationsSoFar().bytes - before + sizeof(window)) / kSlots;
}

TEST(Memory, AtMost64BytesASlot) {
  // A few hundred bytes are the objects' own: a hundredth of a byte a slot.
  EXPECT_LE(BytesASlot<LinuxPolicy<HashIndex>>(), 64);
  EXPECT_LE(BytesASlot<LruPolicy<HashIndex>>(), 64);
  EXPECT_LE(BytesASlot<ClockPolicy<HashIndex>>(), 64);
  Tested::Any([&]<class P>() {
    const double bytes = BytesASlot<P>();
    ::testing::Test::RecordProperty(std::string(P::kName), std::to_string(bytes));
    // As builtin.h says: 52 for the window and the index, at most 67 for ARC and its ghosts, 4 for per-file.
    EXPECT_LE(bytes, 52 + 67 + 4 + 0.1) << P::kName;
    return false;
  });
}

TEST(Memory, NothingIsAllocatedOnceTheyStand) {
  const Ranges ranges(40, 10);
  const Stream stream = MixedStream(ranges.size(), 4000, 3);
  const std::vector<std::uint64_t> next = NextUses(stream, ranges.size());
  const std::vector<FileFacts> facts(40);
  const auto check = [&]<class P>() {
    typename P::Options options;
    if constexpr (WrapsPolicy<P>) {
      options.files = facts;
      options.hot = {.accesses = 2, .within = absl::Seconds(1)};
      options.file_quota = 4;
    }
    Demand<P> demand(ranges, 50, options);
    const std::size_t before = testing_::AllocationsSoFar().count;
    for (std::size_t at = 0; at < stream.size(); ++at) {
      demand.Access(stream[at], next[at], static_cast<std::int64_t>(at));
      if constexpr (WrapsPolicy<P>) {
        demand.window().policy().OnOpen(FileId{stream[at] / 10}, 1000);
      }
    }
    EXPECT_EQ(testing_::AllocationsSoFar().count, before) << P::kName;
    EXPECT_GT(demand.window().mapped_slots(), 0u) << P::kName;
    return false;
  };
  Tested::Any(check);
  PolicyList<LruPolicy<DenseIndex>, ArcPolicy<DenseIndex>, BeladyPolicy<DenseIndex>>::Any(check);
}

}  // namespace
}  // namespace daxcache
