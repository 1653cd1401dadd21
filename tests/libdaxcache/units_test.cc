// Sizes as people write them, range sizes, and the options that carry them: what is taken, what is refused, and that
// printing and parsing undo each other.
#include "daxcache/units.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>

#include "daxcache/footprint.h"
#include "daxcache/range.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/suggest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ByteSizeTest, ReadsWhatPeopleWrite) {
  const struct {
    std::string_view text;
    std::uint64_t bytes;
  } cases[] = {
      {"0", 0},
      {"1", 1},
      {"4096", 4096},
      {"4096B", 4096},
      {"4096 b", 4096},
      {"1K", 1024},
      {"1k", 1024},
      {"1KB", 1024},
      {"1KiB", 1024},
      {"1kib", 1024},
      {"1Kb", 1024},
      {"64MiB", 64u << 20},
      {"  64 MiB  ", 64u << 20},
      {"4G", std::uint64_t{4} << 30},
      {"1.5g", std::uint64_t{3} << 29},
      {"1.0", 1},
      {"0.5K", 512},
      {"0.0009765625K", 1},
      {"2.000M", 2u << 20},
      {"3T", std::uint64_t{3} << 40},
      {"5P", std::uint64_t{5} << 50},
      {"15E", std::uint64_t{15} << 60},
      {"15.5E", std::uint64_t{31} << 59},
      {"15.9375E", std::uint64_t{255} << 56},
      {"007", 7},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
      {"18014398509481983K", std::numeric_limits<std::uint64_t>::max() - 1023},
  };
  for (const auto& c : cases) {
    const auto size = ByteSize::Parse(c.text);
    ASSERT_TRUE(size.ok()) << c.text << ": " << size.status();
    EXPECT_EQ(size->bytes(), c.bytes) << c.text;
  }
}

TEST(ByteSizeTest, RefusesEverythingElse) {
  using namespace std::string_view_literals;
  const std::string_view cases[] = {
      ""sv,
      " "sv,
      "-1"sv,
      "-0"sv,
      "+4G"sv,
      "4Q"sv,
      "G"sv,
      "B"sv,
      "4G4"sv,
      "4 4"sv,
      "4GG"sv,
      "4GiBB"sv,
      "4Gi"sv,
      "4iB"sv,
      "4GBi"sv,
      "4G iB"sv,
      "0x10"sv,
      "1e3"sv,
      "1,5G"sv,
      "1.5"sv,
      "1.5B"sv,
      "0.1K"sv,
      "0.3K"sv,
      ".5G"sv,
      "1.G"sv,
      "1..5G"sv,
      "1.5.5G"sv,
      "16E"sv,
      "17E"sv,
      "inf"sv,
      "nan"sv,
      "4G\0"sv,
      "\0"sv,
      "4\tG"sv,
      "\t4G"sv,
      "4G\n"sv,
      "99999999999999999999"sv,
      "18446744073709551616"sv,
      "18014398509481984K"sv,
      "1.00000000000000000001G"sv,
      "4\xc2\xa0G"sv,
      "\xef\xbc\x94G"sv,
      "4Zi"sv,
      "--4G"sv,
      "4-G"sv,
      "4G-"sv,
      "1/2G"sv,
      "1_000"sv,
  };
  for (const std::string_view text : cases) {
    const auto size = ByteSize::Parse(text);
    ASSERT_FALSE(size.ok()) << text << " gave " << size->bytes();
    EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(size.status()), HasSubstr("expected a size such as 4G")) << text;
    EXPECT_THAT(Message(size.status()), HasSubstr("got \"" + std::string(text) + "\"")) << text;
  }
}

