// The range stream: worked by hand, against a naive reference, and on the recorded build.
#include "daxcache/traces/range_stream.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/traces/builtin.h"
#include "daxcache/traces/generators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTables = "file 0 0 new\nfile 1 10000000 old\nfile 2 0 never used\ntask 0 - 0 0 0 0 x\n";

std::shared_ptr<const RangeStream> Build(const Trace& trace, RangeStream::Options options = {}) {
  const auto stream = RangeStream::Build(trace, options);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return stream.ok() ? *stream : nullptr;
}

std::string Shown(const RangeStream& stream) {
  constexpr char kKinds[] = "RWFGEDT";
  std::string text;
  for (std::uint64_t i = 0; i < stream.size(); ++i) {
    const std::uint32_t word = stream.words()[i];
    if (i > 0) text += ' ';
    text += kKinds[RangeStream::KindOf(word)];
    text += std::to_string(RangeStream::NumberOf(word));
    text += "x" + std::to_string(stream.repeats()[i]) + "@" + std::to_string(stream.records()[i]);
  }
  return text;
}

TEST(RangeStream, ByHand) {
  const Trace trace = FromText(std::string(kTables) +
                               "0 0 R 1 0 100\n"         // range 1.0
                               "1 0 R 1 100 100\n"       // the same: folded
                               "2 0 F 1 2097151 2\n"     // 1.0 and 1.1
                               "3 0 W 1 0 0\n"           // nothing
                               "4 0 W 0 0 4096\n"        // extends: 0.0
                               "5 0 W 0 0 4096\n"        // within
                               "6 0 W 0 4095 2\n"        // extends by a byte
                               "7 0 O 0 2 4097\n"        // truncates
                               "8 0 W 0 0 1\n"           // extends again
                               "9 0 O 0 0 4097\n"        // the size is known to be 4097
                               "10 0 W 0 4096 1\n"       // within
                               "11 0 T 0 0 10\n"         //
                               "12 0 W 0 0 10\n"         // within
                               "13 0 W 0 6291456 1\n"    // extends, range 0.3
                               "14 0 G 1 8388608 1\n"    // range 1.4
                               "15 0 D 1 0 5\n"          //
                               "16 0 G 1 8388608 1\n");  // not folded: an event stands between
  const auto stream = Build(trace);
  EXPECT_EQ(Shown(*stream),
            "R2x2@0 F2x1@2 F3x1@2 E0x1@4 W0x1@5 E0x1@6 T0x1@7 E0x1@8 W0x1@10 T0x1@11 W0x1@12 E1x1@13 G4x1@14 D1x1@15 "
            "G4x1@16");
  EXPECT_EQ(stream->ranges(), 5u);
  EXPECT_EQ(stream->range(1), (FileRange{FileId{0}, 3}));
  EXPECT_EQ(stream->range(4), (FileRange{FileId{1}, 4}));
  EXPECT_THAT(stream->parts().first_range, ElementsAre(0, 2, 5, 5));
  EXPECT_EQ(stream->accesses(), 12u);
  EXPECT_EQ(stream->touches(), 13u);
  EXPECT_EQ(stream->extending_accesses(), 4u);
  EXPECT_EQ(stream->extending_touches(), 4u);
}

TEST(RangeStream, FoldsSplitAt255) {
  std::string text(kTables);
  for (int i = 0; i < 600; ++i) text += std::to_string(i) + " 0 R 1 0 1\n";
  EXPECT_EQ(Shown(*Build(FromText(text))), "R0x255@0 R0x255@255 R0x90@510");
  EXPECT_EQ(Build(FromText(text), {.fold = false})->size(), 600u);
}

// The same by the simplest means.
struct Reference {
  std::vector<std::uint32_t> words, records;
  std::vector<std::uint8_t> repeats;
  std::vector<FileRange> ranges;
  std::uint64_t touches = 0;
};
Reference Naive(const Trace& trace, RangeSize range_size, bool fold) {
  Reference reference;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> numbers;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access access = trace[i];
    if (!TouchesData(access.op)) continue;
    for (std::uint64_t byte = access.offset; byte < access.offset + access.length;
         byte = (byte / range_size.bytes() + 1) * range_size.bytes()) {
      numbers[{ToIndex(access.file), byte / range_size.bytes()}] = 0;
    }
  }
  for (auto& [range, number] : numbers) {
    number = static_cast<std::uint32_t>(reference.ranges.size());
    reference.ranges.push_back({FileId{range.first}, range.second});
  }
  std::vector<std::uint64_t> sizes;
  for (const FileInfo& file : trace.files()) sizes.push_back(file.size);
  const auto add = [&](std::uint32_t word, std::uint64_t record) {
    const bool touch = RangeStream::KindOf(word) <= RangeStream::kExtendingWrite;
    reference.touches += touch;
    if (fold && touch && !reference.words.empty() && reference.words.back() == word && reference.repeats.back() < 255) {
      ++reference.repeats.back();
      return;
    }
    reference.words.push_back(word);
    reference.repeats.push_back(1);
    reference.records.push_back(static_cast<std::uint32_t>(record));
  };
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access access = trace[i];
    const std::uint32_t file = ToIndex(access.file);
    if (access.op == Op::kOpen) sizes[file] = (access.offset & 2) != 0 ? 0 : access.length;
    if (access.op == Op::kTruncate) sizes[file] = access.length;
    if (access.op == Op::kTruncate || (access.op == Op::kOpen && (access.offset & 2) != 0)) add(file << 3 | 6, i);
    if (access.op == Op::kUnlink) add(file << 3 | 5, i);
    if (!TouchesData(access.op) || access.length == 0) continue;
    std::uint32_t kind = static_cast<std::uint32_t>(access.op);
    const std::uint64_t end = access.offset + access.length;
    if (access.op == Op::kWrite && end > sizes[file]) {
      kind = 4;
      sizes[file] = end;
    }
    for (std::uint64_t byte = access.offset; byte < end; byte = (byte / range_size.bytes() + 1) * range_size.bytes()) {
      add(numbers[{file, byte / range_size.bytes()}] << 3 | kind, i);
    }
  }
  return reference;
}

