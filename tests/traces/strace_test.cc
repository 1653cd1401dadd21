// Logs of strace, written out by hand: what each call means for the records, in both layouts and all spellings, and
// what is counted rather than recorded. Real runs are in tests/sim/record_test.cc.
#include "daxcache/traces/strace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/units.h"

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kLetters[] = {'R', 'W', 'F', 'G', 'O', 'C', 'T', 'D'};

Trace Read(std::string_view log, const StraceOptions& options = {}) {
  absl::StatusOr<Trace> trace = ReadStrace(log, "x.log", options);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *trace : Trace();
}

// "R path offset length", without opens' and closes' noise if `data_only`.
std::vector<std::string> Records(const Trace& trace, bool data_only = false) {
  std::vector<std::string> lines;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access a = trace[i];
    if (data_only && (a.op == Op::kOpen || a.op == Op::kClose)) continue;
    lines.push_back(absl::StrCat(std::string(1, kLetters[static_cast<int>(a.op)]), " ",
                                 AbslView(trace.files()[ToIndex(a.file)].path), " ", a.offset, " ", a.length));
  }
  return lines;
}

std::vector<std::string> Data(std::string_view log, const StraceOptions& options = {}) {
  return Records(Read(log, options), true);
}

std::uint64_t Skipped(const Trace& trace, std::string_view reason) {
  for (const ReadReport::Skipped& skipped : trace.report().skipped) {
    if (skipped.reason == reason) return skipped.count;
  }
  return 0;
}

TEST(StraceTest, FollowsPositionSizesAndTimes) {
  const Trace trace = Read(
      "7 100.000001 openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>\n"
      "7 100.000002 newfstatat(3</w/a>, \"\", {st_mode=S_IFREG|0644, st_size=9000, ...}, AT_EMPTY_PATH) = 0\n"
      "7 100.100000 read(3</w/a>, \"\"..., 4096) = 4096\n"
      "7 100.200000 read(3</w/a>, \"\"..., 4096) = 4096\n"
      "7 100.300000 read(3</w/a>, \"\"..., 4096) = 808\n"
      "7 100.300001 read(3</w/a>, \"\", 4096) = 0\n"
      "7 100.400000 lseek(3</w/a>, 100, SEEK_SET) = 100\n"
      "7 100.500000 readv(3</w/a>, [{iov_base=\"ab\", iov_len=2}, {iov_base=\"c\", iov_len=8}], 2) = 10\n"
      "7 100.600000 close(3</w/a>) = 0\n"
      "7 100.700000 +++ exited with 0 +++\n");
  EXPECT_THAT(Records(trace), ElementsAre("O /w/a 0 9000", "R /w/a 0 4096", "R /w/a 4096 4096", "R /w/a 8192 808",
                                          "R /w/a 100 10", "C /w/a 0 0"));
  EXPECT_EQ(trace[1].time_ns, 99'999'000);
  ASSERT_EQ(trace.tasks().size(), 1u);
  EXPECT_EQ(trace.tasks()[0].end_ns, 699'999'000);
  EXPECT_EQ(trace.tasks()[0].parent, kNoTask);
  EXPECT_EQ(trace.files()[0].size, 9000u);
  EXPECT_EQ(trace.mapped_touches(), MappedTouches::kRanges);
  EXPECT_EQ(trace.format(), "strace");
  EXPECT_EQ(Skipped(trace, "reads and writes of 0 bytes"), 1u);
}

TEST(StraceTest, ContiguousCallsWithinTenMillisecondsAreOneRecord) {
  EXPECT_THAT(Data("7 1.000 openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>\n"
                   "7 1.001 read(3</w/a>, \"\"..., 100) = 100\n"
                   "7 1.005 read(3</w/a>, \"\"..., 100) = 100\n"
                   "7 1.011 read(3</w/a>, \"\"..., 100) = 100\n"      // 10 ms after the first
                   "7 1.012 read(3</w/a>, \"\"..., 100) = 100\n"      // 11 ms after the first
                   "7 1.013 pread64(3</w/a>, \"\"..., 50, 7) = 50\n"  // elsewhere
                   "7 1.014 read(3</w/a>, \"\"..., 100) = 100\n"),
              ElementsAre("R /w/a 0 300", "R /w/a 300 100", "R /w/a 7 50", "R /w/a 400 100"));
}

TEST(StraceTest, TruncationSeparatesRecords) {
  EXPECT_THAT(Data("7 1.000 openat(AT_FDCWD</w>, \"a\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3</w/a>\n"
                   "7 1.001 write(3</w/a>, \"\"..., 100) = 100\n"
                   "7 1.002 ftruncate(3</w/a>, 10) = 0\n"
                   "7 1.003 write(3</w/a>, \"\"..., 100) = 60\n"
                   "7 1.004 truncate(\"a\", 5) = 0\n"
                   "7 1.005 fallocate(3</w/a>, 0, 100, 900) = 0\n"
                   "7 1.006 fallocate(3</w/a>, FALLOC_FL_KEEP_SIZE, 0, 90000) = 0\n"),
              ElementsAre("W /w/a 0 100", "T /w/a 0 10", "W /w/a 100 60", "T /w/a 0 5", "T /w/a 0 1000"));
}

TEST(StraceTest, JoinsUnfinishedAndResumed) {
  const Trace trace = Read(
      "7 1.000 openat(AT_FDCWD</w>, \"a, b)\", O_RDONLY <unfinished ...>\n"
      "8 1.100 openat(AT_FDCWD</w>, \"b\", O_RDONLY <unfinished ...>\n"
      "7 1.200 <... openat resumed>) = 3</w/a, b)>\n"
      "8 1.300 <... openat resumed>)          = 4</w/b>\n"
      "7 1.400 read(3</w/a, b)>,  <unfinished ...>\n"
      "8 1.500 read(4</w/b>,  <unfinished ...>\n"
      "8 1.600 <... read resumed>\"\"..., 10) = 10\n"
      "7 1.700 <... read resumed>\"\"..., 20) = 20\n"
      "9 1.800 <... read resumed>\"\"..., 20) = 20\n"
      "7 1.900 read(3</w/a, b)>,  <unfinished ...>\n");
  EXPECT_THAT(Records(trace, true), ElementsAre("R /w/b 0 10", "R /w/a, b) 0 20"));
  EXPECT_EQ(Skipped(trace, "calls whose beginning is missing"), 1u);
  EXPECT_EQ(Skipped(trace, "calls without a result"), 1u);
}

