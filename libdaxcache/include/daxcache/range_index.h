// How a range's key finds its slot. Two kinds, chosen by template parameter:
//
//   HashIndex   for a daemon: files and ranges are not known beforehand. Key: FileRange. 36 bytes a slot.
//   DenseIndex  for replay: the trace has numbered its ranges 0 … n-1, sorted by (file, index), so a table of n entries
//               needs no hashing and the ranges of a file stand together. Key: the number. 4 bytes a range, 4 a slot.
//
// Both map a key to one slot, keep the key of each slot, and can walk a file's ranges in order of offset. Neither
// allocates after construction. `Table` is the key-to-number part alone, for policies that remember keys they no longer
// hold (ghost lists).
//
// A guest chooses which ranges of which files it touches. So that it cannot choose those that collide, or an order in
// which a file's tree grows into a list, a daemon gives HashIndex a seed that the guest does not know:
//
//   Window<LruPolicy<HashIndex>> window({.seed = random}, …);      // {}: seed 0, the same in every run
//
// What is found does not depend on it; how long it takes may.
//
//                 Find   Insert/Erase       AtOrAfter / AtOrBefore
//   HashIndex     O(1)   O(log k) expected  O(log k)               k: ranges of that file in the window
//   DenseIndex    O(1)   O(1)               O(r)                   r: ranges of that file in the trace
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daxcache/ids.h"
#include "daxcache/range.h"

namespace daxcache {
inline namespace v0 {

inline constexpr std::uint32_t kNoEntry = 0xffffffffu;

namespace internal {

// Mixes all bits of a 64-bit number (the finalizer of SplitMix64, Steele et al., OOPSLA 2014).
constexpr std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x;
}

// The hashes of HashIndex. A range is mixed twice: were its file and index only added up, pairs of the same sum would
// collide whatever the seed.
constexpr std::uint64_t HashOfRange(std::uint64_t seed, const FileRange& range) {
  return Mix(Mix(range.index + seed) + ToIndex(range.file) + 1);
}
constexpr std::uint64_t HashOfFile(std::uint64_t seed, FileId file) {
  return Mix(seed + ToIndex(file) + 0x2545f4914f6cdd1du);
}
constexpr std::uint64_t HashOfSlot(std::uint64_t seed, std::uint32_t slot) {
  return Mix(seed + slot + 0x9e3779b97f4a7c15u);
}

// An open-addressing table of entry numbers with linear probing and no tombstones (erasing shifts back what follows).
// The keys live with the caller: `hash_of(entry)` and `equals(entry)` reach them. Half full at most.
class EntryTable {
 public:
  explicit EntryTable(std::uint32_t capacity) : cells_(std::max<std::size_t>(2, std::size_t{2} * capacity), kNoEntry) {}

  template <class Equals>
  std::uint32_t Find(std::uint64_t hash, const Equals& equals) const {
    for (std::size_t at = Home(hash); cells_[at] != kNoEntry; at = After(at)) {
      if (equals(cells_[at])) return cells_[at];
    }
    return kNoEntry;
  }

  void Insert(std::uint64_t hash, std::uint32_t entry) {
    std::size_t at = Home(hash);
    while (cells_[at] != kNoEntry) at = After(at);
    cells_[at] = entry;
  }

  void Replace(std::uint64_t hash, std::uint32_t entry, std::uint32_t by) { cells_[Locate(hash, entry)] = by; }

  template <class HashOf>
  void Erase(std::uint64_t hash, std::uint32_t entry, const HashOf& hash_of) {
    std::size_t hole = Locate(hash, entry);
    for (std::size_t at = After(hole); cells_[at] != kNoEntry; at = After(at)) {
      // An entry may fill the hole if its home does not lie behind the hole, on the way to where it stands.
      const std::size_t home = Home(hash_of(cells_[at]));
      if (Distance(home, at) >= Distance(hole, at)) {
        cells_[hole] = cells_[at];
        hole = at;
      }
    }
    cells_[hole] = kNoEntry;
  }

  void Prefetch(std::uint64_t hash) const { __builtin_prefetch(&cells_[Home(hash)]); }

 private:
  std::size_t Home(std::uint64_t hash) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>((static_cast<Wide>(hash) * cells_.size()) >> 64);
  }
  std::size_t After(std::size_t at) const { return at + 1 == cells_.size() ? 0 : at + 1; }
  std::size_t Distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + cells_.size() - from;
  }
  std::size_t Locate(std::uint64_t hash, std::uint32_t entry) const {
    std::size_t at = Home(hash);
    while (cells_[at] != entry) at = After(at);
    return at;
  }