TEST(RangeStream, LikeTheReferenceOnRandomTraces) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    TraceBuilder builder;
    const TaskId task = builder.AddTask({});
    const std::uint64_t files = 1 + random.Below(5);
    for (std::uint64_t f = 0; f < files; ++f) builder.AddFile("f", random.Below(1 << 16));
    // Small, beyond the first block of 512 ranges, and far out.
    const std::uint64_t spans[] = {1 << 14, 1 << 16, 1 << 23, std::uint64_t{1} << 50};
    const std::uint64_t span = spans[seed % 4];
    for (int i = 0; i < 2000; ++i) {
      const Op op = static_cast<Op>(random.Below(kNumOps));
      Access access{
          .time_ns = i, .task = task, .file = FileId{static_cast<std::uint32_t>(random.Below(files))}, .op = op};
      if (TouchesData(op)) {
        access.offset = random.Below(span);
        access.length = random.Below(random.Below(20) == 0 ? 1 << 22 : 1 << 13);
      } else if (op == Op::kOpen) {
        access.offset = random.Below(4);
        access.length = random.Below(1 << 16);
      } else if (op != Op::kClose) {
        access.length = random.Below(1 << 16);
      }
      ASSERT_TRUE(builder.Add(access).ok());
    }
    const Trace trace = *builder.Finish("random", "random", MappedTouches::kRanges);
    const RangeSize range_size = *RangeSize::Create(ByteSize(4096));
    for (const bool fold : {true, false}) {
      const auto stream = Build(trace, {.range_size = range_size, .fold = fold});
      const Reference reference = Naive(trace, range_size, fold);
      ASSERT_EQ(stream->ranges(), reference.ranges.size());
      for (std::uint32_t n = 0; n < stream->ranges(); ++n) ASSERT_EQ(stream->range(n), reference.ranges[n]);
      EXPECT_TRUE(std::ranges::equal(stream->words(), reference.words)) << seed;
      EXPECT_TRUE(std::ranges::equal(stream->repeats(), reference.repeats));
      EXPECT_TRUE(std::ranges::equal(stream->records(), reference.records));
      EXPECT_EQ(stream->touches(), reference.touches);
    }
  }
}

TEST(RangeStream, RecordedBuild) {
  const absl::StatusOr<Trace> trace = ReadTrace(SourcePath("traces/data/kbuild.trace.zst"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->size(), 1256564u);
  const auto stream = Build(*trace);
  EXPECT_EQ(stream->touches(), 708458u);
  EXPECT_EQ(stream->ranges(), 7376u);
  EXPECT_EQ(stream->extending_touches(), 8151u);
  std::uint64_t writes = 0;
  for (std::uint64_t i = 0; i < stream->size(); ++i) {
    const auto kind = RangeStream::KindOf(stream->words()[i]);
    if (kind == RangeStream::kWrite || kind == RangeStream::kExtendingWrite) writes += stream->repeats()[i];
  }
  EXPECT_EQ(writes, 14857u);
}

TEST(RangeStream, HostileRecordsAreRefusedBeforeMemoryIsTaken) {
  const Trace huge = FromText(std::string(kTables) + "0 0 R 1 0 9223372036854775808\n");
  EXPECT_THAT(MessageOf(RangeStream::Build(huge, {}).status()), HasSubstr("distinct ranges"));
  std::string text(kTables);
  for (int i = 0; i < 100; ++i) text += "0 0 R 1 0 1000000000000000\n";
  EXPECT_THAT(MessageOf(RangeStream::Build(FromText(text), {}).status()), HasSubstr("words"));
  EXPECT_THAT(MessageOf(RangeStream::Build(FromText(text), {.max_words = 10}).status()), HasSubstr("words"));
  const Trace last = FromText(std::string(kTables) + "0 0 R 1 9223372036854775807 1\n");
  EXPECT_EQ(Build(last)->range(0).index, (std::uint64_t{1} << 42) - 1);
}

}  // namespace
}  // namespace daxcache