// A close frees its number as it begins: another thread may get it before the close is seen to end.
TEST(StraceTest, ANumberIsFreeWhenItsCloseBegins) {
  const Trace trace = Read(
      "1 1700000000.000001 openat(AT_FDCWD</tmp>, \"/tmp/a\", O_RDONLY) = 3</tmp/a>\n"
      "1 1700000000.000002 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD}, 88) = 2\n"
      "1 1700000000.000200 close(3</tmp/a> <unfinished ...>\n"
      "2 1700000000.000300 openat(AT_FDCWD</tmp>, \"/tmp/b\", O_RDONLY) = 3</tmp/b>\n"
      "1 1700000000.000400 <... close resumed>) = 0\n"
      "2 1700000000.000500 read(3</tmp/b>, \"\"..., 10) = 10\n"
      "2 1700000000.020700 close(3</tmp/b>) = 0\n");
  EXPECT_THAT(Records(trace), ElementsAre(StartsWith("O /tmp/a"), "C /tmp/a 0 0", StartsWith("O /tmp/b"),
                                          "R /tmp/b 0 10", "C /tmp/b 0 0"));
}

TEST(StraceTest, AClockOfTooManyHoursIsNone) {
  for (const char* clock : {"8888888888888888888:88:88", "9223372036854775807:00:00", "153722867280912931:00:00"}) {
    const std::string line = std::string("1 ") + clock + ".000001 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3</a>\n";
    EXPECT_FALSE(ReadTraceFromBytes("x.log", line).ok()) << clock;
  }
}

TEST(StraceTest, ReadsTheLayoutOfStandardError) {
  // strace leaves the pid out while there is one process, and breaks into a line when it attaches to another.
  const Trace trace = Read(
      "hello from the command\n"
      "1.000000 execve(\"/bin/th\", [\"th\"], 0x7ffc /* 37 vars */) = 0\n"
      "1.100000 openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>\n"
      "1.200000 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, child_tid=0x7f, parent_tid=0x7f, "
      "exit_signal=0}strace: Process 3819 attached\n"
      " => {parent_tid=[3819]}, 88) = 3819\n"
      "[pid  3819] 1.300000 read(3</w/a>,  <unfinished ...>\n"
      "[pid  3818] 1.400000 read(3</w/a>, \"\"..., 10) = 10\n"
      "[pid  3819] 1.500000 <... read resumed>\"\"..., 5) = 5\n"
      "[pid  3818] 1.600000 vfork(strace: Process 3820 attached\n"
      " <unfinished ...>\n"
      "[pid  3820] 1.700000 close(3</w/a>) = 0\n"
      "[pid  3820] 1.710000 +++ exited with 0 +++\n"
      "[pid  3818] 1.800000 <... vfork resumed>) = 3820\n"
      "[pid  3819] 1.900000 +++ exited with 0 +++\n"
      "2.000000 close(3</w/a>) = 0\n"
      "2.100000 +++ exited with 0 +++\n");
  EXPECT_THAT(Records(trace), ElementsAre("O /bin/th 0 0", "R /bin/th 0 256", "F /bin/th 0 256", "C /bin/th 0 0",
                                          "O /w/a 0 0", "R /w/a 0 10", "R /w/a 10 5", "C /w/a 0 0"));
  ASSERT_EQ(trace.tasks().size(), 3u);
  EXPECT_EQ(trace.tasks()[1].parent, TaskId{0});
  EXPECT_EQ(trace.tasks()[2].parent, TaskId{0});
  EXPECT_EQ(trace.tasks()[0].name, "th");
  EXPECT_EQ(Skipped(trace, "lines that are not strace's"), 1u);
}

TEST(StraceTest, AChildsLineMayComeBeforeItsParentsPid) {
  const Trace trace = Read(
      "1.000000 openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>\n"
      "1.200000 vfork(strace: Process 12 attached\n"
      " <unfinished ...>\n"
      "[pid    12] 1.300000 read(3</w/a>, \"\"..., 5) = 5\n"
      "[pid    11] 1.400000 <... vfork resumed>) = 12\n"
      "[pid    11] 1.500000 read(3</w/a>, \"\"..., 5) = 5\n");
  EXPECT_THAT(Records(trace, true), ElementsAre("R /w/a 0 5", "R /w/a 5 5"));
  ASSERT_EQ(trace.tasks().size(), 2u);
  EXPECT_EQ(trace.tasks()[1].parent, TaskId{0});
}

TEST(StraceTest, UnescapesNames) {
  const Trace trace = Read(
      "7 1.0 openat(AT_FDCWD</w>, \"we>ird \\303\\251 <x>\\1\", O_RDONLY) = 3</w/we\\76ird \\303\\251 \\74x\\76\\1>\n"
      "7 1.1 read(3</w/we\\76ird \\303\\251 \\74x\\76\\1>, \"\"..., 5) = 5\n"
      "7 1.2 openat(AT_FDCWD<\\x2f\\x77>, \"\\x62\\x0a\\x63\", O_RDONLY) = 4<\\x2f\\x77\\x2f\\x62\\x0a\\x63>\n"
      "7 1.3 read(4<\\x2f\\x77\\x2f\\x62\\x0a\\x63>, \"\"..., 6) = 6\n"
      "7 1.4 openat(AT_FDCWD</w>, \"q\\\"(\\\\,\\t\", O_RDONLY) = 5</w/q\\\"(\\\\,\\t>\n"
      "7 1.5 read(5</w/q\\\"(\\\\,\\t>, \"\\\")...\"..., 7) = 7\n");
  EXPECT_THAT(Records(trace, true),
              ElementsAre("R /w/we>ird \xc3\xa9 <x>\x01 0 5", "R /w/b\nc 0 6", "R /w/q\"(\\,\t 0 7"));
}

