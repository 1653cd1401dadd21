// The recorded traces, and the exact misses that their README gives for them.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/window.h"

namespace daxcache {
namespace {

// A trace as a folded range stream, with the next use of each word.
class Recorded {
 public:
  // Of `path`, or null if there is no such file.
  static std::unique_ptr<Recorded> Read(const std::string& path) {
    if (!std::filesystem::exists(path)) return nullptr;
    auto recorded = std::make_unique<Recorded>();
    const absl::StatusOr<Trace> trace = ReadTrace(path);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return nullptr;
    auto stream = RangeStream::Build(*trace, RangeStream::Options{});
    EXPECT_TRUE(stream.ok()) << stream.status();
    if (!stream.ok()) return nullptr;
    recorded->stream_ = *std::move(stream);
    const RangeStream& words = *recorded->stream_;
    recorded->next_.assign(words.size(), kNeverUsed);
    std::vector<std::uint64_t> seen(words.ranges(), kNeverUsed);
    for (std::uint64_t at = words.size(); at-- > 0;) {
      const std::uint32_t word = words.words()[at];
      if (RangeStream::KindOf(word) > RangeStream::kExtendingWrite) continue;
      recorded->next_[at] = std::exchange(seen[RangeStream::NumberOf(word)], at);
    }
    return recorded;
  }

  // Misses in a window of `slots`, all touches mapped and nothing deleted; under Linux's worker, or by demand.
  template <Policy P>
  std::uint64_t Misses(std::uint32_t slots, const typename P::Options& options, bool worker) const {
    using Key = typename P::Key;
    const RangeStream::Parts& parts = stream_->parts();
    typename P::Index::Space space{};
    if constexpr (std::is_same_v<typename P::Index, DenseIndex>) {
      space = {parts.range_files, parts.range_indexes, parts.first_range};
    }
    Window<P> window(space, {.slots = slots, .max_slots = slots}, options);
    const std::uint32_t threshold = std::max<std::uint32_t>(1, slots / 5);
    std::uint64_t misses = 0;
    for (std::uint64_t at = 0; at < stream_->size(); ++at) {
      const std::uint32_t word = stream_->words()[at];
      if (RangeStream::KindOf(word) > RangeStream::kExtendingWrite) continue;
      const std::uint32_t number = RangeStream::NumberOf(word);
      Key key;
      if constexpr (std::is_same_v<Key, FileRange>) {
        key = stream_->range(number);
      } else {
        key = Key{number};
      }
      const bool again = stream_->repeats()[at] > 1;
      Touch touch{.file = FileId{parts.range_files[number]}, .op = Op::kRead, .next_use = again ? at : next_[at]};
      const bool hit = window.Lookup(key, touch).kind == LookupKind::kHit;
      if (!hit) {
        ++misses;
        if (!window.Admit(key, touch)) {
          EXPECT_FALSE(again);
          continue;
        }
        SlotId slot = window.Take();
        if (slot == kNoSlot) {
          slot = window.BeginReclaim(Scope::Any(), key, touch);
          EXPECT_TRUE(window.CommitReclaimAndTake(slot));
        }
        EXPECT_TRUE(window.Bind(slot, key, touch).must_map);
        EXPECT_FALSE(window.Commit(slot, touch));
        if (worker && window.free_slots() < threshold) {
          window.Pin(slot);
          while (window.free_slots() < threshold) {
            for (int i = 0; i < 10; ++i) window.CommitReclaim(window.BeginReclaim(Scope::Any()));
          }
          EXPECT_FALSE(window.Unpin(slot));
        }
      }
      if (again && P::kRepeats != Repeats::kNone) {
        touch.next_use = next_[at];
        EXPECT_EQ(window.Lookup(key, touch).kind, LookupKind::kHit);
      }
    }
    EXPECT_TRUE(window.CheckInvariants().ok());
    return misses;
  }

  std::uint64_t touches() const { return stream_->touches(); }
  std::uint32_t ranges() const { return stream_->ranges(); }

