// Timed runs as daxsim makes them: the mechanisms that a person can see in them, what-ifs by their sign, and published
// measurements.
#include "daxcache/sim/timed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daxcache/sim/cache_modes.h"
#include "daxcache/sim/job_pool.h"
#include "daxcache/sim/kernel_build.h"
#include "daxcache/sim/profile.h"
#include "daxcache/sim/validate.h"
#include "daxcache/sim/vhost_scsi.h"
#include "daxcache/traces/builtin.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

const std::string kProfiles = DAXCACHE_SOURCE_DIR "/sim/profiles/";

TimedSpec Spec(const std::string& window) {
  TimedSpec spec;
  spec.window = ByteSize::Parse(window).value();
  spec.costs = LoadProfile(kProfiles + "goyal-2020.json").value().costs;
  return spec;
}

TimedResult Result(const std::string& options, const TimedSpec& spec) {
  const auto result = RunFioJobs(ParseFioCommandLine(options).value(), spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : TimedResult();
}

// scripts/test --full, and not under sanitizers, where it would take an hour.
bool Full() {
#ifdef DAXCACHE_SANITIZED
  return false;
#else
  return std::getenv("DAXCACHE_FULL") != nullptr;
#endif
}

constexpr char kRandom[] = "--rw=randread --bs=4k --size=4g --ioengine=psync";

TEST(Timed, AFifthOfTheWindowIsKeptFree) {
  // 1 GiB of window for a file of 4 GiB: 0.8 · 1 / 4. The first fills do not hit.
  const TimedResult result = Result(std::string(kRandom) + " --runtime=20", Spec("1G"));
  const double hits = result.jobs[0].HitRatio();
  EXPECT_NEAR(hits, 0.20, 0.01);
  // A hit takes some microseconds, a miss a hundred, and no hit waits: the worker has done its run before the miss that
  // kicked it goes on. As published (one in five below 20 us, and one miss in ten 1.4 ms long).
  EXPECT_NEAR(result.jobs[0].total.latency.ShareBelow(20'000), hits, 0.002);
  EXPECT_NEAR(result.jobs[0].total.latency.ShareBelow(500'000), 1 - (1 - hits) / 10, 0.005);
}

TEST(Timed, WithoutMissesOnlyTheHitCounts) {
  const TimedSpec spec = Spec("8G");
  const TimedResult result = Result("--rw=read --bs=4k --size=64m --ioengine=psync --loops=100", spec);
  const TimedJob& job = result.jobs[0];
  EXPECT_EQ(job.total.misses, 32u);
  const double hit = 1e9 / job.Iops();
  EXPECT_NEAR(hit, spec.costs.read_ns, 0.01 * spec.costs.read_ns);
}

TEST(Timed, MoreWindowIsNeverWorse) {
  double before = 0;
  for (const char* window : {"512M", "1G", "2G", "4G", "6G"}) {
    const double iops = Result(kRandom, Spec(window)).jobs[0].Iops();
    EXPECT_GT(iops, before) << window;
    before = iops;
  }
}

TEST(Timed, WhatIfsHaveTheRightSign) {
  const std::string four = std::string(kRandom) + " --runtime=3 --numjobs=4";
  const TimedSpec plain = Spec("2G");
  const double iops = Result(four, plain).jobs[0].Iops();

  TimedSpec no_remove = plain;
  no_remove.mechanics.send_remove = false;
  EXPECT_GT(Result(four, no_remove).jobs[0].Iops(), 1.5 * iops) << "half of the daemon's work is saved";

  TimedSpec threads = plain;
  threads.engine.daemon_threads = 4;
  EXPECT_GT(Result(four, threads).jobs[0].Iops(), iops);

  TimedSpec demand = plain;
  demand.mechanics = ReclaimOptions::Demand();
  EXPECT_GT(Result(kRandom, demand).jobs[0].HitRatio(), 1.2 * Result(kRandom, plain).jobs[0].HitRatio())
      << "nothing is kept free";

  TimedSpec small = plain;
  small.range_size = RangeSize::Create(ByteSize(64 << 10)).value();
  EXPECT_LT(Result("--rw=read --bs=4k --size=1g --ioengine=psync", small).jobs[0].Iops(),
            Result("--rw=read --bs=4k --size=1g --ioengine=psync", plain).jobs[0].Iops())
      << "32 set-ups where one does";
}

TEST(Timed, AllPoliciesRunAndAreTheSameOnAnyNumberOfThreads) {
  const auto jobs =
      ParseFioCommandLine("--rw=randrw --rwmixread=75 --bs=4k --size=256m --numjobs=2 --runtime=1").value();
  std::vector<TimedSpec> specs;
  for (const char* policy : {"linux", "fifo", "lru", "clock", "arc", "random"}) {
    specs.push_back(Spec("128M"));
    specs.back().policy = ParsePolicySpec(policy).value();
  }
  const auto one = RunTimedSweep(Runs(jobs), specs, 1);
  const auto many = RunTimedSweep(Runs(jobs), specs, 5);
  ASSERT_TRUE(one.ok() && many.ok());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ((*one)[i].time_ns, (*many)[i].time_ns);
    EXPECT_EQ((*one)[i].jobs[0].total.spent_ns, (*many)[i].jobs[0].total.spent_ns);
    EXPECT_GT((*one)[i].jobs[0].Iops(), 0);
  }
}

TEST(Timed, WithoutDaxARandomReadIsARequestAndASecondOneIsNot) {
  TimedSpec spec = Spec("1G");
  spec.engine.dax = false;
  const auto jobs = ParseFioJobText(
      "[global]\nsize=64m\nbs=4k\nioengine=psync\nfilename=f\nrw=randread\n[cold]\n[warm]\nstonewall\nrandseed=2\n"
      "invalidate=0\n",
      "test.fio");
  const auto result = RunFioJobs(*jobs, spec);
  ASSERT_TRUE(result.ok()) << result.status();
  const CostModel& costs = spec.costs;
  const double use = costs.read_ns + costs.far_ns;
  const double request = costs.direct.request_ns + costs.direct.page_ns + 2 * costs.direct.notify_ns +
                         costs.direct.cache_ns + costs.direct.fill_ns;
  EXPECT_NEAR(result->jobs[0].Iops(), 1e9 / (use + request), 1e9 / (use + request) * 0.01);
  EXPECT_NEAR(result->jobs[1].Iops(), 1e9 / use, 1e9 / use * 0.01);
  EXPECT_EQ(result->jobs[0].total.past_window, 16384u);
  EXPECT_EQ(result->page_cache_bytes, 64u << 20);
  EXPECT_NEAR(static_cast<double>(result->daemon_requests), 16384, 100) << "a few follow the one before: read-ahead";
  // A cache of half the file: the second job, which reads in another order, hits what is left of the first half: with m
  // misses of n so far, (n / 2 - m) / n of what it reads, so that m = n / 2 (e^t - 1) until all of it is gone.
  spec.engine.page_cache_pages = 8192;
  const auto half = RunFioJobs(*jobs, spec);
  EXPECT_NEAR(static_cast<double>(half->daemon_requests), 16384 * (1 + 0.5 + 1 - std::log(2)), 16384 * 0.05);
}

// IOPS of one job without DAX.
double Without(const std::string& options, FileSystem filesystem, CacheMode cache) {
  TimedSpec spec = Spec("1G");
  spec.engine.dax = false;
  spec.engine.filesystem = filesystem;
  spec.engine.cache = cache;
  return Result("--bs=4k --size=64m " + options, spec).jobs[0].Iops();
}

TEST(Timed, WithoutDaxRequestsOverlapOnVirtiofsAndNotOn9p) {
  const DirectCosts costs = Spec("1G").costs.direct;
  const double most = 1e9 / (costs.request_ns + costs.page_ns);
  const auto virtiofs = [](const char* options) { return Without(options, FileSystem::kVirtiofs, CacheMode::kNone); };
  EXPECT_NEAR(virtiofs("--rw=randread --ioengine=libaio --iodepth=16"), most, 0.02 * most) << "the daemon's pace";
  EXPECT_NEAR(virtiofs("--rw=randread --ioengine=libaio --iodepth=1"), virtiofs("--rw=randread --ioengine=psync"),
              0.15 * most);
  EXPECT_LT(virtiofs("--rw=randread --ioengine=psync"), 0.5 * most);
  const auto loose = [](const char* options) { return Without(options, FileSystem::kNineP, CacheMode::kLoose); };
  EXPECT_EQ(loose("--rw=randread --ioengine=libaio --iodepth=16"),
            loose("--rw=randread --ioengine=libaio --iodepth=1"));
}

TEST(Timed, WithoutDaxASequentialReaderDoesNotWaitAndAStoreWaitsForTheDaemon) {
  const CostModel costs = Spec("1G").costs;
  const auto automatic = [](const char* options) { return Without(options, FileSystem::kVirtiofs, CacheMode::kAuto); };
  const double reads = 1e9 / (costs.read_ns + costs.direct.fill_ns);
  EXPECT_NEAR(automatic("--rw=read --ioengine=psync"), reads, 0.02 * reads) << "its pages are read ahead";
  EXPECT_LT(Without("--rw=read --ioengine=psync", FileSystem::kVirtiofs, CacheMode::kNone), 30'000);
  const double write_back = costs.direct.request_ns + costs.direct.page_ns;
  const double pages = 1e9 / (write_back + costs.direct.request_ns / PageCache::kRequestPages + costs.direct.page_ns);
  const double writes = automatic("--rw=write --ioengine=mmap");
  EXPECT_LT(writes, pages) << "each page is fetched, and written back";
  const double guest = costs.store_ns + costs.direct.fill_ns;
  const double fetch = 2 * (costs.direct.notify_ns + costs.direct.cache_ns) / PageCache::kRequestPages;
  EXPECT_GT(writes, 1e9 / (1e9 / pages + guest + fetch)) << "in part at once with the guest's own work";
  // A read after a write asks for attributes, and drops what is cached: mixed is slower than either.
  const double mixed = automatic("--rw=randrw --rwmixread=50 --ioengine=psync");
  EXPECT_LT(mixed, 0.8 * automatic("--rw=randread --ioengine=psync"));
  EXPECT_LT(mixed, 0.8 * automatic("--rw=randwrite --ioengine=psync"));
  // O_DIRECT goes past the cache, as cache=none does.
  EXPECT_EQ(automatic("--rw=randread --ioengine=psync --direct=1"),
            Without("--rw=randread --ioengine=psync", FileSystem::kVirtiofs, CacheMode::kNone));
}

TEST(Timed, WhatIsNotCachedCannotBeMapped) {
  const auto supported = [](const char* options, FileSystem filesystem) {
    TimedSpec spec = Spec("1G");
    spec.engine.dax = false;
    spec.engine.filesystem = filesystem;
    spec.engine.cache = CacheMode::kNone;
    const TimedJob job = Result(std::string("--bs=4k --size=1m --ioengine=mmap ") + options, spec).jobs[0];
    EXPECT_EQ(job.supported, job.Iops() > 0);
    return job.supported;
  };
  EXPECT_FALSE(supported("--rw=randread", FileSystem::kVirtiofs));
  EXPECT_FALSE(supported("--rw=randwrite", FileSystem::kVirtiofs));
  EXPECT_TRUE(supported("--rw=randread", FileSystem::kNineP));
  EXPECT_FALSE(supported("--rw=randrw", FileSystem::kNineP));
  EXPECT_FALSE((EngineOptions{.filesystem = FileSystem::kNineP}).Validate().ok()) << "9p has no DAX";
  EXPECT_FALSE((EngineOptions{.dax = false, .filesystem = FileSystem::kNineP}).Validate().ok()) << "no cache=auto";
  EXPECT_FALSE((EngineOptions{.dax = false, .cache = CacheMode::kLoose}).Validate().ok());
}

TEST(Timed, AWindowThatGrowsEndsWhereItSuffices) {
  const std::string jobs = "--rw=randread --bs=4k --size=1g --io_size=64m --ioengine=psync";
  const auto run = [&](const std::string& window, std::uint32_t grow_from, absl::Duration idle) {
    TimedSpec spec = Spec(window);
    spec.engine.grow_from = grow_from;
    spec.mechanics.idle = idle;
    return Result(jobs, spec);
  };
  const TimedResult enough = run("1280M", 0, {});
  const TimedResult grown = run("8G", 64, {});
  EXPECT_EQ(grown.ranges, 640u) << "a fifth stays free";
  EXPECT_NEAR(static_cast<double>(grown.time_ns), static_cast<double>(enough.time_ns),
              0.1 * static_cast<double>(enough.time_ns));
  EXPECT_EQ(run("512M", 64, {}).ranges, 256u) << "not beyond its limit";

  // It shrinks when nobody uses its ranges, and then the host maps none of them.
  const auto rests = ParseFioJobText(
      "[global]\nsize=1g\nbs=4k\nioengine=psync\n[busy]\nrw=randread\nio_size=64m\n"
      "[rests]\nstonewall\nrw=randread\nthinktime=1s\nio_size=16k\n",
      "test.fio");
  TimedSpec spec = Spec("8G");
  spec.engine.grow_from = 64;
  spec.mechanics.idle = absl::Milliseconds(300);
  const auto shrunk = RunFioJobs(*rests, spec);
  ASSERT_TRUE(shrunk.ok()) << shrunk.status();
  EXPECT_EQ(shrunk->ranges, 64u);
  EXPECT_LE(shrunk->host_mappings, 1u);
  spec.mechanics.threshold_percent = 0;
  spec.mechanics.calls = spec.mechanics.faults = InlineReclaim::kAnyFile;
  EXPECT_FALSE(RunFioJobs(*rests, spec).ok()) << "no worker";
}

TEST(Timed, SeveralDevicesShareTheWindowAndNothingElse) {
  const auto jobs = ParseFioCommandLine("--rw=randread --bs=4k --size=1g --io_size=64m --ioengine=psync --numjobs=4");
  TimedSpec spec = Spec("1G");
  const auto one = RunFioJobs(*jobs, spec);
  spec.devices = 4;
  const auto four = RunFioJobs(*jobs, spec);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(four->ranges, one->ranges);
  EXPECT_EQ(four->jobs[0].total.reads, one->jobs[0].total.reads);
  EXPECT_LT(four->time_ns, one->time_ns) << "four daemons";
  EXPECT_LE(four->daemon_utilization, 1);
  spec.devices = 1024;
  EXPECT_FALSE(RunFioJobs(*jobs, spec).ok()) << "less than a range each";
}

TEST(Timed, StonewallsSeparateJobs) {
  const auto jobs = ParseFioJobText(
      "[global]\nsize=16m\nbs=4k\n[a]\nrw=read\n[b]\nrw=randread\nstartdelay=1ms\n[c]\nstonewall\nrw=read\nfilename=a."
      "0.0\n",
      "test.fio");
  const auto result = RunFioJobs(*jobs, Spec("1G"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs[1].total.begin_ns, 1'000'000);
  EXPECT_GE(result->jobs[2].total.begin_ns, std::max(result->jobs[0].total.end_ns, result->jobs[1].total.end_ns));
  EXPECT_EQ(result->jobs[2].total.misses, 0u) << "the first job's file is still mapped";
}

TEST(Timed, WhereCachesAreDroppedAJobIsAsIfItWereAlone) {
  const std::string options = "size=64m\nbs=4k\nfilename=f\n";
  const std::string drop = "exec_prerun=echo 3 > /proc/sys/vm/drop_caches\n";
  const auto run = [](const std::string& text) {
    const auto result = RunFioJobs(ParseFioJobText(text, "test.fio").value(), Spec("32M"));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : TimedResult();
  };
  const std::string first = "[a]\nrw=randrw\n";
  const std::string second = "[b]\nstonewall\nrw=randread\n";
  const TimedResult alone = run("[global]\n" + options + second);
  const TimedResult both = run("[global]\n" + options + first + second + drop);
  const TimedResult carried = run("[global]\n" + options + first + second);
  EXPECT_EQ(both.jobs[1].Iops(), alone.jobs[0].Iops());
  EXPECT_EQ(both.jobs[1].total.misses, alone.jobs[0].total.misses);
  EXPECT_NE(carried.jobs[1].total.misses, alone.jobs[0].total.misses);
  EXPECT_EQ(both.time_ns, both.jobs[0].total.end_ns + both.jobs[1].total.end_ns) << "two clocks, one after the other";
  EXPECT_GT(both.daemon_requests, alone.daemon_requests);
  EXPECT_EQ(both.ranges, 16u);
}

TEST(Timed, AFileThatIsNamedTwiceIsWrittenTwice) {
  const TimedResult twice = Result("--rw=write --bs=4k --size=64m --ioengine=mmap --filename=f:f", Spec("1G"));
  EXPECT_EQ(twice.jobs[0].total.writes, 16'384u);
  EXPECT_EQ(twice.jobs[0].total.misses, 16u) << "two halves of the size, one on the other";
  EXPECT_EQ(twice.jobs[0].total.faults, 32u) << "each mapped by itself";
}

TEST(Timed, WhatCannotRunSaysWhy) {
  const auto message = [](const TimedSpec& spec) {
    return std::string(RunFioJobs(ParseFioCommandLine("--size=1m").value(), spec).status().message());
  };
  TimedSpec spec = Spec("1G");
  spec.policy = ParsePolicySpec("belady").value();
  EXPECT_THAT(message(spec), HasSubstr("looks ahead"));
  EXPECT_THAT(message(Spec("1M")), HasSubstr("expected a window of 1 to 16777216 ranges of 2M, got 1M"));
}

TEST(Profile, IsCheckedKeyByKey) {
  const auto message = [](const std::string& json) { return std::string(ParseProfile(json, "p").status().message()); };
  const Profile profile = LoadProfile(kProfiles + "goyal-2020.json").value();
  EXPECT_EQ(ProfileText(ParseProfile(ProfileText(profile), "p").value()), ProfileText(profile));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = ProfileText(profile);
    text.replace(text.find(from), from.size(), to);
    return message(text);
  };
  EXPECT_EQ(message("[]"), "p: expected a JSON object");
  EXPECT_EQ(message("{"), "p: expected a JSON object");
  EXPECT_THAT(changed("\"wake_ns\"", "\"woke_ns\""), HasSubstr("expected the parameter wake_ns"));
  EXPECT_THAT(changed("\"wake_ns\": ", "\"wake_ns\": -"), HasSubstr("wake_ns: expected a number of nanoseconds"));
  EXPECT_THAT(changed("\"zap_ns\"", "\"zip_ns\": 1, \"zap_ns\""),
              HasSubstr("unknown parameter \"zip_ns\" (did you mean"));
  EXPECT_THAT(changed("\"worker_ns\"", "\"walker_ns\""), HasSubstr("9p: expected the parameter worker_ns"));
  EXPECT_THAT(changed("\"attr_ns\"", "\"attr\""), HasSubstr("direct: expected the parameter attr_ns"));
  EXPECT_TRUE(absl::IsNotFound(LoadProfile("nobody").status()));
  EXPECT_THAT(changed("\"jiffy_ns\"", "\"xattr\": 1, \"jiffy_ns\""), HasSubstr("xattr: expected true or false"));
  EXPECT_THAT(changed("\"jiffy_ns\"", "\"daemon_threads\": -1, \"jiffy_ns\""),
              HasSubstr("daemon_threads: expected a whole number from 0 to 1024"));
  EXPECT_THAT(changed("\"dax\"", "\"day\""), HasSubstr("expected an object of parameters \"dax\""));
}

TEST(Profile, MayBeLikeAnother) {
  const Profile kata = LoadProfile(kProfiles + "kata-2020.json").value();
  const Profile goyal = LoadProfile(kProfiles + "goyal-2020.json").value();
  EXPECT_EQ(kata.costs.service_ns, goyal.costs.service_ns);
  EXPECT_EQ(kata.costs.direct.request_ns, goyal.costs.direct.request_ns);
  EXPECT_EQ(kata.daemon_threads, 64u);
  EXPECT_TRUE(kata.xattr && kata.RequireDax().ok());
  EXPECT_FALSE(goyal.xattr);
  const auto message = [](const std::string& like) {
    return std::string(
        ParseProfile(R"({"name": "n", "summary": "s", "source": "t", "like": )" + like + "}", "p").status().message());
  };
  EXPECT_THAT(message("1"), HasSubstr("p: like: expected the name of a profile"));
  EXPECT_THAT(message("\"nobody\""), HasSubstr("p: like: expected a profile's file or name"));
  EXPECT_THAT(message("\"" + kProfiles + "kata-2020.json\""), HasSubstr("which is itself like no other"));
  EXPECT_THAT(std::string(LoadProfile(kProfiles + "bellinger-2012.json").value().RequireDax().message()),
              HasSubstr("got bellinger-2012, which has no \"dax\""));
}

// A sample of the published cells; with DAXCACHE_FULL (scripts/test --full) all of them, and the bounds of the model.
TEST(Published, PredictionsHold) {
  const auto cells = ReadWindowSweep(kProfiles + "published/dax_window_sweep.csv");
  auto jobs = ReadFioJobFile(kProfiles + "goyal-2020.fio");
  ASSERT_TRUE(cells.ok() && jobs.ok());
  EXPECT_EQ(cells->size(), 210u);
  EXPECT_EQ(jobs->jobs.size(), 30u);
  if (!Full()) {
    // The first six jobs, random reads, on 2 GiB.
    jobs->jobs.resize(6);
    std::vector<PublishedCell> sample;
    for (const PublishedCell& cell : *cells) {
      if (cell.window_gib == 2 && cell.pattern == "randread") sample.push_back(cell);
    }
    const auto predictions = PredictCells(sample, *jobs, Spec("2G"), {1, 4, 16, 64}, 1);
    ASSERT_TRUE(predictions.ok()) << predictions.status();
    for (const Prediction& prediction : *predictions) {
      EXPECT_LT(prediction.Error(), 0.15) << prediction.cell.JobName() << ": " << prediction.predicted_iops;
      EXPECT_TRUE(prediction.held_out && prediction.starved);
    }
    return;
  }
  const auto predictions = PredictCells(*cells, *jobs, Spec("2G"), {1, 4, 16, 64}, 2);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  const auto held_out = Summarize(*predictions, [](const Prediction& p) { return p.held_out; });
  const auto starved = [](const Prediction& p) { return p.held_out && p.starved; };
  EXPECT_EQ(held_out.cells, 90u);
  EXPECT_LE(held_out.median, 0.06);
  EXPECT_LE(held_out.p90, 0.15);
  EXPECT_EQ(Summarize(*predictions, starved).cells, 27u);
  EXPECT_LE(Summarize(*predictions, starved).median, 0.06);
  EXPECT_LE(Summarize(*predictions, starved).p90, 0.16);
  EXPECT_LT(Summarize(*predictions, starved).median, SummarizeClosedForm(*predictions, starved).median);
  EXPECT_LT(Summarize(*predictions, starved).p90, SummarizeClosedForm(*predictions, starved).p90);
}

// The nine systems: here one process for a second each; with DAXCACHE_FULL all of the jobs, and the bounds of the
// model.
TEST(Published, CacheModesHold) {
  auto jobs = ReadFioJobFile(kProfiles + "goyal-2020.fio");
  auto cells = ReadCacheModes(kProfiles + "published/cache_modes.csv");
  ASSERT_TRUE(jobs.ok() && cells.ok()) << jobs.status() << cells.status();
  EXPECT_EQ(cells->size(), 270u);
  const bool full = Full();
  if (!full) {
    std::erase_if(*cells, [](const ModeCell& cell) { return !cell.Fitted(); });
    for (FioJob& job : jobs->jobs) job.runtime_ns = 1'000'000'000;
  }
  const auto predictions = PredictModes(*cells, *jobs, Spec("1G"), 2);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_EQ(SummarizeModes(*predictions, true).cells, 127u);
  EXPECT_LE(SummarizeModes(*predictions, true).median, 0.08);
  for (const ModePrediction& p : *predictions) {
    EXPECT_EQ(p.predicted_iops == 0, p.cell.job.iops == 0) << p.cell.Options().System() << " " << p.cell.job.JobName();
  }
  if (full) {
    EXPECT_LE(SummarizeModes(*predictions, false).median, 0.15);
  }
}

TEST(Published, NothingWasFittedToTheKataGuest) {
  const auto job = ReadFioJobFile(kProfiles + "kata-2020.fio");
  ASSERT_TRUE(job.ok());
  const Profile profile = LoadProfile(kProfiles + "kata-2020.json").value();
  const auto kata = PredictKata(kProfiles + "published/kata_randrw.csv", *job, profile, 2);
  ASSERT_TRUE(kata.ok()) << kata.status();
  EXPECT_NEAR(kata->PublishedRatio(), 1.33, 0.01);
  EXPECT_GT(kata->predicted_virtiofs_iops, kata->predicted_9p_iops) << "9p waits for each request";
  EXPECT_FALSE(kata->Explained());
  EXPECT_FALSE(PredictKata(kProfiles + "published/kernel_build.csv", *job, profile, 1).ok());
}

// Fitted on 1 and 16 LUNs; the 32 are held out, and more jobs than 16 are worse.
TEST(Published, VhostScsiHolds) {
  const auto cells = ReadVhostScsi(kProfiles + "published/vhost_scsi_scaling.csv");
  ASSERT_TRUE(cells.ok()) << cells.status();
  ASSERT_EQ(cells->size(), 6u);
  const Profile profile = LoadProfile(kProfiles + "bellinger-2012.json").value();
  FitOptions options;
  options.huber = 0.1;
  const auto fitted = FitVhost(*cells, profile.costs, options);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  for (const VhostScsiCosts::Field& field : VhostScsiCosts::Fields()) {
    EXPECT_EQ(fitted->costs.vhost_scsi.*field.value, profile.costs.vhost_scsi.*field.value) << field.name;
  }
  for (VhostCell cell : *cells) {
    const double iops = PredictVhost(cell, profile.costs.vhost_scsi);
    EXPECT_NEAR(iops / cell.iops, 1, cell.Fitted() ? 0.01 : 0.1) << cell.luns << " LUNs, " << cell.write_percent;
    cell.jobs = 32;
    EXPECT_LT(PredictVhost(cell, profile.costs.vhost_scsi), iops);
    cell.jobs = 1;
    EXPECT_LE(PredictVhost(cell, profile.costs.vhost_scsi), 1e9 / profile.costs.vhost_scsi.job_ns);
  }
  EXPECT_TRUE(absl::IsNotFound(ReadVhostScsi("nowhere.csv").status()));
  EXPECT_THAT(std::string(ReadVhostScsi(kProfiles + "published/kata_randrw.csv").status().message()),
              HasSubstr("kata_randrw.csv:1: expected luns,jobs,write_pct,kiops, got \"filesystem"));
}

// The kernel build: the windows that take little time here; with DAXCACHE_FULL all, and the bounds of the model.
TEST(Published, TheKernelBuildHolds) {
#ifdef DAXCACHE_SANITIZED
  GTEST_SKIP() << "takes a minute under a sanitizer; tests/cli/daxsim_timed_test.sh runs all of it";
#endif
  auto rows = ReadKernelBuild(kProfiles + "published/kernel_build.csv");
  const auto profile = LoadProfile("xu-2021");
  const auto trace = ReadTrace(DAXCACHE_SOURCE_DIR "/traces/data/kbuild-defconfig.dxt.zst");
  ASSERT_TRUE(rows.ok() && profile.ok() && trace.ok()) << rows.status() << profile.status() << trace.status();
  if (!Full()) {
    std::erase_if(*rows, [](const BuildRow& row) { return row.window_mib == 64 || row.window_mib == 1024; });
  }
  const auto predictions = PredictBuild(*rows, JobPool::Create(*trace, {}).value(), *profile, 2);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  for (const BuildPrediction& build : *predictions) {
    const double bound = build.row.window_mib >= 4096 ? 0.05 : 0.1;
    EXPECT_NEAR(build.ratio / build.published_ratio, 1, bound) << build.row.window_mib << " MiB: " << build.ratio;
    EXPECT_NEAR(build.seconds / build.row.seconds, 1, bound) << build.row.window_mib << " MiB";
    if (build.row.window_mib == 4096) {
      EXPECT_LT(build.ratio, 1) << "a window that is large enough is faster than none";
    }
  }
}

TEST(Published, BrokenTablesSayWhere) {
  EXPECT_TRUE(absl::IsNotFound(ReadKernelBuild("nowhere.csv").status()));
  EXPECT_THAT(std::string(ReadKernelBuild(kProfiles + "published/cache_modes.csv").status().message()),
              HasSubstr("cache_modes.csv:1: expected dax,cache,window_mib,wall_s, got \"filesystem"));
  EXPECT_TRUE(absl::IsNotFound(ReadWindowSweep("nowhere.csv").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadCacheModes("nowhere.csv").status()));
  EXPECT_THAT(std::string(ReadCacheModes(kProfiles + "published/kernel_build.csv").status().message()),
              HasSubstr("kernel_build.csv:1: expected filesystem,cache,dax"));
  EXPECT_THAT(std::string(ReadWindowSweep(kProfiles + "published/kernel_build.csv").status().message()),
              HasSubstr("kernel_build.csv:1: expected window_gib,pattern"));
}

// The fit finds back the parameters that made up a table, from others, where the table depends on them: what is read
// and stored again and again tells an access from the first touch of a page.
TEST(Fit, FindsTheParametersOfAMadeUpTable) {
  const auto jobs = ParseFioJobText(
      "[global]\nsize=64m\nbs=4k\nruntime=1\nstonewall\n[randread-psync]\nrw=randread\nioengine=psync\n"
      "[randwrite-psync]\nrw=randwrite\nioengine=psync\n[seqread-psync]\nrw=read\nloops=8\n"
      "[seqread-psync-multi]\nrw=read\nnumjobs=4\n"
      "[seqread-mmap]\nrw=read\nioengine=mmap\n[seqwrite-mmap]\nrw=write\nioengine=mmap\nloops=8\n",
      "test.fio");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  TimedSpec spec = Spec("1G");
  std::vector<PublishedCell> cells;
  for (const std::uint32_t window : {1u, 2u}) {
    for (const char* name : {"randread psync 1", "randwrite psync 1", "seqread psync 1", "seqread psync 4",
                             "seqread mmap 1", "seqwrite mmap 1"}) {
      const std::string text(name);
      const std::size_t first = text.find(' ');
      const std::size_t last = text.rfind(' ');
      cells.push_back({.window_gib = window,
                       .pattern = text.substr(0, first),
                       .ioengine = text.substr(first + 1, last - first - 1),
                       .jobs = static_cast<std::uint32_t>(std::stoi(text.substr(last))),
                       .iops = 1});
    }
  }
  const auto made = PredictCells(cells, *jobs, spec, {}, 1);
  ASSERT_TRUE(made.ok()) << made.status();
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i].iops = (*made)[i].predicted_iops;
  const double read = spec.costs.read_ns;
  const double store = spec.costs.store_ns;
  spec.costs.read_ns *= 1.5;
  spec.costs.store_ns *= 0.7;
  FitOptions options;
  options.windows = {1, 2};
  const auto fitted = FitCosts(cells, *jobs, spec, options);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_NEAR(fitted->costs.read_ns, read, 0.03 * read);
  EXPECT_NEAR(fitted->costs.store_ns, store, 0.06 * store);
  for (const Prediction& prediction : fitted->residuals) EXPECT_LT(prediction.Error(), 0.03);
  EXPECT_FALSE(FitCosts({}, *jobs, spec, options).ok());
}

}  // namespace
}  // namespace daxcache
