// The timed engine against what can be said beforehand: closed forms where nobody waits, conservation laws where many
// do, and the same bytes for the same seed.
#include "daxcache/sim/timed_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "daxcache/sim/event_queue.h"
#include "daxcache/sim/fuse_daemon.h"
#include "daxcache/sim/latency_histogram.h"

namespace daxcache {
namespace {

constexpr std::uint64_t kRange = std::uint64_t{2} << 20;

struct ListStream final : IoSource {
  struct Io {
    Op op = Op::kRead;
    std::uint64_t offset = 0;
  };
  std::vector<Io> ios;
  std::size_t at = 0;

  explicit ListStream(std::vector<Io> list = {}) : ios(std::move(list)) {}
  bool Next(TimedIo& io) override {
    if (at == ios.size()) return false;
    io = {.op = ios[at].op, .offset = ios[at].offset, .length = 4096};
    ++at;
    return true;
  }
};

ListStream RandomReads(std::uint64_t size, int count, std::uint64_t seed, int write_percent = 0) {
  ListStream stream;
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    stream.ios.push_back({.op = static_cast<int>(random() % 100) < write_percent ? Op::kWrite : Op::kRead,
                          .offset = random() % (size / 4096) * 4096});
  }
  return stream;
}

constexpr std::uint32_t kFiles[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
std::span<const std::uint32_t> File(std::size_t file) {
  return std::span(kFiles).subspan(file, 1);
}

// Round figures; what is not of interest costs nothing.
CostModel Costs() {
  CostModel costs;
  costs.service_ns = 70'000;
  costs.wake_ns = 20'000;
  costs.read_ns = 5'000;
  costs.write_ns = 8'000;
  costs.load_ns = 4'000;
  costs.store_ns = 3'000;
  return costs;
}

std::unique_ptr<TimedEngine> Make(std::vector<std::uint64_t> sizes, std::uint32_t slots,
                                  const CostModel& costs = Costs(),
                                  const ReclaimOptions& mechanics = ReclaimOptions::Linux(),
                                  EngineOptions options = {}) {
  return std::make_unique<TimedEngine>(sizes, RangeSize(), WindowOptions{.slots = slots},
                                       TimedEngine::PolicyType::Options{}, mechanics, costs, options);
}

double Nanoseconds(const ProcessResult& result) {
  return static_cast<double>(result.end_ns - result.begin_ns);
}

TEST(EventQueue, EventsComeByTimeAndThenInTheOrderPosted) {
  EventQueue queue;
  std::mt19937_64 random(3);
  std::vector<std::pair<std::int64_t, std::uint32_t>> posted;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    posted.emplace_back(static_cast<std::int64_t>(random() % 50), i);
    queue.Post(posted.back().first, i);
  }
  std::stable_sort(posted.begin(), posted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, task] : posted) {
    EXPECT_EQ(queue.next_time(), time);
    EXPECT_EQ(queue.Pop(), task);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next_time(), EventQueue::kNever);
}

TEST(FuseDaemon, InLineOneAtATime) {
  FuseDaemon daemon(0);
  EXPECT_EQ(daemon.Submit(100, 20, 50, 0).end_ns, 170) << "idle: has to be notified";
  const auto second = daemon.Submit(110, 20, 50, 0);
  EXPECT_EQ(second.begin_ns, 170) << "busy: goes on by itself";
  EXPECT_EQ(second.end_ns, 220);
  EXPECT_EQ(daemon.busy_ns(), 100);
  EXPECT_EQ(daemon.queued_ns(), 20 + 60);
}

TEST(FuseDaemon, ALongIdleOneHasToBeAwakened) {
  FuseDaemon daemon(0);
  EXPECT_EQ(daemon.Submit(FuseDaemon::kDeepSleepNs, 20, 50, 0).begin_ns, FuseDaemon::kDeepSleepNs + 20);
  const std::int64_t later = FuseDaemon::kDeepSleepNs + 70 + FuseDaemon::kDeepSleepNs + 1;
  EXPECT_EQ(daemon.Submit(later, 20, 50, 0).begin_ns, later + FuseDaemon::kAwakenNs + 20);
}

