// What the tests of policies share: a numbered space of ranges for either index, a window driven by demand, streams of
// touches, and their next uses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policies/any_policy.h"
#include "daxcache/policy.h"
#include "daxcache/range_index.h"
#include "daxcache/window.h"

namespace daxcache {

// Compiled once, in any_policy_test.cc: it has all policies in it.
extern template class AnyPolicy<DenseIndex>;
extern template class AnyPolicy<HashIndex>;

// Ranges 0 … n-1: `per_file` of each file in turn.
class Ranges {
 public:
  Ranges(std::uint32_t files, std::uint32_t per_file) {
    for (std::uint32_t file = 0; file < files; ++file) {
      first_.push_back(size());
      for (std::uint32_t i = 0; i < per_file; ++i) {
        files_.push_back(file);
        indexes_.push_back(i);
      }
    }
    first_.push_back(size());
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(files_.size()); }
  FileRange range(std::uint32_t number) const { return {FileId{files_[number]}, indexes_[number]}; }

  template <class Index>
  typename Index::Space Space() const {
    if constexpr (std::is_same_v<Index, DenseIndex>) {
      return {files_, indexes_, first_};
    } else {
      return {};
    }
  }
  template <class Index>
  typename Index::Key Key(std::uint32_t number) const {
    if constexpr (std::is_same_v<Index, DenseIndex>) {
      return DenseIndex::Key{number};
    } else {
      return range(number);
    }
  }
  template <class Index>
  std::uint32_t Number(const typename Index::Key& key) const {
    if constexpr (std::is_same_v<Index, DenseIndex>) {
      return static_cast<std::uint32_t>(key);
    } else {
      return first_[ToIndex(key.file)] + static_cast<std::uint32_t>(key.index);
    }
  }

 private:
  std::vector<std::uint32_t> files_;
  std::vector<std::uint64_t> indexes_;
  std::vector<std::uint32_t> first_;
};

// The same numbers everywhere.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  std::uint32_t Below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_()) % bound; }
  double Share() { return static_cast<double>(random_()) / 4294967296.0; }  // 0 … 1

 private:
  std::mt19937 random_;
};

using Stream = std::vector<std::uint32_t>;  // range numbers

// By position: that of the next touch of the same range.
inline std::vector<std::uint64_t> NextUses(const Stream& stream, std::uint32_t ranges) {
  std::vector<std::uint64_t> next(stream.size());
  std::vector<std::uint64_t> seen(ranges, kNeverUsed);
  for (std::size_t at = stream.size(); at-- > 0;) next[at] = std::exchange(seen[stream[at]], at);
  return next;
}

inline Stream UniformStream(std::uint32_t ranges, std::size_t size, std::uint32_t seed) {
  Dice dice(seed);
  Stream stream(size);
  for (std::uint32_t& number : stream) number = dice.Below(ranges);
  return stream;
}
inline Stream ZipfStream(std::uint32_t ranges, std::size_t size, double exponent, std::uint32_t seed) {
  std::vector<double> sums;
  double sum = 0;
  for (std::uint32_t i = 1; i <= ranges; ++i) sums.push_back(sum += std::pow(i, -exponent));
  Dice dice(seed);
  Stream stream(size);
  for (std::uint32_t& number : stream) {
    const double at = sum * dice.Share();
    number = static_cast<std::uint32_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
    number = number * 7919 % ranges;  // the often used ones stand in different files
  }
  return stream;
}
inline Stream LoopStream(std::uint32_t length, std::size_t size) {
  Stream stream(size);
  for (std::size_t at = 0; at < size; ++at) stream[at] = static_cast<std::uint32_t>(at % length);
  return stream;
}
// Zipf, with scans through all ranges in between: what separates policies that resist scans.
inline Stream MixedStream(std::uint32_t ranges, std::size_t size, std::uint32_t seed) {
  Stream stream = ZipfStream(ranges, size, 0.9, seed);
  for (std::size_t at = size / 5; at + ranges < size; at += size / 4) {
    for (std::uint32_t i = 0; i < ranges; ++i) stream[at + i] = i;
  }
  return stream;
}

struct NamedStream {
  std::string name;
  Stream stream;
};
inline std::vector<NamedStream> TestStreams(std::uint32_t ranges, std::size_t size) {
  return {{"uniform", UniformStream(ranges, size, 11)},
          {"zipf", ZipfStream(ranges, size, 1.0, 12)},
          {"steep zipf", ZipfStream(ranges, size, 1.6, 13)},
          {"loop", LoopStream(ranges / 3, size)},
          {"mixed", MixedStream(ranges, size, 14)}};
}

// A window that takes one victim when nothing is free, as textbook caches do.
template <Policy P>
class Demand {
 public:
  using Index = typename P::Index;

  Demand(const Ranges& ranges, std::uint32_t slots, const typename P::Options& options = {})
      : ranges_(ranges), window_(ranges.Space<Index>(), {.slots = slots, .max_slots = slots}, options) {}

  Touch TouchOf(std::uint32_t number, std::uint64_t next_use = kNeverUsed, std::int64_t time_ns = 0) const {
    return {.file = ranges_.range(number).file, .op = Op::kRead, .time_ns = time_ns, .next_use = next_use};
  }

  // True: a hit.
  bool Access(std::uint32_t number, std::uint64_t next_use = kNeverUsed, std::int64_t time_ns = 0) {
    const auto key = ranges_.Key<Index>(number);
    const Touch touch = TouchOf(number, next_use, time_ns);
    victim_ = kNone;
    if (window_.Lookup(key, touch).kind == LookupKind::kHit) return true;
    bypassed_ = !window_.Admit(key, touch);
    if (bypassed_) return false;
    SlotId slot = window_.Take();
    if (slot == kNoSlot) {
      slot = window_.BeginReclaim(Scope::Any(), key, touch);
      victim_ = ranges_.Number<Index>(window_.key(slot));
      if (!window_.CommitReclaimAndTake(slot)) std::abort();
    }
    if (!window_.Bind(slot, key, touch).must_map) std::abort();
    if (window_.Commit(slot, touch)) std::abort();
    return false;
  }

  // The range that the last access displaced, or kNone.
  static constexpr std::uint32_t kNone = 0xffffffffu;
  std::uint32_t victim() const { return victim_; }
  bool bypassed() const { return bypassed_; }
  bool Holds(std::uint32_t number) const { return window_.Find(ranges_.Key<Index>(number)) != kNoSlot; }

  Window<P>& window() { return window_; }
  const P& policy() const { return window_.policy(); }

 private:
  const Ranges& ranges_;
  Window<P> window_;
  std::uint32_t victim_ = kNone;
  bool bypassed_ = false;
};

// By position: whether the touch missed.
template <Policy P>
std::vector<bool> Misses(const Ranges& ranges, const Stream& stream, std::uint32_t slots,
                         const typename P::Options& options = {}) {
  const std::vector<std::uint64_t> next = NextUses(stream, ranges.size());
  Demand<P> demand(ranges, slots, options);
  std::vector<bool> misses;
  for (std::size_t at = 0; at < stream.size(); ++at) {
    misses.push_back(!demand.Access(stream[at], next[at], static_cast<std::int64_t>(at)));
  }
  return misses;
}

}  // namespace daxcache
