// The two indexes against std::map on long random streams, and the hash table under them where it is hard: keys that
// collide, erasures that wrap around the table's end, a table as full as it gets.
#include "daxcache/range_index.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"

namespace daxcache {
namespace {

// --- EntryTable
// -------------------------------------------------------------------------------------------------------

// Entries 0 … n-1 whose hashes the test chooses.
class EntryTableTest : public testing::Test {
 protected:
  void Run(std::uint32_t capacity, std::uint64_t hash_step, std::uint64_t hash_start, int hashes, int steps) {
    internal::EntryTable table(capacity);
    std::mt19937_64 random(capacity + static_cast<std::uint32_t>(hashes));
    std::vector<std::uint64_t> hash(capacity);
    std::set<std::uint32_t> in;
    for (int step = 0; step < steps; ++step) {
      const auto entry = static_cast<std::uint32_t>(random() % capacity);
      if (in.contains(entry)) {
        table.Erase(hash[entry], entry, [&](std::uint32_t other) { return hash[other]; });
        in.erase(entry);
      } else {
        hash[entry] = hash_start + hash_step * (random() % static_cast<std::uint64_t>(hashes));
        table.Insert(hash[entry], entry);
        in.insert(entry);
      }
      for (std::uint32_t e = 0; e < capacity; ++e) {
        const std::uint32_t found = table.Find(hash[e], [&](std::uint32_t other) { return other == e; });
        ASSERT_EQ(found, in.contains(e) ? e : kNoEntry) << "step " << step << " entry " << e;
      }
    }
  }
};

TEST_F(EntryTableTest, AllInOneCell) {
  Run(16, 0, 0, 1, 4000);
}
TEST_F(EntryTableTest, AllInTheLastCell) {
  Run(16, 0, std::numeric_limits<std::uint64_t>::max(), 1, 4000);
}
TEST_F(EntryTableTest, AroundTheEnd) {
  // Homes: the last four cells and, by overflow, the first four.
  Run(16, std::uint64_t{1} << 59, std::uint64_t{28} << 59, 8, 20000);
}
TEST_F(EntryTableTest, Spread) {
  Run(16, std::uint64_t{1} << 59, 0, 32, 20000);
}
TEST_F(EntryTableTest, Tiny) {
  Run(1, std::uint64_t{1} << 62, 0, 4, 1000);
  Run(2, std::uint64_t{1} << 62, 0, 4, 1000);
  Run(3, std::uint64_t{1} << 61, 0, 8, 1000);
}
TEST_F(EntryTableTest, ReplaceKeepsTheChainWhole) {
  internal::EntryTable table(4);
  for (std::uint32_t entry = 0; entry < 3; ++entry) table.Insert(0, entry);
  table.Replace(0, 1, 3);
  const auto find = [&](std::uint32_t entry) { return table.Find(0, [=](std::uint32_t e) { return e == entry; }); };
  EXPECT_EQ(find(0), 0u);
  EXPECT_EQ(find(1), kNoEntry);
  EXPECT_EQ(find(2), 2u);
  EXPECT_EQ(find(3), 3u);
}

// --- the seed
// -----------------------------------------------------------------------------------------------------

// A guest that knows the code chooses ranges that collide; with a seed that it does not know they do not.
TEST(HashSeedTest, ChosenCollisionsAreSpreadByASeed) {
  constexpr int kShift = 64 - 12;
  std::vector<FileRange> chosen;
  for (std::uint64_t i = 0; chosen.size() < 256; ++i) {
    const FileRange range{FileId{static_cast<std::uint32_t>(i % 7)}, i / 7};
    if (internal::HashOfRange(0, range) >> kShift == 0) chosen.push_back(range);
  }
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{1} << 63, std::uint64_t{0x123456789abcdef}}) {
    std::set<std::uint64_t> places;
    for (const FileRange& range : chosen) places.insert(internal::HashOfRange(seed, range) >> kShift);
    EXPECT_GT(places.size(), 200u) << seed;  // 248 expected of 256 in 4096 places
  }
}

// Were index times a factor (here 2^64 over the golden ratio) and file only added up, these would collide under every
// seed: the range of that index of file 0, and range 0 of a file whose number is the product.
TEST(HashSeedTest, EqualSumsDoNotCollide) {
  for (const std::uint64_t index : {360651927003u, 724275069079u, 8694272044021u, 299953871126261u}) {
    const std::uint64_t product = index * 0x9e3779b97f4a7c15u;
    ASSERT_LT(product, ToIndex(kNoFile));
    const FileRange other{FileId{static_cast<std::uint32_t>(product)}, 0};
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x123456789abcdef}}) {
      EXPECT_NE(internal::HashOfRange(seed, {FileId{0}, index}), internal::HashOfRange(seed, other));
    }
  }
}

