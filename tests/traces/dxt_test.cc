// The binary format: the same trace back, and no damage that goes unseen.
#include "daxcache/traces/dxt.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../traces/src/crc32c.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/generators.h"
#include "daxcache/traces/range_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/forged_dxt.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kExample =
    "file 0 0 new\nfile 1 10000000 old and named at length\nfile 2 7 unused\n"
    "task 0 - 0 9000 12 13 make\ntask 1 0 1 2 3 4 cc1\n"
    "1000 0 R 1 0 100\n2000 1 F 1 2097151 2\n3000 0 W 0 0 4096\n3000 1 O 0 2 4096\n"
    "4000 0 C 0 0 0\n5000 0 T 0 0 10\n6000 1 G 1 8388608 4096\n7000 1 R 1 0 0\n9000 0 D 1 0 5\n";

absl::StatusOr<Trace> Parse(std::string_view bytes) {
  return ReadTraceFromBytes("it.dxt", bytes, {.check_records = false});
}

// Opened and checked to the last byte.
absl::StatusOr<Trace> ParseAll(std::string_view bytes) {
  absl::StatusOr<Trace> trace = Parse(bytes);
  if (trace.ok()) {
    if (absl::Status status = trace->CheckRecords(); !status.ok()) return status;
  }
  return trace;
}

bool SameStream(const RangeStream& a, const RangeStream& b) {
  const RangeStream::Parts& x = a.parts();
  const RangeStream::Parts& y = b.parts();
  return x.range_size == y.range_size && x.folded == y.folded && std::ranges::equal(x.words, y.words) &&
         std::ranges::equal(x.repeats, y.repeats) && std::ranges::equal(x.records, y.records) &&
         std::ranges::equal(x.range_files, y.range_files) && std::ranges::equal(x.range_indexes, y.range_indexes) &&
         std::ranges::equal(x.first_range, y.first_range) && x.accesses == y.accesses && x.touches == y.touches &&
         x.extending_accesses == y.extending_accesses && x.extending_touches == y.extending_touches;
}