  std::vector<std::uint32_t> cells_;
};

}  // namespace internal

class HashIndex {
 public:
  using Key = FileRange;
  // Nothing is known of the keys beforehand.
  struct Space {
    std::uint64_t seed = 0;  // of all hashes: a random number where a guest may choose the keys
  };

  // Keys to entry numbers 0 … capacity-1.
  class Table {
   public:
    Table(const Space& space, std::uint32_t capacity)
        : seed_(space.seed), table_(capacity), files_(capacity, kNoFile), indexes_(capacity) {}

    std::uint32_t Find(const Key& key) const {
      return table_.Find(Hash(key), [&](std::uint32_t entry) { return KeyOf(entry) == key; });
    }
    void Insert(const Key& key, std::uint32_t entry) {
      files_[entry] = key.file;
      indexes_[entry] = key.index;
      table_.Insert(Hash(key), entry);
    }
    void Erase(std::uint32_t entry) {
      table_.Erase(Hash(KeyOf(entry)), entry, [this](std::uint32_t other) { return Hash(KeyOf(other)); });
    }
    Key KeyOf(std::uint32_t entry) const { return {files_[entry], indexes_[entry]}; }
    void SetKey(std::uint32_t entry, const Key& key) {
      files_[entry] = key.file;
      indexes_[entry] = key.index;
    }
    void Prefetch(const Key& key) const { table_.Prefetch(Hash(key)); }

   private:
    std::uint64_t Hash(const Key& key) const { return internal::HashOfRange(seed_, key); }
    std::uint64_t seed_;
    internal::EntryTable table_;
    std::vector<FileId> files_;  // two arrays, not one of FileRange: 12 bytes an entry, not 16
    std::vector<std::uint64_t> indexes_;
  };

  HashIndex(const Space& space, std::uint32_t capacity)
      : seed_(space.seed), table_(space, capacity), roots_(capacity), children_(capacity) {}

  SlotId Find(const Key& key) const { return SlotId{table_.Find(key)}; }
  Key KeyOf(SlotId slot) const { return table_.KeyOf(ToIndex(slot)); }
  FileRange RangeOf(const Key& key) const { return key; }
  FileId FileOf(SlotId slot) const { return KeyOf(slot).file; }
  static Key Following(const Key& key) { return {key.file, key.index + 1}; }
  void Prefetch(const Key& key) const { table_.Prefetch(key); }

  // Remembers the key of a slot without making the slot findable (a second slot bound to a key).
  void SetKey(SlotId slot, const Key& key) { table_.SetKey(ToIndex(slot), key); }
  void Insert(const Key& key, SlotId slot);
  void Erase(SlotId slot);

  // The slot with the lowest index >= `index` (highest <= `index`) among those of `file`, or kNoSlot.
  SlotId AtOrAfter(FileId file, std::uint64_t index) const;
  SlotId AtOrBefore(FileId file, std::uint64_t index) const;