// The same for files, and for the slots by whose hashes the trees are balanced.
TEST(HashSeedTest, FilesAndSlotsToo) {
  std::vector<std::uint32_t> slots(1000);
  std::iota(slots.begin(), slots.end(), 0u);
  const auto falling = [&](std::uint64_t seed) {
    int count = 0;
    for (std::size_t i = 1; i < slots.size(); ++i) {
      count += internal::HashOfSlot(seed, slots[i]) < internal::HashOfSlot(seed, slots[i - 1]);
    }
    return count;
  };
  std::sort(slots.begin(), slots.end(),
            [](std::uint32_t a, std::uint32_t b) { return internal::HashOfSlot(0, a) > internal::HashOfSlot(0, b); });
  EXPECT_EQ(falling(0), 999);  // inserted in this order at rising offsets, they are a list
  EXPECT_NEAR(falling(77), 500, 60);
  EXPECT_NE(internal::HashOfFile(0, FileId{3}), internal::HashOfFile(77, FileId{3}));
}

// --- both indexes
// -----------------------------------------------------------------------------------------------------

// What the two need to be tested alike: keys for ranges 0 … kRanges-1 of files 0 … kFiles-1, some of which exist.
template <std::uint64_t kSeed>
struct HashKeys {
  using Index = HashIndex;
  explicit HashKeys(std::uint32_t, std::uint64_t, std::uint64_t offset) : offset_(offset) {}
  HashIndex::Space space() const { return {.seed = kSeed}; }
  FileRange Key(std::uint32_t file, std::uint64_t number) const { return {FileId{file}, offset_ + number}; }
  std::uint64_t IndexOf(std::uint64_t number) const { return offset_ + number; }
  std::uint64_t offset_;
};

struct DenseKeys {
  using Index = DenseIndex;
  // Ranges of a file are numbered with gaps in their indexes, as a trace leaves them; the last file has none.
  explicit DenseKeys(std::uint32_t files, std::uint64_t ranges, std::uint64_t offset)
      : ranges_(ranges), offset_(offset) {
    for (std::uint32_t file = 0; file < files; ++file) {
      first_.push_back(static_cast<std::uint32_t>(files_.size()));
      for (std::uint64_t i = 0; i < ranges; ++i) {
        files_.push_back(file);
        indexes_.push_back(IndexOf(i));
      }
    }
    first_.push_back(static_cast<std::uint32_t>(files_.size()));
    first_.push_back(static_cast<std::uint32_t>(files_.size()));
  }
  DenseIndex::Space space() const { return {files_, indexes_, first_}; }
  DenseIndex::Key Key(std::uint32_t file, std::uint64_t number) const {
    return DenseIndex::Key{static_cast<std::uint32_t>(file * ranges_ + number)};
  }
  std::uint64_t IndexOf(std::uint64_t number) const { return offset_ + 3 * number; }
  std::uint64_t ranges_;
  std::uint64_t offset_;
  std::vector<std::uint32_t> files_;
  std::vector<std::uint64_t> indexes_;
  std::vector<std::uint32_t> first_;
};

template <class Keys>
class IndexTest : public testing::Test {};
using BothIndexes = testing::Types<HashKeys<0>, HashKeys<0xfedcba9876543210u>, DenseKeys>;
TYPED_TEST_SUITE(IndexTest, BothIndexes);