TEST(ByteSizeTest, SaysWhy) {
  EXPECT_THAT(Message(ByteSize::Parse("-4G").status()), HasSubstr("negative"));
  EXPECT_THAT(Message(ByteSize::Parse("16E").status()), HasSubstr("64 bits"));
  EXPECT_THAT(Message(ByteSize::Parse("99999999999999999999").status()), HasSubstr("64 bits"));
  EXPECT_THAT(Message(ByteSize::Parse("0.1K").status()), HasSubstr("fraction of a byte"));
  EXPECT_THAT(Message(ByteSize::Parse("").status()), HasSubstr("nothing there"));
}

TEST(ByteSizeTest, PrintsTheLargestUnitThatDivides) {
  EXPECT_EQ(ByteSize(0).ToString(), "0");
  EXPECT_EQ(ByteSize(1023).ToString(), "1023");
  EXPECT_EQ(ByteSize(1024).ToString(), "1K");
  EXPECT_EQ(ByteSize(65537).ToString(), "65537");
  EXPECT_EQ(ByteSize(1536u << 20).ToString(), "1536M");
  EXPECT_EQ(ByteSize(std::uint64_t{4} << 30).ToString(), "4G");
  EXPECT_EQ(ByteSize(std::uint64_t{15} << 60).ToString(), "15E");
}

TEST(ByteSizeTest, ParsingUndoesPrinting) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t bytes = (random() >> (random() % 64)) << (random() % 64);
    const ByteSize size(bytes);
    const auto again = ByteSize::Parse(size.ToString());
    ASSERT_TRUE(again.ok()) << size.ToString();
    ASSERT_EQ(*again, size);
  }
}

// Random text from the letters that matter: never a crash, and what is taken prints and parses to the same again.
TEST(ByteSizeTest, TakesOrRefusesAnyText) {
  constexpr std::string_view kLetters = "0123456789.KMGTPEkmgtpeiIbB -+xX\0\x80";
  std::mt19937_64 random(2);
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 8, ' ');
    for (char& c : text) c = kLetters[random() % kLetters.size()];
    const auto size = ByteSize::Parse(text);
    if (!size.ok()) continue;
    ++taken;
    EXPECT_EQ(*ByteSize::Parse(size->ToString()), *size) << text;
    EXPECT_EQ(text.find_first_of("-+xX\0\x80"), std::string::npos) << text;
  }
  EXPECT_GT(taken, 1000);
}

TEST(RangeSizeTest, PowersOfTwoFrom4KTo1G) {
  EXPECT_EQ(RangeSize().bytes(), 2u << 20);
  for (int shift = 0; shift < 64; ++shift) {
    const auto size = RangeSize::Create(ByteSize(std::uint64_t{1} << shift));
    EXPECT_EQ(size.ok(), shift >= 12 && shift <= 30) << shift;
    if (size.ok()) {
      EXPECT_EQ(size->shift(), shift);
      EXPECT_EQ(size->bytes(), std::uint64_t{1} << shift);
    }
  }
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{4097}, std::uint64_t{3} << 20, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_FALSE(RangeSize::Create(ByteSize(bytes)).ok()) << bytes;
  }
  EXPECT_THAT(Message(RangeSize::Create(ByteSize(3u << 20)).status()), HasSubstr("got 3M"));
}

TEST(RangeSizeTest, FirstAndLastRangeOfBytes) {
  const RangeSize size;
  EXPECT_EQ(size.First(0), 0u);
  EXPECT_EQ(size.Last(0, 1), 0u);
  EXPECT_EQ(size.Last(0, 2u << 20), 0u);
  EXPECT_EQ(size.Last(0, (2u << 20) + 1), 1u);
  EXPECT_EQ(size.First((2u << 20) - 1), 0u);
  EXPECT_EQ(size.Last((2u << 20) - 1, 2), 1u);
  const std::uint64_t end = std::uint64_t{1} << 63;
  EXPECT_EQ(size.Last(end - 1, 1), (end - 1) >> 21);
  EXPECT_EQ(size.Last(0, end), (end - 1) >> 21);
}