TEST(FuseDaemon, ManyThreadsSleepNoDeeperThanOne) {
  FuseDaemon daemon(64);
  std::int64_t now = 0;
  for (int i = 0; i < 100; ++i, now += 30'000) EXPECT_EQ(daemon.Submit(now, 20, 50, 0).begin_ns, now + 20) << i;
}

TEST(FuseDaemon, QueuesAreServedApart) {
  FuseDaemon daemon(0, 2);
  EXPECT_EQ(daemon.Submit(0, 20, 50, 0, 0).end_ns, 70);
  EXPECT_EQ(daemon.Submit(10, 20, 50, 0, 1).end_ns, 80) << "the other queue's thread is idle";
  EXPECT_EQ(daemon.Submit(20, 20, 50, 0, 2).begin_ns, 70) << "the third sender shares the first one's queue";
  EXPECT_EQ(daemon.threads(), 2u);
}

TEST(FuseDaemon, ThreadsShareTheMmapLock) {
  FuseDaemon daemon(2);
  EXPECT_EQ(daemon.Submit(0, 0, 100, 60).end_ns, 100);
  EXPECT_EQ(daemon.Submit(0, 0, 100, 60).end_ns, 160) << "its last 60 ns wait for the other's";
  EXPECT_EQ(daemon.LockedFor(30), 0);
  EXPECT_EQ(daemon.LockedFor(50), 50);
  EXPECT_EQ(daemon.LockedFor(100), 60);
  EXPECT_EQ(daemon.LockedFor(160), 0);
}

TEST(LatencyHistogram, QuantilesAreRightToThreePercent) {
  LatencyHistogram histogram;
  for (std::int64_t ns = 1; ns <= 1'000'000; ns += 7) histogram.Record(ns);
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    EXPECT_NEAR(static_cast<double>(histogram.Quantile(share)), share * 1e6, share * 1e6 * 0.03) << share;
  }
  EXPECT_NEAR(histogram.ShareBelow(500'000), 0.5, 0.02);
  EXPECT_EQ(LatencyHistogram().Quantile(0.5), 0);
}

TEST(TimedEngine, WithoutMissesAnAccessCostsTheHitAlone) {
  const auto engine = Make({kRange}, 8);
  ListStream warm{{{}}};
  ListStream reads{std::vector<ListStream::Io>(1000)};
  ListStream writes{std::vector<ListStream::Io>(1000, {.op = Op::kWrite})};
  ListStream first_write{{{.op = Op::kWrite}}};
  (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &warm, .files = File(0)}});
  EXPECT_EQ(Nanoseconds(engine->Run(std::vector<TimedEngine::Process>{{.source = &reads, .files = File(0)}})[0]),
            1000 * 5'000);
  const auto upgrade = engine->Run(std::vector<TimedEngine::Process>{{.source = &first_write, .files = File(0)}})[0];
  EXPECT_EQ(upgrade.upgrades, 1u);
  EXPECT_EQ(Nanoseconds(engine->Run(std::vector<TimedEngine::Process>{{.source = &writes, .files = File(0)}})[0]),
            1000 * 8'000);
}

TEST(TimedEngine, TheFirstTouchOfAPageCosts) {
  CostModel costs = Costs();
  costs.touch_ns = 2'000;
  const auto engine = Make({kRange}, 8, costs);
  ListStream set_up{{{}}};
  ListStream touches;
  // Downwards: a read brings the pages before it in its block of eight along, and the VMM's page fault its sixteen.
  for (std::uint64_t page = 511; page > 0; --page) touches.ios.push_back({.offset = page * 4096});
  ListStream again{touches.ios};
  ListStream writes;
  for (std::uint64_t page = 1; page < 101; ++page) writes.ios.push_back({.op = Op::kWrite, .offset = page * 4096});
  (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &set_up, .files = File(0)}});
  const auto first = engine->Run(std::vector<TimedEngine::Process>{{.source = &touches, .files = File(0)}})[0];
  EXPECT_EQ(Nanoseconds(first), 511 * 5'000 + 64 * 2'000 + 31 * 4'000) << "the set-up has touched page 0";
  const auto second = engine->Run(std::vector<TimedEngine::Process>{{.source = &again, .files = File(0)}})[0];
  EXPECT_EQ(Nanoseconds(second), 511 * 5'000);
  // A page that is written pays both, whatever was read.
  ListStream upgrade{{{.op = Op::kWrite}}};
  (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &upgrade, .files = File(0)}});
  const auto third = engine->Run(std::vector<TimedEngine::Process>{{.source = &writes, .files = File(0)}})[0];
  EXPECT_EQ(Nanoseconds(third), 100 * (8'000 + 2 * 2'000));
}

