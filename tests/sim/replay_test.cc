// Replay against what is known of it: the counts published with the recorded builds, the protocol driven step by step,
// Belady's bound, and the rules of docs/model.md one by one.
#include "daxcache/sim/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daxcache/guest.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/stats.h"
#include "daxcache/sim/study.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/generators.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using testing_::HeadOfKernelBuild;
using testing_::KernelBuild;
using testing_::KernelBuildToRepeat;

Trace Parse(const std::string& text) {
  auto trace = ReadTraceFromBytes("test", text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *trace : Trace();
}

RunSpec Spec(std::string_view policy, std::uint32_t ranges, bool textbook = false) {
  RunSpec spec;
  spec.window = ByteSize(std::uint64_t{ranges} << 21);
  spec.policy = ParsePolicySpec(policy).value();
  spec.options.mechanics = spec.policy.core() == "linux" ? ReclaimOptions::Linux() : ReclaimOptions::Demand();
  spec.options.keep_deleted = textbook;
  spec.options.map_extending_writes = textbook;
  return spec;
}

RunResult MustRun(Study& study, const RunSpec& spec) {
  auto result = RunReplay(study, spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : RunResult();
}

// The counts that came with the recording (`linux` and `demand`, nothing deleted, extending writes mapped).
TEST(Replay, CountsOfTheKernelBuild) {
  const std::tuple<const char*, std::uint32_t, std::uint64_t> kExpected[] = {
      {"fifo", 32, 499'778},  {"lru", 32, 497'134},  {"linux", 32, 508'824},
      {"fifo", 512, 256'904}, {"lru", 512, 288'336}, {"linux", 512, 338'877},
      {"fifo", 2048, 11'579}, {"lru", 2048, 8'212},  {"linux", 2048, 16'912},
  };
  for (const auto& [policy, ranges, misses] : kExpected) {
    const RunResult run = MustRun(KernelBuild(), Spec(policy, ranges, true));
    EXPECT_EQ(run.counts.misses, misses) << policy << " " << ranges;
    EXPECT_EQ(run.touches, 708'458u);
    EXPECT_EQ(run.counts.cold_misses, 7'376u);
    EXPECT_EQ(run.hits + run.counts.misses, run.touches);
    EXPECT_EQ(run.counts.reclaims_inline, policy == std::string("linux") ? 0 : misses - ranges);
  }
}

TEST(Replay, LinuxBypassesExtendingWrites) {
  const RunResult run = MustRun(KernelBuild(), Spec("linux", 2048));
  EXPECT_EQ(run.extending_write_touches, 8'151u);
  EXPECT_EQ(run.touches, 708'458u - 8'151u);
  EXPECT_EQ(run.counts.cold_misses, 7'376u - 825u);  // 825 ranges are touched by extending writes alone
}

TEST(Replay, NobodyBeatsBelady) {
  for (const std::uint32_t ranges : {1u, 2u, 3u, 16u, 100u, 512u, 2048u, 8192u}) {
    for (const bool textbook : {false, true}) {
      const std::uint64_t belady = MustRun(KernelBuildToRepeat(), Spec("belady", ranges, textbook)).counts.misses;
      const std::uint64_t bypass =
          MustRun(KernelBuildToRepeat(), Spec("belady-bypass", ranges, textbook)).counts.misses;
      EXPECT_LE(bypass, belady);
      for (const char* policy :
           {"linux", "fifo", "lru", "clock", "arc", "random", "per-file:base=lru,min=32K", "per-file:hot=2/10s"}) {
        const RunResult run = MustRun(KernelBuildToRepeat(), Spec(policy, ranges, textbook));
        EXPECT_LE(belady, run.counts.misses + run.non_dax_touches) << policy << " " << ranges;
        EXPECT_EQ(run.hits + run.counts.misses + run.non_dax_touches, run.touches) << policy;
        EXPECT_LE(run.peak_ranges, ranges) << policy;
      }
    }
  }
}

// What goes in comes out or stays.
TEST(Replay, SetupsAreReclaimsAndWhatIsLeft) {
  for (const std::string_view policy : kPolicyNames) {
    for (const std::uint32_t ranges : {7u, 64u, 1024u}) {
      const RunResult run = MustRun(KernelBuildToRepeat(), Spec(policy, ranges));
      const ReplayCounts& counts = run.counts;
      EXPECT_EQ(counts.setups, counts.misses - counts.bypasses) << policy;
      EXPECT_EQ(counts.setups - counts.reclaims_background - counts.reclaims_inline - counts.evictions,
                run.occupancy.back().ranges)
          << policy;
      EXPECT_EQ(counts.removes, counts.reclaims_background + counts.reclaims_inline + counts.evictions) << policy;
    }
  }
}

// Keeps all events.
struct Log {
  static constexpr bool kWantsHits = true;
  std::vector<Event> events;
  void operator()(const Event& event, std::uint32_t) { events.push_back(event); }
};

// Drives the guest's protocol over the other index, one access after another, every answer given at once.
template <class P>
std::vector<Event> ByProtocol(const RangeStream& stream, std::uint32_t slots, const ReplayOptions& options,
                              const typename P::Options& policy) {
  std::vector<Event> events;
  std::vector<bool> seen(stream.ranges());
  Window<P> window({}, {.slots = slots, .max_slots = 0}, policy);
  Guest<Window<P>> guest(window, options.mechanics);
  bool kicked = false;
  const auto drive = [&](auto& self, typename Guest<Window<P>>::Call call, std::uint32_t number, bool access) -> void {
    bool setup = false;
    for (Action action = guest.Next(call); action.step != Step::kDone; action = guest.Next(call)) {
      const auto emit = [&](EventKind kind, SlotId slot, FileRange range, bool write, Cause cause, bool repeated) {
        events.push_back(
            {.kind = kind, .cause = cause, .write = write, .repeated = repeated, .slot = slot, .range = range});
      };
      const auto workers = [&] {
        for (bool on = true; on;) {
          const std::uint32_t before = window.free_slots();
          kicked = false;
          self(self, guest.StartWorker(), 0, false);
          on = kicked && window.free_slots() > before;
        }
      };
      switch (action.step) {
        case Step::kSetup:
        case Step::kUpgrade:
          setup = true;
          emit(action.step == Step::kSetup ? EventKind::kSetup : EventKind::kUpgrade, action.slot,
               window.range(action.slot), action.exclusive, Cause::kNone, false);
          break;
        case Step::kRemove: {
          SlotId slot = action.slot;
          for (std::uint32_t i = 0; i < action.count; ++i, slot = guest.NextInBatch(slot)) {
            emit(EventKind::kRemove, slot, window.range(slot), false, action.cause, false);
          }
          break;
        }
        case Step::kFreed:
          if (action.cause != Cause::kNone) {
            emit(EventKind::kReclaim, action.slot, window.range(action.slot), false, action.cause, false);
          }
          break;
        case Step::kUse:
          if (access && !setup) {
            emit(EventKind::kHit, action.slot, stream.range(number), action.exclusive, Cause::kNone, false);
          }
          if (kicked) workers();
          break;
        case Step::kUseDirect:
          emit(EventKind::kBypass, kNoSlot, stream.range(number), action.exclusive, Cause::kNone, false);
          break;
        case Step::kKickWorker: kicked = true; break;
        case Step::kWaitForRange: workers(); break;
        default: break;
      }
    }
  };
  for (std::uint64_t at = 0; at < stream.size(); ++at) {
    const std::uint32_t word = stream.words()[at];
    const std::uint32_t number = RangeStream::NumberOf(word);
    const RangeStream::Kind kind = RangeStream::KindOf(word);
    if (kind == RangeStream::kExtendingWrite || kind == RangeStream::kTruncate) continue;
    if (kind == RangeStream::kUnlink) {
      drive(drive, guest.StartEviction(FileId{number}), 0, false);
      continue;
    }
    const FileRange range = stream.range(number);
    const Touch touch{.file = range.file, .op = static_cast<Op>(kind)};
    for (int i = 0; i < stream.repeats()[at]; ++i) {
      if (window.Find(range) == kNoSlot) {
        events.push_back({.kind = EventKind::kMiss,
                          .cause = Cause::kNone,
                          .write = IsWrite(touch.op),
                          .repeated = seen[number],
                          .slot = kNoSlot,
                          .range = range});
        seen[number] = true;
      }
      drive(drive, IsMapped(touch.op) ? guest.StartFault(range, touch) : guest.StartCall(range, touch), number, true);
    }
  }
  return events;
}

template <template <class> class P>
void ExpectTheSameEvents(const Trace& trace, std::uint32_t slots, const ReplayOptions& options) {
  const auto stream = RangeStream::Build(trace, {}).value();
  Log log;
  Replay<P<DenseIndex>, Log> replay({trace, *stream}, {.slots = slots, .max_slots = 0}, {}, options, log);
  replay.Run(0, stream->size());
  const std::vector<Event> expected = ByProtocol<P<HashIndex>>(*stream, slots, options, {});
  ASSERT_EQ(log.events.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(log.events[i], expected[i]) << P<DenseIndex>::kName << " event " << i << " of " << expected.size();
  }
  EXPECT_TRUE(replay.window().CheckInvariants().ok());
}

// The short cut that replay takes under demand mechanics does what the protocol would have done, event for event, and
// so do the two indexes.
TEST(Replay, EqualsTheProtocolStepByStep) {
#ifdef DAXCACHE_SANITIZED
  const Trace trace = HeadOfKernelBuild(25'000);
#else
  const Trace trace = HeadOfKernelBuild(200'000);
#endif
  for (const std::uint32_t slots : {1u, 2u, 9u, 64u, 500u}) {
    for (const bool no_remove : {false, true}) {
      ReplayOptions options{.mechanics = ReclaimOptions::Demand()};
      options.mechanics.send_remove = !no_remove;
      ExpectTheSameEvents<LruPolicy>(trace, slots, options);
      ExpectTheSameEvents<ClockPolicy>(trace, slots, options);
      ExpectTheSameEvents<ArcPolicy>(trace, slots, options);
      ExpectTheSameEvents<LinuxPolicy>(trace, slots, options);
      options.mechanics = ReclaimOptions::Linux();
      options.mechanics.send_remove = !no_remove;
      ExpectTheSameEvents<LinuxPolicy>(trace, slots, options);
      ExpectTheSameEvents<ArcPolicy>(trace, slots, options);
    }
  }
}

// Linux's mechanics as docs/model.md words them, on a list of ranges: after a miss the worker frees chunks while too
// few are free, and never the range just mapped.
std::uint64_t NaiveLinuxMisses(const RangeStream& stream, std::size_t ranges, const ReclaimOptions& mechanics) {
  std::list<std::uint32_t> mapped;
  std::vector<bool> there(stream.ranges());
  std::uint64_t misses = 0;
  for (const std::uint32_t word : stream.words()) {
    if (RangeStream::KindOf(word) > RangeStream::kExtendingWrite) continue;
    const std::uint32_t number = RangeStream::NumberOf(word);
    if (there[number]) continue;
    ++misses;
    if (mapped.size() == ranges) {  // a window of one range
      there[mapped.front()] = false;
      mapped.pop_front();
    }
    there[number] = true;
    mapped.push_back(number);
    while (ranges - mapped.size() < mechanics.Threshold(static_cast<std::uint32_t>(ranges)) && mapped.size() > 1) {
      for (std::uint32_t i = 0; i < mechanics.chunk && mapped.size() > 1; ++i) {
        there[mapped.front()] = false;
        mapped.pop_front();
      }
    }
  }
  return misses;
}

TEST(Replay, LinuxMechanicsEqualANaiveCount) {
  const auto stream = RangeStream::Build(KernelBuildToRepeat().trace(), {}).value();
  for (const std::uint32_t ranges : {1u, 2u, 3u, 16u, 33u, 100u, 777u}) {
    for (const std::uint32_t threshold : {1u, 20u, 50u, 99u, 100u}) {
      for (const std::uint32_t chunk : {1u, 10u, 64u}) {
        RunSpec spec = Spec("linux", ranges, true);
        spec.options.mechanics.threshold_percent = threshold;
        spec.options.mechanics.chunk = chunk;
        EXPECT_EQ(MustRun(KernelBuildToRepeat(), spec).counts.misses,
                  NaiveLinuxMisses(*stream, ranges, spec.options.mechanics))
            << ranges << " ranges, threshold " << threshold << ", chunk " << chunk;
      }
    }
  }
}

// Folding runs of touches changes no count, whatever of them the policy says it needs to see.
TEST(Replay, FoldingChangesNothing) {
  const Trace& trace = KernelBuildToRepeat().trace();
  const auto folded = RangeStream::Build(trace, {}).value();
  const auto unfolded = RangeStream::Build(trace, {.range_size = RangeSize(), .fold = false}).value();
  ASSERT_LT(folded->size(), unfolded->size());
  BuiltinPolicies<DenseIndex>::Any([&]<class P>() {
    if constexpr (!NeedsNextUse<P> && !SeesFiles<P>) {
      for (const std::uint32_t slots : {16u, 333u}) {
        std::vector<std::uint64_t> misses;
        for (const auto& stream : {folded, unfolded}) {
          StatsSink sink(trace.files().size(), stream->ranges(), slots);
          const ReplayOptions options{.mechanics = ReclaimOptions::Demand()};
          Replay<P, StatsSink> replay({trace, *stream}, {.slots = slots, .max_slots = 0}, {}, options, sink);
          replay.Run(0, stream->size());
          misses.push_back(sink.counts().misses);
        }
        EXPECT_EQ(misses[0], misses[1]) << P::kName;
      }
    }
    return false;
  });
}

constexpr char kHeader[] = "daxtrace 1\nfile 0 8388608 /a\nfile 1 8388608 /b\ntask 0 - 0 1000 0 0 t\n";

TEST(Replay, DeletingAFileReturnsItsRanges) {
  const std::string text = std::string(kHeader) +
                           "1 0 R 0 0 8388608\n"  // four ranges
                           "2 0 D 0 0 8388608\n"
                           "3 0 R 1 0 4096\n";
  Study study(Parse(text));
  const RunResult run = MustRun(study, Spec("lru", 4));
  EXPECT_EQ(run.counts.evictions, 4u);
  EXPECT_EQ(run.counts.removes, 4u);
  EXPECT_EQ(run.counts.reclaims_inline, 0u);
  RunSpec keep = Spec("lru", 4);
  keep.options.keep_deleted = true;
  EXPECT_EQ(MustRun(study, keep).counts.evictions, 0u);
  EXPECT_EQ(MustRun(study, keep).counts.reclaims_inline, 1u);
}

TEST(Replay, TruncationLeavesRangesMapped) {
  Study study(Parse(std::string(kHeader) + "1 0 R 0 0 4096\n2 0 T 0 0 0\n3 0 W 0 0 4096\n4 0 R 0 0 4096\n"));
  const RunResult run = MustRun(study, Spec("lru", 4));
  EXPECT_EQ(run.counts.misses, 1u);
  EXPECT_EQ(run.extending_write_touches, 1u);  // the file was empty
  EXPECT_EQ(run.hits, 1u);
}

TEST(Replay, AWriteUpgradesAReadOnlyRange) {
  Study study(Parse(std::string(kHeader) +
                    "1 0 R 0 0 4096\n2 0 W 0 0 4096\n3 0 W 0 4096 4096\n4 0 W 1 0 4096\n5 0 R 1 0 4096\n"));
  for (const char* policy : {"linux", "lru"}) {
    const RunResult run = MustRun(study, Spec(policy, 8));
    EXPECT_EQ(run.counts.upgrades, 1u) << policy;
    EXPECT_EQ(run.counts.setups, 2u);
    EXPECT_EQ(run.hits, 3u);
  }
}

TEST(Replay, AnAccessTouchesEveryRangeItOverlaps) {
  Study study(Parse(std::string(kHeader) + "1 0 R 0 2097151 2\n2 0 R 0 0 0\n3 0 F 1 2097152 2097152\n"));
  const RunResult run = MustRun(study, Spec("lru", 8));
  EXPECT_EQ(run.touches, 3u);
  EXPECT_EQ(run.accesses, 2u);  // the one of length 0 touches nothing
  EXPECT_EQ(run.counts.misses, 3u);
}

TEST(Replay, ATailShorterThanARangeIsUnused) {
  Study study(Parse("daxtrace 1\n"));
  RunSpec spec = Spec("lru", 3);
  spec.window = ByteSize(spec.window.bytes() + (1u << 21) - 1);
  EXPECT_EQ(MustRun(study, spec).ranges, 3u);
}

TEST(Replay, EmptyTrace) {
  Study study(Parse("daxtrace 1\n"));
  for (const std::string_view policy : kPolicyNames) {
    const RunResult run = MustRun(study, Spec(policy, 8));
    EXPECT_EQ(run.touches, 0u);
    EXPECT_EQ(run.MissRatio(), 0);
    EXPECT_TRUE(run.occupancy.empty());
  }
}

TEST(Replay, TouchedPagesAreCountedOnce) {
  Study study(Parse(std::string(kHeader) + "1 0 R 0 0 4097\n2 0 R 0 4096 1\n3 0 F 0 2093056 8192\n4 0 R 1 1 1\n"));
  const RunResult run = MustRun(study, Spec("lru", 8));
  EXPECT_EQ(run.mapped_ranges_ever, 3u);
  EXPECT_EQ(run.touched_bytes, (2 + 1 + 1 + 1) * 4096u);
}

TEST(Replay, SmallRanges) {
  RunSpec spec = Spec("lru", 512);
  spec.range_size = RangeSize::Create(ByteSize(64 << 10)).value();
  const RunResult run = MustRun(KernelBuild(), spec);
  EXPECT_EQ(run.ranges, 512u * 32);
  EXPECT_GT(run.touched_share, MustRun(KernelBuild(), Spec("lru", 512)).touched_share);
}

TEST(Replay, PerFileCountsWhatItKeepsOut) {
  Study study(
      Parse("daxtrace 1\nfile 0 4096 /small\nfile 1 8388608 /big\ntask 0 - 0 9 0 0 t\n"
            "1 0 R 0 0 4096\n2 0 R 1 0 4096\n3 0 R 0 0 4096\n4 0 R 1 0 4096\n"));
  const RunResult run = MustRun(study, Spec("per-file:base=lru,min=32K", 8));
  EXPECT_EQ(run.non_dax_touches, 2u);
  EXPECT_EQ(run.counts.misses, 1u);
  EXPECT_EQ(run.hits, 1u);
  EXPECT_EQ(run.peak_files, 1u);
}

TEST(Replay, WindowsThatMakeNoSense) {
  Study study(Parse("daxtrace 1\n"));
  RunSpec spec = Spec("lru", 1);
  spec.window = ByteSize(4096);
  EXPECT_EQ(RunReplay(study, spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.window = ByteSize(std::uint64_t{1} << 60);
  EXPECT_EQ(RunReplay(study, spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = Spec("lru", 1);
  spec.options.mechanics.chunk = 0;
  EXPECT_FALSE(RunReplay(study, spec).ok());
}

}  // namespace
}  // namespace daxcache
