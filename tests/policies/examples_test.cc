// Each policy on an example small enough to be worked by hand, or known from the literature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "policies/drive.h"

namespace daxcache {
namespace {

// Ranges by letter or digit.
Stream Letters(std::string_view text) {
  Stream stream;
  for (const char c : text) stream.push_back(static_cast<std::uint32_t>(c >= 'a' ? c - 'a' : c - '0'));
  return stream;
}
std::string Name(std::uint32_t number) {
  return number == 0xffffffffu ? "-" : std::string(1, static_cast<char>('a' + number));
}

template <Policy P>
std::size_t CountMisses(std::string_view text, std::uint32_t slots) {
  const std::vector<bool> misses = Misses<P>(Ranges(1, 26), Letters(text), slots);
  return static_cast<std::size_t>(std::count(misses.begin(), misses.end(), true));
}

// What each touch displaced: '-' for nothing.
template <Policy P>
std::string Displaced(std::string_view text, std::uint32_t slots, const typename P::Options& options = {}) {
  const Ranges ranges(1, 26);
  const Stream stream = Letters(text);
  const std::vector<std::uint64_t> next = NextUses(stream, ranges.size());
  Demand<P> demand(ranges, slots, options);
  std::string victims;
  for (std::size_t at = 0; at < stream.size(); ++at) {
    demand.Access(stream[at], next[at]);
    victims += Name(demand.victim());
  }
  return victims;
}

// Belady's anomaly: more room, more misses; but not for LRU and MIN, which are stack algorithms. (L. A. Belady,
// R. A. Nelson, G. S. Shedler: "An anomaly in space-time characteristics of certain programs running in a paging
// machine", CACM 12(6), 1969.)
TEST(Examples, BeladysAnomaly) {
  constexpr std::string_view kText = "123412512345";
  EXPECT_EQ(CountMisses<FifoPolicy<DenseIndex>>(kText, 3), 9u);
  EXPECT_EQ(CountMisses<FifoPolicy<DenseIndex>>(kText, 4), 10u);
  EXPECT_EQ(CountMisses<LruPolicy<DenseIndex>>(kText, 3), 10u);
  EXPECT_EQ(CountMisses<LruPolicy<DenseIndex>>(kText, 4), 8u);
  EXPECT_EQ(CountMisses<BeladyPolicy<DenseIndex>>(kText, 3), 7u);
  EXPECT_EQ(CountMisses<BeladyPolicy<DenseIndex>>(kText, 4), 6u);
}

// The reference string of the operating systems textbooks.
TEST(Examples, TextbookString) {
  constexpr std::string_view kText = "70120304230321201701";
  EXPECT_EQ(CountMisses<FifoPolicy<HashIndex>>(kText, 3), 15u);
  EXPECT_EQ(CountMisses<LruPolicy<HashIndex>>(kText, 3), 12u);
  EXPECT_EQ(CountMisses<BeladyPolicy<HashIndex>>(kText, 3), 9u);
}

TEST(Examples, FifoIgnoresHitsAndLruDoesNot) {
  EXPECT_EQ(Displaced<FifoPolicy<DenseIndex>>("abcaade", 3), "-----ab");
  EXPECT_EQ(Displaced<LruPolicy<DenseIndex>>("abcaade", 3), "-----bc");
}

TEST(Examples, ClockGivesASecondChance) {
  // a is used again: the hand passes it by, clearing its bit, and takes b. It then stands at c, takes it for e, and
  // meets a for f: its bit is clear.
  EXPECT_EQ(Displaced<ClockPolicy<DenseIndex>>("abcadef", 3), "----bca");
  // All are used again: the hand goes once around, clearing all, and takes the first; its second way round is free.
  EXPECT_EQ(Displaced<ClockPolicy<DenseIndex>>("abcabcdef", 3), "------abc");
  // What comes in has its bit clear: d, never used again, goes when the hand comes to it.
  EXPECT_EQ(Displaced<ClockPolicy<DenseIndex>>("abcabcdbce", 3), "------a--d");
}

TEST(Examples, ClockLeavesPinnedRangesTheirBitAndPlace) {
  const Ranges ranges(1, 26);
  Demand<ClockPolicy<DenseIndex>> demand(ranges, 3);
  for (const std::uint32_t number : Letters("abca")) demand.Access(number);
  demand.window().Pin(SlotId{0});
  EXPECT_EQ(demand.window().PickVictim(Scope::Any()), SlotId{1});
  EXPECT_TRUE(demand.policy().used(SlotId{0}));
  EXPECT_FALSE(demand.window().Unpin(SlotId{0}));
}

TEST(Examples, LinuxTakesTheOldestAndInlineTheFilesLowestOffset) {
  using P = LinuxPolicy<DenseIndex>;
  const Ranges ranges(2, 10);  // ranges 0-9 and 10-19
  Demand<P> demand(ranges, 6);
  for (const std::uint32_t number : {17u, 5u, 12u, 3u, 14u, 7u, 17u}) demand.Access(number);
  Window<P>& window = demand.window();
  const auto number = [&](SlotId slot) { return static_cast<std::uint32_t>(window.key(slot)); };
  EXPECT_EQ(number(window.PickVictim(Scope::File(FileId{1}))), 12u);
  EXPECT_EQ(number(window.PickVictim(Scope::File(FileId{0}))), 3u);
  // The worker's pick goes to the tail, so that one that cannot be reclaimed is not picked again at once.
  EXPECT_EQ(number(window.PickVictim(Scope::Any())), 17u);
  EXPECT_EQ(number(window.PickVictim(Scope::Any())), 5u);
  EXPECT_EQ(number(window.PickVictim(Scope::Any())), 12u);
}

class ArcExample : public ::testing::Test {
 protected:
  using P = ArcPolicy<DenseIndex>;

