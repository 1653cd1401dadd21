// fio job files: the options one by one, what is refused and how, and the I/Os against what real fio writes down.
#include "daxcache/sim/fio_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daxcache/sim/fio_stream.h"

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FioJob One(const std::string& options) {
  const auto file = ParseFioJobText("[a]\nsize=1m\n" + options, "test.fio");
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->jobs.front() : FioJob();
}

TEST(FioJob, SectionsInheritWhatStandsInGlobalOnesBefore) {
  const auto file = ParseFioJobText(
      "; comment\n[global]\nsize=4m ; so large\nbs=8k\n\n[a]\nrw=randread\n[global]\nbs = 16k # from here "
      "on\n[b]\nrw=write\n",
      "test.fio");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->jobs.size(), 2u);
  EXPECT_EQ(file->jobs[0].name, "a");
  EXPECT_EQ(file->jobs[0].size, 4u << 20);
  EXPECT_EQ(file->jobs[0].blocks[0].front().bytes, 8192u);
  EXPECT_TRUE(file->jobs[0].random);
  EXPECT_EQ(file->jobs[1].blocks[1].front().bytes, 16384u);
  EXPECT_EQ(file->jobs[1].read_percent, 0u);
}

TEST(FioJob, Units) {
  for (const auto& [text, bytes] : std::map<std::string, std::uint64_t>{{"4096", 4096},
                                                                        {"0x1000", 4096},
                                                                        {"4k", 4096},
                                                                        {"4K", 4096},
                                                                        {"4kb", 4096},
                                                                        {"4ki", 4000},
                                                                        {"4KiB", 4000},
                                                                        {"2m", 2u << 20},
                                                                        {"2mib", 2'000'000},
                                                                        {"3g", std::uint64_t{3} << 30}}) {
    EXPECT_EQ(One("io_size=" + text + "\n").io_size, bytes) << text;
  }
  EXPECT_EQ(One("kb_base=1000\nio_size=4k\n").io_size, 4000u);
  EXPECT_EQ(One("kb_base=1000\nio_size=4ki\n").io_size, 4096u);
  EXPECT_EQ(One("runtime=20\n").runtime_ns, 20'000'000'000u);
  EXPECT_EQ(One("runtime=2m\n").runtime_ns, 120'000'000'000u);
  EXPECT_EQ(One("runtime=500ms\n").runtime_ns, 500'000'000u);
  EXPECT_EQ(One("thinktime=7\n").think_ns, 7000u);
}

TEST(FioJob, Blocks) {
  EXPECT_EQ(One("bs=4k,8k\n").blocks[0].front().bytes, 4096u);
  EXPECT_EQ(One("bs=4k,8k\n").blocks[1].front().bytes, 8192u);
  EXPECT_EQ(One("bs=,8k\n").blocks[0].front().bytes, 4096u);
  const FioJob range = One("bsrange=4k-16k\n");
  EXPECT_TRUE(range.block_range);
  EXPECT_EQ(range.blocks[0][0].bytes, 4096u);
  EXPECT_EQ(range.blocks[0][1].bytes, 16384u);
  const FioJob split = One("bssplit=4k/10:64k/50:32k/\n");
  ASSERT_EQ(split.blocks[0].size(), 3u);
  EXPECT_EQ(split.blocks[0][1].bytes, 32768u);
  EXPECT_DOUBLE_EQ(split.blocks[0][1].percent, 40);
  EXPECT_EQ(split.MinBlock(), 4096u);
}

TEST(FioJob, MixesMeanWhatTheyMeanWhereverTheyStand) {
  EXPECT_EQ(One("rw=randrw\nrwmixread=75\n").read_percent, 75u);
  EXPECT_EQ(One("rwmixread=75\nrw=randrw\n").read_percent, 75u);
  EXPECT_EQ(One("rw=randrw\nrwmixwrite=75\n").read_percent, 25u);
  EXPECT_EQ(One("rw=randread\nrwmixread=20\n").read_percent, 100u);
}

TEST(FioJob, FileNames) {
  EXPECT_EQ(One("").FileName(2, 1), "a.2.1");
  EXPECT_EQ(One("directory=/d\nfilename=x:y\n").FileName(2, 1), "/d/y");
  EXPECT_EQ(One("filename=x:y\n").Files(), 2u);
}

TEST(FioJob, ACommandBeforeMayDropTheCaches) {
  const auto file = ParseFioJobText(
      "[a]\nsize=1m\nexec_prerun=sync && echo 3 > /proc/sys/vm/drop_caches\n[b]\nsize=1m\nexec_prerun=date\n", "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->jobs[0].drop_caches);
  EXPECT_FALSE(file->jobs[1].drop_caches);
}

TEST(FioJob, CommandLine) {
  const auto file = ParseFioCommandLine("--rw=randread --size=1m --name=a  --name=b --bs=8k --group_reporting");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->jobs.size(), 2u);
  EXPECT_TRUE(file->jobs[0].random);
  EXPECT_EQ(file->jobs[1].blocks[0].front().bytes, 8192u);
  EXPECT_TRUE(file->jobs[1].group_reporting);
  EXPECT_EQ(ParseFioCommandLine("--rw=read --size=1m")->jobs.front().name, "job");
}

TEST(FioJob, UnknownOptionsAreWarnedOfOnce) {
  const auto file = ParseFioJobText("[global]\nsize=1m\nnumjob=4\n[a]\n[b]\n", "test.fio");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->warnings, ElementsAre("test.fio:3: unknown option \"numjob\" ignored (did you mean \"numjobs\"?)"));
}

TEST(FioJob, FaultsSayWhereAndWhatWasExpected) {
  using std::string_literals::operator""s;
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"rw=read\n[a]\nsize=1m\n", "test.fio:1: expected [name]"},
      {"[a\nsize=1m\n", "test.fio:1: expected [name]"},
      {"[]\nsize=1m\n", "test.fio:1: expected [name]"},
      {"[a]\nrw=foo\nsize=1m\n", "test.fio:2: rw: expected read, write"},
      {"[a]\nrw=ranread\nsize=1m\n", "did you mean \"randread\"?"},
      {"[a]\nsize=1m\nrw=trim\n", "test.fio:3: rw: rw=trim is not supported"},
      {"[a]\nsize=1x\n", "test.fio:2: size: expected a size such as 4k"},
      {"[a]\nsize=-1\n", "test.fio:2: size: expected a size"},
      {"[a]\nsize=99999999999999999999\n", "test.fio:2: size: expected a size"},
      {"[a]\nsize=9999999999999g\n", "test.fio:2: size: expected a size of at most 2^62"},
      {"[a]\nsize=10%\n", "percentages of a file are not supported"},
      {"[a]\nrw=read\n", "test.fio:1: job \"a\": expected a size"},
      {"[a]\nsize=1m\nbs=0\n", "test.fio:3: bs: expected a block"},
      {"[a]\nsize=1m\nbs=2m\n", "test.fio:1: job \"a\": expected files of at least one block"},
      {"[a]\nsize=1m\niodepth=0\n", "test.fio:3: iodepth: expected a whole number from 1"},
      {"[a]\nsize=1m\nnumjobs=many\n", "test.fio:3: numjobs: expected a whole number"},
      {"[a]\nsize=1m\nioengine=net\n", "test.fio:3: ioengine: ioengine=net is not supported; expected one of psync"},
      {"[a]\nsize=1m\nverify=md5\n", "test.fio:3: verify is not supported, and would change the result"},
      {"[a]\nsize=1m\nread_iolog=x\n", "read_iolog is not supported"},
      {"[a]\nsize=1m\ntime_based\n", "expected runtime= beside time_based"},
      {"[a]\nsize=1m\ndirect=maybe\n", "test.fio:3: direct: expected 0 or 1"},
      {"[a]\nsize=1m\nrandom_distribution=zipf:1\n", "theta other than 1"},
      {"[a]\nsize=1m\nrandom_distribution=zoned:50/10:40/90\n", "add up to 100"},
      {"[a]\nsize=1m\nrandom_distribution=skewed\n", "expected random, zipf"},
      {"[a]\nsize=1m\nbssplit=4k/60:8k/60\n", "add up to 100"},
      {"[a]\nsize=1m\nbsrange=4k\n", "expected a range such as 1k-4k"},
      {"[a]\nsize=1m\nkb_base=7\n", "expected kb_base: 1000 or 1024"},
      {"include nowhere.fio\n", "test.fio:1: include: cannot read nowhere.fio"},
      {"[a]\nsize=1m\n\0\n"s, "test.fio:3: expected text, got \"a NUL byte\""},
      {"", "test.fio: expected a job, got none"},
      {"[global]\nsize=1m\n", "test.fio: expected a job, got none"},
  };
  for (const auto& [text, message] : faults) {
    const auto file = ParseFioJobText(text, "test.fio");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(message)) << text;
  }
}

