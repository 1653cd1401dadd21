// Each policy beside a cache that does the same in the plainest way: written from the paper or textbook as one whole
// cache over standard containers, knowing nothing of windows and slots. They must agree on every single touch, on
// streams of many kinds and windows of many sizes. And nothing that always admits may miss less than belady.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "policies/drive.h"

namespace daxcache {
namespace {

// Every reference: Hit(key, position) answers whether `key` was there, and leaves the cache as it is after that touch.

class NaiveFifo {
 public:
  explicit NaiveFifo(std::size_t size) : size_(size) {}
  bool Hit(std::uint32_t key, std::size_t) {
    if (std::find(queue_.begin(), queue_.end(), key) != queue_.end()) return true;
    if (queue_.size() == size_) queue_.pop_front();
    queue_.push_back(key);
    return false;
  }

 private:
  std::size_t size_;
  std::deque<std::uint32_t> queue_;
};

class NaiveLru {
 public:
  explicit NaiveLru(std::size_t size) : size_(size) {}
  bool Hit(std::uint32_t key, std::size_t) {
    const auto at = std::find(stack_.begin(), stack_.end(), key);
    const bool hit = at != stack_.end();
    if (hit) {
      stack_.erase(at);
    } else if (stack_.size() == size_) {
      stack_.pop_back();
    }
    stack_.push_front(key);
    return hit;
  }

 private:
  std::size_t size_;
  std::list<std::uint32_t> stack_;  // most recently used first
};

// Frames in a circle, each with a bit, and a hand.
class NaiveClock {
 public:
  explicit NaiveClock(std::size_t size) : size_(size) {}
  bool Hit(std::uint32_t key, std::size_t) {
    for (Frame& frame : frames_) {
      if (frame.key != key) continue;
      frame.used = true;
      return true;
    }
    if (frames_.size() < size_) {
      frames_.push_back({key, false});
      return false;
    }
    while (frames_[hand_].used) {
      frames_[hand_].used = false;
      hand_ = (hand_ + 1) % size_;
    }
    frames_[hand_] = {key, false};
    hand_ = (hand_ + 1) % size_;
    return false;
  }

 private:
  struct Frame {
    std::uint32_t key;
    bool used;
  };
  std::size_t size_;
  std::vector<Frame> frames_;
  std::size_t hand_ = 0;
};

// Figure 4 of the paper, in its order and with its names; lists have their MRU end in front.
class NaiveArc {
 public:
  explicit NaiveArc(std::size_t size) : c(static_cast<std::int64_t>(size)) {}
  bool Hit(std::uint32_t x, std::size_t) {
    if (Has(T1, x) || Has(T2, x)) {  // Case I
      Remove(T1, x);
      Remove(T2, x);
      T2.push_front(x);
      return true;
    }
    if (Has(B1, x)) {  // Case II
      const std::int64_t delta = Size(B1) >= Size(B2) ? 1 : Size(B2) / Size(B1);
      p = std::min(p + delta, c);
      Replace(x);
      Remove(B1, x);
      T2.push_front(x);
      return false;
    }
    if (Has(B2, x)) {  // Case III
      const std::int64_t delta = Size(B2) >= Size(B1) ? 1 : Size(B1) / Size(B2);
      p = std::max(p - delta, std::int64_t{0});
      Replace(x);
      Remove(B2, x);
      T2.push_front(x);
      return false;
    }
    if (Size(T1) + Size(B1) == c) {  // Case IV A
      if (Size(T1) < c) {
        B1.pop_back();
        Replace(x);
      } else {
        T1.pop_back();
      }
    } else if (Size(T1) + Size(T2) + Size(B1) + Size(B2) >= c) {  // Case IV B
      if (Size(T1) + Size(T2) + Size(B1) + Size(B2) == 2 * c) B2.pop_back();
      Replace(x);
    }
    T1.push_front(x);
    return false;
  }

  std::int64_t c;
  std::int64_t p = 0;
  std::list<std::uint32_t> T1, T2, B1, B2;

