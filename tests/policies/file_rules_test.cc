// Which files may use the window: asked at instantiation, held until eviction, changed only by way of a mark.
#include "daxcache/file_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "policies/drive.h"

namespace daxcache {
namespace {

constexpr FileId kFile{3};
constexpr std::int64_t kSecond = 1'000'000'000;

FileRuleOptions Hot(std::uint32_t accesses, std::int64_t seconds) {
  FileRuleOptions options;
  options.hot = {.accesses = accesses, .within = absl::Seconds(seconds)};
  return options;
}

TEST(FileRules, SizeAndPathAreAskedAtInstantiation) {
  FileRuleOptions options;
  options.min_size = ByteSize(100);
  options.max_size = ByteSize(1000);
  options.include = {"/usr/**", "*.c"};
  options.exclude = {"/usr/tmp/**", "*.o"};
  ASSERT_TRUE(options.Validate().ok());
  FileRules rules(options);
  const auto admitted = [&](std::string_view path, std::uint64_t size) {
    rules.OnEvict(kFile);
    return rules.OnInstantiate(kFile, path, size);
  };
  EXPECT_TRUE(admitted("/usr/x", 100));
  EXPECT_TRUE(admitted("/usr/x", 1000));
  EXPECT_TRUE(admitted("/home/x.c", 500));
  EXPECT_FALSE(admitted("/usr/x", 99));
  EXPECT_FALSE(admitted("/usr/x", 1001));
  EXPECT_FALSE(admitted("/home/x", 500));
  EXPECT_FALSE(admitted("/usr/x.o", 500));
  EXPECT_FALSE(admitted("/usr/tmp/x.c", 500));
}

TEST(FileRules, WithoutRulesAllAreAdmitted) {
  FileRules rules({});
  EXPECT_FALSE(rules.Admitted(kFile));  // no inode, no answer
  EXPECT_FALSE(rules.Instantiated(kFile));
  EXPECT_TRUE(rules.OnInstantiate(kFile, "", 0));
  EXPECT_TRUE(rules.Admitted(kFile));
  EXPECT_FALSE(rules.Admitted(FileId{2}));
}

// A file that grows past the bound, or shrinks below it, keeps its answer until its inode is evicted.
TEST(FileRules, TheAnswerHoldsUntilEviction) {
  FileRuleOptions options;
  options.min_size = ByteSize(100);
  FileRules rules(options);
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 0));
  EXPECT_FALSE(rules.Admitted(kFile));
  for (int i = 1; i < 5; ++i) {
    EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1000));
    rules.OnAccess(kFile, i);
    EXPECT_FALSE(rules.Admitted(kFile));
    EXPECT_FALSE(rules.Marked(kFile));
    EXPECT_FALSE(rules.OnClose(kFile));
  }
  rules.OnEvict(kFile);
  EXPECT_FALSE(rules.Instantiated(kFile));
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1000)) << "its ranges went back when it was evicted";
  EXPECT_TRUE(rules.Admitted(kFile));
}

// n accesses within a time make a file hot; the answer changes by a mark, the last close, and the next open.
TEST(FileRules, AHotFileIsAdmittedAtItsNextOpenAfterItsLastClose) {
  FileRules rules(Hot(2, 10));
  rules.OnOpen(FileId{0}, "/other", 0);
  rules.OnClose(FileId{0});  // there are closes in this trace
  rules.OnOpen(kFile, "/x", 1);
  rules.OnOpen(kFile, "/x", 1);
  EXPECT_FALSE(rules.Admitted(kFile));
  rules.OnAccess(kFile, 1 * kSecond);
  rules.OnAccess(kFile, 12 * kSecond);  // the first is out of the time
  EXPECT_FALSE(rules.Marked(kFile));
  rules.OnAccess(kFile, 22 * kSecond);  // exactly 10 s later
  EXPECT_TRUE(rules.Marked(kFile));
  EXPECT_FALSE(rules.Admitted(kFile)) << "the old answer holds while the inode lives";
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1)) << "still open elsewhere";
  EXPECT_FALSE(rules.OnClose(kFile));
  EXPECT_FALSE(rules.OnClose(kFile));
  EXPECT_TRUE(rules.OnClose(kFile)) << "the last close of a marked inode evicts it";
  EXPECT_FALSE(rules.Instantiated(kFile));
  EXPECT_TRUE(rules.OnOpen(kFile, "/x", 1)) << "a new inode";
  EXPECT_TRUE(rules.Admitted(kFile));
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1)) << "said once";
}