 private:
  // The ranges of a file are a treap: a search tree by index that is a heap by a hash of the slot number, so that it is
  // balanced in expectation and needs no stored priority and no parent links.
  struct Children {
    std::uint32_t left = kNoEntry;
    std::uint32_t right = kNoEntry;
  };
  std::uint64_t Priority(std::uint32_t node) const { return internal::HashOfSlot(seed_, node); }
  std::uint64_t FileHash(FileId file) const { return internal::HashOfFile(seed_, file); }
  std::uint64_t IndexOf(std::uint32_t node) const { return table_.KeyOf(node).index; }
  FileId FileAt(std::uint32_t node) const { return table_.KeyOf(node).file; }
  std::uint32_t Root(FileId file) const {
    return roots_.Find(FileHash(file), [&](std::uint32_t node) { return FileAt(node) == file; });
  }
  void SetRoot(FileId file, std::uint32_t from, std::uint32_t to);

  std::uint64_t seed_;
  Table table_;
  internal::EntryTable roots_;  // file to the root of its treap
  std::vector<Children> children_;
};

inline void HashIndex::SetRoot(FileId file, std::uint32_t from, std::uint32_t to) {
  if (from == to) return;
  if (from == kNoEntry) {
    roots_.Insert(FileHash(file), to);
  } else if (to == kNoEntry) {
    roots_.Erase(FileHash(file), from, [this](std::uint32_t node) { return FileHash(FileAt(node)); });
  } else {
    roots_.Replace(FileHash(file), from, to);
  }
}

inline void HashIndex::Insert(const Key& key, SlotId slot) {
  const std::uint32_t node = ToIndex(slot);
  table_.Insert(key, node);
  const std::uint32_t old_root = Root(key.file);
  std::uint32_t root = old_root;
  // Down to the first node of lower priority; the subtree there is split by index into the new node's two sides.
  std::uint32_t* link = &root;
  while (*link != kNoEntry && Priority(*link) >= Priority(node)) {
    link = key.index < IndexOf(*link) ? &children_[*link].left : &children_[*link].right;
  }
  std::uint32_t rest = *link;
  *link = node;
  std::uint32_t* lower = &children_[node].left;
  std::uint32_t* upper = &children_[node].right;
  while (rest != kNoEntry) {
    if (IndexOf(rest) < key.index) {
      *lower = rest;
      lower = &children_[rest].right;
      rest = *lower;
    } else {
      *upper = rest;
      upper = &children_[rest].left;
      rest = *upper;
    }
  }
  *lower = kNoEntry;
  *upper = kNoEntry;
  SetRoot(key.file, old_root, root);
}

inline void HashIndex::Erase(SlotId slot) {
  const std::uint32_t node = ToIndex(slot);
  const Key key = table_.KeyOf(node);
  const std::uint32_t old_root = Root(key.file);
  std::uint32_t root = old_root;
  std::uint32_t* link = &root;
  while (*link != node) link = key.index < IndexOf(*link) ? &children_[*link].left : &children_[*link].right;
  // The node's two sides are merged into its place.
  std::uint32_t lower = children_[node].left;
  std::uint32_t upper = children_[node].right;
  while (lower != kNoEntry && upper != kNoEntry) {
    if (Priority(lower) >= Priority(upper)) {
      *link = lower;
      link = &children_[lower].right;
      lower = *link;
    } else {
      *link = upper;
      link = &children_[upper].left;
      upper = *link;
    }
  }
  *link = lower != kNoEntry ? lower : upper;
  SetRoot(key.file, old_root, root);
  table_.Erase(node);
}

inline SlotId HashIndex::AtOrAfter(FileId file, std::uint64_t index) const {
  std::uint32_t best = kNoEntry;
  for (std::uint32_t node = Root(file); node != kNoEntry;) {
    if (IndexOf(node) >= index) {
      best = node;
      node = children_[node].left;
    } else {
      node = children_[node].right;
    }
  }
  return SlotId{best};
}

inline SlotId HashIndex::AtOrBefore(FileId file, std::uint64_t index) const {
  std::uint32_t best = kNoEntry;
  for (std::uint32_t node = Root(file); node != kNoEntry;) {
    if (IndexOf(node) <= index) {
      best = node;
      node = children_[node].right;
    } else {
      node = children_[node].left;
    }
  }
  return SlotId{best};
}