 private:
  static bool Has(const std::list<std::uint32_t>& list, std::uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }
  static void Remove(std::list<std::uint32_t>& list, std::uint32_t x) { list.remove(x); }
  static std::int64_t Size(const std::list<std::uint32_t>& list) { return static_cast<std::int64_t>(list.size()); }
  void Replace(std::uint32_t x) {
    if (Size(T1) + Size(T2) < c) return;  // not yet full: nothing to replace
    if (!T1.empty() && (Size(T1) > p || (Has(B2, x) && Size(T1) == p))) {
      B1.push_front(T1.back());
      T1.pop_back();
    } else {
      B2.push_front(T2.back());
      T2.pop_back();
    }
  }
};

// Looks through the whole future for every victim.
class NaiveBelady {
 public:
  NaiveBelady(std::size_t size, const Stream& stream, bool bypass) : size_(size), stream_(stream), bypass_(bypass) {}
  bool Hit(std::uint32_t key, std::size_t at) {
    if (cache_.contains(key)) return true;
    if (cache_.size() == size_) {
      std::uint32_t victim = *cache_.begin();
      for (const std::uint32_t held : cache_) {
        if (NextUse(held, at) > NextUse(victim, at)) victim = held;
      }
      if (bypass_ && NextUse(key, at) >= NextUse(victim, at)) return false;
      cache_.erase(victim);
    }
    cache_.insert(key);
    return false;
  }

