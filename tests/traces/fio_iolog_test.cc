// The fio reader: every line by hand, and logs of the real fio against what fio itself reports.
#include "daxcache/traces/fio_iolog.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "daxcache/traces/builtin.h"
#include "daxcache/traces/range_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

std::uint64_t Skipped(const Trace& trace, std::string_view reason) {
  for (const ReadReport::Skipped& skipped : trace.report().skipped) {
    if (skipped.reason == reason) return skipped.count;
  }
  return 0;
}

TEST(FioIolog, Version3LineByLine) {
  const absl::StatusOr<Trace> trace = ReadTraceFromBytes("it",
                                                         "fio version 3 iolog\n"
                                                         "10 /a add\n"
                                                         "11 b c add\n"
                                                         "20 /a open\n"
                                                         "30 /a write 4096 8192\n"
                                                         "40 b c read 0 4096\n"
                                                         "50 /a trim 0 4096\n"
                                                         "51 /a sync 0 0\n"
                                                         "52 /a datasync 0 0\n"
                                                         "53 /a sync_file_range 0 4096\n"
                                                         "54 /a syncfs 0 0\n"
                                                         "55 /a wait 1000 0\n"
                                                         "56 /a sync 0 0\n"
                                                         "60 /a close\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format(), "fio-iolog-3");
  EXPECT_EQ(trace->mapped_touches(), MappedTouches::kNone);
  ASSERT_EQ(trace->files().size(), 2u);
  EXPECT_EQ(trace->files()[0].path, "/a");
  EXPECT_EQ(trace->files()[0].size, 12288u);
  EXPECT_EQ(trace->files()[1].path, "b c");
  ASSERT_EQ(trace->tasks().size(), 1u);
  EXPECT_EQ(trace->tasks()[0].name, "fio");
  EXPECT_EQ(trace->tasks()[0].end_ns, 60000);
  ASSERT_EQ(trace->size(), 4u);
  const auto access = [](std::int64_t us, std::uint32_t file, Op op, std::uint64_t offset, std::uint64_t length) {
    return Access{
        .time_ns = us * 1000, .task = TaskId{0}, .file = FileId{file}, .op = op, .offset = offset, .length = length};
  };
  EXPECT_EQ((*trace)[0], access(20, 0, Op::kOpen, 0, 12288));
  EXPECT_EQ((*trace)[1], access(30, 0, Op::kWrite, 4096, 8192));
  EXPECT_EQ((*trace)[2], access(40, 1, Op::kRead, 0, 4096));
  EXPECT_EQ((*trace)[3], access(60, 0, Op::kClose, 0, 0));
  EXPECT_EQ(Skipped(*trace, "fio 'sync' lines"), 2u);
  for (const char* one : {"trim", "datasync", "sync_file_range", "syncfs", "wait"}) {
    EXPECT_EQ(Skipped(*trace, "fio '" + std::string(one) + "' lines"), 1u) << one;
  }
  EXPECT_EQ((*RangeStream::Build(*trace, {}))->extending_touches(), 0u);
}

TEST(FioIolog, Version2HasNoTimes) {
  const absl::StatusOr<Trace> trace = ReadTraceFromBytes(
      "it", "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 500 0\n/a write 4096 4096\n/a close\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format(), "fio-iolog-2");
  ASSERT_EQ(trace->size(), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ((*trace)[i].time_ns, static_cast<std::int64_t>(i) * 1000);
}

TEST(FioIolog, AHeaderInTheMiddleStartsAnotherTask) {
  const absl::StatusOr<Trace> trace = ReadTraceFromBytes("it",
                                                         "fio version 3 iolog\n1 a add\n5 a read 0 1\n9 a read 1 1\n"
                                                         "fio version 3 iolog\n1 a add\n2 b add\n7 b read 2 1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->tasks().size(), 2u);
  EXPECT_EQ(trace->tasks()[1].name, "fio 2");
  EXPECT_EQ(trace->files().size(), 2u);
  ASSERT_EQ(trace->size(), 3u);
  EXPECT_EQ((*trace)[1].task, TaskId{1});
  EXPECT_EQ((*trace)[1].time_ns, 7000);
  EXPECT_EQ((*trace)[2].time_ns, 9000);
}

// What fio printed about a run, from its JSON: the number behind the first such key in the job's read or write part.
struct FioResult {
  std::string json;
  std::uint64_t Number(std::string_view part, std::string_view key) const {
    std::size_t at = json.find("\"jobs\"");
    at = json.find("\"" + std::string(part) + "\" : {", at);
    at = json.find("\"" + std::string(key) + "\" : ", at);
    if (at == std::string::npos) return ~0ull;
    return std::strtoull(json.c_str() + at + key.size() + 5, nullptr, 10);
  }
};

class RealFio : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("fio --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "fio is not installed";
  }
  FioResult Run(const std::string& options) {
    const std::string json = dir_ / "out.json";
    const std::string command = "cd " + dir_.path() + " && fio --name=job --ioengine=psync --directory=" + dir_.path() +
                                " --write_iolog=" + (dir_ / "log") + " --output-format=json --output=" + json + " " +
                                options + " > fio.err 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::ifstream in(json);
    return {std::string(std::istreambuf_iterator<char>(in), {})};
  }
  Trace Read() {
    absl::StatusOr<Trace> trace = ReadTrace(dir_ / "log");
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : Trace();
  }
  // Compares operations and bytes with what fio says it did.
  void ExpectAsReported(const Trace& trace, const FioResult& fio) {
    std::array<std::uint64_t, kNumOps> ops{}, bytes{};
    for (std::uint64_t i = 0; i < trace.size(); ++i) {
      ++ops[static_cast<std::size_t>(trace[i].op)];
      bytes[static_cast<std::size_t>(trace[i].op)] += trace[i].length;
    }
    EXPECT_EQ(ops[0], fio.Number("read", "total_ios"));
    EXPECT_EQ(bytes[0], fio.Number("read", "io_bytes"));
    EXPECT_EQ(ops[1], fio.Number("write", "total_ios"));
    EXPECT_EQ(bytes[1], fio.Number("write", "io_bytes"));
    EXPECT_EQ(ops[4], ops[5]) << "every file opened is closed";
    EXPECT_EQ((*RangeStream::Build(trace, {}))->extending_touches(), 0u);
    for (const FileInfo& file : trace.files()) EXPECT_LE(file.size, std::filesystem::file_size(file.path)) << file.path;
  }
  TempDir dir_;
};

TEST_F(RealFio, Sequential) {
  const FioResult fio = Run("--rw=read --size=5m --bs=64k");
  const Trace trace = Read();
  ExpectAsReported(trace, fio);
  ASSERT_EQ(trace.files().size(), 1u);
  EXPECT_EQ(trace.files()[0].size, 5u << 20);
  EXPECT_EQ((*RangeStream::Build(trace, {}))->ranges(), 3u);
}

TEST_F(RealFio, RandomReads) {
  const FioResult fio = Run("--rw=randread --size=2m --bs=4k");
  ExpectAsReported(Read(), fio);
}

TEST_F(RealFio, Zipf) {
  const FioResult fio =
      Run("--rw=randread --random_distribution=zipf:1.1 --norandommap --size=8m --io_size=4m --bs=4k");
  const Trace trace = Read();
  ExpectAsReported(trace, fio);
  EXPECT_EQ(trace.size(), 1024u + 2);
}

TEST_F(RealFio, MixedOverSeveralFilesWithSyncs) {
  const FioResult fio = Run("--rw=randrw --size=2m --bs=4k --nrfiles=4 --fsync=16");
  const Trace trace = Read();
  ExpectAsReported(trace, fio);
  EXPECT_EQ(trace.files().size(), 4u);
  EXPECT_GT(Skipped(trace, "fio 'sync' lines"), 0u);
}

TEST_F(RealFio, SyncFileRangeAndDatasync) {
  const FioResult fio = Run("--rw=randwrite --size=1m --bs=16k --sync_file_range=write:8 --fdatasync=8");
  const Trace trace = Read();
  ExpectAsReported(trace, fio);
  EXPECT_GT(Skipped(trace, "fio 'datasync' lines"), 0u);
}

TEST_F(RealFio, TwoRunsIntoOneLog) {
  const FioResult first = Run("--rw=read --size=256k --bs=4k");
  const std::uint64_t before = Read().size();
  const FioResult second = Run("--rw=randread --size=256k --bs=4k");
  const Trace trace = Read();
  EXPECT_EQ(trace.size(), 2 * before);
  ASSERT_EQ(trace.tasks().size(), 2u);
  EXPECT_EQ(trace.files().size(), 1u);
}

TEST_F(RealFio, SeveralJobsEachWithItsLog) {
  std::ofstream(dir_ / "two.fio") << "[global]\nioengine=psync\nsize=1m\nbs=4k\ndirectory=" << dir_.path() << "\n"
                                  << "[a]\nrw=read\nwrite_iolog=" << (dir_ / "a.log") << "\n"
                                  << "[b]\nrw=randwrite\nwrite_iolog=" << (dir_ / "b.log") << "\n";
  ASSERT_EQ(std::system(("cd " + dir_.path() + " && fio two.fio > out 2>&1").c_str()), 0);
  const absl::StatusOr<Trace> a = ReadTrace(dir_ / "a.log");
  const absl::StatusOr<Trace> b = ReadTrace(dir_ / "b.log");
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(a->size(), 256u + 2);
  EXPECT_EQ(b->size(), 256u + 2);
}

// Times are microseconds: ten reads at ten a second take 0.9 s from the first to the last. Only a unit of another power
// of ten could fail this, however busy the machine.
TEST_F(RealFio, TimesAreInMicroseconds) {
  Run("--rw=read --size=40k --bs=4k --rate_iops=10");
  const Trace trace = Read();
  std::int64_t first = -1, last = -1;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    if (trace[i].op != Op::kRead) continue;
    if (first < 0) first = trace[i].time_ns;
    last = trace[i].time_ns;
  }
  EXPECT_GT(last - first, 300'000'000);
  EXPECT_LT(last - first, 300'000'000'000);
}

}  // namespace
}  // namespace daxcache
