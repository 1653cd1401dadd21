// Every malformed input gets an error of one line that says where, what was expected and what came. Small inputs are
// files in data/malformed; what is large, or of another program, is made here.
#include <zstd.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daxcache/traces/builtin.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// By file, what follows its path in the message; FORMATS stands for the list of formats.
const std::map<std::string, std::string> kMessages = {
    {"beyond_2_63.iolog", ":3: expected offset + length of at most 2^63, got 9223372036854775808 + 4096"},
    {"beyond_2_63.trace", ":5: expected offset + length of at most 2^63, got 9223372036854775807 + 2"},
    {"blank_line.trace", ":5: expected a record, \"file\", \"task\" or a comment, got an empty line"},
    {"byte_order_mark.trace", ":1: expected a trace (one of FORMATS), got text with a byte order mark"},
    {"close_length.trace", ":5: expected length 0 of a close, got 1"},
    {"crlf.trace", ":5: expected a line that ends in LF, got \"1 0 R 0 0 4\\x0d\\x0a\""},
    {"crlf_header.trace", ":1: expected a line that ends in LF, got \"daxtrace 1\\x0d\\x0a\""},
    {"cut.iolog", ":3: expected a line feed at the end of the last line (is the file cut?), got \"2 a read 0 40\""},
    {"cut_declaration.trace",
     ":2: expected a line feed at the end of the last line (is the file cut?), got \"file 0 40\""},
    {"cut_fields.trace", ":5: expected one space and six fields: time task op file offset length, got \"1 0 R 0 0\""},
    {"cut_number.trace",
     ":5: expected a line feed at the end of the last line (is the file cut?), got \"1 0 R 0 0 40\""},
    {"empty.trace", ":1: expected a trace (one of FORMATS), got an empty file"},
    {"file_out_of_order.trace", ":2: expected file 0 (each is declared once, in the order 0, 1, 2, …), got \"1\""},
    {"file_twice.trace", ":3: expected file 1 (each is declared once, in the order 0, 1, 2, …), got \"0\""},
    {"file_without_path.trace", ":2: expected a path, got the end of the line"},
    {"file_without_space.trace", ":2: expected a size in bytes from 0 to 9223372036854775808 and a space, got \"1\""},
    {"header_only.dxt", ": offset 12: expected a header of 64 bytes, got 12 bytes"},
    {"hex_number.trace", ":5: expected an offset from 0 to 18446744073709551615, got \"0x10\""},
    {"magic_as_text.dxt",
     ": offset 0: expected the signature of a .dxt, got \"\\x89DXT\\x0a\\x1a\\x0a\\x00\" (was it copied as text?)"},
    {"mapped_comment.trace", ":2: expected none, ranges or pages, got \"often\""},
    {"negative.iolog", ":3: expected an offset from 0 to 2^64 - 1, got \"-1\""},
    {"negative_length.trace", ":5: expected a length from 0 to 18446744073709551615, got \"-4\""},
    {"negative_time.trace", ":5: expected a time in ns from 0 to 9223372036854775807, got \"-1\""},
    {"no_header.trace", ":1: expected a trace (one of FORMATS), got \"file 0 4096 a\""},
    {"no_time.iolog", ":2: expected a time in us and a file's name, got \"a\""},
    {"not_added.iolog",
     ":2: expected a file that was added before (jobs that share a log cut each other's lines: give each its own "
     "write_iolog), got \"a\""},
    {"nul_in_comment.trace", ":5: expected a comment without NUL bytes, got \"# a\\x00b\""},
    {"nul_in_path.trace", ":2: expected a path without NUL bytes, got \"a\\x00b\""},
    {"nul_in_record.trace", ":5: expected an offset from 0 to 18446744073709551615, got \"\\x00\""},
    {"open_flags.trace", ":5: expected open flags from 0 to 3, got 4"},
    {"overflow.iolog", ":3: expected a length from 0 to 2^64 - 1, got \"18446744073709551616\""},
    {"overflow_offset.trace", ":5: expected an offset from 0 to 18446744073709551615, got \"18446744073709551616\""},
    {"overflow_size.trace",
     ":2: expected a size in bytes from 0 to 9223372036854775808 and a space, got \"99999999999999999999\""},
    {"overflow_time.trace", ":5: expected a time in ns from 0 to 9223372036854775807, got \"9223372036854775808\""},
    {"plus_sign.trace", ":5: expected an offset from 0 to 18446744073709551615, got \"+0\""},
    {"seven_fields.trace", ":5: expected the end of the line after six fields, got \" 5\""},
    {"shared_by_jobs.iolog",
     ":3: expected TIME FILE add|open|close or TIME FILE read|write|trim|sync|datasync|sync_file_range|syncfs|wait "
     "OFFSET LENGTH (jobs that share a log cut each other's lines: give each its own write_iolog), got \"2 a read "
     "28672fio version 3 iolog\""},
    {"tab.trace", ":5: expected a time in ns from 0 to 9223372036854775807, got \"1\\x090\""},
    {"task_cut.trace", ":2: expected an end time in ns from 0 to 9223372036854775807 and a space, got \"9\""},
    {"task_parent_itself.trace", ":2: expected a parent: a task that was declared before, or -, got \"0\""},
    {"task_parent_later.trace", ":2: expected a parent: a task that was declared before, or -, got \"1\""},
    {"time_goes_back.trace", ":6: expected a time of at least 5 ns (records are sorted by time), got 4"},
    {"time_overflow.iolog", ":2: expected a time in us and a file's name, got \"9223372036854776 a\""},
    {"trailing_space.trace", ":5: expected the end of the line after six fields, got \" \""},
    {"truncate_offset.trace", ":5: expected offset 0 of an operation on a whole file, got 1"},
    {"two_spaces.trace", ":5: expected a task's number from 0 to 4294967294, got \"\""},
    {"undeclared_file.trace", ":5: expected a file that was declared before, got file 2"},
    {"undeclared_task.trace", ":5: expected a task that was declared before, got task 1"},
    {"unknown_action.iolog",
     ":3: expected TIME FILE add|open|close or TIME FILE read|write|trim|sync|datasync|sync_file_range|syncfs|wait "
     "OFFSET LENGTH (jobs that share a log cut each other's lines: give each its own write_iolog), got \"2 a erase 0 "
     "4096\""},
    {"unknown_keyword.trace",
     ":5: expected a record (a time first), \"file …\", \"task …\" or a comment, got \"inode 3\""},
    {"unknown_operation.trace", ":5: expected an operation (one of R W F G O C T D), got \"X\""},
    {"utf16.trace", ":1: expected a trace (one of FORMATS), got UTF-16 text"},
    {"version.dxt", ": offset 8: expected version 1, got version 2"},
    {"version.iolog", ":1: expected fio version 2 iolog or fio version 3 iolog, got \"fio version 1 iolog\""},
    {"versions_mixed.iolog", ":3: expected a header of version 3 again, got \"fio version 2 iolog\""},
    {"words.trace", ":1: expected a trace (one of FORMATS), got \"hello, world\""},
    {"wrong_version.trace", ":1: expected the first line \"daxtrace 1\", got \"daxtrace 2\""},
};