 private:
  std::shared_ptr<const RangeStream> stream_;
  std::vector<std::uint64_t> next_;
};

// Of the policy of that name.
std::uint64_t Count(const Recorded& trace, std::string_view policy, std::uint32_t slots) {
  std::uint64_t misses = 0;
  const bool found = BasePolicies<DenseIndex>::Any([&]<class P>() {
    if (P::kName != policy) return false;
    misses = trace.Misses<P>(slots, {}, policy == "linux");
    return true;
  });
  EXPECT_TRUE(found) << policy;
  return misses;
}

// A size that the compiler does not see: gcc 12 warns of branches that cannot be reached with a constant one.
std::uint32_t Slots(std::uint32_t slots) {
  const volatile std::uint32_t hidden = slots;
  return hidden;
}

struct Expected {
  std::string_view policy;
  std::uint32_t slots;
  std::uint64_t misses;
};

void ExpectCounts(const Recorded& trace, std::initializer_list<Expected> counts) {
  for (const Expected& expected : counts) {
    EXPECT_EQ(Count(trace, expected.policy, expected.slots), expected.misses)
        << expected.policy << ", " << expected.slots << " ranges";
  }
}

const std::string& Shared() {
  static const std::string path = std::string(DAXCACHE_SOURCE_DIR) + "/../shared/traces/";
  return path;
}

TEST(RecordedTraces, SmallKernelBuild) {
  const auto trace = Recorded::Read(std::string(DAXCACHE_SOURCE_DIR) + "/traces/data/kbuild.trace.zst");
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->touches(), 708458u);
  EXPECT_EQ(trace->ranges(), 7376u);
  ExpectCounts(*trace, {{"fifo", 32, 499778},
                        {"fifo", 512, 256904},
                        {"fifo", 2048, 11579},
                        {"lru", 32, 497134},
                        {"lru", 512, 288336},
                        {"lru", 2048, 8212},
                        {"linux", 32, 508824},
                        {"linux", 512, 338877},
                        {"linux", 2048, 16912}});
  EXPECT_EQ(trace->Misses<LruPolicy<HashIndex>>(Slots(512), {}, false), 288336u);
  EXPECT_EQ(trace->Misses<LinuxPolicy<HashIndex>>(Slots(2048), {}, true), 16912u);
}

// At every size, none that always admits misses less than belady.
TEST(RecordedTraces, BeladyBoundsThemOnTheSmallKernelBuild) {
  const auto trace = Recorded::Read(std::string(DAXCACHE_SOURCE_DIR) + "/traces/data/kbuild.trace.zst");
  ASSERT_NE(trace, nullptr);
  for (const std::uint32_t slots : {16u, 256u, 2048u, 8192u}) {
    const std::uint64_t bound = Count(*trace, "belady", slots);
    EXPECT_LE(Count(*trace, "belady-bypass", slots), bound);
    for (const std::string_view policy : {"linux", "fifo", "lru", "clock", "arc", "random"}) {
      EXPECT_GE(Count(*trace, policy, slots), bound) << policy << ", " << slots << " ranges";
    }
  }
}

TEST(RecordedTraces, LargeKernelBuild) {
  const auto trace = Recorded::Read(Shared() + "kbuild-defconfig.trace.zst");
  if (trace == nullptr) GTEST_SKIP() << "no " << Shared() << "kbuild-defconfig.trace.zst";
  EXPECT_EQ(trace->touches(), 5369654u);
  EXPECT_EQ(trace->ranges(), 20660u);
  ExpectCounts(*trace, {{"fifo", 64, 3684816},
                        {"fifo", 1024, 368935},
                        {"lru", 64, 3677363},
                        {"lru", 1024, 271768},
                        {"linux", 64, 3726072},
                        {"linux", 1024, 895677}});
}

TEST(RecordedTraces, BlockTrace) {
  const auto trace = Recorded::Read(Shared() + "cloudphysics.trace.zst");
  if (trace == nullptr) GTEST_SKIP() << "no " << Shared() << "cloudphysics.trace.zst";
  ExpectCounts(*trace, {{"fifo", 32, 104893},
                        {"fifo", 2048, 94511},
                        {"lru", 32, 104212},
                        {"lru", 2048, 94156},
                        {"clock", 32, 104135},
                        {"clock", 2048, 94041},
                        {"arc", 32, 101265},
                        {"arc", 2048, 92752},
                        {"belady", 32, 97948},
                        {"belady", 2048, 81678},
                        {"belady-bypass", 32, 97883},
                        {"belady-bypass", 2048, 81674}});
  EXPECT_EQ(trace->Misses<ArcPolicy<HashIndex>>(Slots(32), {}, false), 101265u);
  EXPECT_EQ(trace->Misses<ClockPolicy<HashIndex>>(Slots(2048), {}, false), 94041u);
  EXPECT_EQ(trace->Misses<BeladyBypassPolicy<HashIndex>>(Slots(32), {}, false), 97883u);
}

}  // namespace
}  // namespace daxcache
