// Command lines: what is accepted, what is refused, and what the refusal says.
#include "daxcache/sim/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daxcache/sim/lists.h"
#include "daxcache/sim/size_classes.h"
#include "daxcache/sim/text.h"
#include "daxcache/suggest.h"

namespace daxcache {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Line {
  std::string name;
  std::uint64_t number = 0;
  bool on = false;
  CommandLine line{"prog",
                   "Does things.",
                   {{.name = "name", .value = "NAME", .help = "a name", .set = SetText(&name), .letter = 'n'},
                    {.name = "number", .value = "N", .help = "a number", .set = SetNumber(&number, 1, 10)},
                    {.name = "turn-on", .value = "", .help = "turns on", .set = SetTrue(&on)}},
                   "The end.\n"};
  std::string Error(const std::vector<std::string>& arguments) {
    const auto rest = line.Parse(arguments);
    return rest.ok() ? "" : std::string(rest.status().message());
  }
};

TEST(Flags, AllSpellings) {
  Line line;
  const auto rest = line.line.Parse({"--name", "a b", "one", "--number=7", "--turn-on", "--", "--name"});
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(*rest, ElementsAre("one", "--name"));
  EXPECT_EQ(line.name, "a b");
  EXPECT_EQ(line.number, 7u);
  EXPECT_TRUE(line.on);
  Line letters;
  ASSERT_TRUE(letters.line.Parse({"-n", "-"}).ok());
  EXPECT_EQ(letters.name, "-");
  for (const char* attached : {"-na=b", "-n=a=b"}) {
    Line attaches;
    ASSERT_TRUE(attaches.line.Parse({attached}).ok()) << attached;
    EXPECT_EQ(attaches.name, "a=b");
  }
}

TEST(Flags, EndAtTheFirstOperandIfAsked) {
  for (const auto& arguments : {std::vector<std::string>{"-n", "a", "run", "-n", "--", "--nmae"},
                                std::vector<std::string>{"-n", "a", "--", "run", "-n", "--", "--nmae"}}) {
    Line line;
    const auto rest = line.line.Parse(arguments, FlagPlace::kBeforeOperands);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_THAT(*rest, ElementsAre("run", "-n", "--", "--nmae"));
    EXPECT_EQ(line.name, "a");
  }
}

TEST(Flags, OneOfAFewWords) {
  std::size_t chosen = 9;
  const auto set = SetWord({"table", "csv", "json"}, [&chosen](std::size_t at) { chosen = at; });
  EXPECT_TRUE(set("csv").ok());
  EXPECT_EQ(chosen, 1u);
  EXPECT_EQ(set("jsno").message(), "expected one of table, csv, json, got \"jsno\" (did you mean \"json\"?)");
  EXPECT_FALSE(set("").ok());
  EXPECT_EQ(chosen, 1u);
}

TEST(Flags, Refusals) {
  EXPECT_EQ(Line().Error({"--nmae", "x"}), "unknown flag --nmae (did you mean \"--name\"?)");
  EXPECT_EQ(Line().Error({"-name", "x"}), "unknown flag -name (did you mean \"--name\"?)");
  EXPECT_EQ(Line().Error({"-hx"}), "unknown flag -hx");
  EXPECT_EQ(Line().Error({"-na", "-n", "b"}), "-n: given twice");
  EXPECT_EQ(Line().Error({"-x"}), "unknown flag -x");
  EXPECT_EQ(Line().Error({"--n", "x"}), "unknown flag --n");
  EXPECT_EQ(Line().Error({"--name"}), "--name: expected NAME, got nothing");
  EXPECT_EQ(Line().Error({"--turn-on=yes"}), "--turn-on: takes no value, got \"yes\"");
  EXPECT_EQ(Line().Error({"--name", "a", "--name", "b"}), "--name: given twice");
  for (const char* number : {"0", "11", "-1", "", "x", "1x", "99999999999999999999"}) {
    EXPECT_EQ(Line().Error({"--number", number}),
              std::string("--number: expected a whole number from 1 to 10, got \"") + number + "\"");
  }
}

TEST(Flags, HelpNamesEveryFlag) {
  const std::string help = Line().line.Help();
  for (const char* text : {"Does things.", "-n, --name NAME", "--number N", "turns on", "--help", "The end."}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

std::vector<std::string> Sizes(std::string_view text) {
  const auto sizes = ParseSizes(text);
  if (!sizes.ok()) return {std::string(sizes.status().message())};
  std::vector<std::string> out;
  for (const ByteSize size : *sizes) out.push_back(size.ToString());
  return out;
}

TEST(Lists, Sizes) {
  EXPECT_THAT(Sizes("64M"), ElementsAre("64M"));
  EXPECT_THAT(Sizes("64M,1G,4G"), ElementsAre("64M", "1G", "4G"));
  EXPECT_THAT(Sizes("64M..512M"), ElementsAre("64M", "128M", "256M", "512M"));
  EXPECT_THAT(Sizes("3M..20M,1G"), ElementsAre("3M", "6M", "12M", "1G"));
  EXPECT_THAT(Sizes("8E..15E"), ElementsAre("8E"));
  EXPECT_THAT(Sizes("1G..1G"), ElementsAre("1G"));
  EXPECT_THAT(Sizes("0..1G"), ElementsAre(HasSubstr("begins above 0")));
  EXPECT_THAT(Sizes("2G..1G"), ElementsAre(HasSubstr("does not fall")));
  EXPECT_THAT(Sizes("1G,,2G"), ElementsAre(HasSubstr("got \"\"")));
  EXPECT_THAT(Sizes("1G..x"), ElementsAre(HasSubstr("got \"x\"")));
}

TEST(Text, Numbers) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1 KiB");
  EXPECT_EQ(HumanBytes(32880), "32.1 KiB");
  EXPECT_EQ(HumanBytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(HumanBytes(~std::uint64_t{0}), "16 EiB");
  EXPECT_EQ(Percent(0.0157), "1.57 %");
  EXPECT_EQ(Percent(1), "100.0 %");
  EXPECT_EQ(HumanTime(261'000'000'000), "261 s");
  EXPECT_EQ(HumanTime(1500), "1.5 µs");
}

TEST(Text, SizeClasses) {
  EXPECT_EQ(SizeClassName(SizeClassOf(0)), "empty");
  EXPECT_EQ(SizeClassName(SizeClassOf(1)), "up to 4K");
  EXPECT_EQ(SizeClassName(SizeClassOf(4096)), "up to 4K");
  EXPECT_EQ(SizeClassName(SizeClassOf(4097)), "up to 16K");
  EXPECT_EQ(SizeClassName(SizeClassOf(2 << 20)), "up to 2M");
  EXPECT_EQ(SizeClassName(SizeClassOf(1 << 30)), "up to 1G");
  EXPECT_EQ(SizeClassName(SizeClassOf((1 << 30) + 1u)), "over 1G");
  EXPECT_EQ(SizeClassName(SizeClassOf(~std::uint64_t{0})), "over 1G");
  for (std::size_t i = 1; i < kSizeClasses.size(); ++i) EXPECT_LT(kSizeClasses[i - 1], kSizeClasses[i]);
}

TEST(Text, PrintableIsOneLine) {
  EXPECT_EQ(Printable("a\nb\x7f\x1b é\\"), "a\\x0ab\\x7f\\x1b é\\");
}

TEST(Text, WhatIsNoUtf8IsEscapedOrReplaced) {
  struct Case {
    std::string bytes, printable, utf8;
  };
  const Case cases[] = {
      {"", "", ""},
      {"aé≤😀", "aé≤😀", "aé≤😀"},
      {"\x80", "\\x80", "\ufffd"},        // a continuation byte alone
      {"\xff z", "\\xff z", "\ufffd z"},  // never part of any
      {"a\xc3", "a\\xc3", "a\ufffd"},     // ends early
      {"\xe2\x82"
       "b",
       "\\xe2\\x82b",
       "\ufffd\ufffd"
       "b"},                                                                     // is cut short
      {"\xc0\xaf", "\\xc0\\xaf", "\ufffd\ufffd"},                                // overlong
      {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", "\ufffd\ufffd\ufffd"},                 // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80", "\ufffd\ufffd\ufffd"},                 // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\ufffd\ufffd\ufffd\ufffd"},  // beyond U+10FFFF
      {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf", "\ufffd\ufffd\ufffd\ufffd"},  // overlong
      {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},              // the last there is
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Printable(c.bytes), c.printable);
    EXPECT_EQ(Utf8(c.bytes), c.utf8);
  }
  EXPECT_EQ(Utf8("a\nb"), "a\nb");
}

TEST(Text, ColumnsAlignByWhatIsSeen) {
  TextTable table({"a", "bb"}, {true, false});
  table.Add({"≤ 4K", "1"});
  table.Add({"x", "1,000"});
  EXPECT_EQ(table.ToString("  "), "  a        bb\n  ≤ 4K      1\n  x     1,000\n");
}

}  // namespace
}  // namespace daxcache