TEST(SuggestTest, WithWhatStandsBeforeTheWord) {
  const std::string_view flags[] = {"window", "policy"};
  EXPECT_EQ(Nearest("widnow", flags), "window");
  EXPECT_EQ(Nearest("x", flags), "");
  EXPECT_EQ(Nearest("x", {}), "");
  EXPECT_EQ(Suggest("widnow", flags), " (did you mean \"window\"?)");
  EXPECT_EQ(Suggest("widnow", flags, "--"), " (did you mean \"--window\"?)");
  EXPECT_EQ(Suggest("x", flags, "--"), "");
}

TEST(FootprintTest, OfLinux) {
  const Footprint footprint;
  EXPECT_TRUE(footprint.Validate().ok());
  EXPECT_EQ(footprint.GuestBytes(ByteSize(std::uint64_t{4} << 30), RangeSize()), 67'338'240u);
  EXPECT_EQ(footprint.GuestBytesPerRange(RangeSize()), 32'880u);
  EXPECT_EQ(footprint.HostBytes(3, 5 * 4096), 3u * 200 + 5 * 16);
}

TEST(FootprintTest, RefusesWhatNothingIs) {
  for (std::uint64_t Footprint::*const pages : {&Footprint::page_bytes, &Footprint::host_page_bytes}) {
    for (const std::uint64_t bytes : {0u, 1u, 2048u, 3 * 4096u, 2u << 20}) {
      Footprint footprint;
      footprint.*pages = bytes;
      EXPECT_FALSE(footprint.Validate().ok()) << bytes;
    }
  }
  for (std::uint64_t Footprint::*const structure : {&Footprint::struct_page_bytes, &Footprint::mapping_bytes,
                                                    &Footprint::vma_bytes, &Footprint::table_entry_bytes}) {
    for (const std::uint64_t bytes : {0u, 4097u}) {
      Footprint footprint;
      footprint.*structure = bytes;
      EXPECT_FALSE(footprint.Validate().ok()) << bytes;
    }
  }
}

TEST(ReclaimOptionsTest, ThresholdIsLinuxs) {
  const ReclaimOptions linux = ReclaimOptions::Linux();
  EXPECT_TRUE(linux.Validate().ok());
  EXPECT_EQ(linux.Threshold(1), 1u);
  EXPECT_EQ(linux.Threshold(4), 1u);
  EXPECT_EQ(linux.Threshold(9), 1u);
  EXPECT_EQ(linux.Threshold(10), 2u);
  EXPECT_EQ(linux.Threshold(2048), 409u);
  EXPECT_EQ(linux.Threshold(kMaxSlots), kMaxSlots / 5);
  EXPECT_TRUE(ReclaimOptions::Demand().Validate().ok());
  EXPECT_EQ(ReclaimOptions::Demand().Threshold(2048), 0u);
  ReclaimOptions all;
  all.threshold_percent = 100;
  EXPECT_EQ(all.Threshold(2048), 2048u);
}

TEST(ReclaimOptionsTest, RefusesWhatCannotWork) {
  ReclaimOptions options;
  options.threshold_percent = 101;
  EXPECT_FALSE(options.Validate().ok());
  options = {};
  options.chunk = 0;
  EXPECT_FALSE(options.Validate().ok());
  options = {};
  options.delay = absl::Milliseconds(-1);
  EXPECT_FALSE(options.Validate().ok());
  options = {};
  options.idle = absl::Milliseconds(-1);
  EXPECT_FALSE(options.Validate().ok());
  options.idle = absl::Seconds(5);
  EXPECT_TRUE(options.Validate().ok());
  // Without a worker, whoever waits for a range must be able to take one.
  options = ReclaimOptions::Demand();
  options.faults = InlineReclaim::kNever;
  EXPECT_FALSE(options.Validate().ok());
  options = ReclaimOptions::Demand();
  options.calls = InlineReclaim::kOwnFile;
  EXPECT_FALSE(options.Validate().ok());
}

}  // namespace
}  // namespace daxcache
