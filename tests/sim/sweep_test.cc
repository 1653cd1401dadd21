// Sweeps run on any number of threads and give the same. (What the thread sanitizer is run over.)
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "daxcache/sim/study.h"
#include "daxcache/sim/timed.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

TEST(Sweep, DoesNotDependOnThreads) {
  std::vector<RunSpec> specs;
  for (const char* policy : {"linux", "lru", "arc", "belady", "random", "per-file:base=lru,hot=2/10s"}) {
    for (const std::uint64_t ranges : {32u, 700u}) {
      RunSpec& spec = specs.emplace_back();
      spec.window = ByteSize(ranges << 21);
      spec.policy = ParsePolicySpec(policy).value();
      if (spec.policy.core() != "linux") spec.options.mechanics = ReclaimOptions::Demand();
    }
  }
  std::vector<std::vector<std::uint64_t>> misses;
  for (const int threads : {1, 2, 7}) {
    Study study(testing_::KernelBuildToRepeat().trace());
    const auto runs = Sweep(study, specs, {.threads = threads, .progress = nullptr});
    ASSERT_TRUE(runs.ok()) << runs.status();
    misses.emplace_back();
    for (const RunResult& run : *runs) misses.back().push_back(run.counts.misses);
  }
  EXPECT_EQ(misses[0], misses[1]);
  EXPECT_EQ(misses[0], misses[2]);
}

TEST(Sweep, OfTimedRunsDoesNotDependOnThreads) {
  const auto jobs = ParseFioCommandLine("--rw=randrw --bs=4k --size=64m --numjobs=3 --runtime=1");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  std::vector<TimedSpec> specs;
  for (const char* policy : {"linux", "fifo", "lru", "clock", "arc", "random"}) {
    TimedSpec& spec = specs.emplace_back();
    spec.window = ByteSize(32 << 20);
    spec.policy = ParsePolicySpec(policy).value();
    spec.costs = {.service_ns = 50'000, .wake_ns = 5'000, .read_ns = 2'000, .write_ns = 3'000};
  }
  std::vector<std::vector<std::int64_t>> times;
  for (const int threads : {1, 2, 7}) {
    const auto runs = RunTimedSweep(Runs(*jobs), specs, threads, [](double) {});
    ASSERT_TRUE(runs.ok()) << runs.status();
    times.emplace_back();
    for (const TimedResult& run : *runs) times.back().push_back(run.time_ns);
  }
  EXPECT_EQ(times[0], times[1]);
  EXPECT_EQ(times[0], times[2]);
}

}  // namespace
}  // namespace daxcache