TEST(StraceTest, KnowsDeletedFilesFromNamesThatEndLikeThem) {
  const Trace trace = Read(
      "7 1.0 openat(AT_FDCWD</w>, \"a (deleted)\", O_RDONLY) = 3</w/a (deleted)>\n"
      "7 1.1 read(3</w/a (deleted)>, \"\"..., 5) = 5\n"
      "7 1.2 openat(AT_FDCWD</w>, \"b\", O_RDWR|O_CREAT|O_EXCL, 0600) = 4</w/b>\n"
      "7 1.3 unlink(\"b\") = 0\n"
      "7 1.4 write(4</w/b>(deleted), \"\"..., 5) = 5\n"
      "7 1.5 write(4</w/b (deleted)>, \"\"..., 5) = 5\n"  // strace before 5.8
      "7 1.6 openat(AT_FDCWD</w>, \".\", O_RDWR|O_TMPFILE, 0600) = 5</w/#107>(deleted)\n"
      "7 1.7 write(5</w/#107>(deleted), \"\"..., 8) = 8\n"
      "7 1.8 linkat(5</w/#107>(deleted), \"\", AT_FDCWD</w>, \"c\", AT_EMPTY_PATH) = 0\n"
      "7 1.9 read(9</w/gone>(deleted), \"\"..., 3) = 3\n");
  EXPECT_THAT(Records(trace, true), ElementsAre("R /w/a (deleted) 0 5", "D /w/b 0 0", "W /w/b 0 5", "W /w/b 5 5",
                                                "W /w/c 0 8", "R /w/gone 0 3"));
}

TEST(StraceTest, ResolvesRelativePathsWithoutHelpOfTheLog) {
  // No -y: the reader keeps working directories and descriptors by itself.
  EXPECT_THAT(
      Data("7 1.0 chdir(\"/w/x\") = 0\n"
           "7 1.1 open(\"../y/./a\", O_RDONLY) = 3\n"
           "7 1.2 read(3, \"\"..., 5) = 5\n"
           "7 1.3 open(\"d\", O_RDONLY|O_DIRECTORY) = 4\n"
           "7 1.4 openat(4, \"b\", O_RDONLY) = 5\n"
           "7 1.5 read(5, \"\"..., 6) = 6\n"
           "7 1.6 fchdir(4) = 0\n"
           "7 1.7 fork() = 8\n"
           "7 1.8 chdir(\"/\") = 0\n"
           "8 1.9 openat(AT_FDCWD, \"c\", O_RDONLY) = 6\n"
           "8 2.0 read(6, \"\"..., 7) = 7\n"
           "7 2.1 open(\"e\", O_RDONLY) = 6\n"
           "7 2.2 read(6, \"\"..., 8) = 8\n"
           "7 2.3 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 9\n"
           "9 2.4 chdir(\"/z\") = 0\n"
           "7 2.5 creat(\"f\", 0644) = 7\n"
           "9 2.6 write(7, \"\"..., 9) = 9\n"
           "9 2.7 chroot(\"/jail\") = 0\n"
           "9 2.8 open(\"/g\", O_RDONLY) = 8\n"
           "9 2.9 read(8, \"\"..., 1) = 1\n"),
      ElementsAre("R /w/y/a 0 5", "R /w/x/d/b 0 6", "R /w/x/d/c 0 7", "R /e 0 8", "W /z/f 0 9", "R /jail/g 0 1"));
}

TEST(StraceTest, PathsStayRelativeWhereNobodySaysTheWorkingDirectory) {
  EXPECT_THAT(Data("7 1.0 open(\"../a\", O_RDONLY) = 3\n"
                   "7 1.1 read(3, \"\"..., 5) = 5\n"
                   "7 1.2 open(\"b/../c\", O_RDONLY) = 4\n"
                   "7 1.3 read(4, \"\"..., 6) = 6\n"),
              ElementsAre("R ../a 0 5", "R c 0 6"));
}

TEST(StraceTest, FollowsSymbolicLinks) {
  EXPECT_THAT(Data("7 1.0 symlink(\"real\", \"/w/link\") = 0\n"
                   "7 1.1 open(\"/w/link/a\", O_RDONLY) = 3\n"
                   "7 1.2 read(3, \"\"..., 5) = 5\n"
                   // A link that was there before shows in where -y says an open led.
                   "7 1.3 openat(AT_FDCWD</w>, \"old/b\", O_RDONLY) = 4</data/b>\n"
                   "7 1.4 read(4</data/b>, \"\"..., 6) = 6\n"
                   "7 1.5 unlink(\"/w/old/b\") = 0\n"
                   // Removing the link removes no file.
                   "7 1.6 unlink(\"/w/link\") = 0\n"
                   "7 1.7 symlinkat(\"x\", AT_FDCWD, \"/w/x\") = 0\n"
                   "7 1.8 open(\"/w/x/y\", O_RDONLY) = 5\n"),
              ElementsAre("R /w/real/a 0 5", "R /data/b 0 6", "D /data/b 0 0"));
}

TEST(StraceTest, DescriptorsOfOneOpenShareItsPosition) {
  EXPECT_THAT(Data("7 1.0 open(\"/a\", O_RDONLY) = 3\n"
                   "7 1.1 dup(3) = 4\n"
                   "7 1.2 read(3, \"\"..., 10) = 10\n"
                   "7 1.3 read(4, \"\"..., 10) = 10\n"
                   "7 1.4 fork() = 8\n"
                   "8 1.5 read(4, \"\"..., 10) = 10\n"
                   "7 1.6 read(3, \"\"..., 10) = 10\n"
                   "7 1.7 open(\"/a\", O_RDONLY) = 5\n"
                   "7 1.8 read(5, \"\"..., 1) = 1\n"
                   "7 1.9 dup2(5, 3) = 3\n"
                   "7 2.0 read(3, \"\"..., 1) = 1\n"
                   "7 2.1 fcntl(3, F_DUPFD_CLOEXEC, 10) = 10\n"
                   "7 2.2 dup3(10, 11, O_CLOEXEC) = 11\n"
                   "7 2.3 read(11, \"\"..., 1) = 1\n"
                   "7 2.4 preadv2(11, [...], 1, -1, 0) = 1\n"
                   "7 2.5 preadv2(11, [...], 1, 77, 0) = 1\n"
                   "7 2.6 readv(11, [...], 1) = 1\n"),
              ElementsAre("R /a 0 10", "R /a 10 10", "R /a 20 10", "R /a 30 10", "R /a 0 1", "R /a 1 1", "R /a 2 1",
                          "R /a 3 1", "R /a 77 1", "R /a 4 1"));
}