// A mark is not taken back, but the answer is asked for anew at the next open.
TEST(FileRules, AFileThatCooledAgainIsInstantiatedWithTheAnswerOfThatMoment) {
  FileRules rules(Hot(2, 10));
  rules.OnOpen(FileId{0}, "/other", 0);
  rules.OnClose(FileId{0});
  rules.OnOpen(kFile, "/x", 1);
  rules.OnAccess(kFile, 1);
  rules.OnAccess(kFile, 2);
  EXPECT_TRUE(rules.Marked(kFile));
  rules.OnAccess(kFile, 100 * kSecond);
  EXPECT_TRUE(rules.Marked(kFile));
  EXPECT_TRUE(rules.OnClose(kFile));
  EXPECT_TRUE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_FALSE(rules.Admitted(kFile));
}

// Until the first close is seen, an open finds the file closed.
TEST(FileRules, InTracesWithoutClosesAnOpenIsEnough) {
  FileRules rules(Hot(2, 10));
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1));
  rules.OnAccess(kFile, 1);
  rules.OnAccess(kFile, 2);
  EXPECT_TRUE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_TRUE(rules.Admitted(kFile));
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1));
  rules.OnAccess(kFile, 50 * kSecond);  // late: it has cooled
  EXPECT_TRUE(rules.Admitted(kFile));
  EXPECT_TRUE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_FALSE(rules.Admitted(kFile));
}

TEST(FileRules, WithHysteresisAHotFileStaysHotWhileItIsNotCold) {
  FileRuleOptions options = Hot(3, 10);
  options.cold = {.accesses = 2, .within = absl::Seconds(60)};
  ASSERT_TRUE(options.Validate().ok());
  FileRules rules(options);
  for (int i = 0; i < 3; ++i) rules.OnAccess(kFile, i);
  EXPECT_TRUE(rules.OnInstantiate(kFile, "/x", 1));
  for (std::int64_t at = 50; at <= 500; at += 50) {
    rules.OnAccess(kFile, at * kSecond);  // one a minute is enough
    EXPECT_FALSE(rules.Marked(kFile)) << at;
  }
  rules.OnAccess(kFile, 561 * kSecond);
  EXPECT_TRUE(rules.Marked(kFile));
  EXPECT_TRUE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_FALSE(rules.Admitted(kFile));
  // Cold: one a minute no longer does.
  rules.OnAccess(kFile, 570 * kSecond);
  rules.OnAccess(kFile, 610 * kSecond);
  EXPECT_FALSE(rules.Marked(kFile));
}

TEST(FileRules, AccessesAtOneInstantAreOne) {
  FileRules rules(Hot(2, 10));
  rules.OnInstantiate(kFile, "/x", 1);
  for (int i = 0; i < 5; ++i) rules.OnAccess(kFile, 7);
  EXPECT_FALSE(rules.Marked(kFile));
  rules.OnAccess(kFile, 8);
  EXPECT_TRUE(rules.Marked(kFile));
}

// Hotness outlives the inode: the server remembers it, not the guest.
TEST(FileRules, EvictionDoesNotCoolAFile) {
  FileRules rules(Hot(2, 10));
  rules.OnInstantiate(kFile, "/x", 1);
  rules.OnAccess(kFile, 1);
  rules.OnAccess(kFile, 2);
  rules.OnEvict(kFile);
  EXPECT_TRUE(rules.OnInstantiate(kFile, "/x", 1));
}

TEST(FileRules, StrayEventsDoNoHarm) {
  FileRules rules(Hot(2, 10));
  EXPECT_FALSE(rules.OnClose(FileId{9}));
  rules.OnEvict(FileId{9});
  rules.OnAccess(FileId{5}, 1);
  EXPECT_FALSE(rules.Instantiated(FileId{5}));
  EXPECT_FALSE(rules.OnClose(FileId{5}));
  rules.OnInstantiate(kFile, "/x", 1);
  EXPECT_FALSE(rules.OnClose(kFile));  // a close whose open was before the trace began
  EXPECT_FALSE(rules.OnOpen(kFile, "/x", 1));
  EXPECT_FALSE(rules.OnClose(kFile));
  EXPECT_TRUE(rules.CheckInvariants().ok());
}