TEST(TimedEngine, TheWorkerPreemptsWhoKicksIt) {
  // One process, ten ranges in a run: the worker has the file's semaphore before the set-up that kicked it, and gives
  // way when the run is over. So of eleven requests ten are nobody's wait but the eleventh's, and no hit waits at all.
  const auto engine = Make({64 * kRange}, 50);
  ListStream warm;
  for (std::uint64_t i = 0; i < 64; ++i) warm.ios.push_back({.offset = i * kRange});
  (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &warm, .files = File(0)}});
  ListStream reads = RandomReads(64 * kRange, 20'000, 1);
  const auto result = engine->Run(std::vector<TimedEngine::Process>{{.source = &reads, .files = File(0)}})[0];
  const double hits = 1 - static_cast<double>(result.misses) / 20'000;
  EXPECT_NEAR(hits, (50 - 14.5) / 64, 0.02) << "from 10 to 19 are free";
  EXPECT_NEAR(result.latency.ShareBelow(20'000), hits, 0.001);
  const double undisturbed = result.latency.ShareBelow(200'000) - hits;
  EXPECT_NEAR(undisturbed, (1 - hits) * 0.9, 0.01);
  EXPECT_NEAR(result.latency.ShareBelow(1'000'000), hits + undisturbed, 0.01);
}

TEST(TimedEngine, AMissCostsTheWayThereTheSetUpAndTheWayBack) {
  const auto engine = Make({1000 * kRange}, 10'000);
  ListStream stream;
  for (std::uint64_t i = 0; i < 1000; ++i) stream.ios.push_back({.offset = i * kRange});
  const auto result = engine->Run(std::vector<TimedEngine::Process>{{.source = &stream, .files = File(0)}})[0];
  EXPECT_EQ(result.misses, 1000u);
  // Each of the three varies by an eighth around its mean; their sum over a thousand by much less.
  EXPECT_NEAR(Nanoseconds(result) / 1000, 20'000 + 70'000 + 20'000 + 5'000, 2'000);
}

TEST(TimedEngine, InAWindowOfOneRangeEveryAccessToAnotherPays) {
  const auto engine = Make({100 * kRange}, 1);
  ListStream stream;
  for (std::uint64_t i = 0; i < 1000; ++i) stream.ios.push_back({.offset = i % 100 * kRange});
  const auto result = engine->Run(std::vector<TimedEngine::Process>{{.source = &stream, .files = File(0)}})[0];
  EXPECT_EQ(result.misses, 1000u);
  EXPECT_GT(Nanoseconds(result) / 1000, 20'000 + 70'000 + 20'000 + 20'000 + 70'000 + 5'000)
      << "set-up and removal one after the other";
}

TEST(TimedEngine, ADaemonThatIsAlwaysBusySetsThePace) {
  const auto engine = Make(std::vector<std::uint64_t>(16, 64 * kRange), 64);
  std::vector<ListStream> streams;
  for (std::uint64_t i = 0; i < 16; ++i) streams.push_back(RandomReads(64 * kRange, 2000, i));
  std::vector<TimedEngine::Process> processes;
  for (std::uint32_t i = 0; i < 16; ++i) processes.push_back({.source = &streams[i], .files = File(i)});
  const auto results = engine->Run(processes);
  std::uint64_t misses = 0;
  for (const auto& result : results) misses += result.misses;
  const double span = static_cast<double>(engine->now_ns());
  EXPECT_NEAR(span / static_cast<double>(misses), 140'000, 6'000) << "a set-up and a removal for each";
  EXPECT_LE(engine->daemon().busy_ns(), engine->now_ns() + 120'000) << "the worker's last request may be under way";
}

TEST(TimedEngine, FaultsOfRangesThatHaveToBeWaitedForAreSinglePages) {
  // More processes than there are ranges: with none free, a range is mapped page by page.
  const auto engine = Make(std::vector<std::uint64_t>(8, 64 * kRange), 4);
  std::vector<ListStream> streams;
  for (std::uint32_t i = 0; i < 8; ++i) streams.push_back(RandomReads(64 * kRange, 3000, 1 + i));
  std::vector<TimedEngine::Process> processes;
  for (std::uint32_t i = 0; i < 8; ++i) {
    processes.push_back({.source = &streams[i], .path = IoPath::kMmap, .files = File(i)});
  }
  const auto results = engine->Run(processes);
  for (const auto& result : results) {
    EXPECT_EQ(result.reads, 3000u);
    EXPECT_GT(result.faults, result.misses);
    EXPECT_GT(result.spent_ns[static_cast<std::size_t>(Spent::kRange)], 0);
  }
  EXPECT_TRUE(engine->window().CheckInvariants().ok());
}

TEST(TimedEngine, ProcessesOfOneFileWriteOneAtATime) {
  const auto engine = Make({kRange}, 8);
  ListStream warm{{{.op = Op::kWrite}}};
  (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &warm, .files = File(0)}});
  std::vector<ListStream> streams(4, ListStream{std::vector<ListStream::Io>(500, {.op = Op::kWrite})});
  std::vector<TimedEngine::Process> processes;
  for (ListStream& stream : streams) processes.push_back({.source = &stream, .files = File(0)});
  const std::int64_t before = engine->now_ns();
  (void)engine->Run(processes);
  EXPECT_GE(engine->now_ns() - before, 4 * 500 * 8'000);
}

TEST(TimedEngine, ThinkTimeRateAndRuntime) {
  const auto run = [](TimedEngine::Process process) {
    const auto engine = Make({kRange}, 8);
    ListStream warm{{{}}};
    (void)engine->Run(std::vector<TimedEngine::Process>{{.source = &warm, .files = File(0)}});
    ListStream stream{std::vector<ListStream::Io>(100)};
    process.source = &stream;
    process.files = File(0);
    return engine->Run(std::vector<TimedEngine::Process>{process})[0];
  };
  EXPECT_EQ(Nanoseconds(run({.think_ns = 1'000, .think_blocks = 10})), 100 * 5'000 + 10 * 1'000);
  EXPECT_EQ(Nanoseconds(run({.interval_ns = 10'000})), 100 * 10'000);
  const auto cut = run({.runtime_ns = 50'000});
  EXPECT_EQ(cut.reads, 10u);
  EXPECT_EQ(Nanoseconds(cut), 50'000);
}

// Many windows, patterns and mechanics: all I/O is done, time is accounted for, the window recounts itself, the daemon
// obeys Little's law and no one is busier than always.
TEST(TimedEngine, ConservationLaws) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::uint32_t slots = 1 + static_cast<std::uint32_t>(random() % 60);
    const std::size_t processes_count = 1 + random() % 6;
    const std::size_t files = 1 + random() % processes_count;
    ReclaimOptions mechanics = random() % 4 == 0 ? ReclaimOptions::Demand() : ReclaimOptions::Linux();
    mechanics.chunk = 1 + static_cast<std::uint32_t>(random() % 12);
    mechanics.send_remove = random() % 4 != 0;
    const auto engine = Make(std::vector<std::uint64_t>(files, 16 * kRange), slots, Costs(), mechanics,
                             {.daemon_threads = static_cast<std::uint32_t>(random() % 4), .seed = seed});
    std::vector<ListStream> streams;
    for (std::size_t i = 0; i < processes_count; ++i) {
      streams.push_back(RandomReads(16 * kRange, 400, random(), static_cast<int>(random() % 101)));
    }
    std::vector<TimedEngine::Process> processes;
    for (std::size_t i = 0; i < processes_count; ++i) {
      processes.push_back(
          {.source = &streams[i], .path = static_cast<IoPath>(random() % 3), .files = File(random() % files)});
    }
    for (const auto& result : engine->Run(processes)) {
      EXPECT_EQ(result.reads + result.writes, 400u);
      EXPECT_EQ(result.bytes, 400u * 4096);
      EXPECT_EQ(result.latency.count(), 400u);
      std::int64_t spent = 0;
      for (const std::int64_t ns : result.spent_ns) spent += ns;
      EXPECT_EQ(spent, result.end_ns - result.begin_ns);
    }
    EXPECT_TRUE(engine->window().CheckInvariants().ok()) << engine->window().CheckInvariants();
    EXPECT_LE(engine->daemon().busy_ns(), (engine->now_ns() + 10'000'000) * engine->daemon().threads());
  }
}

TEST(TimedEngine, SameSeedSameBytes) {
  const auto run = [](std::uint64_t seed) {
    const auto engine = Make({64 * kRange, 64 * kRange}, 16, Costs(), ReclaimOptions::Linux(), {.seed = seed});
    std::vector<ListStream> streams{RandomReads(64 * kRange, 2000, 1, 30), RandomReads(64 * kRange, 2000, 2, 30)};
    return engine->Run(std::vector<TimedEngine::Process>{{.source = &streams[0], .files = File(0)},
                                                         {.source = &streams[1], .files = File(1)}});
  };
  const auto once = run(5);
  const auto again = run(5);
  EXPECT_EQ(once[0].end_ns, again[0].end_ns);
  EXPECT_EQ(once[1].spent_ns, again[1].spent_ns);
  EXPECT_NE(once[0].end_ns, run(6)[0].end_ns);
}

}  // namespace
}  // namespace daxcache