TEST(StraceTest, ClosesWithTheLastDescriptor) {
  const Trace trace = Read(
      "7 1.0 open(\"/a\", O_RDONLY) = 3\n"
      "7 1.1 dup(3) = 4\n"
      "7 1.2 close(3) = 0\n"
      "7 1.3 fork() = 8\n"
      "7 1.4 close(4) = 0\n"
      "8 1.5 +++ exited with 0 +++\n"
      "7 1.6 open(\"/b\", O_RDONLY|O_CLOEXEC) = 3\n"
      "7 1.7 open(\"/c\", O_RDONLY) = 4\n"
      "7 1.8 fcntl(4, F_SETFD, FD_CLOEXEC) = 0\n"
      "7 1.9 open(\"/d\", O_RDONLY) = 5\n"
      "7 2.0 execve(\"/p\", [...], 0x7f /* 3 vars */) = 0\n"
      "7 2.1 open(\"/e\", O_RDONLY) = 6\n"
      "7 2.2 close_range(3, 4294967295, 0) = 0\n");
  std::vector<std::string> closed;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    if (trace[i].op != Op::kClose) continue;
    closed.push_back(absl::StrCat(AbslView(trace.files()[ToIndex(trace[i].file)].path), " ", ToIndex(trace[i].task),
                                  " ", trace[i].time_ns / 100'000'000));
  }
  EXPECT_THAT(closed, ElementsAre("/a 1 5", "/b 0 10", "/c 0 10", "/p 0 10", "/d 0 12", "/e 0 12"));
}

TEST(StraceTest, AppendsAtTheEndWhereverThatTurnsOutToBe) {
  constexpr std::string_view kLog =
      "7 1.0 open(\"/a\", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3\n"
      "7 1.1 write(3, \"\"..., 10) = 10\n"
      "7 1.2 write(3, \"\"..., 20) = 20\n";
  EXPECT_THAT(Records(Read(kLog)), ElementsAre("O /a 1 0", "W /a 0 10", "W /a 10 20"));
  EXPECT_THAT(
      Records(Read(absl::StrCat(AbslView(kLog), "7 1.3 fstat(3, {st_mode=S_IFREG|0644, st_size=130, ...}) = 0\n",
                                "7 1.31 pwrite64(3, \"\"..., 5, 2) = 5\n"))),
      ElementsAre("O /a 1 100", "W /a 100 10", "W /a 110 20", "W /a 130 5"));
  StraceOptions options;
  options.facts = [](const std::string& path) {
    EXPECT_EQ(path, "/a");
    return StraceOptions::FileFacts{.regular = true, .size = 1030};
  };
  EXPECT_THAT(Records(Read(kLog, options)), ElementsAre("O /a 1 1000", "W /a 1000 10", "W /a 1010 20"));
}

TEST(StraceTest, DeletesAtTheLastName) {
  EXPECT_THAT(Data("7 1.0 open(\"/a\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3\n"
                   "7 1.1 write(3, \"\"..., 10) = 10\n"
                   "7 1.2 link(\"/a\", \"/b\") = 0\n"
                   "7 1.3 unlink(\"/a\") = 0\n"
                   "7 1.4 open(\"/b\", O_RDONLY) = 4\n"
                   "7 1.5 read(4, \"\"..., 10) = 10\n"
                   "7 1.6 unlinkat(AT_FDCWD, \"/b\", 0) = 0\n"
                   "7 1.7 read(4, \"\"..., 5) = 5\n"
                   // The same name again is another file.
                   "7 1.8 open(\"/b\", O_WRONLY|O_CREAT, 0644) = 5\n"
                   "7 1.9 write(5, \"\"..., 7) = 7\n"
                   "7 2.0 unlink(\"/never-seen\") = 0\n"
                   "7 2.1 unlinkat(AT_FDCWD, \"/dir\", AT_REMOVEDIR) = 0\n"),
              ElementsAre("W /b 0 10", "R /b 0 10", "D /b 0 10", "R /b 10 5", "W /b 0 7"));
}

TEST(StraceTest, RenamesFilesAndFolders) {
  const Trace trace = Read(
      "7 1.0 open(\"/d/new\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3\n"
      "7 1.1 write(3, \"\"..., 10) = 10\n"
      "7 1.2 open(\"/d/old\", O_RDONLY) = 4\n"
      "7 1.3 read(4, \"\"..., 99) = 99\n"
      "7 1.4 rename(\"/d/new\", \"/d/old\") = 0\n"
      "7 1.5 write(3, \"\"..., 1) = 1\n"
      "7 1.6 renameat2(AT_FDCWD, \"/d\", AT_FDCWD, \"/e\", RENAME_NOREPLACE) = 0\n"
      "7 1.7 open(\"/e/old\", O_RDONLY) = 5\n"
      "7 1.8 read(5, \"\"..., 11) = 11\n"
      "7 1.9 open(\"/x\", O_RDONLY) = 6\n"
      "7 2.0 renameat2(AT_FDCWD, \"/x\", AT_FDCWD, \"/e/old\", RENAME_EXCHANGE) = 0\n"
      "7 2.1 unlink(\"/x\") = 0\n");
  EXPECT_THAT(Records(trace, true),
              ElementsAre("W /x 0 10", "R /d/old 0 99", "D /d/old 0 0", "W /x 10 1", "R /x 0 11", "D /x 0 11"));
  EXPECT_EQ(trace.files().size(), 3u);
}

TEST(StraceTest, CopiesBetweenDescriptors) {
  EXPECT_THAT(Data("7 1.0 open(\"/a\", O_RDONLY) = 3\n"
                   "7 1.1 open(\"/b\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4\n"
                   "7 1.2 sendfile(4, 3, NULL, 4096) = 100\n"
                   "7 1.3 sendfile(4, 3, [500] => [550], 50) = 50\n"
                   "7 1.4 copy_file_range(3, NULL, 4, [9], 9223372035781033984, 0) = 7\n"
                   "7 1.5 splice(3</a>, NULL, 6<pipe:[7140]>, NULL, 3, 0) = 3\n"
                   "7 1.6 copy_file_range(3, [1000] => [1002], 4, NULL, 2, 0) = 2\n"),
              ElementsAre("R /a 0 100", "W /b 0 100", "R /a 500 50", "W /b 100 50", "R /a 100 7", "W /b 9 7",
                          "R /a 107 3", "R /a 1000 2", "W /b 150 2"));
}

