// A recorded trace as a pool of jobs: who belongs to which, in which order, and that no CPU time is lost; and its timed
// runs against closed forms.
#include "daxcache/sim/job_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "daxcache/sim/timed.h"
#include "daxcache/traces/trace.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::uint64_t kMiB = 1 << 20;

// make (0) starts sh (1, with cc 2 below it) and ld (3).
struct Build {
  TraceBuilder builder;
  std::uint32_t Task(const char* name, int parent, std::int64_t start_ms, std::int64_t end_ms, std::uint64_t cpu_ms) {
    return ToIndex(builder.AddTask({.parent = parent < 0 ? kNoTask : TaskId{static_cast<std::uint32_t>(parent)},
                                    .start_ns = start_ms * kMs,
                                    .end_ns = end_ms * kMs,
                                    .user_us = cpu_ms * 1000,
                                    .name = name}));
  }
  void Add(std::int64_t ms, std::uint32_t task, Op op, std::uint32_t file, std::uint64_t offset, std::uint64_t length) {
    const absl::Status added = builder.Add({.time_ns = ms * kMs,
                                            .task = TaskId{task},
                                            .file = FileId{file},
                                            .op = op,
                                            .offset = offset,
                                            .length = length});
    ASSERT_TRUE(added.ok()) << added;
  }
  Trace Finish() { return builder.Finish("build", "test", MappedTouches::kPages).value(); }
};

Trace SmallBuild() {
  Build build;
  build.builder.AddFile("/Makefile", 1000);
  build.builder.AddFile("/a.c", 3000);
  build.builder.AddFile("/a.o", 0);
  build.builder.AddFile("/a", 0);
  build.Task("make", -1, 0, 1000, 100);
  build.Task("sh", 0, 200, 600, 0);
  build.Task("cc", 1, 210, 600, 300);
  build.Task("ld", 0, 700, 900, 50);
  build.Add(100, 0, Op::kRead, 0, 0, 1000);
  build.Add(300, 2, Op::kOpen, 1, 0, 3000);
  build.Add(310, 2, Op::kRead, 1, 0, 3000);
  build.Add(610, 2, Op::kWrite, 2, 0, 100);
  build.Add(650, 0, Op::kRead, 0, 0, 1000);
  build.Add(800, 3, Op::kRead, 2, 0, 100);
  build.Add(900, 3, Op::kWrite, 3, 0, 100);
  build.Add(950, 3, Op::kUnlink, 2, 0, 100);
  build.Add(1000, 0, Op::kRead, 0, 0, 1000);
  return build.Finish();
}

std::vector<TimedIo> All(const JobPool& pool, double factor = 1) {
  JobPool::Run run(pool, factor);
  JobPool::Lane lane(run);
  std::vector<TimedIo> all;
  for (TimedIo io; lane.Next(io);) all.push_back(io);
  return all;
}

std::int64_t Cpu(const std::vector<TimedIo>& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0},
                         [](std::int64_t sum, const TimedIo& io) { return sum + io.cpu_ns; });
}

TEST(JobPool, AJobIsWhatAChildOfTheDriverDoesWithWhatTheDriverDidBefore) {
  const JobPool pool = JobPool::Create(SmallBuild(), {}).value();
  EXPECT_EQ(pool.jobs(), 2u);
  std::vector<std::tuple<Op, std::uint32_t, std::int64_t, bool>> seen;
  for (const TimedIo& io : All(pool)) {
    // Whole ms: make computes 100 ms in 1000, cc 300 in 400, ld 50 in 250.
    seen.emplace_back(io.op, io.file, (io.cpu_ns + kMs / 2) / kMs, io.new_job);
  }
  const std::vector<std::tuple<Op, std::uint32_t, std::int64_t, bool>> expected = {
      {Op::kRead, 0, 10, true},     // make
      {Op::kOpen, 1, 68, false},    // cc: 90 of 400 ms
      {Op::kRead, 1, 8, false},     //
      {Op::kWrite, 2, 225, false},  //
      {Op::kRead, 0, 55, true},     // make again, in front of ld
      {Op::kRead, 2, 20, false},    // ld
      {Op::kWrite, 3, 20, false},   //
      {Op::kUnlink, 2, 10, false},  //
      {Op::kRead, 0, 35, false},    // make after the last job has begun
  };
  EXPECT_EQ(seen, expected);
}