 private:
  std::size_t NextUse(std::uint32_t key, std::size_t at) const {
    return static_cast<std::size_t>(
        std::find(stream_.begin() + static_cast<std::ptrdiff_t>(at) + 1, stream_.end(), key) - stream_.begin());
  }
  std::size_t size_;
  const Stream& stream_;
  bool bypass_;
  std::set<std::uint32_t> cache_;
};

constexpr std::uint32_t kFiles = 12;
constexpr std::uint32_t kPerFile = 10;
constexpr std::uint32_t kSizes[] = {1, 2, 3, 5, 10, 24, 39, 40, 41, 80, 119, 120};

template <class MakeNaive>
void ExpectSameMisses(const std::vector<bool>& misses, const Stream& stream, const MakeNaive& make) {
  auto naive = make();
  for (std::size_t at = 0; at < stream.size(); ++at) {
    ASSERT_EQ(!misses[at], naive.Hit(stream[at], at)) << "touch " << at << " of range " << stream[at];
  }
}

template <template <class> class P, class MakeNaive>
void ExpectSameEverywhere(std::size_t touches, const MakeNaive& make) {
  const Ranges ranges(kFiles, kPerFile);
  for (const NamedStream& named : TestStreams(ranges.size(), touches)) {
    for (const std::uint32_t size : kSizes) {
      SCOPED_TRACE(named.name + ", window of " + std::to_string(size));
      const auto naive = [&] { return make(size, named.stream); };
      const std::vector<bool> dense = Misses<P<DenseIndex>>(ranges, named.stream, size);
      ExpectSameMisses(dense, named.stream, naive);
      EXPECT_TRUE((dense == Misses<P<HashIndex>>(ranges, named.stream, size)));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Reference, Fifo) {
  ExpectSameEverywhere<FifoPolicy>(4000, [](std::uint32_t size, const Stream&) { return NaiveFifo(size); });
}
// By demand, Linux's order is first in, first out.
TEST(Reference, LinuxByDemand) {
  ExpectSameEverywhere<LinuxPolicy>(4000, [](std::uint32_t size, const Stream&) { return NaiveFifo(size); });
}
TEST(Reference, Lru) {
  ExpectSameEverywhere<LruPolicy>(4000, [](std::uint32_t size, const Stream&) { return NaiveLru(size); });
}
TEST(Reference, Clock) {
  ExpectSameEverywhere<ClockPolicy>(4000, [](std::uint32_t size, const Stream&) { return NaiveClock(size); });
}
TEST(Reference, Arc) {
  ExpectSameEverywhere<ArcPolicy>(4000, [](std::uint32_t size, const Stream&) { return NaiveArc(size); });
}
TEST(Reference, Belady) {
  ExpectSameEverywhere<BeladyPolicy>(
      1500, [](std::uint32_t size, const Stream& stream) { return NaiveBelady(size, stream, false); });
}
TEST(Reference, BeladyBypass) {
  ExpectSameEverywhere<BeladyBypassPolicy>(
      1500, [](std::uint32_t size, const Stream& stream) { return NaiveBelady(size, stream, true); });
}

// Not only the misses: the lists, ghosts included, and p, after every touch.
TEST(Reference, ArcListForList) {
  using P = ArcPolicy<DenseIndex>;
  const Ranges ranges(kFiles, kPerFile);
  for (const NamedStream& named : TestStreams(ranges.size(), 1500)) {
    for (const std::uint32_t size : {1u, 2u, 7u, 30u}) {
      Demand<P> demand(ranges, size);
      NaiveArc naive(size);
      for (std::size_t at = 0; at < named.stream.size(); ++at) {
        demand.Access(named.stream[at]);
        naive.Hit(named.stream[at], at);
        const auto slots = [&](P::List list) {
          std::list<std::uint32_t> keys;
          demand.policy().VisitSlots(
              list, [&](SlotId slot) { keys.push_front(static_cast<std::uint32_t>(demand.window().key(slot))); });
          return keys;
        };
        const auto ghosts = [&](P::List list) {
          std::list<std::uint32_t> keys;
          demand.policy().VisitGhosts(list,
                                      [&](DenseIndex::Key key) { keys.push_front(static_cast<std::uint32_t>(key)); });
          return keys;
        };
        ASSERT_EQ(slots(P::kT1), naive.T1) << named.name << " " << at;
        ASSERT_EQ(slots(P::kT2), naive.T2) << named.name << " " << at;
        ASSERT_EQ(ghosts(P::kB1), naive.B1) << named.name << " " << at;
        ASSERT_EQ(ghosts(P::kB2), naive.B2) << named.name << " " << at;
        ASSERT_EQ(demand.policy().target(), naive.p) << named.name << " " << at;
      }
    }
  }
}

// Linux's worker: a queue, and after each miss chunks of ten while too few are free; never the range just mapped.
TEST(Reference, LinuxWithItsWorker) {
  using P = LinuxPolicy<DenseIndex>;
  const Ranges ranges(kFiles, kPerFile);
  for (const NamedStream& named : TestStreams(ranges.size(), 4000)) {
    for (const std::uint32_t size : {2u, 5u, 24u, 50u, 110u}) {
      SCOPED_TRACE(named.name + ", window of " + std::to_string(size));
      const std::uint32_t threshold = std::max(1u, size / 5);
      Demand<P> demand(ranges, size);
      Window<P>& window = demand.window();
      std::deque<std::uint32_t> busy;  // the naive window
      for (std::size_t at = 0; at < named.stream.size(); ++at) {
        const std::uint32_t number = named.stream[at];
        const bool there = std::find(busy.begin(), busy.end(), number) != busy.end();
        ASSERT_EQ(demand.Access(number), there) << at;
        if (there) continue;
        busy.push_back(number);
        while (size - busy.size() < threshold && busy.size() > 1) {
          for (int i = 0; i < 10 && busy.size() > 1; ++i) busy.pop_front();
        }
        const SlotId mapped = window.Find(ranges.Key<DenseIndex>(number));
        window.Pin(mapped);
        for (SlotId slot{0}; window.free_slots() < threshold && slot != kNoSlot;) {
          for (int i = 0; i < 10 && slot != kNoSlot; ++i) {
            slot = window.BeginReclaim(Scope::Any());
            if (slot != kNoSlot) window.CommitReclaim(slot);
          }
        }
        ASSERT_FALSE(window.Unpin(mapped));
        ASSERT_EQ(window.mapped_slots(), busy.size());
      }
    }
  }
}

// The fewest misses that any cache could have, by trying everything. `bypass`: a range may be left out.
std::size_t FewestMisses(const Stream& stream, std::size_t size, bool bypass) {
  std::map<std::set<std::uint32_t>, std::size_t> states{{{}, 0}};  // what is held, at how many misses
  for (const std::uint32_t key : stream) {
    std::map<std::set<std::uint32_t>, std::size_t> after;
    const auto reach = [&after](const std::set<std::uint32_t>& state, std::size_t misses) {
      const auto [at, is_new] = after.emplace(state, misses);
      if (!is_new) at->second = std::min(at->second, misses);
    };
    for (const auto& [state, misses] : states) {
      if (state.contains(key)) {
        reach(state, misses);
        continue;
      }
      if (bypass) reach(state, misses + 1);
      std::set<std::uint32_t> with = state;
      with.insert(key);
      if (with.size() <= size) {
        reach(with, misses + 1);
        continue;
      }
      for (const std::uint32_t victim : state) {
        std::set<std::uint32_t> without = with;
        without.erase(victim);
        reach(without, misses + 1);
      }
    }
    states = std::move(after);
  }
  std::size_t fewest = stream.size();
  for (const auto& [state, misses] : states) fewest = std::min(fewest, misses);
  return fewest;
}

std::size_t Count(const std::vector<bool>& misses) {
  return static_cast<std::size_t>(std::count(misses.begin(), misses.end(), true));
}

TEST(Belady, HasTheFewestMissesThereCanBe) {
  const Ranges ranges(2, 4);
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const Stream stream = seed % 2 == 0 ? UniformStream(ranges.size(), 40, seed) : ZipfStream(8, 40, 1.0, seed);
    for (const std::uint32_t size : {1u, 2u, 3u, 5u}) {
      EXPECT_EQ(Count(Misses<BeladyPolicy<DenseIndex>>(ranges, stream, size)), FewestMisses(stream, size, false))
          << "seed " << seed << ", window of " << size;
      EXPECT_EQ(Count(Misses<BeladyBypassPolicy<DenseIndex>>(ranges, stream, size)), FewestMisses(stream, size, true))
          << "seed " << seed << ", window of " << size;
    }
  }
}

std::vector<bool> MissesOf(const std::string& spec, const Ranges& ranges, const Stream& stream, std::uint32_t slots) {
  return Misses<AnyPolicy<DenseIndex>>(ranges, stream, slots, {.spec = ParsePolicySpec(spec).value()});
}

// Touches that per-file does not admit count as misses here.
TEST(Belady, BoundsEveryPolicyThatAlwaysAdmits) {
  const Ranges ranges(kFiles, kPerFile);
  for (const NamedStream& named : TestStreams(ranges.size(), 4000)) {
    for (const std::uint32_t size : kSizes) {
      const std::size_t bound = Count(Misses<BeladyPolicy<DenseIndex>>(ranges, named.stream, size));
      const std::size_t bypass = Count(Misses<BeladyBypassPolicy<DenseIndex>>(ranges, named.stream, size));
      EXPECT_LE(bypass, bound);
      for (const std::string_view base : kBasePolicyNames) {
        const std::size_t misses = Count(MissesOf(std::string(base), ranges, named.stream, size));
        EXPECT_GE(misses, base == "belady-bypass" ? bypass : bound)
            << base << ", " << named.name << ", window of " << size;
        const std::string wrapped = "per-file:quota=2,base=" + std::string(base);
        EXPECT_GE(Count(MissesOf(wrapped, ranges, named.stream, size)), bypass)
            << wrapped << ", " << named.name << ", window of " << size;
      }
    }
  }
}

// Without rules, per-file is what it wraps.
TEST(PerFile, WithoutRulesIsItsBase) {
  const Ranges ranges(kFiles, kPerFile);
  for (const NamedStream& named : TestStreams(ranges.size(), 2000)) {
    for (const std::uint32_t size : {1u, 5u, 40u, 120u}) {
      for (const std::string_view base : kBasePolicyNames) {
        EXPECT_TRUE(MissesOf("per-file:base=" + std::string(base), ranges, named.stream, size) ==
                    MissesOf(std::string(base), ranges, named.stream, size))
            << base << ", " << named.name << ", window of " << size;
      }
    }
  }
}

}  // namespace
}  // namespace daxcache