TEST(Crc32c, KnownValues) {
  // RFC 3720, B.4, and the check value of the catalogue of CRC algorithms.
  const auto of = [](std::string_view text) { return internal::Crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of("123456789"), 0xe3069283u);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(of(""), 0u);
  Random random(1);
  std::string bytes(1000, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  for (std::size_t size = 0; size < 100; ++size) {
    const auto part = std::as_bytes(std::span(bytes)).subspan(size * 7 % 9, size);
    EXPECT_EQ(internal::Crc32c(part), internal::Crc32cPortable(part));
    const auto [head, tail] = std::pair(part.first(size / 3), part.subspan(size / 3));
    EXPECT_EQ(internal::Crc32c(tail, internal::Crc32c(head)), internal::Crc32c(part));
  }
}

TEST(Dxt, WrittenAndReadAgainIsTheSame) {
  TraceBuilder empty;
  empty.Skip("lines of poetry", 3);
  empty.Skip("others");
  const Trace traces[] = {FromText(kExample), FromText(""), FromText("file 0 1 a\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 1\n"),
                          *ZipfTrace({.theta = 0.9, .ranges = 5000, .accesses = 20000}),
                          *empty.Finish("x", "x", MappedTouches::kRanges)};
  for (const Trace& trace : traces) {
    const std::string bytes = ToBytes(trace, kDxt);
    const absl::StatusOr<Trace> again = ParseAll(bytes);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(SameContent(trace, *again));
    EXPECT_EQ(again->format(), "dxt");
    ASSERT_EQ(again->report().skipped.size(), trace.report().skipped.size());
    for (std::size_t i = 0; i < trace.report().skipped.size(); ++i) {
      EXPECT_EQ(again->report().skipped[i].reason, trace.report().skipped[i].reason);
      EXPECT_EQ(again->report().skipped[i].count, trace.report().skipped[i].count);
    }
    ASSERT_NE(again->stored_stream(), nullptr);
    EXPECT_TRUE(SameStream(**RangeStream::Build(trace, {}), *again->stored_stream()));
    EXPECT_EQ(ToBytes(*again, kDxt), bytes);
    const absl::StatusOr<Trace> compressed = ParseAll(Compressed(bytes));
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    EXPECT_TRUE(SameContent(trace, *compressed));
  }
}

TEST(Dxt, BuildUsesTheStoredStreamWhereItFits) {
  const Trace trace = *Parse(ToBytes(FromText(kExample), kDxt));
  EXPECT_EQ(*RangeStream::Build(trace, {}), trace.stored_stream());
  EXPECT_NE(*RangeStream::Build(trace, {.fold = false}), trace.stored_stream());
  const RangeStream::Options small{.range_size = *RangeSize::Create(ByteSize(4096))};
  EXPECT_TRUE(SameStream(**RangeStream::Build(trace, small), **RangeStream::Build(FromText(kExample), small)));
}

TEST(Dxt, MappedFileLivesAsLongAsTheTrace) {
  const TempDir dir;
  ASSERT_TRUE(WriteTrace(FromText(kExample), dir / "a.dxt").ok());
  const Trace trace = *ReadTrace(dir / "a.dxt");
  const std::shared_ptr<const RangeStream> stream = ReadTrace(dir / "a.dxt")->stored_stream();
  // A file that is replaced leaves the old bytes to those who have it mapped.
  ASSERT_TRUE(WriteTrace(FromText(""), dir / "a.dxt").ok());
  EXPECT_TRUE(SameContent(trace, FromText(kExample)));
  EXPECT_TRUE(SameStream(*stream, **RangeStream::Build(FromText(kExample), {})));
}

TEST(Dxt, EveryFlippedByteIsSeen) {
  const Trace trace = FromText(kExample);
  const std::string bytes = ToBytes(trace, kDxt);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const absl::StatusOr<Trace> again = ParseAll(damaged);
      if (again.ok()) {
        // Padding between sections: nothing of the trace.
        EXPECT_TRUE(SameContent(trace, *again)) << at;
        EXPECT_TRUE(SameStream(**RangeStream::Build(trace, {}), *again->stored_stream())) << at;
      } else {
        EXPECT_THAT(MessageOf(again.status()), StartsWith("it.dxt:")) << at;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(Dxt, CutAnywhereIsAnError) {
  const std::string bytes = ToBytes(FromText(kExample), kDxt);
  for (std::size_t size = 8; size < bytes.size(); ++size) {
    EXPECT_THAT(MessageOf(Parse(std::string_view(bytes).substr(0, size)).status()), StartsWith("it.dxt: offset "));
  }
  EXPECT_THAT(MessageOf(Parse(bytes + "x").status()), HasSubstr("offset 16: expected a file of"));
}

// Damage with checksums made right again: bounds alone must hold.
TEST(Dxt, ForgedTablesAreRefusedAtOpen) {
  const std::string bytes = ToBytes(FromText(kExample), kDxt);
  ASSERT_TRUE(ParseAll(Forged(bytes).Sealed()).ok());
  const auto refused = [&](auto change) {
    Forged forged(bytes);
    change(forged);
    return std::string(Parse(forged.Sealed()).status().message());
  };
  constexpr std::uint64_t kHuge[] = {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{63}, 1u << 20};
  for (std::size_t section = 0; section <= kRecords; ++section) {
    for (const std::uint64_t huge : kHuge) {
      EXPECT_THAT(refused([&](Forged& f) { f.Set(f.Entry(section) + 8, huge); }), StartsWith("it.dxt: offset "));
      EXPECT_THAT(refused([&](Forged& f) { f.Set(f.Entry(section) + 16, huge); }), StartsWith("it.dxt: offset "));
    }
  }
  for (const std::uint64_t huge : kHuge) {
    EXPECT_THAT(refused([&](Forged& f) { f.Set(24, huge); }), HasSubstr("records"));  // the number of records
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kFiles) + 8, huge); }), HasSubstr("a string that ends"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kTasks) + 40, huge); }),
                HasSubstr("a string that ends"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kStream) + 8, huge); }), HasSubstr("entries of"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kStream) + 16, huge); }), HasSubstr("entries of"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kStream) + 32, huge); }), HasSubstr("touches"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kRangeIndexes) + 8, huge); }), HasSubstr("in order"));
  }
  EXPECT_THAT(refused([](Forged& f) { f.Set(f.SectionOffset(kTasks) + 48, std::uint32_t{1}); }), HasSubstr("parent"));
  EXPECT_THAT(refused([](Forged& f) { f.Set(f.SectionOffset(kStream), std::uint32_t{64}); }), HasSubstr("range size"));
  EXPECT_THAT(refused([](Forged& f) { f.Set(f.Entry(kTimes) + 24, std::uint32_t{3}); }), HasSubstr("wide"));
  EXPECT_THAT(refused([](Forged& f) { f.Set(f.Entry(kTimes) + 40, std::uint64_t{0}); }), HasSubstr("wide"));
  EXPECT_THAT(refused([](Forged& f) { f.Set(f.Entry(kTimes) + 24, std::uint32_t{0}); }), HasSubstr("records"));
  for (const std::uint32_t first : {1u, 3u, 77u, ~0u}) {
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kFirstRange), first); }), HasSubstr("ranges of file"));
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kRangeFiles), first); }), HasSubstr("to be of file"));
  }
  const std::uint32_t ranges = Parse(bytes)->stored_stream()->ranges();
  const std::uint32_t words[] = {ranges << 3, ~0u, 3u << 3 | 5, ~0u << 3 | 6, 7, ~7u};
  for (const std::uint32_t word : words) {
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kWords) + 4, word); }), HasSubstr("expected words of"));
  }
  for (const std::uint8_t repeats : {std::uint8_t{0}, std::uint8_t{2}}) {
    EXPECT_THAT(refused([&](Forged& f) { f.Set(f.SectionOffset(kRepeats), repeats); }), HasSubstr("expected "));
  }
}