TEST(JobPool, WritesExtendAsRecorded) {
  const JobPool pool = JobPool::Create(SmallBuild(), {}).value();
  std::vector<bool> extends;
  for (const TimedIo& io : All(pool)) {
    if (io.op == Op::kWrite) extends.push_back(io.extends);
  }
  // a.o and a grew to the size that their declaration gives (the largest seen) when they were written.
  EXPECT_THAT(extends, ElementsAre(true, true));
  EXPECT_EQ(pool.sizes()[2], 100u);
}

TEST(JobPool, NoCpuTimeIsLostNorGained) {
  Build build;
  build.builder.AddFile("/a", 4096);
  build.Task("make", -1, 0, 100, 7);
  build.Task("silent", 0, 10, 20, 5);  // no record at all
  build.Task("opens", 0, 30, 40, 3);   // its only record comes as it starts
  build.Task("late", 0, 50, 90, 11);
  build.Add(30, 2, Op::kOpen, 0, 0, 4096);
  build.Add(60, 3, Op::kRead, 0, 0, 4096);
  build.Add(90, 3, Op::kClose, 0, 0, 0);
  const JobPool pool = JobPool::Create(build.Finish(), {}).value();
  EXPECT_EQ(pool.cpu_ns(), 26 * kMs);
  EXPECT_EQ(Cpu(All(pool)), 26 * kMs);
  EXPECT_EQ(Cpu(All(pool, 2)), 52 * kMs);
}

TEST(JobPool, TheRecordedBuildToo) {
  const JobPool pool = JobPool::Create(testing_::KernelBuildToRepeat().trace(), {}).value();
  const std::vector<TimedIo> all = All(pool);
  EXPECT_NEAR(static_cast<double>(Cpu(all)), static_cast<double>(pool.cpu_ns()),
              static_cast<double>(all.size()));  // half a nanosecond a record
  const auto jobs = std::count_if(all.begin(), all.end(), [](const TimedIo& io) { return io.new_job; });
  EXPECT_LE(static_cast<std::size_t>(jobs), pool.jobs());
  EXPECT_GT(jobs, 50);
}

TEST(JobPool, TheLastJobWaitsForAllOthers) {
  const JobPool pool = JobPool::Create(SmallBuild(), {}).value();
  JobPool::Run run(pool, 1);
  JobPool::Lane first(run);
  JobPool::Lane second(run);
  TimedIo io;
  ASSERT_TRUE(first.Next(io));
  EXPECT_FALSE(second.Next(io)) << "the link has to wait, and the lane that is left will do it";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(first.Next(io));
  ASSERT_TRUE(first.Next(io));
  EXPECT_TRUE(io.new_job);
}

TEST(JobPool, AsRecordedEachTaskIsAJobAndNothingIsEarlierThanItWas) {
  const JobPool pool = JobPool::Create(SmallBuild(), {.as_recorded = true}).value();
  EXPECT_EQ(pool.jobs(), 4u);
  EXPECT_EQ(pool.lanes(), 3u) << "make, sh and cc at the same time";
  std::vector<std::int64_t> times;
  for (const TimedIo& io : All(pool)) {
    EXPECT_EQ(io.cpu_ns, 0);
    times.push_back(io.not_before_ns / kMs);
  }
  EXPECT_THAT(times, ElementsAre(0, 550, 900, 200, 210, 510, 700, 800, 850));
}

