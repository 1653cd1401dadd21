// Mappings that fit no slot: odd lengths and offsets, from guests other than Linux, and what is left of a range of
// which a part was replaced. An ordered map by window offset, of extents that do not overlap.
//
//   ExtentMap extents(/*merges=*/true);
//   extents.Insert({4096, 8192}, {.file = file, .file_offset = 0});
//   extents.Carve({8192, 4096});                 // what is left of the other is {4096, 4096}
//
// Cost: O(log n) a call, n the extents held, and O(n) more for a change, because a copy for signal handlers is written:
// `EndFor` looks in it without a lock. Writers hold the allocator's mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "daxcache/ids.h"
#include "daxcache/mapping_backend.h"

namespace daxcache {
inline namespace v0 {

struct ExtentRecord {
  std::uint64_t length = 0;
  FileId file = kNoFile;
  std::uint64_t file_offset = 0;
  bool writable = false;
  bool kept = false;  // the guest has given it back, but the host has it still
};

class ExtentMap {
 public:
  using Map = std::map<std::uint64_t, ExtentRecord>;

  // `merges`: neighbours of one file that continue each other become one.
  explicit ExtentMap(bool merges) : merges_(merges) {}

  bool empty() const { return extents_.empty(); }
  std::size_t size() const { return extents_.size(); }
  const Map& all() const { return extents_; }

  // The first that ends behind `offset`.
  Map::const_iterator At(std::uint64_t offset) const {
    auto at = extents_.upper_bound(offset);
    if (at != extents_.begin() && std::prev(at)->first + std::prev(at)->second.length > offset) --at;
    return at;
  }
  bool Overlaps(const Extent& extent) const {
    if (extents_.empty()) return false;
    const auto at = At(extent.offset);
    return at != extents_.end() && at->first < extent.offset + extent.length;
  }
  // An extent that lies across one of the edges.
  bool Straddles(const Extent& extent) const {
    const std::uint64_t end = extent.offset + extent.length;
    for (const std::uint64_t edge : {extent.offset, end}) {
      const auto at = At(edge);
      if (at != extents_.end() && at->first < edge) return true;
    }
    return false;
  }
  // Calls fn(extent, record) for the part of each that lies inside.
  template <class Fn>
  void ForEachIn(const Extent& extent, const Fn& fn) const {
    const std::uint64_t end = extent.offset + extent.length;
    for (auto at = At(extent.offset); at != extents_.end() && at->first < end; ++at) {
      const std::uint64_t from = std::max(at->first, extent.offset);
      const std::uint64_t to = std::min(at->first + at->second.length, end);
      ExtentRecord part = at->second;
      part.file_offset += from - at->first;
      part.length = to - from;
      fn(Extent{from, to - from}, part);
    }
  }

  // Takes away what lies inside; what lies outside stays.
  void Carve(const Extent& extent) {
    const std::uint64_t end = extent.offset + extent.length;
    auto at = extents_.lower_bound(extent.offset);
    if (at != extents_.begin()) {
      const auto before = std::prev(at);
      const std::uint64_t before_end = before->first + before->second.length;
      if (before_end > extent.offset) {
        if (before_end > end) PutPart(*before, end);
        before->second.length = extent.offset - before->first;
      }
    }
    while (at != extents_.end() && at->first < end) {
      if (at->first + at->second.length > end) PutPart(*at, end);
      at = extents_.erase(at);
    }
  }
  // Nothing is there.
  void Insert(const Extent& extent, ExtentRecord record) {
    record.length = extent.length;
    auto at = extents_.emplace(extent.offset, record).first;
    if (!merges_) return;
    if (at != extents_.begin() && Continues(*std::prev(at), *at)) {
      std::prev(at)->second.length += at->second.length;
      at = std::prev(extents_.erase(at));
    }
    if (const auto next = std::next(at); next != extents_.end() && Continues(*at, *next)) {
      at->second.length += next->second.length;
      extents_.erase(next);
    }
  }

  // Writes the copy, after changes.
  void Publish() {
    const std::uint64_t change = changes_.load(std::memory_order_relaxed);
    changes_.store(change + 1, std::memory_order_seq_cst);
    if (copies_.empty() || copies_.back()->capacity < extents_.size()) {
      // A handler may still look at the old copy, so it stays; together they are no larger than the last.
      copies_.push_back(std::make_unique<Copy>(std::max<std::size_t>(64, 2 * extents_.size())));
      copy_.store(copies_.back().get(), std::memory_order_seq_cst);
    }
    Copy& copy = *copies_.back();
    std::size_t i = 0;
    for (const auto& [offset, record] : extents_) {
      copy.begins[i].store(offset, std::memory_order_seq_cst);
      copy.ends[i++].store(offset + record.length, std::memory_order_seq_cst);
    }
    copy.size.store(i, std::memory_order_seq_cst);
    changes_.store(change + 2, std::memory_order_seq_cst);
  }
  // Where the extent that covers `offset` ends, as the copy has it; 0: none does, 1: it is just being written.
  // Async-signal-safe.
  std::uint64_t EndFor(std::uint64_t offset) const {
    const std::uint64_t change = changes_.load(std::memory_order_seq_cst);
    if (change & 1) return 1;
    const Copy* const copy = copy_.load(std::memory_order_seq_cst);
    std::uint64_t end = 0;
    if (copy != nullptr) {
      std::size_t low = 0;
      std::size_t high = std::min(copy->size.load(std::memory_order_seq_cst), copy->capacity);
      while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (copy->ends[middle].load(std::memory_order_seq_cst) <= offset) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      if (low < copy->size.load(std::memory_order_seq_cst) &&
          copy->begins[low].load(std::memory_order_seq_cst) <= offset) {
        end = copy->ends[low].load(std::memory_order_seq_cst);
      }
    }
    return changes_.load(std::memory_order_seq_cst) == change ? end : 1;
  }

 private:
  struct Copy {
    explicit Copy(std::size_t room)
        : capacity(room),
          begins(std::make_unique<std::atomic<std::uint64_t>[]>(room)),
          ends(std::make_unique<std::atomic<std::uint64_t>[]>(room)) {}
    std::size_t capacity;
    std::atomic<std::size_t> size{0};
    std::unique_ptr<std::atomic<std::uint64_t>[]> begins;
    std::unique_ptr<std::atomic<std::uint64_t>[]> ends;
  };

  static bool Continues(const Map::value_type& a, const Map::value_type& b) {
    return a.first + a.second.length == b.first && a.second.file == b.second.file &&
           a.second.writable == b.second.writable && a.second.kept == b.second.kept &&
           a.second.file_offset + a.second.length == b.second.file_offset;
  }
  // The part of an extent from `from` on, as one of its own.
  void PutPart(const Map::value_type& whole, std::uint64_t from) {
    ExtentRecord part = whole.second;
    part.file_offset += from - whole.first;
    part.length -= from - whole.first;
    extents_.emplace(from, part);
  }

  bool merges_;
  Map extents_;
  std::atomic<std::uint64_t> changes_{0};  // odd while the copy is being written
  std::atomic<Copy*> copy_{nullptr};
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace v0
}  // namespace daxcache