  void Touch(char c) { demand_.Access(static_cast<std::uint32_t>(c - 'a')); }
  // "T1 | T2 | B1 | B2 | p", each from LRU to MRU.
  std::string State() {
    std::string text;
    for (const P::List list : {P::kT1, P::kT2}) {
      demand_.policy().VisitSlots(
          list, [&](SlotId slot) { text += Name(static_cast<std::uint32_t>(demand_.window().key(slot))); });
      text += "|";
    }
    for (const P::List list : {P::kB1, P::kB2}) {
      demand_.policy().VisitGhosts(list, [&](DenseIndex::Key key) { text += Name(static_cast<std::uint32_t>(key)); });
      text += "|";
    }
    EXPECT_TRUE(demand_.window().CheckInvariants().ok());
    return text + std::to_string(demand_.policy().target());
  }

  const Ranges ranges_{1, 26};
  Demand<P> demand_{ranges_, 3};
};

TEST_F(ArcExample, WorkedByHand) {
  const std::vector<std::pair<char, std::string>> steps = {
      {'a', "a||||0"},      {'b', "ab||||0"}, {'c', "abc||||0"}, {'a', "bc|a|||0"},  // Case I
      {'d', "cd|a|b||0"},    // Case IV B: |L1| = 2; REPLACE takes from T1, since |T1| = 2 > p
      {'e', "de|a|c||0"},    // Case IV A: |L1| = 3, |T1| < 3: b leaves B1, c is replaced
      {'c', "e|ac|d||1"},    // Case II: p = 1; |T1| = 2 > 1: d is replaced
      {'f', "ef|c|d|a|1"},   // Case IV B: |T1| = 1 = p, f not in B2: T2 gives a
      {'a', "f|ca|de||0"},   // Case III: p = 0; |T1| = 2 > 0: e is replaced
      {'d', "f|ad|e|c|1"},   // Case II: delta = max(0 / 2, 1); |T1| = 1 = p: T2 gives c
      {'e', "f|de||ca|2"},   // Case II: delta = 1; T2 gives a
      {'c', "|dec|f|a|1"},   // Case III: p = 1 = |T1|, and c is in B2: T1 gives f
      {'g', "g|ec|f|ad|1"},  // Case IV B: T1 is empty: T2 gives d
      {'h', "gh|c|f|de|1"},  // Case IV B: the total is 6 = 2c, so a leaves B2; |T1| = 1 = p: T2 gives e
      {'f', "gh|f||dec|3"},  // Case II: delta = 2 / 1; p = 1 + 2; T2 gives c
      {'i', "ghi|||ecf|3"},  // Case IV B: d leaves B2; |T1| = 2 < p: T2 gives f
      {'j', "hij|||ecf|3"},  // Case IV A with |T1| = 3: g is dropped without a ghost
      {'e', "ij|e|h|cf|2"},  // Case III: delta = max(0 / 3, 1); |T1| = 3 > 2: T1 gives h
  };
  for (const auto& [letter, state] : steps) {
    Touch(letter);
    EXPECT_EQ(State(), state) << letter;
  }
}

TEST_F(ArcExample, AFullT1IsDroppedWithoutAGhost) {
  for (const char c : std::string("abc")) Touch(c);
  EXPECT_EQ(State(), "abc||||0");
  Touch('d');  // Case IV A with |T1| = c
  EXPECT_EQ(State(), "bcd||||0");
}

TEST_F(ArcExample, BackgroundReclaimTakesAsForAStranger) {
  for (const char c : std::string("abcadecfad")) Touch(c);
  ASSERT_EQ(State(), "f|ad|e|c|1");
  // |T1| = p: T2 gives, though for c itself, which is in B2, T1 would.
  Window<P>& window = demand_.window();
  EXPECT_EQ(Name(static_cast<std::uint32_t>(window.key(window.PickVictim(Scope::Any())))), "a");
  EXPECT_EQ(Name(static_cast<std::uint32_t>(
                window.key(window.PickVictim(Scope::Any(), DenseIndex::Key{2}, demand_.TouchOf(2))))),
            "f");
  // What was reclaimed in the background is remembered all the same, and comes back to T2.
  const SlotId slot = window.BeginReclaim(Scope::Any());
  window.CommitReclaim(slot);
  EXPECT_EQ(State(), "f|d|e|ca|1");
  Touch('a');
  EXPECT_EQ(State(), "f|da|e|c|0");
}

TEST_F(ArcExample, WhatIsGoneIsForgottenAndAnAbortedReclaimChangesNothing) {
  for (const char c : std::string("abcad")) Touch(c);
  ASSERT_EQ(State(), "cd|a|b||0");
  Window<P>& window = demand_.window();
  const SlotId slot = window.BeginReclaim(Scope::Any());
  EXPECT_TRUE(window.AbortReclaim(slot));
  EXPECT_EQ(State(), "cd|a|b||0");
  window.Invalidate(FileId{0}, 2, 2, [&](SlotId gone) { window.CommitReclaim(gone); });
  EXPECT_EQ(State(), "d|a|b||0");
}

TEST_F(ArcExample, AShrunkWindowKeepsItsBounds) {
  for (const char c : std::string("abcadecfadec")) Touch(c);
  ASSERT_EQ(State(), "|dec|f|a|1");
  Window<P>& window = demand_.window();
  ASSERT_TRUE(window.Shrink(2, [&](SlotId slot) { window.CommitReclaim(slot); }).ok());
  EXPECT_EQ(window.size(), 1u);
  EXPECT_LE(demand_.policy().target(), 1u);
  State();
  for (const char c : std::string("xyzxyabcab")) {
    Touch(c);
    State();
  }
}

// SplitMix64 from 0 begins with e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec.
TEST(Examples, RandomDrawsWhatItsGeneratorSays) {
  // Of four places, the top two bits of each number: 3, 1, 0, 3. The last takes the victim's place, the newcomer the
  // last's: abcd, abce, aecf, fecg.
  EXPECT_EQ(Displaced<RandomPolicy<DenseIndex>>("abcdefgh", 4, {.seed = 0}), "----dbag");
  EXPECT_NE(Displaced<RandomPolicy<DenseIndex>>("abcdefghijklmnop", 4, {.seed = 1}),
            Displaced<RandomPolicy<DenseIndex>>("abcdefghijklmnop", 4, {.seed = 2}));
}

TEST(Examples, RandomIsFair) {
  const Ranges ranges(1, 26);
  Demand<RandomPolicy<DenseIndex>> demand(ranges, 5);
  for (std::uint32_t i = 0; i < 5; ++i) demand.Access(i);
  std::array<int, 5> drawn{};
  for (int i = 0; i < 10000; ++i) ++drawn[ToIndex(demand.window().PickVictim(Scope::Any()))];
  for (const int count : drawn) EXPECT_NEAR(count, 2000, 200);  // five standard deviations
  // When few may be taken, and the draws fail, too.
  for (const std::uint32_t slot : {0u, 2u, 4u}) demand.window().Pin(SlotId{slot});
  drawn.fill(0);
  for (int i = 0; i < 10000; ++i) ++drawn[ToIndex(demand.window().PickVictim(Scope::Any()))];
  EXPECT_NEAR(drawn[1], 5000, 250);
  EXPECT_NEAR(drawn[3], 5000, 250);
}

TEST(Examples, RandomIsFairAmongFewOfMany) {
  const Ranges ranges(100, 3);
  Demand<RandomPolicy<DenseIndex>> demand(ranges, 300);
  for (std::uint32_t i = 0; i < 300; ++i) demand.Access(i);
  std::array<int, 3> drawn{};
  for (int i = 0; i < 6000; ++i) {
    ++drawn[static_cast<std::uint32_t>(demand.window().key(demand.window().PickVictim(Scope::File(FileId{41})))) % 3];
  }
  for (const int count : drawn) EXPECT_NEAR(count, 2000, 190);
}

TEST(Examples, BeladyBypassLeavesOutWhatIsNeededLast) {
  // c is needed later than a and b: belady takes b for it, which then misses.
  EXPECT_EQ(Displaced<BeladyPolicy<DenseIndex>>("abcabc", 2), "--b-a-");
  EXPECT_EQ(Displaced<BeladyBypassPolicy<DenseIndex>>("abcabc", 2), "------");
  EXPECT_EQ(CountMisses<BeladyPolicy<DenseIndex>>("abcabc", 2), 4u);
  EXPECT_EQ(CountMisses<BeladyBypassPolicy<DenseIndex>>("abcabc", 2), 4u);
  // Where c is needed twice running, it is let in; b, never needed again when it comes back, is not.
  EXPECT_EQ(Displaced<BeladyBypassPolicy<DenseIndex>>("abccab", 2), "--b---");
}

}  // namespace
}  // namespace daxcache
