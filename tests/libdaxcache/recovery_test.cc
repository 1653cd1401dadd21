// What is to be done after a death, from what the journal tells: extents beside slots, where the list of extents was
// not written any more; what no allocator writes.
#include "daxcache/recovery.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daxcache/journal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRange = 2 << 20;
constexpr SnapshotGeometry kWindow{.window_bytes = 4 * kRange, .range_bytes = kRange, .page_bytes = kPage};
constexpr std::uint64_t kMapped = JournalMapping::kMapped;

class Recovery : public testing::Test {
 protected:
  void PutExtents(const std::vector<Journal::ExtentEntry>& entries) {
    journal_.SetExtents(static_cast<std::uint32_t>(entries.size()), [&](std::uint32_t i) { return entries[i]; });
  }
  absl::StatusOr<RecoveryPlan> Plan(bool maps_over = true) { return PlanRecovery(journal_, kWindow, true, maps_over); }
  static std::vector<Extent> Windows(const std::vector<SavedMapping>& mappings) {
    std::vector<Extent> windows;
    for (const SavedMapping& mapping : mappings) windows.push_back(mapping.window);
    return windows;
  }

  alignas(64) std::byte memory_[4096];
  Journal journal_ = Journal::Create(memory_, {.slots = 4, .extents = 8}).value();
};

TEST_F(Recovery, WhatIsDecidedIsTaken) {
  journal_.Set(1, {.file = {1, 0, 0}, .file_offset = kRange, .flags = kMapped});
  journal_.Set(2, {.file = {1, 0, 0}, .file_offset = 0, .flags = kMapped | JournalMapping::kKept});
  PutExtents({{{kPage, kPage}, {.file = {2, 0, 0}, .file_offset = 3 * kPage, .flags = kMapped}}});
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(Windows(plan->taken), ElementsAre(Extent{kRange, kRange}, Extent{kPage, kPage}));
  EXPECT_THAT(plan->unmap, ElementsAre(Extent{2 * kRange, kRange}));
  EXPECT_THAT(plan->map, IsEmpty());
}

TEST_F(Recovery, ExtentsInAnUndecidedSlotAreMappedAgain) {
  PutExtents({{{kPage, kPage}, {.file = {2, 0, 0}, .file_offset = 0, .flags = kMapped}},
              {{kRange, kPage}, {.file = {2, 0, 0}, .file_offset = 0, .flags = kMapped}}});
  journal_.Begin(0, {.file = {1, 0, 0}, .file_offset = 0, .flags = kMapped});
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->unmap, ElementsAre(Extent{0, kRange}));
  EXPECT_THAT(Windows(plan->map), ElementsAre(Extent{kPage, kPage}));
  EXPECT_THAT(Windows(plan->taken), ElementsAre(Extent{kRange, kPage}));
}

TEST_F(Recovery, ASlotTookThePlaceOfTheExtentsInIt) {
  PutExtents({{{kPage, kRange}, {.file = {2, 0, 0}, .file_offset = 0, .flags = kMapped}}});
  journal_.Begin(0, {.file = {1, 0, 0}, .file_offset = 0, .flags = kMapped});
  journal_.End(0, true);
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_THAT(Windows(plan->taken), ElementsAre(Extent{0, kRange}, Extent{kRange, kPage}));
  EXPECT_EQ(plan->taken[1].file_offset, kRange - kPage);
  EXPECT_FALSE(Plan(false).ok());  // where one cannot map over, no set-up cuts an extent
}

TEST_F(Recovery, RefusesWhatNoAllocatorWrites) {
  const Extent bad_windows[] = {{0, 0}, {1, kPage}, {4 * kRange, kPage}, {kPage, ~0ull << 12}, {0, 5 * kRange}};
  for (const Extent& window : bad_windows) {
    PutExtents({{window, {.file = {2, 0, 0}, .flags = kMapped}}});
    EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDataLoss);
  }
  const JournalMapping bad_mappings[] = {
      {.flags = 0}, {.flags = 17}, {.file_offset = 1, .flags = 1}, {.file_offset = ~0ull << 12, .flags = 1}};
  for (const JournalMapping& mapping : bad_mappings) {
    PutExtents({{{0, kPage}, mapping}});
    EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDataLoss);
  }
  PutExtents({{{0, 2 * kPage}, {.flags = kMapped}}, {{kPage, kPage}, {.flags = kMapped}}});
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDataLoss);
  PutExtents({});
  EXPECT_TRUE(Plan().ok());
  ASSERT_TRUE(journal_.BeginArea({kRange, 8 * kRange}));
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDataLoss);
  journal_.EndArea({kRange, 8 * kRange});
  journal_.Set(3, {.file_offset = kPage, .flags = kMapped});
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace daxcache
