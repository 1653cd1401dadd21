// What is simulated is what is shipped: one access stream through replay and through the production allocator gives the
// same events, where the allocator chooses and where a guest does.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/allocator_guest.h"
#include "daxcache/sim/replay.h"
#include "daxcache/virtual_backend.h"
#include "sim/event_log.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using testing_::EventLog;
using testing_::ExpectSameEvents;
using testing_::HeadOfKernelBuild;

AllocatorOptions Options(std::uint32_t slots, EventLog& log) {
  AllocatorOptions options;
  options.window = ByteSize(std::uint64_t{slots} << 21);
  options.map_count.budget = 1 << 20;
  options.contiguous = false;  // replay takes the head of the free list always
  options.on_event = EventLog::Add;
  options.event_context = &log;
  return options;
}

// Every touch as a user of the window makes it: pinned without a lock if it is there, else mapped.
template <class P>
void ByAllocator(const RangeStream& stream, std::uint32_t slots, const ReclaimOptions& reclaim, EventLog& log) {
  using Allocator = MappingAllocator<P, VirtualBackend<true>>;
  AllocatorOptions options = Options(slots, log);
  options.reclaim = reclaim;
  const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
  {
    typename Allocator::Reader reader(*allocator);
    for (std::uint64_t at = 0; at < stream.size(); ++at) {
      const std::uint32_t word = stream.words()[at];
      const std::uint32_t number = RangeStream::NumberOf(word);
      const RangeStream::Kind kind = RangeStream::KindOf(word);
      if (kind == RangeStream::kExtendingWrite || kind == RangeStream::kTruncate) continue;
      if (kind == RangeStream::kUnlink) {
        ASSERT_EQ(allocator->Evict(FileId{number}), 0);
        continue;
      }
      const FileRange range = stream.range(number);
      const Op op = static_cast<Op>(kind);
      for (int i = 0; i < stream.repeats()[at]; ++i) {
        Pinned pinned;
        if (!reader.Pin(range, {.file = range.file, .op = op}, &pinned)) {
          ASSERT_EQ(allocator->Map({.file = range.file, .fd = 3, .file_offset = range.index << 21, .op = op}, &pinned),
                    0);
        }
        reader.Unpin(pinned);
      }
    }
  }
  EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
  const std::size_t events = log.events.size();
  EXPECT_EQ(allocator->RemoveAll(), 0);
  log.events.resize(events);
}

#ifdef DAXCACHE_SANITIZED
constexpr std::uint64_t kRecords = 25'000;
#else
constexpr std::uint64_t kRecords = 100'000;
#endif

template <template <class> class P>
void ExpectTheSameEvents(const Trace& trace, std::uint32_t slots, bool send_remove) {
  const auto stream = RangeStream::Build(trace, {}).value();
  ReplayOptions options{.mechanics = ReclaimOptions::Demand()};
  options.mechanics.send_remove = send_remove;
  EventLog expected;
  Replay<P<DenseIndex>, EventLog> replay({trace, *stream}, {.slots = slots, .max_slots = 0}, {}, options, expected);
  replay.Run(0, stream->size());
  EventLog got;
  ByAllocator<P<HashIndex>>(*stream, slots, options.mechanics, got);
  SCOPED_TRACE(P<DenseIndex>::kName);
  ExpectSameEvents(got.events, expected.events);
}

TEST(AllocatorReplay, TheAllocatorChoosesAsReplayDoes) {
  const Trace trace = HeadOfKernelBuild(kRecords);
  for (const std::uint32_t slots : {1u, 2u, 9u, 64u, 500u}) {
    for (const bool send_remove : {true, false}) {
      ExpectTheSameEvents<LinuxPolicy>(trace, slots, send_remove);
      ExpectTheSameEvents<LruPolicy>(trace, slots, send_remove);
      ExpectTheSameEvents<ClockPolicy>(trace, slots, send_remove);
      ExpectTheSameEvents<ArcPolicy>(trace, slots, send_remove);
    }
  }
}

// A guest in front of the allocator: its messages are what the allocator tells of, and what is mapped in the end is
// what the guest believes.
TEST(AllocatorReplay, AGuestsMessagesAreTheAllocatorsEvents) {
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, VirtualBackend<true>>;
  const Trace trace = HeadOfKernelBuild(kRecords);
  const auto stream = RangeStream::Build(trace, {}).value();
  for (const bool lazy : {false, true}) {
    constexpr std::uint32_t kSlots = 200;
    EventLog log;
    AllocatorOptions options = Options(kSlots, log);
    options.lazy.enabled = lazy;
    const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
    AllocatorGuest<Allocator> guest(*allocator, kSlots);
    std::vector<Event> sent;
    ASSERT_EQ(guest.Run(*stream, [&](const Event& event) { sent.push_back(event); }), 0);
    const auto& window = guest.window();
    ExpectSameEvents(log.events, sent);
    EXPECT_EQ(allocator->statistics().mapped, window.mapped_slots());
    for (const HeldMapping& held : allocator->Mappings()) {
      if (held.kept) continue;
      const SlotId slot{static_cast<std::uint32_t>(held.window.offset >> 21)};
      EXPECT_EQ(window.state(slot), SlotState::kMapped);
      EXPECT_EQ(window.range(slot), (FileRange{held.file, held.file_offset >> 21}));
      EXPECT_EQ(window.writable(slot), held.writable);
    }
    EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace daxcache