class DenseIndex {
 public:
  enum class Key : std::uint32_t {};
  // The numbered ranges, borrowed: they must outlive the index. `first_range` has one entry more than there are files.
  struct Space {
    std::span<const std::uint32_t> range_files;
    std::span<const std::uint64_t> range_indexes;
    std::span<const std::uint32_t> first_range;
  };

  class Table {
   public:
    Table(const Space& space, std::uint32_t capacity) : entries_(space.range_files.size(), kNoEntry), keys_(capacity) {}

    std::uint32_t Find(Key key) const { return entries_[static_cast<std::uint32_t>(key)]; }
    void Insert(Key key, std::uint32_t entry) {
      entries_[static_cast<std::uint32_t>(key)] = entry;
      keys_[entry] = key;
    }
    void Erase(std::uint32_t entry) { entries_[static_cast<std::uint32_t>(keys_[entry])] = kNoEntry; }
    Key KeyOf(std::uint32_t entry) const { return keys_[entry]; }
    void SetKey(std::uint32_t entry, Key key) { keys_[entry] = key; }
    void Prefetch(Key key) const { __builtin_prefetch(&entries_[static_cast<std::uint32_t>(key)]); }

   private:
    std::vector<std::uint32_t> entries_;  // by range number
    std::vector<Key> keys_;               // by entry
  };

  DenseIndex(const Space& space, std::uint32_t capacity) : space_(space), table_(space, capacity) {}

  SlotId Find(Key key) const { return SlotId{table_.Find(key)}; }
  Key KeyOf(SlotId slot) const { return table_.KeyOf(ToIndex(slot)); }
  FileRange RangeOf(Key key) const {
    const auto number = static_cast<std::uint32_t>(key);
    return {FileId{space_.range_files[number]}, space_.range_indexes[number]};
  }
  FileId FileOf(SlotId slot) const {
    return FileId{space_.range_files[static_cast<std::uint32_t>(table_.KeyOf(ToIndex(slot)))]};
  }
  static Key Following(Key key) { return Key{static_cast<std::uint32_t>(key) + 1}; }
  void Prefetch(Key key) const { table_.Prefetch(key); }
  void SetKey(SlotId slot, Key key) { table_.SetKey(ToIndex(slot), key); }
  void Insert(Key key, SlotId slot) { table_.Insert(key, ToIndex(slot)); }
  void Erase(SlotId slot) { table_.Erase(ToIndex(slot)); }

  SlotId AtOrAfter(FileId file, std::uint64_t index) const {
    if (ToIndex(file) + std::size_t{1} >= space_.first_range.size()) return kNoSlot;
    const std::uint32_t end = space_.first_range[ToIndex(file) + 1];
    for (std::uint32_t number = LowerBound(file, index); number < end; ++number) {
      if (const SlotId slot = Find(Key{number}); slot != kNoSlot) return slot;
    }
    return kNoSlot;
  }
  SlotId AtOrBefore(FileId file, std::uint64_t index) const {
    if (ToIndex(file) + std::size_t{1} >= space_.first_range.size()) return kNoSlot;
    const std::uint32_t begin = space_.first_range[ToIndex(file)];
    std::uint32_t number = LowerBound(file, index);
    if (number < space_.first_range[ToIndex(file) + 1] && space_.range_indexes[number] == index) ++number;
    while (number > begin) {
      if (const SlotId slot = Find(Key{--number}); slot != kNoSlot) return slot;
    }
    return kNoSlot;
  }

 private:
  std::uint32_t LowerBound(FileId file, std::uint64_t index) const {
    const auto begin = space_.range_indexes.begin() + space_.first_range[ToIndex(file)];
    const auto end = space_.range_indexes.begin() + space_.first_range[ToIndex(file) + 1];
    return static_cast<std::uint32_t>(std::lower_bound(begin, end, index) - space_.range_indexes.begin());
  }

  Space space_;
  Table table_;
};

}  // namespace v0
}  // namespace daxcache
