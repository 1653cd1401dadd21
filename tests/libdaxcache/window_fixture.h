// What tests of the window share: keys for both indexes from (file, index), touches, and a policy that watches over the
// calls it gets.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policy.h"
#include "daxcache/range.h"
#include "daxcache/range_index.h"
#include "daxcache/window.h"

namespace daxcache::testing_ {

inline Touch Read(FileId file) {
  return {.file = file, .op = Op::kRead};
}
inline Touch Write(FileId file) {
  return {.file = file, .op = Op::kWrite};
}
inline FileRange At(std::uint32_t file, std::uint64_t index) {
  return {FileId{file}, index};
}

// The world of keys: files 0 … kFiles-1 of kRanges ranges each.
inline constexpr std::uint32_t kFiles = 6;
inline constexpr std::uint32_t kRanges = 9;

template <class Index>
struct World;

template <>
struct World<HashIndex> {
  HashIndex::Space space() const { return {}; }
  static FileRange Key(FileRange range) { return range; }
};

template <>
struct World<DenseIndex> {
  World() {
    for (std::uint32_t file = 0; file < kFiles; ++file) {
      first.push_back(file * kRanges);
      for (std::uint32_t index = 0; index < kRanges; ++index) {
        files.push_back(file);
        indexes.push_back(index);
      }
    }
    first.push_back(kFiles * kRanges);
  }
  DenseIndex::Space space() const { return {files, indexes, first}; }
  static DenseIndex::Key Key(FileRange range) {
    return DenseIndex::Key{static_cast<std::uint32_t>(ToIndex(range.file) * kRanges + range.index)};
  }
  std::vector<std::uint32_t> files;
  std::vector<std::uint64_t> indexes;
  std::vector<std::uint32_t> first;
};

// Passes everything on to `Base` and remembers the first call that no window may make: a hit of what is not mapped, a
// range mapped twice in a slot, an unmapping under another key. CheckInvariants tells it.
template <class Base>
class Watched : public Base {
 public:
  using Index = typename Base::Index;
  using Key = typename Index::Key;

  Watched(const typename Base::Options& options, const typename Index::Space& space, std::uint32_t max_slots)
      : Base(options, space, max_slots), mapped_(max_slots), keys_(max_slots) {}

  void OnMap(SlotId slot, const Key& key, const Touch& touch) {
    Expect(!mapped_[ToIndex(slot)], "OnMap of a mapped slot", slot);
    mapped_[ToIndex(slot)] = true;
    keys_[ToIndex(slot)] = key;
    ++maps;
    Base::OnMap(slot, key, touch);
  }
  void OnHit(SlotId slot, const Touch& touch) {
    Expect(mapped_[ToIndex(slot)], "OnHit of an unmapped slot", slot);
    ++hits;
    Base::OnHit(slot, touch);
  }
  void OnMiss(const Key& key, const Touch& touch) {
    ++misses;
    Base::OnMiss(key, touch);
  }
  void OnUnmap(SlotId slot, const Key& key, Unmap why) {
    Expect(mapped_[ToIndex(slot)], "OnUnmap of an unmapped slot", slot);
    Expect(keys_[ToIndex(slot)] == key, "OnUnmap under another key", slot);
    mapped_[ToIndex(slot)] = false;
    (why == Unmap::kGone ? gone : reclaimed) += 1;
    Base::OnUnmap(slot, key, why);
  }
  void OnResize(std::uint32_t slots) {
    size = slots;
    Base::OnResize(slots);
  }
  [[nodiscard]] absl::Status CheckInvariants() const {
    return fault_.empty() ? Base::CheckInvariants() : absl::InternalError(fault_);
  }

  int maps = 0;
  int hits = 0;
  int misses = 0;
  int reclaimed = 0;
  int gone = 0;
  std::uint32_t size = 0;

 private:
  void Expect(bool holds, const char* what, SlotId slot) {
    if (!holds && fault_.empty()) fault_ = absl::StrCat(what, ": ", ToIndex(slot));
  }
  std::vector<bool> mapped_;
  std::vector<Key> keys_;
  std::string fault_;
};

}  // namespace daxcache::testing_