TEST(Dxt, PaddingIsZero) {
  const std::string bytes = ToBytes(FromText(kExample), kDxt);
  const Forged whole(bytes);
  std::size_t gaps = 0;
  for (std::size_t section = 0; section < kRecords; ++section) {
    const std::size_t end = whole.SectionOffset(section) + whole.Get<std::uint64_t>(whole.Entry(section) + 16);
    if (end == whole.SectionOffset(section + 1)) continue;
    ++gaps;
    Forged forged(bytes);
    forged.Set(end, std::uint8_t{1});
    EXPECT_THAT(std::string(Parse(forged.Sealed()).status().message()), HasSubstr("expected zeros between sections"));
  }
  EXPECT_GT(gaps, 5u);
}

TEST(Dxt, TasksDoNotEndBeforeTheyStart) {
  Forged forged(ToBytes(FromText(kExample), kDxt));
  forged.Set(forged.SectionOffset(kTasks) + 8, std::int64_t{std::numeric_limits<std::int64_t>::max()});
  EXPECT_THAT(std::string(Parse(forged.Sealed()).status().message()), HasSubstr("to its end, got"));
}

TEST(Dxt, ForgedRecordsAreRefusedWhenTheyAreRead) {
  const std::string bytes = ToBytes(FromText(kExample), kDxt);
  const std::pair<int, std::uint64_t> columns[] = {
      {kTaskIds, 2}, {kFileIds, 3}, {kOps, 8}, {kOps, ~0ull}, {kTaskIds, std::uint64_t{1} << 32}, {kTimes, ~0ull}};
  for (const auto& [section, base] : columns) {
    Forged forged(bytes);
    forged.Set(forged.Entry(static_cast<std::size_t>(section)) + 32, base);
    const absl::StatusOr<Trace> trace = Parse(forged.Sealed());
    ASSERT_TRUE(trace.ok()) << trace.status();  // a replay of the stream reads none of it
    EXPECT_EQ(MessageOf(ReadTraceFromBytes("it.dxt", forged.bytes).status()), MessageOf(trace->CheckRecords()));
    EXPECT_THAT(MessageOf(trace->CheckRecords()), AllOf(StartsWith("it.dxt: offset "), HasSubstr("(record 0)")));
    EXPECT_FALSE(RangeStream::Build(*trace, {.fold = false}).ok());
    EXPECT_FALSE(WriteTrace(*trace, "/nonexistent/x.trace").ok());
  }
  for (const std::uint32_t record : {9u, ~0u}) {
    Forged forged(bytes);
    forged.Set(forged.SectionOffset(kRecords), record);
    const absl::StatusOr<Trace> trace = Parse(forged.Sealed());
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_THAT(MessageOf(trace->CheckRecords()), HasSubstr("records of words"));
  }
}

TEST(Dxt, WithoutAStreamWhereThereCanBeNone) {
  const Trace trace = FromText("file 0 1 a\ntask 0 - 0 0 0 0 x\n7 0 R 0 0 9223372036854775808\n");
  const absl::StatusOr<Trace> again = ParseAll(ToBytes(trace, kDxt));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(SameContent(trace, *again));
  EXPECT_EQ(again->stored_stream(), nullptr);
}

TEST(Dxt, RecordedBuildComesBack) {
  const TempDir dir;
  const Trace trace = *ReadTrace(SourcePath("traces/data/kbuild.trace.zst"));
  for (const char* name : {"a.dxt", "a.dxt.zst", "a.trace", "a.trace.zst"}) {
    ASSERT_TRUE(WriteTrace(trace, dir / name).ok());
    const absl::StatusOr<Trace> again = ReadTrace(dir / name);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->CheckRecords().ok());
    EXPECT_TRUE(SameContent(trace, *again)) << name;
  }
}

}  // namespace
}  // namespace daxcache