TEST(FioJob, IncludedFilesStandWhereTheyAreIncluded) {
  const std::string folder = ::testing::TempDir() + "/fio_include";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/common.fio") << "[global]\nsize=2m\n";
  std::ofstream(folder + "/job.fio") << "include common.fio\n[a]\nrw=randread\n";
  std::ofstream(folder + "/loop.fio") << "include loop.fio\n";
  const auto file = ReadFioJobFile(folder + "/job.fio");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->jobs.front().size, 2u << 20);
  EXPECT_THAT(std::string(ReadFioJobFile(folder + "/loop.fio").status().message()), HasSubstr("include one another"));
  EXPECT_TRUE(absl::IsNotFound(ReadFioJobFile(folder + "/none.fio").status()));
}

// --- the I/Os
// ----------------------------------------------------------------------------------------------------------

std::vector<TimedIo> All(const FioJob& job, std::uint32_t process = 0) {
  FioStream stream(job, process);
  std::vector<TimedIo> ios;
  for (TimedIo io; stream.Next(io) && ios.size() < 1'000'000;) ios.push_back(io);
  return ios;
}

TEST(FioStream, TheRandomMapGivesEachBlockOnce) {
  for (const std::uint64_t blocks : {1u, 2u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 10'000u}) {
    FioJob job = One("rw=randread\nbs=512\n");
    job.size = blocks * 512 + 100;
    std::set<std::uint64_t> offsets;
    for (const auto& io : All(job)) offsets.insert(io.offset);
    EXPECT_EQ(offsets.size(), blocks);
    EXPECT_EQ(All(job).size(), blocks);
    EXPECT_LT(*offsets.rbegin(), job.size);
  }
}

TEST(FioStream, SkewedDistributionsAreAsSkewedAsTheySay) {
  const auto shares = [](const std::string& distribution) {
    const FioJob job =
        One("size=4m\nbs=4k\nrw=randread\nnorandommap\nio_size=400m\nrandom_distribution=" + distribution);
    std::map<std::uint64_t, int> counts;
    int all = 0;
    for (const auto& io : All(job)) {
      ++counts[io.offset / 4096];
      ++all;
    }
    std::vector<double> sorted;
    for (const auto& [block, count] : counts) sorted.push_back(static_cast<double>(count) / all);
    std::sort(sorted.rbegin(), sorted.rend());
    return sorted;
  };
  // 1,024 blocks. The hash may send two ranks to one block, so the most frequent is at least what theory says.
  double norm = 0;
  for (int k = 1; k <= 1024; ++k) norm += std::pow(k, -1.2);
  EXPECT_NEAR(shares("zipf:1.2")[0], 1 / norm, 0.03);
  EXPECT_LT(shares("random")[0], 0.002);
  const auto pareto = shares("pareto:0.2");
  double top = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(205, pareto.size()); ++i) top += pareto[i];
  EXPECT_NEAR(top, 0.8, 0.06) << "80 % of the accesses to 20 % of the file";
  const FioJob zoned =
      One("size=4m\nbs=4k\nrw=randread\nnorandommap\nio_size=400m\nrandom_distribution=zoned:60/10:40/90");
  double first = 0;
  for (const auto& io : All(zoned)) first += io.offset < (4u << 20) / 10 ? 1 : 0;
  EXPECT_NEAR(first / 102'400, 0.6, 0.01);
}

TEST(FioStream, SeedsAndProcessesDiffer) {
  const FioJob job = One("rw=randread\nbs=4k\n");
  const auto first = [](const FioJob& of, std::uint32_t process) { return All(of, process)[0].offset; };
  std::set<std::uint64_t> offsets;
  for (std::uint32_t process = 0; process < 16; ++process) offsets.insert(first(job, process));
  EXPECT_GT(offsets.size(), 8u);
  EXPECT_EQ(first(job, 3), first(job, 3));
}

// Forty-four job files, about half of them faulty: real fio and we agree on which.
TEST(RealFioParser, AcceptsAndRejectsTheSame) {
  if (std::system("fio --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "fio is not installed";
  const std::string folder = ::testing::TempDir() + "/fio_parse";
  std::filesystem::create_directories(folder);
  const std::vector<std::string> files = {
      // taken
      "[a]\nsize=1m\n",
      "[global]\nsize=1m\nbs=4k\n[a]\nrw=randread\n[b]\nrw=write\n",
      "; comment\n# comment\n[a]\nsize=1m ; here too\n",
      "[a]\n  size = 1m  \n\trw=read\n",
      "[a]\nsize=1m\nrw=randrw\nrwmixread=30\n",
      "[a]\nsize=1m\nrw=readwrite\nrwmixwrite=30\n",
      "[a]\nsize=1m\nrw=randread:8\nrw_sequencer=identical\n",
      "[a]\nsize=1m\nrw=write:4k\n",
      "[a]\nsize=1m\nbs=4k,8k\n",
      "[a]\nsize=1m\nbsrange=1k-4k,2k-8k\n",
      "[a]\nsize=1m\nbssplit=4k/10:64k/50:32k/40\n",
      "[a]\nsize=1m\nnumjobs=4\niodepth=16\nioengine=libaio\ndirect=1\n",
      "[a]\nsize=1m\nruntime=30s\ntime_based\n",
      "[a]\nsize=1m\nrandom_distribution=zipf:1.1\n",
      "[a]\nsize=1m\nrandom_distribution=pareto:0.3\n",
      "[a]\nsize=1m\nrandom_distribution=normal:20\n",
      "[a]\nsize=1m\nrandom_distribution=zoned:60/10:40/90\n",
      "[a]\nsize=1m\nnorandommap\nrandrepeat=0\nrandseed=7\n",
      "[a]\nsize=1m\nthinktime=10ms\nthinktime_blocks=4\nrate_iops=1000\n",
      "[a]\nsize=1m\nnrfiles=4\nfilesize=64k-128k\n",
      "[a]\nsize=1m\nfilename=x:y\ndirectory=/tmp\n",
      "[a]\nsize=1m\noffset=4k\noffset_increment=8k\nio_size=2m\n",
      "[a]\nsize=1m\nstonewall\ngroup_reporting\nloops=3\n",
      "[a]\nkb_base=1000\nsize=1m\n",
      // refused
      "rw=read\n[a]\nsize=1m\n",
      "[a]\nsize=1m\nrw=foo\n",
      "[a]\nsize=1m\nrw\n",
      "[a]\nsize=1m\niodepth=0\n",
      "[a]\nsize=1m\niodepth=deep\n",
      "[a]\nsize=1m\nnumjobs=x\n",
      "[a]\nsize=1m\nbs=0\n",
      "[a]\nsize=1m\nbs\n",
      "[a]\nsize=1m\nbsrange=4k\n",
      "[a]\nsize=1m\ndirect=maybe\n",
      "[a]\nsize=1m\ndirect=2\n",
      "[a]\nsize=1m\nbuffered=2\n",
      "[a]\nsize=1m\nrandom_distribution=zipf:1\n",
      "[a]\nsize=1m\nrandom_distribution=pareto:1.5\n",
      "[a]\nsize=1m\nrandom_distribution=normal:200\n",
      "[a]\nsize=1m\nrandom_distribution=zoned:50/10:40/90\n",
      "[a]\nsize=1m\nrandom_distribution=skewed\n",
      "[a]\nsize=1m\nrw=rw\nrwmixread=101\n",
      "[a]\nsize=1m\nrw_sequencer=foo\n",
      "[a]\nsize=1m\nkb_base=7\n",
      "[a]\nsize=1m\nfilename=\n",
      "[a]\nsize=1m\nthinktime=abc\n",
      "[a]\nsize=1m\nrate_iops=abc\n",
      "[a]\nsize=1m\noffset=zz\n",
  };
  int taken = 0;
  for (const std::string& text : files) {
    std::ofstream(folder + "/job.fio") << text;
    const std::string command = "fio --parse-only --showcmd " + folder + "/job.fio > " + folder + "/out 2>&1";
    const bool fio_takes_it = std::system(command.c_str()) == 0;
    const auto ours = ReadFioJobFile(folder + "/job.fio");
    EXPECT_EQ(ours.ok(), fio_takes_it) << text << ours.status();
    taken += fio_takes_it ? 1 : 0;
  }
  EXPECT_EQ(taken, 24);
}

// Runs real fio and compares. `exact`: fio's random generator does not decide which blocks are accessed.
struct RealCase {
  std::string name;
  std::string options;
  bool exact = true;
};
class RealFio : public ::testing::TestWithParam<RealCase> {};

TEST_P(RealFio, CountsBytesAndOffsetsAreTheSame) {
  if (std::system("fio --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "fio is not installed";
  const std::string folder = ::testing::TempDir() + "/fio_" + GetParam().name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/job.fio") << "[a]\nioengine=psync\n" << GetParam().options;
  const std::string command = "cd " + folder + " && fio --write_iolog=log job.fio > out 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto file = ReadFioJobFile(folder + "/job.fio");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_THAT(file->warnings, IsEmpty());
  using Ios = std::multiset<std::tuple<std::string, std::string, std::uint64_t>>;
  const auto count = [](auto& to, const std::string& name, const std::string& op, std::uint64_t offset,
                        std::uint64_t length) {
    to.first.insert({name, op, offset});
    to.second += length;
  };
  std::pair<Ios, std::uint64_t> real;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("log")) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string time;
      std::string name;
      std::string op;
      std::uint64_t offset = 0;
      std::uint64_t length = 0;
      if (words >> time >> name >> op >> offset >> length && (op == "read" || op == "write")) {
        count(real, name, op, offset, length);
      }
    }
  }
  std::pair<Ios, std::uint64_t> ours;
  const FioJob& job = file->jobs.front();
  for (std::uint32_t process = 0; process < job.numjobs; ++process) {
    for (const auto& io : All(job, process)) {
      count(ours, job.FileName(process, io.file), io.op == Op::kRead ? "read" : "write", io.offset, io.length);
    }
  }
  EXPECT_EQ(ours.second, real.second) << "bytes";
  if (GetParam().exact) {
    EXPECT_EQ(ours.first, real.first);
  } else {
    EXPECT_NEAR(static_cast<double>(ours.first.size()), static_cast<double>(real.first.size()),
                0.15 * static_cast<double>(real.first.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RealFio,
    ::testing::Values(RealCase{"read", "rw=read\nsize=1m\nbs=4k\n"}, RealCase{"write", "rw=write\nsize=1m\nbs=8k\n"},
                      RealCase{"randread", "rw=randread\nsize=1m\nbs=4k\n"},
                      RealCase{"randwrite", "rw=randwrite\nsize=1m\nbs=4k\n"},
                      RealCase{"odd_size", "rw=randread\nsize=66k\nbs=4k\n"},
                      RealCase{"offset", "rw=read\nsize=64k\noffset=32k\nbs=4k\n"},
                      RealCase{"offset_random", "rw=randread\nsize=64k\noffset=32k\nbs=4k\n"},
                      RealCase{"files", "rw=read\nsize=64k\nbs=4k\nnrfiles=3\n"},
                      RealCase{"files_random", "rw=randread\nsize=1m\nbs=4k\nnrfiles=4\n"},
                      RealCase{"jobs", "rw=randread\nsize=256k\nbs=4k\nnumjobs=3\n"},
                      RealCase{"jobs_offset", "rw=read\nsize=64k\nbs=4k\nnumjobs=2\noffset_increment=16k\n"},
                      RealCase{"shared", "rw=read\nsize=64k\nbs=4k\nnumjobs=2\nfilename=f\n"},
                      RealCase{"named", "rw=randread\nsize=128k\nbs=4k\nfilename=f:g\n"},
                      RealCase{"loops", "rw=read\nsize=64k\nbs=4k\nloops=3\n"},
                      RealCase{"loops_random", "rw=randread\nsize=64k\nbs=4k\nloops=3\n"},
                      RealCase{"more", "rw=read\nsize=64k\nbs=4k\nio_size=96k\n"},
                      RealCase{"less", "rw=read\nsize=64k\nbs=4k\nio_size=24k\n"},
                      RealCase{"skip", "rw=read:8k\nsize=64k\nbs=4k\n"},
                      RealCase{"mixed", "rw=randrw\nsize=1m\nbs=4k\nrwmixread=75\n", false},
                      RealCase{"range", "rw=randread\nsize=1m\nbsrange=4k-16k\n", false},
                      RealCase{"split", "rw=randread\nsize=4m\nbssplit=4k/50:16k/50\nnorandommap\n", false},
                      RealCase{"nomap", "rw=randread\nsize=1m\nbs=4k\nnorandommap\n", false},
                      RealCase{"zipf", "rw=randread\nsize=1m\nbs=4k\nrandom_distribution=zipf:1.2\n", false},
                      RealCase{"runs", "rw=randread:4\nsize=1m\nbs=4k\n", false}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace daxcache