TEST(JobPool, WhatIsNoPoolSaysWhy) {
  const auto message = [](const Trace& trace, const JobPool::Options& options) {
    return std::string(JobPool::Create(trace, options).status().message());
  };
  EXPECT_THAT(message(SmallBuild(), {.driver = "ninja\n"}), HasSubstr("expected a task named \"ninja\\x0a\""));
  EXPECT_THAT(message(Trace(), {.as_recorded = true}), HasSubstr("expected a trace with tasks"));
}

// Cut off, it has tasks without any record, which have their place too.
class OneJobAtATimeTest : public ::testing::TestWithParam<bool> {};

TEST_P(OneJobAtATimeTest, IsTheSamePool) {
  const Trace trace = GetParam() ? testing_::HeadOfKernelBuild(50'000) : testing_::KernelBuildToRepeat().trace();
  const Trace serial = OneJobAtATime(trace, "make", 10 * kMs).value();
  EXPECT_EQ(serial.size(), trace.size());
  const JobPool a = JobPool::Create(trace, {}).value();
  const JobPool b = JobPool::Create(serial, {}).value();
  EXPECT_EQ(a.jobs(), b.jobs());
  EXPECT_EQ(a.cpu_ns(), b.cpu_ns());
  const auto jobs_of = [](const JobPool& pool) {
    std::vector<std::vector<std::tuple<Op, std::uint32_t, std::uint64_t, std::uint64_t>>> jobs;
    for (const TimedIo& io : All(pool)) {
      if (io.new_job) jobs.emplace_back();
      if (io.op != Op::kClose) jobs.back().emplace_back(io.op, io.file, io.offset, io.length);
    }
    return jobs;
  };
  const auto of_a = jobs_of(a);
  const auto of_b = jobs_of(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) different += of_a[i] != of_b[i];
  EXPECT_EQ(different, 0u);
}

INSTANTIATE_TEST_SUITE_P(CutOff, OneJobAtATimeTest, ::testing::Bool());

// --- timed runs -----------------------------------------------------------------------------------------------------

TimedSpec Spec(std::uint64_t window_bytes) {
  TimedSpec spec;
  spec.window = ByteSize(window_bytes);
  spec.costs.service_ns = 70'000;
  spec.costs.wake_ns = 20'000;
  spec.costs.direct = {.request_ns = 10'000, .page_ns = 500, .fault_ns = 1000, .flush_ns = 3000};
  spec.costs.touch_ns = 2000;
  return spec;
}

// `jobs` of `cpu_ms` each, that read one page of a file of their own half-way.
Trace Jobs(int jobs, std::int64_t cpu_ms, std::uint64_t file_bytes = 4096, Op op = Op::kRead) {
  Build build;
  build.Task("make", -1, 0, 0, 0);
  for (int i = 0; i < jobs; ++i) {
    build.builder.AddFile("/" + std::to_string(i), file_bytes);
    build.Task("cc", 0, i * 2 * cpu_ms, (i + 1) * 2 * cpu_ms, static_cast<std::uint64_t>(cpu_ms));
  }
  for (int i = 0; i < jobs; ++i) {
    const auto task = static_cast<std::uint32_t>(1 + i);
    build.Add((2 * i + 1) * cpu_ms, task, op, static_cast<std::uint32_t>(i), 0, 4096);
    build.Add((2 * i + 2) * cpu_ms, task, Op::kClose, static_cast<std::uint32_t>(i), 0, 0);
  }
  return build.Finish();
}

TimedResult Pool(const Trace& trace, const PoolOptions& options, const TimedSpec& spec) {
  const JobPool pool = JobPool::Create(trace, {}).value();
  auto result = RunPool(pool, options, spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

std::int64_t SpentOn(const TimedResult& result, Spent what) {
  return result.jobs[0].total.spent_ns[static_cast<std::size_t>(what)];
}

TEST(TimedPool, CpusAndJobsBoundTheTime) {
  TimedSpec spec = Spec(kMiB << 10);
  const Trace trace = Jobs(8, 100);
  const auto seconds = [&](std::uint32_t jobs, std::uint32_t vcpus, double factor = 1) {
    spec.engine.vcpus = vcpus;
    const TimedResult result = Pool(trace, {.jobs = jobs, .cpu_factor = factor}, spec);
    EXPECT_EQ(SpentOn(result, Spent::kCompute), std::llround(800e6 * factor));
    return static_cast<double>(result.time_ns) * 1e-9;
  };
  // A set-up takes about 0.11 ms, and 0.4 ms more when it has to awaken the daemon, as here where one comes every 0.1
  // s.
  EXPECT_NEAR(seconds(1, 1), 0.804, 0.001);
  EXPECT_NEAR(seconds(8, 1), 0.8, 0.002);
  EXPECT_NEAR(seconds(1, 4), 0.804, 0.001);
  // Seven jobs, and then the last one alone.
  EXPECT_NEAR(seconds(7, 7), 0.2, 0.002);
  EXPECT_NEAR(seconds(7, 0), 0.2, 0.002);
  EXPECT_NEAR(seconds(7, 2), 0.45, 0.004) << "seven on two CPUs share them evenly";
  EXPECT_NEAR(seconds(7, 7, 0.5), 0.1, 0.002);
}

TEST(TimedPool, AllTimeIsSpentOnSomething) {
  for (const bool dax : {true, false}) {
    for (const std::uint32_t vcpus : {0u, 2u, 16u}) {
      for (const std::uint32_t retouch : {0u, 3u}) {
        TimedSpec spec = Spec(64 * kMiB);
        spec.engine = {.vcpus = vcpus, .retouch = retouch, .dax = dax};
        const TimedResult result = Pool(testing_::HeadOfKernelBuild(60'000), {.jobs = 16}, spec);
        const auto& spent = result.jobs[0].total.spent_ns;
        EXPECT_EQ(std::accumulate(spent.begin(), spent.end(), std::int64_t{0}), result.jobs[0].time_ns)
            << vcpus << " " << retouch << " " << dax;
        EXPECT_LE(result.daemon_utilization, 1);
        if (vcpus > 0) {
          EXPECT_LE(SpentOn(result, Spent::kCompute) + SpentOn(result, Spent::kLost), vcpus * result.time_ns);
        }
      }
    }
  }
}

TEST(TimedPool, WithoutDaxNothingIsMappedAndEachPageIsReadOnce) {
  TimedSpec spec = Spec(kMiB << 10);
  spec.engine.dax = false;
  const TimedResult result = Pool(Jobs(8, 100), {.jobs = 1}, spec);
  EXPECT_EQ(result.jobs[0].total.misses, 0u);
  EXPECT_EQ(result.daemon_requests, 8u);
}

TEST(TimedPool, FilesThatTheRulesLeaveOutGoThroughThePageCache) {
  const Trace trace = testing_::HeadOfKernelBuild(100'000);
  TimedSpec spec = Spec(64 * kMiB);
  spec.engine.vcpus = 4;
  const auto with = [&](const char* policy, bool dax = true) {
    spec.policy = ParsePolicySpec(policy).value();
    spec.engine.dax = dax;
    return Pool(trace, {.jobs = 8}, spec);
  };
  const TimedResult none = with("linux", false);
  const TimedResult out = with("per-file:base=linux,min=1G");
  EXPECT_EQ(out.time_ns, none.time_ns) << "no file may use the window: as if there were none";
  EXPECT_EQ(out.jobs[0].total.past_window, none.jobs[0].total.past_window);
  EXPECT_EQ(out.page_cache_bytes, none.page_cache_bytes);
  EXPECT_EQ(out.jobs[0].total.misses, 0u);
  const TimedResult all = with("linux");
  const TimedResult in = with("per-file:base=linux");
  EXPECT_EQ(in.time_ns, all.time_ns) << "all may: as without rules";
  EXPECT_EQ(in.jobs[0].total.spent_ns, all.jobs[0].total.spent_ns);
  const TimedResult some = with("per-file:base=linux,min=32K");
  EXPECT_LT(some.jobs[0].total.misses, all.jobs[0].total.misses);
  EXPECT_GT(some.jobs[0].total.past_window, all.jobs[0].total.past_window);
  EXPECT_LT(some.page_cache_bytes, none.page_cache_bytes);
}

TEST(TimedPool, AProcessFaultsAgainWhenItsRangeWasTakenAway) {
  // 60 jobs, each maps a file of its own and computes on: a window of 16 ranges loses them while they are in use.
  TimedSpec spec = Spec(32 * kMiB);
  spec.engine.vcpus = 4;
  const Trace trace = Jobs(60, 100, 2 * kMiB, Op::kMappedRead);
  const TimedResult once = Pool(trace, {.jobs = 30}, spec);
  EXPECT_EQ(once.jobs[0].total.misses, 60u);
  spec.engine.retouch = 1;
  EXPECT_GT(Pool(trace, {.jobs = 30}, spec).jobs[0].total.misses, 100u);
  spec.window = ByteSize(kMiB << 10);
  EXPECT_EQ(Pool(trace, {.jobs = 30}, spec).jobs[0].total.misses, 60u) << "nothing is taken away";
}

TEST(TimedPool, UnmappingInterruptsWhoComputes) {
  TimedSpec spec = Spec(32 * kMiB);
  spec.engine.vcpus = 4;
  const Trace trace = Jobs(60, 100, 2 * kMiB, Op::kMappedRead);
  spec.costs.direct.flush_ns = 0;
  EXPECT_EQ(SpentOn(Pool(trace, {.jobs = 30}, spec), Spent::kLost), 0);
  spec.costs.direct.flush_ns = 3000;
  // Some 50 ranges are taken back, each flushed in both guest tables and the host's: at most three times on each CPU.
  const std::int64_t lost_ns = SpentOn(Pool(trace, {.jobs = 30}, spec), Spent::kLost);
  EXPECT_GT(lost_ns, 44 * 3000);
  EXPECT_LE(lost_ns, 60 * 3 * 4 * 3000);
}

TEST(TimedPool, SameSeedSameResultAndSmallerWindowsAreNotFaster) {
  const Trace trace = testing_::HeadOfKernelBuild(200'000);
  const JobPool pool = JobPool::Create(trace, {}).value();
  std::vector<TimedSpec> specs;
  for (const std::uint64_t mib : {64, 256, 1024, 4096}) {
    specs.push_back(Spec(mib * kMiB));
    specs.back().engine = {.vcpus = 8, .retouch = 2};
  }
  const auto one = RunTimedSweep(Runs(pool, {.jobs = 32}), specs, 1);
  const auto many = RunTimedSweep(Runs(pool, {.jobs = 32}), specs, 4);
  ASSERT_TRUE(one.ok() && many.ok());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ((*one)[i].time_ns, (*many)[i].time_ns);
    EXPECT_EQ((*one)[i].jobs[0].total.spent_ns, (*many)[i].jobs[0].total.spent_ns);
    if (i > 0) {
      EXPECT_LE((*one)[i].time_ns, (*one)[i - 1].time_ns / 100 * 101);
      EXPECT_LE((*one)[i].jobs[0].total.misses, (*one)[i - 1].jobs[0].total.misses);
    }
  }
}

TEST(TimedPool, WhatCannotRunSaysWhy) {
  const JobPool pool = JobPool::Create(SmallBuild(), {}).value();
  const auto message = [&](const PoolOptions& options, const TimedSpec& spec) {
    return std::string(RunPool(pool, options, spec).status().message());
  };
  EXPECT_THAT(message({.jobs = 0}, Spec(kMiB << 10)), HasSubstr("at least one job"));
  EXPECT_THAT(message({.jobs = 1, .cpu_factor = 0}, Spec(kMiB << 10)), HasSubstr("above 0"));
  EXPECT_THAT(message({.jobs = 1}, Spec(kMiB)), HasSubstr("expected a window of 1 to"));
}

}  // namespace
}  // namespace daxcache
