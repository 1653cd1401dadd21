// The text format: what each line becomes, and that writing it gives the same trace again.
#include "daxcache/traces/text_trace.h"

#include <limits>
#include <string>

#include "daxcache/traces/builtin.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kExample =
    "# a comment\n"
    "file 0 125640 /usr/bin/dash\n"
    "file 1 9223372036854775808  a path with spaces \n"
    "task 0 - 486 261479782750 0 1971 sh\n"
    "task 1 0 4776462 12582038063 18446744073709551615 7 \n"
    "683000 0 F 0 122880 32768\n"
    "683000 1 O 1 3 125640\n"
    "683001 0 R 0 0 256\n"
    "683002 0 W 1 9223372036854775808 0\n"
    "# another\n"
    "file 2 0 late\n"
    "683003 0 G 2 0 4096\n"
    "683003 0 T 2 0 77\n"
    "683003 0 C 2 0 0\n"
    "9223372036854775807 0 D 2 0 33\n";

TEST(TextTrace, ReadsEveryKindOfLine) {
  const Trace trace = FromText(kExample);
  ASSERT_EQ(trace.size(), 8u);
  ASSERT_EQ(trace.files().size(), 3u);
  EXPECT_EQ(trace.files()[0].path, "/usr/bin/dash");
  EXPECT_EQ(trace.files()[0].size, 125640u);
  EXPECT_EQ(trace.files()[1].path, " a path with spaces ");
  EXPECT_EQ(trace.files()[1].size, std::uint64_t{1} << 63);
  ASSERT_EQ(trace.tasks().size(), 2u);
  EXPECT_EQ(trace.tasks()[0].parent, kNoTask);
  EXPECT_EQ(trace.tasks()[0].start_ns, 486);
  EXPECT_EQ(trace.tasks()[0].end_ns, 261479782750);
  EXPECT_EQ(trace.tasks()[0].system_us, 1971u);
  EXPECT_EQ(trace.tasks()[1].parent, TaskId{0});
  EXPECT_EQ(trace.tasks()[1].user_us, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(trace.tasks()[1].name, "");
  const Access first{.time_ns = 683000,
                     .task = TaskId{0},
                     .file = FileId{0},
                     .op = Op::kMappedRead,
                     .offset = 122880,
                     .length = 32768};
  EXPECT_EQ(trace[0], first);
  const Op ops[] = {Op::kMappedRead,  Op::kOpen,     Op::kRead,  Op::kWrite,
                    Op::kMappedWrite, Op::kTruncate, Op::kClose, Op::kUnlink};
  for (std::uint64_t i = 0; i < trace.size(); ++i) EXPECT_EQ(trace[i].op, ops[i]) << i;
  EXPECT_EQ(trace[1].offset, 3u);
  EXPECT_EQ(trace[7].time_ns, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(trace.source(), "text");
  EXPECT_EQ(trace.format(), "trace");
}

TEST(TextTrace, WrittenAndReadAgainIsTheSame) {
  const Trace trace = FromText(kExample);
  const std::string text = ToBytes(trace, kTextTrace);
  const absl::StatusOr<Trace> again = ReadTraceFromBytes("again", text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(SameContent(trace, *again));
  EXPECT_EQ(ToBytes(*again, kTextTrace), text);
}

TEST(TextTrace, SaysHowMappingsWereWatched) {
  constexpr std::string_view kFault = "file 0 1 a\ntask 0 - 0 0 0 0 x\n1 0 F 0 0 1\n";
  EXPECT_EQ(FromText("").mapped_touches(), MappedTouches::kNone);
  EXPECT_EQ(FromText(kFault).mapped_touches(), MappedTouches::kPages);
  const Trace ranges = FromText("# mapped touches: ranges\n" + std::string(kFault));
  EXPECT_EQ(ranges.mapped_touches(), MappedTouches::kRanges);
  const absl::StatusOr<Trace> again = ReadTraceFromBytes("again", ToBytes(ranges, kTextTrace));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->mapped_touches(), MappedTouches::kRanges);
}

TEST(TextTrace, RefusesToWriteNamesThatBreakLines) {
  using std::string_literals::operator""s;
  for (const std::string& name : {"a\nb"s, "a\0b"s, "a\r"s}) {
    TraceBuilder builder;
    builder.AddFile(name, 1);
    const absl::StatusOr<Trace> trace = builder.Finish("x", "x", MappedTouches::kNone);
    ASSERT_TRUE(trace.ok());
    std::string bytes;
    Output output = Output::ToBytes(bytes);
    EXPECT_THAT(MessageOf(WriteTextTrace(*trace, output)), HasSubstr("file 0"));
    EXPECT_TRUE(ReadTraceFromBytes("dxt", ToBytes(*trace, kDxt)).ok());
  }
}

TEST(TextTrace, LinesAcrossBuffers) {
  // Lines of all lengths, several buffers in all, so that every place in a line falls on a buffer's end once.
  std::string text;
  std::uint32_t files = 0;
  for (std::size_t size = 1; text.size() < (9u << 20); size = size * 5 / 4 + 1) {
    if (size > 1000000) size = 1;
    text += "file " + std::to_string(files++) + " 1 " + std::string(size, 'p') + "\n";
  }
  const Trace trace = FromText(text);
  ASSERT_EQ(trace.files().size(), files);
  for (std::size_t i = 0, size = 1; i < files; ++i, size = size * 5 / 4 + 1) {
    if (size > 1000000) size = 1;
    ASSERT_EQ(trace.files()[i].path.size(), size);
  }
}

}  // namespace
}  // namespace daxcache