std::string Formats() {
  std::string names;
  for (const Format& format : kTraceFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

std::string MessageFor(std::string_view bytes) {
  const absl::StatusOr<Trace> trace = ReadTraceFromBytes("it", bytes);
  return trace.ok() ? "no error" : std::string(trace.status().message());
}

constexpr std::string_view kStart = "daxtrace 1\nfile 0 4096 a\ntask 0 - 0 9 0 0 make\n";

TEST(Malformed, EveryFileOfTheCorpusGetsItsMessage) {
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/traces/data/malformed"))) {
    const std::string path = entry.path().string();
    const auto expected = kMessages.find(entry.path().filename().string());
    ASSERT_NE(expected, kMessages.end()) << path << " has no message here";
    const absl::StatusOr<Trace> trace = ReadTrace(path);
    ASSERT_FALSE(trace.ok()) << path;
    std::string message = path + expected->second;
    if (const std::size_t at = message.find("FORMATS"); at != std::string::npos) message.replace(at, 7, Formats());
    EXPECT_EQ(MessageOf(trace.status()), message);
    ++seen;
  }
  EXPECT_EQ(seen, kMessages.size());
}

TEST(Malformed, WhatAProgramWouldNotWrite) {
  using std::string_literals::operator""s;
  const std::string end_first = "daxtrace 1\nfile 0 4096 a\ntask 0 - 9 5 0 0 make\n";
  EXPECT_THAT(MessageFor(end_first), HasSubstr("it:3: expected an end time of at least 9 ns (the start)"));
  const std::string none = "daxtrace 1\n# mapped touches: none\nfile 0 4096 a\ntask 0 - 0 9 0 0 make\n1 0 F 0 0 4096\n";
  EXPECT_THAT(MessageFor(none), HasSubstr("it:5: expected no mapped touches (the trace says so above)"));
  const std::string strace = "7 1.000000 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3</a>\n";
  EXPECT_THAT(MessageFor(strace + "7 1.000001 pread64(3</a>, \"\"..., 4096, -5) = 4096\n"),
              HasSubstr("it:2: expected an offset of at least 0, got \"-5\""));
  EXPECT_THAT(MessageFor("7 1.000000 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3</a>\r\n"),
              HasSubstr("it:1: expected a line that ends in LF alone"));
  EXPECT_THAT(MessageFor(strace + "7 1.000001 close(3</a\0>) = 0\n"s),
              HasSubstr("it:2: expected a line without NUL bytes"));
}

TEST(Malformed, HugeLine) {
  std::string text(kStart);
  text += "1 0 R 0 0 " + std::string(3 << 20, '7') + "\n";
  EXPECT_THAT(MessageFor(text), AllOf(StartsWith("it:4: expected a line of at most 1 MiB, got \"1 0 R 0 0 777"),
                                      EndsWith("…"), Not(HasSubstr("\n"))));
  // Without an end, and one byte over the limit.
  EXPECT_THAT(MessageFor(std::string(kStart) + "# " + std::string((1 << 20) - 1, 'x') + "\n"),
              HasSubstr("it:4: expected a line"));
  EXPECT_THAT(MessageFor(std::string(kStart) + "# " + std::string((1 << 20) - 2, 'x') + "\n"), "no error");
  EXPECT_THAT(MessageFor(std::string(kStart) + std::string(5 << 20, 'x')), HasSubstr("it:4: expected a line"));
}

TEST(Malformed, FilesOfOtherPrograms) {
  EXPECT_THAT(MessageFor("\x1f\x8b\x08"),
              AllOf(StartsWith("it:1: expected a trace (one of "), EndsWith("got a gzip file")));
  EXPECT_THAT(MessageFor("\x89PNG\r\n\x1a\n"), EndsWith("got a PNG image"));
  EXPECT_THAT(MessageFor("PERFILE2"), EndsWith("got a perf recording"));
  EXPECT_THAT(MessageFor("\x01\x02\xff"), EndsWith("got \"\\x01\\x02\\xff\""));
  EXPECT_THAT(MessageFor(std::string(10000, 'A')), EndsWith("got \"" + std::string(60, 'A') + "\"…"));
  // Compressed or not: what counts is inside.
  EXPECT_THAT(MessageFor(Compressed("\x89PNG\r\n\x1a\n")), EndsWith("got a PNG image"));
}

TEST(Malformed, ZstdCutAnywhere) {
  std::string text(kStart);
  for (int i = 0; i < 2000; ++i) text += std::to_string(i) + " 0 R 0 " + std::to_string(i * 7919 % 4096) + " 1\n";
  const std::string whole = Compressed(text);
  ASSERT_TRUE(ReadTraceFromBytes("it", whole).ok());
  for (std::size_t size = 4; size < whole.size(); ++size) {
    EXPECT_THAT(MessageFor(std::string_view(whole).substr(0, size)),
                AllOf(StartsWith("it: offset "), HasSubstr("zstd frame")))
        << size;
  }
}

TEST(Malformed, ZstdWithJunkBehindIt) {
  EXPECT_THAT(MessageFor(Compressed(kStart) + "junk"), StartsWith("it: offset "));
  EXPECT_THAT(MessageFor(Compressed(kStart) + "\x28"), StartsWith("it: offset "));
}

TEST(Malformed, ZstdDamagedInside) {
  std::string bytes = Compressed(kStart);
  bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 1);  // its checksum
  EXPECT_THAT(MessageFor(bytes), AllOf(StartsWith("it: offset "), HasSubstr("sound zstd frame")));
}

TEST(Malformed, PathsThatAreNoFiles) {
  EXPECT_THAT(MessageOf(ReadTrace("/nonexistent/x").status()), "/nonexistent/x: No such file or directory");
  EXPECT_THAT(MessageOf(ReadTrace("/").status()), "/: Is a directory");
}

}  // namespace
}  // namespace daxcache