TEST(StraceTest, MappingsTouchWhatTheyCoverOnce) {
  const Trace trace = Read(
      "7 1.0 openat(AT_FDCWD</>, \"a\", O_RDWR) = 3</a>\n"
      "7 1.1 fstat(3</a>, {st_mode=S_IFREG|0644, st_size=10000, ...}) = 0\n"
      "7 1.2 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</a>, 0) = 0x7f38d3f47000\n"
      "7 1.3 mmap(0x7f38d3f47000, 16384, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_FIXED, 3</a>, 0x1000) = 0x7f38d3f47000\n"
      "7 1.4 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</a>, 0) = 0x7f38d3f52000\n"
      "7 1.5 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</a>, 0) = 0x7f38d3f52000\n"
      "7 1.6 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f38d3f52000\n"
      "7 1.7 mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE, 3</a>, 0) = 0x7f38d3f52000\n"
      "7 1.8 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3</a>, 0x100000) = 0x7f38d3f52000\n");
  EXPECT_THAT(Records(trace, true), ElementsAre("F /a 0 8192", "F /a 8192 1808", "G /a 0 4096"));
  EXPECT_EQ(Skipped(trace, "mappings of what the task had mapped before"), 1u);
  EXPECT_EQ(Skipped(trace, "mappings of no file"), 1u);
  EXPECT_EQ(Skipped(trace, "mappings that allow no access"), 1u);
  EXPECT_EQ(Skipped(trace, "mappings beyond the end of their file"), 1u);
}

TEST(StraceTest, MappingsTouchTheGapsBetweenWhatWasTouched) {
  std::string log = "7 1.0 openat(AT_FDCWD</>, \"a\", O_RDONLY) = 3</a>\n";
  for (const char* range : {"4096, 0x2000", "4096, 0x6000", "65536, 0x1000", "4096, 0x4000", "4096, 0"}) {
    const std::string_view text = range;
    absl::StrAppend(&log, "7 1.1 mmap(NULL, ", AbslView(text.substr(0, text.find(','))),
                    ", PROT_READ, MAP_PRIVATE, 3</a>", AbslView(text.substr(text.find(','))), ") = 0x7f0000000000\n");
  }
  EXPECT_THAT(Data(log), ElementsAre("F /a 8192 4096", "F /a 24576 4096", "F /a 4096 4096", "F /a 12288 12288",
                                     "F /a 28672 40960", "F /a 0 4096"));
}

TEST(StraceTest, CountsWhatIsNoAccessToAFile) {
  const Trace trace = Read(
      "7 1.0 openat(AT_FDCWD</w>, \"/dev/null\", O_WRONLY) = 3</dev/null<char 1:3>>\n"
      "7 1.1 write(3</dev/null<char 1:3>>, \"\"..., 5) = 5\n"
      "7 1.2 read(4<pipe:[12]>, \"\"..., 5) = 5\n"
      "7 1.3 write(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"\"..., 5) = 5\n"
      "7 1.4 openat(AT_FDCWD</w>, \"/proc/self/maps\", O_RDONLY) = 6</proc/7/maps>\n"
      "7 1.5 openat(AT_FDCWD</w>, \"nope\", O_RDONLY) = -1 ENOENT (No such file or directory)\n"
      "7 1.6 brk(NULL) = 0x5555\n"
      "7 1.7 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---\n"
      "7 1.8 write(9<anon_inode:[eventfd]>, \"\"..., 8) = 8\n"
      "7 1.9 openat(AT_FDCWD</w>, \"dir\", O_RDONLY) = 7</w/dir>\n"
      "7 2.0 fstat(7</w/dir>, {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0\n"
      "7 2.1 io_uring_setup(8, {flags=0}) = 8<anon_inode:[io_uring]>\n"
      "7 2.2 read(0, \"\"..., 5) = 5\n"
      "7 2.3 write(1, \"\"\n");
  EXPECT_THAT(Records(trace), IsEmpty());
  EXPECT_THAT(trace.files(), IsEmpty());
  EXPECT_EQ(Skipped(trace, "calls on /dev, /proc and /sys"), 3u);
  EXPECT_EQ(Skipped(trace, "calls on pipes, sockets and the like"), 3u);
  EXPECT_EQ(Skipped(trace, "calls that failed"), 1u);
  EXPECT_EQ(Skipped(trace, "calls of brk"), 1u);
  EXPECT_EQ(Skipped(trace, "signals"), 1u);
  EXPECT_EQ(Skipped(trace, "calls on directories"), 1u);
  EXPECT_EQ(Skipped(trace, "calls that ask for sizes only"), 1u);
  EXPECT_EQ(Skipped(trace, "calls of io_uring (its reads and writes are not shown)"), 1u);
  EXPECT_EQ(Skipped(trace, "calls on descriptors of unknown files"), 1u);
  EXPECT_EQ(Skipped(trace, "calls cut short"), 1u);
  std::uint64_t all = 0;
  for (const ReadReport::Skipped& skipped : trace.report().skipped) all += skipped.count;
  EXPECT_EQ(all, 14u) << "every line is a record or counted";
}

TEST(StraceTest, TheLogIsRightWhereTheTableIsNot) {
  // Descriptors that came over a socket, or that a call replaced which the log does not have.
  EXPECT_THAT(Data("7 1.0 open(\"/a\", O_RDONLY) = 3</a>\n"
                   "7 1.1 read(3</a>, \"\"..., 5) = 5\n"
                   "7 1.2 read(3</b>, \"\"..., 5) = 5\n"
                   "7 1.3 read(3<pipe:[5]>, \"\"..., 5) = 5\n"
                   "7 1.4 read(4</c>, \"\"..., 6) = 6\n"
                   "7 1.5 read(4</c>, \"\"..., 6) = 6\n"),
              ElementsAre("R /a 0 5", "R /b 0 5", "R /c 0 6", "R /c 6 6"));
}

