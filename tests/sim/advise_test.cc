// Advice: what can be worked out by hand has to come out, and every reason has to be true of the runs beside it.
#include "daxcache/sim/advise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "daxcache/sim/profile.h"
#include "nlohmann/json.hpp"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

AdviseOptions Options(const char* policy = "linux") {
  const Profile profile = LoadProfile(DAXCACHE_SOURCE_DIR "/sim/profiles/goyal-2020.json").value();
  AdviseOptions options;
  options.spec.policy = ParsePolicySpec(policy).value();
  options.spec.mechanics = ReclaimOptions::Linux();
  options.spec.costs = profile.costs;
  options.spec.engine.jiffy_ns = profile.jiffy_ns;
  return options;
}

Advice OnFio(const std::string& job, const AdviseOptions& options) {
  const FioJobFile jobs = ParseFioCommandLine(job).value();
  auto advice = Advise({.run = Runs(jobs), .file_bytes = FileSizes(jobs)}, options);
  EXPECT_TRUE(advice.ok()) << advice.status();
  return *std::move(advice);
}

TEST(Advise, AFileNeedsAWindowAFourthLarger) {
  const Advice advice = OnFio("--rw=randread --bs=4k --size=1g --io_size=64m --ioengine=psync", Options());
  EXPECT_EQ(advice.ranges, 512u);
  EXPECT_EQ(advice.recommended.window.bytes(), kGiB / 4 * 5);
  EXPECT_THAT(advice.reasons, Contains(HasSubstr("as the guest keeps 20 % of a window free")));
  EXPECT_THAT(advice.reasons, Contains(HasSubstr("1280M is the smallest window that takes at most 5.00 % longer")));
  EXPECT_FALSE(advice.slower_from);
  EXPECT_TRUE(advice.left_out.empty()) << "no file is small";
  // Rows: without DAX, and then by size, each at most as fast as what follows (a window that is starved is slower).
  EXPECT_FALSE(advice.rows.front().dax);
  for (std::size_t i = 2; i < advice.rows.size(); ++i) {
    EXPECT_GT(advice.rows[i].window.bytes(), advice.rows[i - 1].window.bytes());
    EXPECT_LT(advice.rows[i].seconds, advice.rows[i - 1].seconds * 1.01);
    EXPECT_EQ(advice.rows[i].guest_bytes, Footprint{}.GuestBytes(advice.rows[i].window, RangeSize()));
  }
}

TEST(Advise, OnDemandNothingIsKeptFree) {
  AdviseOptions options = Options("lru");
  options.spec.mechanics = ReclaimOptions::Demand();
  EXPECT_EQ(OnFio("--rw=randread --bs=4k --size=1g --io_size=64m", options).recommended.window.bytes(), kGiB);
}

TEST(Advise, JobsThatEndByTheClockAreComparedByWhatTheyDo) {
  const Advice advice = OnFio("--rw=randread --bs=4k --size=1g --runtime=1 --time_based --norandommap", Options());
  EXPECT_EQ(advice.recommended.window.bytes(), kGiB / 4 * 5);
  EXPECT_GT(advice.rows[1].seconds, 10 * advice.best.seconds) << "64 MiB";
}

TEST(Advise, StructPagesEatThePageCache) {
  // One file is read outside DAX, by a policy that keeps it out, in a guest of little memory.
  AdviseOptions options = Options("per-file:base=linux,max=512M");
  options.guest_ram = 176u << 20;
  const Advice advice =
      OnFio("--rw=randread --bs=4k --size=1g --io_size=256m --norandommap --random_distribution=zipf:0.9", options);
  ASSERT_TRUE(advice.slower_from);
  EXPECT_GE(advice.slower_from->bytes(), 256u << 20);
  EXPECT_FALSE(advice.recommended.dax);
  EXPECT_THAT(advice.reasons, Contains(HasSubstr("No file uses the window")));
  EXPECT_THAT(advice.reasons, Contains(HasSubstr("struct pages take memory from the page cache")));
}

TEST(Advise, SmallFilesAreLeftOutOrItIsSaidWhyNot) {
  const JobPool pool = JobPool::Create(testing_::HeadOfKernelBuild(100'000), {}).value();
  AdviseOptions options = Options();
  options.spec.engine.vcpus = 4;
  const auto advice = Advise({.run = Runs(pool, {.jobs = 8}), .file_bytes = pool.sizes()}, options);
  ASSERT_TRUE(advice.ok()) << advice.status();
  ASSERT_EQ(advice->left_out.size(), 3u);
  EXPECT_EQ(advice->left_out[0].policy.text(), "per-file:base=linux,min=32K");
  for (const AdviceRow& row : advice->left_out) {
    EXPECT_GT(row.page_cache_bytes, 0u);
    EXPECT_LE(row.window.bytes(), advice->best.window.bytes());
  }
  const auto said = std::count_if(advice->reasons.begin(), advice->reasons.end(), [](const std::string& reason) {
    return reason.find("left out of DAX") != std::string::npos;
  });
  EXPECT_EQ(said, 3);
  const auto json = nlohmann::json::parse(AdviceJson(*advice, "goyal-2020"));
  EXPECT_EQ(json["advice"]["recommended"]["window_bytes"], advice->recommended.window.bytes());
  EXPECT_EQ(json["advice"]["runs"].size(), advice->rows.size());
  EXPECT_EQ(json["advice"]["left_out"].size(), 3u);
  EXPECT_THAT(AdviceText(*advice, "title"), HasSubstr("Advice: a window of " + advice->recommended.window.ToString()));
}

TEST(Advise, WithoutFilesThereIsNothingToSay) {
  const FioJobFile jobs = ParseFioCommandLine("--size=1m").value();
  const auto advice = Advise({.run = Runs(jobs), .file_bytes = {0, 0}}, Options());
  EXPECT_THAT(std::string(advice.status().message()), HasSubstr("expected files with something in them"));
}

TEST(PageCacheBytes, IsWhatIsLeft) {
  EXPECT_EQ(PageCacheBytes(kGiB, 0), kGiB - (128u << 20));
  EXPECT_EQ(PageCacheBytes(kGiB, kGiB), kGiB - (128u << 20) - 16'834'560);
  EXPECT_EQ(PageCacheBytes(1, kGiB), 1u << 20) << "never none";
}

}  // namespace
}  // namespace daxcache
