// What is simulated is what is shipped: one access stream through replay and through the production allocator gives the
// same events, where the allocator chooses and where a guest does.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/guest.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/replay.h"
#include "daxcache/virtual_backend.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using testing_::HeadOfKernelBuild;

struct Log {
  static constexpr bool kWantsHits = true;
  std::vector<Event> events;
  // The allocator does not remember what was there before.
  void operator()(Event event, std::uint32_t) {
    event.repeated = false;
    events.push_back(event);
  }
  static void Add(void* log, const Event& event) { (*static_cast<Log*>(log))(event, 0); }
};

AllocatorOptions Options(std::uint32_t slots, Log& log) {
  AllocatorOptions options;
  options.window = ByteSize(std::uint64_t{slots} << 21);
  options.map_count.budget = 1 << 20;
  options.contiguous = false;  // replay takes the head of the free list always
  options.on_event = Log::Add;
  options.event_context = &log;
  return options;
}

// Every touch as a user of the window makes it: pinned without a lock if it is there, else mapped.
template <class P>
void ByAllocator(const RangeStream& stream, std::uint32_t slots, const ReclaimOptions& reclaim, Log& log) {
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

void ExpectEqual(const std::vector<Event>& got, const std::vector<Event>& expected, std::string_view what) {
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    ASSERT_EQ(got[i], expected[i]) << what << " event " << i << " of " << expected.size();
  }
  ASSERT_EQ(got.size(), expected.size()) << what;
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
  Log expected;
  Replay<P<DenseIndex>, Log> replay({trace, *stream}, {.slots = slots, .max_slots = 0}, {}, options, expected);
  replay.Run(0, stream->size());
  Log got;
  ByAllocator<P<HashIndex>>(*stream, slots, options.mechanics, got);
  ExpectEqual(got.events, expected.events, P<DenseIndex>::kName);
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
  using Win = Window<LinuxPolicy<HashIndex>>;
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, VirtualBackend<true>>;
  const Trace trace = HeadOfKernelBuild(kRecords);
  const auto stream = RangeStream::Build(trace, {}).value();
  for (const bool lazy : {false, true}) {
    constexpr std::uint32_t kSlots = 200;
    Log log;
    AllocatorOptions options = Options(kSlots, log);
    options.lazy.enabled = lazy;
    const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
    Win window({}, {.slots = kSlots, .max_slots = 0}, {});
    Guest<Win> guest(window, ReclaimOptions::Linux());
    std::vector<Event> sent;
    bool kicked = false;
    const auto run = [&](Guest<Win>::Call call) {
      int error = 0;
      for (Action action = guest.Next(call); action.step != Step::kDone; action = guest.Next(call, error)) {
        error = 0;
        if (action.step == Step::kSetup || action.step == Step::kUpgrade) {
          const FileRange range = window.range(action.slot);
          sent.push_back({.kind = action.step == Step::kSetup ? EventKind::kSetup : EventKind::kUpgrade,
                          .write = action.exclusive,
                          .slot = action.slot,
                          .range = range});
          error = allocator->SetUp({.file = range.file,
                                    .fd = 3,
                                    .file_offset = range.index << 21,
                                    .length = 2 << 20,
                                    .window_offset = std::uint64_t{ToIndex(action.slot)} << 21,
                                    .writable = action.exclusive});
        } else if (action.step == Step::kRemove) {
          std::vector<Extent> entries;
          SlotId slot = action.slot;
          for (std::uint32_t i = 0; i < action.count; ++i, slot = guest.NextInBatch(slot)) {
            sent.push_back({.kind = EventKind::kRemove, .slot = slot, .range = window.range(slot)});
            entries.push_back({std::uint64_t{ToIndex(slot)} << 21, 2 << 20});
          }
          error = allocator->Remove(entries);
        } else if (action.step == Step::kKickWorker) {
          kicked = true;
        }
        ASSERT_EQ(error, 0);
      }
    };
    for (std::uint64_t at = 0; at < stream->size(); ++at) {
      const std::uint32_t word = stream->words()[at];
      const std::uint32_t number = RangeStream::NumberOf(word);
      const RangeStream::Kind kind = RangeStream::KindOf(word);
      if (kind == RangeStream::kExtendingWrite || kind == RangeStream::kTruncate) continue;
      if (kind == RangeStream::kUnlink) {
        run(guest.StartEviction(FileId{number}));
        ASSERT_EQ(allocator->Evict(FileId{number}), 0);
        continue;
      }
      const FileRange range = stream->range(number);
      const Touch touch{.file = range.file, .op = static_cast<Op>(kind)};
      run(IsMapped(touch.op) ? guest.StartFault(range, touch) : guest.StartCall(range, touch));
      while (kicked) {
        kicked = false;
        run(guest.StartWorker());
      }
    }
    ExpectEqual(log.events, sent, "guest");
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