// The ring of times, beside all times there ever were.
TEST(FileRules, CountsAccessesWithinATimeExactly) {
  for (const std::uint32_t n : {1u, 2u, 3u, 7u, 256u}) {
    FileRules rules(Hot(n, 1));
    Dice dice(n);
    std::deque<std::int64_t> times;
    std::int64_t now = 0;
    int hot = 0;
    for (int i = 0; i < 3000; ++i) {
      now += 1 + dice.Below(static_cast<std::uint32_t>(2 * kSecond / n));
      rules.OnAccess(kFile, now);
      times.push_back(now);
      while (times.front() < now - kSecond) times.pop_front();
      rules.OnEvict(kFile);
      rules.OnInstantiate(kFile, "/x", 1);
      ASSERT_EQ(rules.Admitted(kFile), times.size() >= n) << n << " " << i;
      hot += rules.Admitted(kFile);
    }
    EXPECT_GT(hot, 100) << n;
  }
}

TEST(FileRules, QuotasOfFilesAndGroups) {
  FileRuleOptions options;
  options.file_quota = 2;
  options.group_quotas = {{.glob = "/lib/**", .slots = 3}, {.glob = "*", .slots = 5}};
  ASSERT_TRUE(options.Validate().ok());
  FileRules rules(options);
  const FileId a{0}, b{1}, c{2};
  rules.OnInstantiate(a, "/lib/a", 1);
  rules.OnInstantiate(b, "/lib/b", 1);
  rules.OnInstantiate(c, "/c", 1);
  EXPECT_TRUE(rules.SameGroup(a, b));
  EXPECT_FALSE(rules.SameGroup(a, c));
  rules.OnMap(a);
  EXPECT_EQ(rules.RoomFor(a), FileRules::Room::kFree);
  rules.OnMap(a);
  EXPECT_EQ(rules.RoomFor(a), FileRules::Room::kReplaceInFile);
  EXPECT_EQ(rules.RoomFor(b), FileRules::Room::kFree);
  rules.OnMap(b);
  EXPECT_EQ(rules.RoomFor(b), FileRules::Room::kReplaceInGroup);
  EXPECT_EQ(rules.RoomFor(c), FileRules::Room::kFree);
  EXPECT_FALSE(rules.AnyOver());
  rules.OnMap(b);  // set up at the same time as another
  EXPECT_TRUE(rules.AnyOver());
  EXPECT_EQ(rules.RoomFor(a), FileRules::Room::kNone);
  EXPECT_EQ(rules.RoomFor(b), FileRules::Room::kNone);
  EXPECT_TRUE(rules.Over(a));
  EXPECT_FALSE(rules.Over(c));
  EXPECT_TRUE(rules.CheckInvariants().ok());
  rules.OnMap(a);  // and its own file's quota passed too
  EXPECT_TRUE(rules.CheckInvariants().ok());
  rules.OnUnmap(a);
  rules.OnUnmap(b);
  EXPECT_FALSE(rules.AnyOver());
  EXPECT_TRUE(rules.CheckInvariants().ok());
  // Renamed: its slots count against its new group.
  rules.OnEvict(a);
  rules.OnInstantiate(a, "/home/a", 1);
  EXPECT_TRUE(rules.SameGroup(a, c));
  EXPECT_EQ(rules.RoomFor(b), FileRules::Room::kFree);
  EXPECT_TRUE(rules.CheckInvariants().ok());
}

TEST(FileRules, OptionsAreChecked) {
  FileRuleOptions options;
  options.include = {"[a"};
  EXPECT_FALSE(options.Validate().ok());
  options = {};
  options.group_quotas = {{.glob = "*", .slots = 0}};
  EXPECT_FALSE(options.Validate().ok());
  options.group_quotas = {{.glob = "", .slots = 1}};
  EXPECT_FALSE(options.Validate().ok());
  options = {};
  options.hot.accesses = 1;
  EXPECT_FALSE(options.Validate().ok()) << "no time";
  EXPECT_TRUE(FileRuleOptions{}.Validate().ok());
}

}  // namespace
}  // namespace daxcache