TEST(StraceTest, KeepsLinesUntilItIsKnownWhoseChildWroteThem) {
  // Two processes are in vfork(2); either may be the parent of 20 and 21.
  constexpr std::string_view kLog =
      "7 1.0 open(\"/a\", O_RDONLY) = 3\n"
      "7 1.1 fork() = 8\n"
      "8 1.2 open(\"/b\", O_RDONLY) = 4\n"
      "7 1.3 vfork( <unfinished ...>\n"
      "8 1.4 vfork( <unfinished ...>\n"
      "20 1.5 read(4, \"\"..., 5) = 5\n"
      "21 1.6 open(\"/c\", O_RDONLY) = 4\n"
      "21 1.7 read(4, \"\"..., 6) = 6\n"
      "20 1.8 +++ exited with 0 +++\n"
      "8 1.9 <... vfork resumed>) = 20\n"
      "7 2.0 <... vfork resumed>) = 21\n"
      "21 2.1 read(4, \"\"..., 6) = 6\n";
  const Trace trace = Read(kLog);
  EXPECT_THAT(Records(trace, true), ElementsAre("R /b 0 5", "R /c 0 6", "R /c 6 6"));
  // The kernel's events say it at once.
  KernelEvents kernel;
  kernel.forks = {{.time_ns = 1'350'000'000, .parent = 7, .child = 21},
                  {.time_ns = 1'450'000'000, .parent = 8, .child = 20}};
  StraceOptions options;
  options.kernel = &kernel;
  const Trace known = Read(kLog, options);
  EXPECT_THAT(Records(known, true), ElementsAre("R /b 0 5", "R /c 0 6", "R /c 6 6"));
  ASSERT_EQ(known.tasks().size(), 4u);
  EXPECT_EQ(known.tasks()[2].start_ns, 500'000'000);
}

TEST(StraceTest, ProcessesComeAndGo) {
  const Trace trace = Read(
      "7 1.0 execve(\"/bin/sh\", [...], 0x7f /* 3 vars */) = 0\n"
      "7 1.1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n"
      "8 1.2 execve(\"./tool\", [...], 0x7f /* 3 vars */) = 0\n"
      "7 1.3 <... clone resumed>, child_tidptr=0x7f) = 8\n"
      "8 1.4 +++ killed by SIGKILL +++\n"
      "7 1.5 clone(child_stack=NULL, flags=SIGCHLD) = 8\n"  // the pid again
      "8 1.6 open(\"/x\", O_RDONLY) = 3\n"
      "8 1.7 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[9]}, 88) = 9\n"
      "9 1.8 execve(\"/bin/other\", [...], 0x7f /* 3 vars */ <unfinished ...>\n"
      "8 1.9 +++ superseded by execve in pid 9 +++\n"
      "8 2.0 <... execve resumed>) = 0\n"
      "8 2.1 read(3, \"\"..., 4) = 4\n"
      "8 2.2 +++ exited with 0 +++\n"
      "8 2.3 read(3, \"\"..., 4) = 4\n");
  std::vector<std::string> tasks;
  for (const TaskInfo& task : trace.tasks()) {
    tasks.push_back(absl::StrCat(AbslView(task.name), " ", ToIndex(task.parent), " ", task.start_ns / 100'000'000, " ",
                                 task.end_ns / 100'000'000));
  }
  EXPECT_THAT(tasks, ElementsAre(StartsWith("sh 4294967295 0 13"), "tool 0 2 4", "other 0 5 12", "sh 2 7 9",
                                 StartsWith("pid-8")));
}

// A thread that calls execve(2) goes on as its process, with what it had, and what the process was in is lost.
struct Superseded {
  const char* name;
  const char* process;  // what it is in
  std::uint64_t lost;   // calls without a result
};
class StraceSuperseded : public ::testing::TestWithParam<Superseded> {};

TEST_P(StraceSuperseded, TheThreadsCallAndTableStay) {
  const Trace trace =
      Read(absl::StrCat("8 1.0 open(\"/x\", O_RDONLY) = 3\n"
                        "8 1.1 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[9]}, 88) = 9\n"
                        "9 1.2 unshare(CLONE_FILES) = 0\n"
                        "9 1.3 open(\"/y\", O_RDONLY) = 4\n",
                        GetParam().process,
                        "9 1.5 execve(\"/bin/other\", [...], 0x7f /* 3 vars */ <unfinished ...>\n"
                        "8 1.6 +++ superseded by execve in pid 9 +++\n"
                        "10 1.7 open(\"/z\", O_RDONLY) = 3\n"
                        "8 1.8 <... execve resumed>) = 0\n"
                        "8 1.9 read(4, \"\"..., 4) = 4\n"));
  EXPECT_THAT(Records(trace), ::testing::IsSupersetOf({"O /bin/other 0 0", "R /bin/other 0 256", "R /y 0 4"}));
  ASSERT_EQ(trace.tasks().size(), 3u);
  EXPECT_EQ(trace.tasks()[0].name, "other");
  EXPECT_EQ(trace.tasks()[1].parent, TaskId{0});
  EXPECT_EQ(trace.tasks()[2].parent, kNoTask);
  EXPECT_EQ(Skipped(trace, "calls without a result"), GetParam().lost);
  EXPECT_EQ(Skipped(trace, "calls whose beginning is missing"), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, StraceSuperseded,
                         ::testing::Values(Superseded{"nothing", "", 0},
                                           Superseded{"close", "8 1.4 close(3 <unfinished ...>\n", 0},
                                           Superseded{"wait", "8 1.4 futex(0x7f, FUTEX_WAIT, 9 <unfinished ...>\n", 1},
                                           Superseded{"clone", "8 1.4 clone(child_stack=NULL <unfinished ...>\n", 1}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(StraceTest, ACloseThatIsNeverHeardOfAgainIsCountedOnce) {
  constexpr std::string_view kClosing = "8 1.0 open(\"/x\", O_RDONLY) = 3\n8 1.1 close(3 <unfinished ...>\n";
  for (const std::string_view end :
       {"", "8 1.2 +++ killed by SIGKILL +++\n", "8 1.2 getpid() = 8\n", "8 1.2 <... read resumed>, \"\", 1) = 0\n"}) {
    const Trace trace = Read(absl::StrCat(AbslView(kClosing), AbslView(end)));
    EXPECT_THAT(Records(trace), ElementsAre("O /x 0 0", "C /x 0 0")) << end;
    EXPECT_EQ(Skipped(trace, "calls without a result"), 0u) << end;
  }
}

TEST(StraceTest, ReadsTimesOfDay) {
  const Trace trace = Read(
      "7 23:59:59.900000 open(\"/a\", O_RDONLY) = 3\n"
      "7 00:00:00.100000 read(3, \"\"..., 4) = 4\n"
      "7 00:00:01 read(3, \"\"..., 4) = 4\n"
      "7 00:00:00 read(3, \"\"..., 4) = 4\n");  // the clock was set back: times stay
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace[1].time_ns, 200'000'000);
  EXPECT_EQ(trace[2].time_ns, 1'100'000'000);
  EXPECT_EQ(trace[2].length, 8u);
}

TEST(StraceTest, BindsPageFaultsToTheFileThatHadTheNameThen) {
  KernelEvents kernel;
  kernel.mappings = {{.time_ns = 1'150'000'000, .path = "/lib"},
                     {.time_ns = 1'250'000'000, .path = "/lib"},
                     {.time_ns = 1'350'000'000, .path = "/lib (deleted)"},
                     {.time_ns = 1'360'000'000, .path = "/memfd:x (deleted)"}};
  kernel.faults = {
      {.time_ns = 1'220'000'000, .task = 7, .mapping = 0, .offset = 8192, .pages = 3},
      {.time_ns = 1'260'000'000, .task = 7, .mapping = 1, .offset = 0, .pages = 1, .shared_writable = true},
      {.time_ns = 1'370'000'000, .task = 7, .mapping = 2, .offset = 4096, .pages = 2},
      {.time_ns = 1'380'000'000, .task = 7, .mapping = 3, .offset = 4096, .pages = 2},
      {.time_ns = 1'380'000'000, .task = 99, .mapping = 0, .offset = 4096, .pages = 2}};
  kernel.cpu_times = {{.time_ns = 1'200'000'000, .task = 7, .user_us = 4000, .system_us = 1000}};
  StraceOptions options;
  options.kernel = &kernel;
  const Trace trace = Read(
      "7 1.1 open(\"/lib\", O_RDONLY) = 3\n"
      "7 1.11 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f38d3f52000\n"
      "7 1.2 rename(\"/lib\", \"/lib.old\") = 0\n"
      "7 1.21 open(\"/lib\", O_RDWR|O_CREAT, 0644) = 4\n"
      "7 1.3 unlink(\"/lib\") = 0\n"
      "7 1.4 +++ exited with 0 +++\n",
      options);
  EXPECT_THAT(Records(trace, true),
              ElementsAre("F /lib.old 8192 12288", "G /lib 0 4096", "D /lib 0 0", "F /lib 4096 8192"));
  EXPECT_EQ(trace.mapped_touches(), MappedTouches::kPages);
  EXPECT_EQ(trace.tasks()[0].user_us, 4000u);
  EXPECT_EQ(trace.tasks()[0].system_us, 1000u);
  EXPECT_EQ(Skipped(trace, "page faults in mappings of no file"), 2u);
  EXPECT_EQ(Skipped(trace, "page faults of processes not in the log"), 2u);
}

TEST(StraceTest, TheFirstProcessMayHaveOpenFiles) {
  StraceOptions options;
  options.inherited = {{.descriptor = 0, .path = "/in", .position = 100},
                       {.descriptor = 1, .path = "/out", .position = 50, .append = false},
                       {.descriptor = 2, .path = "/out", .position = 50, .append = false, .same_as = 1}};
  EXPECT_THAT(Data("7 1.0 read(0</in>, \"\"..., 5) = 5\n"
                   "7 1.1 fork() = 8\n"
                   "8 1.2 write(1</out>, \"\"..., 5) = 5\n"
                   "7 1.3 write(2</out>, \"\"..., 5) = 5\n"
                   "8 1.4 read(0</in>, \"\"..., 5) = 5\n",
                   options),
              ElementsAre("R /in 100 5", "W /out 50 5", "W /out 55 5", "R /in 105 5"));
}

TEST(StraceTest, ProgramsAreReadAndMapped) {
  StraceOptions options;
  options.canonical = [](const std::string& path) -> std::optional<std::string> {
    return path == "/bin/run" ? "/usr/bin/run.sh" : path;
  };
  options.programs = [](const std::string& path) {
    return std::vector<StraceOptions::Program>{{.path = path, .mapped = false},
                                               {.path = "/usr/bin/sh", .mapped = true}};
  };
  options.facts = [](const std::string& path) {
    return StraceOptions::FileFacts{.regular = true, .size = path == "/usr/bin/sh" ? 5000u : 30u};
  };
  const Trace trace = Read("7 1.0 execve(\"/bin/run\", [...], 0x7f /* 3 vars */) = 0\n", options);
  EXPECT_THAT(Records(trace),
              ElementsAre("O /usr/bin/run.sh 0 30", "R /usr/bin/run.sh 0 30", "C /usr/bin/run.sh 0 0",
                          "O /usr/bin/sh 0 5000", "R /usr/bin/sh 0 256", "F /usr/bin/sh 0 5000", "C /usr/bin/sh 0 0"));
  EXPECT_EQ(trace.tasks()[0].name, "run");
}

TEST(StraceTest, WhatIsNoLogIsAnErrorWithThePlace) {
  for (const std::string_view bytes : {"", "\n\n", "hello\nworld\n", "\x89PNG\r\n", "7 open(\"/a\", O_RDONLY) = 3\n"}) {
    const absl::StatusOr<Trace> trace = ReadStrace(bytes, "x.log");
    ASSERT_FALSE(trace.ok()) << bytes;
    EXPECT_THAT(std::string(trace.status().message()), StartsWith("x.log:")) << bytes;
  }
  constexpr std::string_view kOpen = "7 1.0 open(\"/a\", O_RDWR) = 3\n";
  for (const std::string_view line :
       {"7 1.1 pwrite64(3, \"\"..., 2, 9223372036854775807) = 2\n",
        "7 1.1 pread64(3, \"\", 2, 18446744073709551615) = 2\n", "7 1.1 ftruncate(3, 18446744073709551615) = 0\n",
        "7 1.1 read(3, \"\"..., 5) = 18446744073709551615\n",
        "7 1.1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0xfffffffffffff000) = 0x7f00\n",
        "7 1.1 fallocate(3, 0, 9223372036854775807, 9223372036854775807) = 0\n"}) {
    const absl::StatusOr<Trace> trace = ReadStrace(absl::StrCat(AbslView(kOpen), AbslView(line)), "x.log");
    ASSERT_FALSE(trace.ok()) << line;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr("x.log:2: expected ")) << line;
  }
}

// What strace does not write: lines changed on their way, and calls that cannot have succeeded.
struct Refused {
  const char* name;
  std::string_view line;
  const char* message;
};
class StraceRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(StraceRefuses, WithThePlace) {
  constexpr std::string_view kOpen = "7 1.0 open(\"/a\", O_RDWR) = 3\n7 1.0 open(\"/b\", O_RDWR) = 4\n";
  for (const std::string_view behind : {"\n", "\n7 1.2 close(3) = 0\n"}) {
    const std::string log = absl::StrCat(AbslView(kOpen), AbslView(GetParam().line), AbslView(behind));
    const absl::StatusOr<Trace> trace = ReadStrace(log, "x.log");
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(std::string(trace.status().message()), absl::StrCat("x.log:3: expected ", GetParam().message));
  }
}

using std::string_view_literals::operator""sv;
const Refused kRefused[] = {
    {"Crlf", "7 1.1 read(3, \"\", 5) = 0\r",
     "a line that ends in LF alone, got \"7 1.1 read(3, \\\"\\\", 5) = 0\\x0d\""},
    {"CrlfOfABlankLine", "\r", "a line that ends in LF alone, got \"\\x0d\""},
    {"NulInALine", "7 1.1 close(3\0) = 0"sv, "a line without NUL bytes, got \"7 1.1 close(3\\x00) = 0\""},
    {"NulInOtherWords", "hello\0"sv, "a line without NUL bytes, got \"hello\\x00\""},
    {"NulInAPath", R"(7 1.1 open("/c\0d", O_RDONLY) = 5)", "a path without NUL bytes, got \"/c\\x00d\""},
    {"NulInARelativePath", R"(7 1.1 openat(AT_FDCWD</w>, "c\x00d", O_RDONLY) = 5)",
     "a path without NUL bytes, got \"c\\x00d\""},
    {"NulInAShownPath", R"(7 1.1 open("/c", O_RDONLY) = 5</c\0>)", "a path without NUL bytes, got \"/c\\x00\""},
    {"NulInADescriptor", R"(7 1.1 read(3</a\0b>, ""..., 5) = 5)", "a path without NUL bytes, got \"/a\\x00b\""},
    {"NulInTheFolder", R"(7 1.1 openat(AT_FDCWD</w\0>, "c", O_RDONLY) = 5)",
     "a path without NUL bytes, got \"/w\\x00\""},
    {"NulInANewName", R"(7 1.1 rename("/a", "/c\0") = 0)", "a path without NUL bytes, got \"/c\\x00\""},
    {"NulInALink", R"(7 1.1 symlink("/c\0", "/d") = 0)", "a path without NUL bytes, got \"/c\\x00\""},
    {"NulInAProgram", R"(7 1.1 execve("/bin/\0sh", [...], 0x7f /* 3 vars */) = 0)",
     "a path without NUL bytes, got \"/bin/\\x00sh\""},
    {"PreadBelow0", R"(7 1.1 pread64(3, ""..., 4096, -5) = 4096)", "an offset of at least 0, got \"-5\""},
    {"PreadAtThePosition", R"(7 1.1 pread64(3, ""..., 4096, -1) = 4096)", "an offset of at least 0, got \"-1\""},
    {"PreadvBelow0", R"(7 1.1 preadv(3, [{iov_base=""..., iov_len=8}], 1, -8) = 8)",
     "an offset of at least 0, got \"-8\""},
    {"Preadv2Below0", R"(7 1.1 preadv2(3, [{iov_base=""..., iov_len=8}], 1, -2, 0) = 8)",
     "an offset of at least 0, got \"-2\""},
    {"PwriteBelow0", R"(7 1.1 pwrite64(3, ""..., 1, -9223372036854775807) = 1)",
     "an offset of at least 0, got \"-9223372036854775807\""},
    {"SendfileBelow0", R"(7 1.1 sendfile(4, 3, [-4096] => [0], 4096) = 4096)",
     "an offset of at least 0, got \"-4096\""},
    {"CopyBelow0", R"(7 1.1 copy_file_range(3, NULL, 4, [-1], 8, 0) = 8)", "an offset of at least 0, got \"-1\""},
    {"TruncateBelow0", R"(7 1.1 truncate("/a", -1) = 0)", "a size of at least 0, got \"-1\""},
    {"FtruncateBelow0", R"(7 1.1 ftruncate(3, -1) = 0)", "a size of at least 0, got \"-1\""},
    {"FallocateBelow0", R"(7 1.1 fallocate(3, 0, -4096, 8192) = 0)", "an offset of at least 0, got \"-4096\""},
    {"FallocateNothing", R"(7 1.1 fallocate(3, 0, 0, -1) = 0)", "a length of at least 0, got \"-1\""},
    {"MmapBelow0", R"(7 1.1 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, -4096) = 0x7f00)",
     "an offset of at least 0, got \"-4096\""},
    {"MmapOfNothing", R"(7 1.1 mmap(NULL, 0, PROT_READ, MAP_SHARED, 3, 0) = 0x7f00)",
     "a length of at least 1, got \"0\""},
};
INSTANTIATE_TEST_SUITE_P(All, StraceRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(StraceTest, NamesOfSocketsMayHoldAnyByte) {
  const Trace trace = Read("7 1.0 read(3<UNIX-STREAM:[12->13,@\"\\0a\\0\"]>, \"\\0\\0\"..., 2) = 2\n");
  EXPECT_EQ(trace.size(), 0u);
}

TEST(StraceTest, ALogMayEndAnywhere) {
  constexpr std::string_view kLog =
      "[pid 7] 1.0 openat(AT_FDCWD</w>, \"a\\303\\251\", O_RDONLY <unfinished ...>\n"
      "[pid 8] 1.1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FSstrace: Process 9 attached\n"
      ") = 9\n"
      "[pid 7] 1.2 <... openat resumed>) = 3</w/a\\303\\251>\n"
      "[pid 7] 1.3 sendfile(3</w/a\\303\\251>, 4<TCP:[1->2]>, [0] => [3], 3) = 3\n"
      "[pid 7] 1.4 newfstatat(3</w/a\\303\\251>, \"\", {st_mode=S_IFREG|0644, st_size=0x10, ...}, AT_EMPTY_PATH) = 0\n"
      "[pid 9] 1.5 +++ exited with 0 +++\n";
  for (std::size_t i = 0; i < kLog.size(); ++i) {
    const absl::StatusOr<Trace> trace = ReadStrace(kLog.substr(0, i), "cut");
    if (!trace.ok()) {
      EXPECT_THAT(std::string(trace.status().message()), StartsWith("cut:"));
    }
  }
}

TEST(StraceTest, IsKnownByItsContent) {
  EXPECT_TRUE(LooksLikeStrace("7 1.000001 open(\"/a\", O_RDONLY) = 3\n"));
  EXPECT_TRUE(LooksLikeStrace("1.000001 open("));
  EXPECT_TRUE(LooksLikeStrace("[pid 12] 12:00:01.5 +++ exited with 0 +++"));
  EXPECT_TRUE(LooksLikeStrace("words of the command\n12 1.5 <... read resumed>) = 0"));
  EXPECT_FALSE(LooksLikeStrace("daxtrace 1\nfile 0 5 /a\n1 0 R 0 0 5\n"));
  EXPECT_FALSE(LooksLikeStrace("fio version 3 iolog\n1 /a add\n"));
  EXPECT_FALSE(LooksLikeStrace("8,0 1 1 0.000001 12 Q R 0 + 8 [x]\n"));
  EXPECT_FALSE(LooksLikeStrace(""));
}

}  // namespace
}  // namespace daxcache
