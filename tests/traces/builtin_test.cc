// Reading by content, writing by name, and files that are whole or not there.
#include "daxcache/traces/builtin.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kLines = "file 0 1 a\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 1\n";

TEST(Builtin, EveryFormatHasANameOfItsOwnAndCanBeRead) {
  std::set<std::string_view> names;
  for (const Format& format : kTraceFormats) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_FALSE(format.summary.empty()) << format.name;
    EXPECT_NE(format.sniff, nullptr) << format.name;
    EXPECT_NE(format.read, nullptr) << format.name;
    EXPECT_TRUE(format.write == nullptr || format.extension.starts_with(".")) << format.name;
    EXPECT_FALSE(format.sniff("")) << format.name;
    EXPECT_FALSE(format.sniff("\x89PNG\r\n\x1a\n")) << format.name;
  }
}

TEST(Builtin, ReadsByContentWhateverTheName) {
  const TempDir dir;
  const Trace trace = FromText(kLines);
  ASSERT_TRUE(WriteTrace(trace, dir / "a.dxt.zst").ok());
  std::filesystem::rename(dir / "a.dxt.zst", dir / "a.trace");
  const absl::StatusOr<Trace> again = ReadTrace(dir / "a.trace");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->format(), "dxt");
  EXPECT_EQ(again->source(), dir / "a.trace");
}

TEST(Builtin, ReadsSeveralFramesAndSkippableOnes) {
  const std::string whole = "daxtrace 1\n" + std::string(kLines);
  const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const std::string frames =
        skippable + Compressed(whole.substr(0, cut)) + skippable + Compressed("") + Compressed(whole.substr(cut));
    const absl::StatusOr<Trace> trace = ReadTraceFromBytes("it", frames);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->size(), 1u);
  }
}

TEST(Builtin, ReportsProgressAndGivesUpWhenAsked) {
  const TempDir dir;
  std::ofstream(dir / "big.trace") << "daxtrace 1\n"
                                   << kLines
                                   << std::string(5 << 20, '#')
                                          .replace(0, 0, "# ")
                                          .replace(900000, 1, "\n#")
                                          .replace(1900000, 1, "\n#")
                                          .replace(2900000, 1, "\n#")
                                          .replace(3900000, 1, "\n#")
                                          .replace(4900000, 1, "\n#")
                                   << "\n";
  std::uint64_t calls = 0, last = 0, total = 0;
  const absl::StatusOr<Trace> trace =
      ReadTrace(dir / "big.trace", {.progress = [&](std::uint64_t done, std::uint64_t of) {
                  ++calls;
                  EXPECT_GE(done, last);
                  last = done;
                  total = of;
                  return true;
                }});
  EXPECT_TRUE(trace.ok()) << trace.status();
  EXPECT_GE(calls, 2u);
  EXPECT_LE(last, total);
  EXPECT_EQ(total, std::filesystem::file_size(dir / "big.trace"));
  EXPECT_TRUE(absl::IsCancelled(
      ReadTrace(dir / "big.trace", {.progress = [](std::uint64_t, std::uint64_t) { return false; }}).status()));
}

TEST(Builtin, WritesWholeFilesOrNone) {
  const TempDir dir;
  const Trace trace = FromText(kLines);
  EXPECT_THAT(MessageOf(WriteTrace(trace, dir / "a.txt")),
              HasSubstr("one of .trace, .trace.zst, .dxt, .dxt.zst, got \""));
  EXPECT_THAT(MessageOf(WriteTrace(trace, dir / "a.iolog.zst")), HasSubstr(".dxt"));
  EXPECT_THAT(MessageOf(WriteTrace(trace, dir / "none/a.dxt")), HasSubstr("No such file"));
  TraceBuilder builder;
  builder.AddFile("a\nb", 0);
  ASSERT_TRUE(WriteTrace(trace, dir / "a.trace").ok());
  EXPECT_FALSE(WriteTrace(*builder.Finish("x", "x", MappedTouches::kNone), dir / "a.trace").ok());
  EXPECT_TRUE(SameContent(trace, *ReadTrace(dir / "a.trace")));  // the old one is still there
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.insert(entry.path().filename());
  EXPECT_EQ(names, std::set<std::string>{"a.trace"});
}

TEST(Builtin, WritesIntoPipesDirectly) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe.dxt").c_str(), 0600), 0);
  ASSERT_EQ(
      std::system(("cat " + (dir / "pipe.dxt") + " > " + (dir / "copy") + " & echo $! > " + (dir / "pid")).c_str()), 0);
  ASSERT_TRUE(WriteTrace(FromText(kLines), dir / "pipe.dxt").ok());
  // The reader ends when the pipe is closed; wait for what it wrote.
  absl::StatusOr<Trace> copy = absl::UnknownError("not read yet");
  for (int i = 0; i < 500 && !copy.ok(); ++i) {
    ASSERT_EQ(std::system("sleep 0.01"), 0);
    copy = ReadTrace(dir / "copy");
  }
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(SameContent(*copy, FromText(kLines)));
  EXPECT_EQ(std::filesystem::status(dir / "pipe.dxt").type(), std::filesystem::file_type::fifo);
}

TEST(Builtin, SameContentSeesEveryDifference) {
  const Trace trace = FromText(kLines);
  for (const char* other :
       {"file 0 2 a\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 1\n", "file 0 1 b\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 1\n",
        "file 0 1 a\ntask 0 - 0 0 0 1 x\n7 0 R 0 0 1\n", "file 0 1 a\ntask 0 - 0 0 0 0 x\n7 0 W 0 0 1\n",
        "file 0 1 a\ntask 0 - 0 0 0 0 x\n", "# mapped touches: pages\nfile 0 1 a\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 1\n"}) {
    EXPECT_FALSE(SameContent(trace, FromText(other))) << other;
  }
  EXPECT_TRUE(SameContent(trace, FromText("# other\n" + std::string(kLines))));
}

}  // namespace
}  // namespace daxcache
