// per-file: who is admitted, for how long, and whose range is given up at a quota.
#include "daxcache/policies/per_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daxcache/policies/arc.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/policies/random.h"
#include "policies/drive.h"

namespace daxcache {
namespace {

using Lru = PerFilePolicy<LruPolicy<DenseIndex>>;
constexpr std::int64_t kSecond = 1'000'000'000;

const std::vector<FileFacts>& Facts() {
  static const std::vector<FileFacts> facts = {
      {"/lib/a", 1000}, {"/lib/b", 2000}, {"/home/c", 3000}, {"/home/d.o", 4000}};
  return facts;
}
const Ranges& FourFiles() {
  static const Ranges ranges(4, 10);  // file 0: 0-9, file 1: 10-19 …
  return ranges;
}

template <class P = Lru>
typename P::Options WithFiles() {
  typename P::Options options;
  options.files = Facts();
  return options;
}

// The ranges mapped, in order.
template <Policy P>
std::vector<std::uint32_t> Held(const Demand<P>& demand) {
  std::vector<std::uint32_t> held;
  for (std::uint32_t number = 0; number < FourFiles().size(); ++number) {
    if (demand.Holds(number)) held.push_back(number);
  }
  return held;
}
using Numbers = std::vector<std::uint32_t>;

TEST(PerFile, FilesThatDoNotSuitBypassTheWindow) {
  Lru::Options options = WithFiles();
  options.min_size = ByteSize(2000);
  options.exclude = {"*.o"};
  Demand<Lru> demand(FourFiles(), 4, options);
  for (const std::uint32_t number : {0u, 10u, 20u, 30u, 0u, 11u}) demand.Access(number);
  EXPECT_EQ(Held(demand), (Numbers{10, 11, 20}));
  demand.Access(0);
  EXPECT_TRUE(demand.bypassed());
}

// What is not admitted must not teach the wrapped policy anything.
TEST(PerFile, TheBaseHearsNothingOfWhatIsNotAdmitted) {
  using P = PerFilePolicy<ArcPolicy<DenseIndex>>;
  P::Options options = WithFiles<P>();
  options.include = {"/lib/*"};
  Demand<P> filtered(FourFiles(), 4, options);
  Demand<ArcPolicy<DenseIndex>> plain(FourFiles(), 4);
  Dice dice(3);
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t number = dice.Below(FourFiles().size());
    const bool hit = filtered.Access(number);
    if (number >= 20) {
      EXPECT_FALSE(hit);
      continue;
    }
    ASSERT_EQ(hit, plain.Access(number)) << i;
    ASSERT_EQ(filtered.victim(), plain.victim()) << i;
    ASSERT_EQ(filtered.policy().base().target(), plain.policy().target()) << i;
  }
}

TEST(PerFile, TheDriversSizeCountsAtTheOpen) {
  Lru::Options options = WithFiles();
  options.min_size = ByteSize(500);
  Demand<Lru> demand(FourFiles(), 4, options);
  Lru& policy = demand.window().policy();
  EXPECT_FALSE(policy.OnOpen(FileId{0}, 0));  // being written: empty as yet
  EXPECT_FALSE(policy.UsesWindow(FileId{0}));
  EXPECT_FALSE(policy.OnOpen(FileId{0}, 1000));
  EXPECT_FALSE(policy.UsesWindow(FileId{0})) << "the answer holds while the inode lives";
  policy.OnEvict(FileId{0});
  EXPECT_FALSE(policy.OnOpen(FileId{0}, 1000));
  EXPECT_TRUE(policy.UsesWindow(FileId{0}));
  EXPECT_TRUE(policy.UsesWindow(FileId{1})) << "never opened: as large as the trace says";
}

TEST(PerFile, HotFilesComeInAndColdOnesGoAtAnOpen) {
  Lru::Options options = WithFiles();
  options.hot = {.accesses = 2, .within = absl::Seconds(10)};
  Demand<Lru> demand(FourFiles(), 4, options);
  Lru& policy = demand.window().policy();
  EXPECT_FALSE(policy.OnOpen(FileId{0}, 1000));
  demand.Access(0, kNeverUsed, 1 * kSecond);
  EXPECT_TRUE(demand.bypassed());
  demand.Access(0, kNeverUsed, 2 * kSecond);
  EXPECT_TRUE(demand.bypassed()) << "hot, but its inode lives";
  EXPECT_TRUE(policy.OnOpen(FileId{0}, 1000));
  demand.Access(0, kNeverUsed, 3 * kSecond);
  demand.Access(1, kNeverUsed, 4 * kSecond);
  EXPECT_EQ(Held(demand), (Numbers{0, 1}));
  // Hits count, and keep it hot.
  for (std::int64_t at = 9; at < 60; at += 5) {
    EXPECT_TRUE(demand.Access(0, kNeverUsed, at * kSecond));
    EXPECT_FALSE(policy.OnOpen(FileId{0}, 1000));
  }
  EXPECT_FALSE(policy.rules().Marked(FileId{0}));
  EXPECT_TRUE(demand.Access(0, kNeverUsed, 101 * kSecond)) << "late, so it has cooled; mapped while its inode lives";
  EXPECT_TRUE(policy.rules().Marked(FileId{0}));
  EXPECT_TRUE(policy.OnOpen(FileId{0}, 1000));
  demand.window().Invalidate(FileId{0}, [&](SlotId slot) { demand.window().CommitReclaim(slot); });
  EXPECT_FALSE(policy.UsesWindow(FileId{0}));
  EXPECT_TRUE(demand.window().CheckInvariants().ok());
}

TEST(PerFile, TheLastCloseOfAMarkedFileReturnsItsRanges) {
  Lru::Options options = WithFiles();
  options.hot = {.accesses = 2, .within = absl::Seconds(10)};
  Demand<Lru> demand(FourFiles(), 4, options);
  Lru& policy = demand.window().policy();
  policy.OnOpen(FileId{0}, 1000);
  demand.Access(0, kNeverUsed, 1);
  EXPECT_FALSE(policy.OnClose(FileId{0}));
  policy.OnOpen(FileId{0}, 1000);
  demand.Access(0, kNeverUsed, 3);
  EXPECT_TRUE(policy.OnClose(FileId{0}));
  // What comes after the last close, through a mapping that outlives it, is an access to a new inode.
  EXPECT_FALSE(demand.Access(0, kNeverUsed, 5));
  EXPECT_FALSE(demand.bypassed());
}

TEST(PerFile, AFileAtItsQuotaReplacesItsOwnRanges) {
  Lru::Options options = WithFiles();
  options.file_quota = 2;
  Demand<Lru> demand(FourFiles(), 6, options);
  for (const std::uint32_t number : {0u, 1u, 2u, 10u}) demand.Access(number);
  // Slots are free, so there is no victim whose place it could take.
  EXPECT_EQ(Held(demand), (Numbers{0, 1, 10}));
  for (const std::uint32_t number : {11u, 20u, 21u}) demand.Access(number);
  ASSERT_EQ(demand.window().free_slots(), 0u);
  demand.Access(0);  // 1 is now the one that file 0 used least recently
  demand.Access(2);
  EXPECT_EQ(demand.victim(), 1u);
  EXPECT_EQ(Held(demand), (Numbers{0, 2, 10, 11, 20, 21}));
  demand.Access(30);  // below its quota: the least recently used of all
  EXPECT_EQ(demand.victim(), 10u);
  EXPECT_TRUE(demand.window().CheckInvariants().ok());
}

TEST(PerFile, AGroupAtItsQuotaReplacesItsOwnRanges) {
  Lru::Options options = WithFiles();
  options.group_quotas = {{.glob = "/lib/**", .slots = 3}};
  Demand<Lru> demand(FourFiles(), 5, options);
  for (const std::uint32_t number : {20u, 0u, 10u, 1u, 21u}) demand.Access(number);
  ASSERT_EQ(demand.window().free_slots(), 0u);
  demand.Access(11);
  EXPECT_EQ(demand.victim(), 0u) << "of the group, not of file 1 alone, and not 20, used before";
  demand.Access(22);
  EXPECT_EQ(demand.victim(), 20u);
  EXPECT_TRUE(demand.window().CheckInvariants().ok());
}

TEST(PerFile, APinnedGroupHasNoVictim) {
  Lru::Options options = WithFiles();
  options.file_quota = 1;
  Demand<Lru> demand(FourFiles(), 2, options);
  demand.Access(0);
  demand.Access(10);
  Window<Lru>& window = demand.window();
  window.Pin(SlotId{0});
  EXPECT_EQ(window.PickVictim(Scope::Any(), DenseIndex::Key{1}, demand.TouchOf(1)), kNoSlot);
  EXPECT_EQ(window.PickVictim(Scope::Any(), DenseIndex::Key{20}, demand.TouchOf(20)), SlotId{1});
}

// Set-ups under way at once pass a quota; then those over it give up ranges first, and get no more.
TEST(PerFile, WhoIsOverAQuotaGivesFirst) {
  Lru::Options options = WithFiles();
  options.file_quota = 1;
  Demand<Lru> demand(FourFiles(), 4, options);
  Window<Lru>& window = demand.window();
  demand.Access(20);
  std::vector<SlotId> slots;
  for (const std::uint32_t number : {0u, 1u}) {
    ASSERT_TRUE(window.Admit(DenseIndex::Key{number}, demand.TouchOf(number)));
    slots.push_back(window.Take());
    ASSERT_TRUE(window.Bind(slots.back(), DenseIndex::Key{number}, demand.TouchOf(number)).must_map);
  }
  for (const SlotId slot : slots) ASSERT_FALSE(window.Commit(slot, demand.TouchOf(0)));
  EXPECT_FALSE(window.Admit(DenseIndex::Key{2}, demand.TouchOf(2)));
  EXPECT_EQ(window.PickVictim(Scope::Any()), slots[0]) << "though 20 was used before";
  EXPECT_EQ(window.PickVictim(Scope::File(FileId{2})), SlotId{0});
  window.BeginReclaim(slots[0]);
  window.CommitReclaim(slots[0]);
  EXPECT_EQ(window.PickVictim(Scope::Any()), SlotId{0});
  EXPECT_TRUE(window.CheckInvariants().ok());
}

// Under random traffic no quota is ever passed, whatever the wrapped policy.
template <class Base>
void NeverOver() {
  using P = PerFilePolicy<Base>;
  typename P::Options options = WithFiles<P>();
  options.file_quota = 3;
  options.group_quotas = {{.glob = "/lib/**", .slots = 4}};
  Demand<P> demand(FourFiles(), 9, options);
  Dice dice(8);
  for (int i = 0; i < 4000; ++i) {
    demand.Access(dice.Below(FourFiles().size()));
    const FileRules& rules = demand.policy().rules();
    ASSERT_FALSE(rules.AnyOver());
    for (std::uint32_t file = 0; file < 4; ++file) ASSERT_LE(rules.slots(FileId{file}), 3u);
    ASSERT_LE(rules.slots(FileId{0}) + rules.slots(FileId{1}), 4u);
    ASSERT_TRUE(demand.window().CheckInvariants().ok());
  }
  EXPECT_EQ(demand.window().free_slots(), 0u);
}
TEST(PerFile, QuotasHoldUnderEveryOrder) {
  NeverOver<LinuxPolicy<DenseIndex>>();
  NeverOver<LruPolicy<DenseIndex>>();
  NeverOver<ArcPolicy<DenseIndex>>();
  NeverOver<RandomPolicy<DenseIndex>>();
}

}  // namespace
}  // namespace daxcache