TYPED_TEST(IndexTest, AgreesWithMap) {
  struct Shape {
    std::uint32_t files;
    std::uint64_t ranges;
    std::uint32_t slots;
    std::uint64_t offset;
    int steps;
  };
  const Shape shapes[] = {
      {1, 40, 32, 0, 30000},
      {7, 12, 32, 0, 30000},
      {200, 2, 64, 0, 30000},
      {3, 2000, 1000, 0, 60000},
      {2, 40, 32, std::numeric_limits<std::uint64_t>::max() - 200, 20000},  // indexes up to the very end
      {1, 3, 1, 0, 2000},
  };
  for (const Shape& shape : shapes) {
    const TypeParam keys(shape.files, shape.ranges, shape.offset);
    typename TypeParam::Index index(keys.space(), shape.slots);
    std::mt19937_64 random(shape.files * 1000 + shape.slots);
    std::map<FileRange, SlotId> model;
    std::unordered_map<std::uint32_t, FileRange> held;
    std::vector<SlotId> free;
    for (std::uint32_t i = 0; i < shape.slots; ++i) free.push_back(SlotId{i});
    for (int step = 0; step < shape.steps; ++step) {
      const auto file = static_cast<std::uint32_t>(random() % shape.files);
      const std::uint64_t number = random() % shape.ranges;
      const auto key = keys.Key(file, number);
      const FileRange range{FileId{file}, keys.IndexOf(number)};
      ASSERT_EQ(index.RangeOf(key), range);
      const auto at = model.find(range);
      ASSERT_EQ(index.Find(key), at == model.end() ? kNoSlot : at->second);
      if (at != model.end()) {
        if (random() % 2 == 0) {
          index.Erase(at->second);
          free.push_back(at->second);
          held.erase(ToIndex(at->second));
          model.erase(at);
        }
      } else if (!free.empty() && random() % 4 != 0) {
        std::swap(free[random() % free.size()], free.back());
        const SlotId slot = free.back();
        free.pop_back();
        index.Insert(key, slot);
        ASSERT_EQ(index.KeyOf(slot), key);
        ASSERT_EQ(index.FileOf(slot), range.file);
        model[range] = slot;
        held[ToIndex(slot)] = range;
      }
      // Neighbours of a random place, of a file that may not be there, at the ends too.
      const FileId asked{static_cast<std::uint32_t>(random() % (shape.files + 2))};
      std::uint64_t place = keys.IndexOf(random() % shape.ranges) + random() % 3;
      if (random() % 16 == 0) place = 0;
      if (random() % 16 == 0) place = std::numeric_limits<std::uint64_t>::max();
      const auto after = model.lower_bound({asked, place});
      const SlotId want_after = after != model.end() && after->first.file == asked ? after->second : kNoSlot;
      ASSERT_EQ(index.AtOrAfter(asked, place), want_after) << "step " << step;
      auto before = model.upper_bound({asked, place});
      const SlotId want_before =
          before != model.begin() && std::prev(before)->first.file == asked ? std::prev(before)->second : kNoSlot;
      ASSERT_EQ(index.AtOrBefore(asked, place), want_before) << "step " << step;
    }
    for (const auto& [slot, range] : held) EXPECT_EQ(index.RangeOf(index.KeyOf(SlotId{slot})), range);
    EXPECT_EQ(index.AtOrAfter(kNoFile, 0), kNoSlot);
    EXPECT_EQ(index.AtOrBefore(kNoFile, 0), kNoSlot);
  }
}

TYPED_TEST(IndexTest, TableAgreesWithMap) {
  const TypeParam keys(5, 30, 0);
  typename TypeParam::Index::Table table(keys.space(), 40);
  std::mt19937_64 random(3);
  std::map<std::uint64_t, std::uint32_t> model;
  std::set<std::uint32_t> free;
  for (std::uint32_t i = 0; i < 40; ++i) free.insert(i);
  for (int step = 0; step < 50000; ++step) {
    const std::uint64_t number = random() % 150;
    const auto key = keys.Key(static_cast<std::uint32_t>(number / 30), number % 30);
    const auto at = model.find(number);
    ASSERT_EQ(table.Find(key), at == model.end() ? kNoEntry : at->second);
    if (at != model.end()) {
      ASSERT_EQ(table.KeyOf(at->second), key);
      table.Erase(at->second);
      free.insert(at->second);
      model.erase(at);
    } else if (!free.empty()) {
      const std::uint32_t entry = *free.begin();
      free.erase(free.begin());
      table.Insert(key, entry);
      model[number] = entry;
    }
  }
}

// A key that is only remembered is not found.
TYPED_TEST(IndexTest, SetKeyDoesNotMakeFindable) {
  const TypeParam keys(2, 4, 0);
  typename TypeParam::Index index(keys.space(), 4);
  index.SetKey(SlotId{2}, keys.Key(1, 3));
  EXPECT_EQ(index.KeyOf(SlotId{2}), keys.Key(1, 3));
  EXPECT_EQ(index.Find(keys.Key(1, 3)), kNoSlot);
  EXPECT_EQ(index.AtOrAfter(FileId{1}, 0), kNoSlot);
}

TYPED_TEST(IndexTest, FollowingIsTheNextRange) {
  const TypeParam keys(2, 4, 0);
  EXPECT_EQ(TypeParam::Index::Following(keys.Key(1, 1)), keys.Key(1, 2));
}

}  // namespace
}  // namespace daxcache
