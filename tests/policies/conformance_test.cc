// What every policy must do, whatever its order: the victims it names may be taken, its lists stay whole through
// anything a window can go through, equal runs are equal, and it does not matter by which index ranges are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daxcache/policies/any_policy.h"
#include "daxcache/window.h"
#include "policies/drive.h"

namespace daxcache {
namespace {

// All of them. Behind AnyPolicy, so that the window and what is below is compiled once an index and not once a policy.
std::vector<std::string> AllPolicies() {
  std::vector<std::string> specs(kBasePolicyNames.begin(), kBasePolicyNames.end());
  for (const std::string_view base : kBasePolicyNames) specs.push_back("per-file:base=" + std::string(base));
  return specs;
}
std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class PolicyConformance : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Index>
  typename AnyPolicy<Index>::Options Options() const {
    return {.spec = ParsePolicySpec(GetParam()).value()};
  }
};
INSTANTIATE_TEST_SUITE_P(Builtin, PolicyConformance, ::testing::ValuesIn(AllPolicies()), TestName);

constexpr std::uint32_t kFiles = 5;
constexpr std::uint32_t kPerFile = 8;

// Not in the templates below: a macro of GoogleTest in each of their instances is most of what there is to compile.
void Expect(bool holds, const char* what, std::uint32_t number = 0) {
  EXPECT_TRUE(holds) << what << " (" << number << ")";
}
void ExpectWhole(const absl::Status& invariants, int step) {
  EXPECT_TRUE(invariants.ok()) << "step " << step << ": " << invariants;
}

// A window put through everything, step by step at random. `log` is what it did.
template <class Index>
class Ordeal {
 public:
  using P = AnyPolicy<Index>;

  Ordeal(const typename P::Options& options, std::uint32_t seed)
      : ranges_(kFiles, kPerFile),
        window_(ranges_.Space<Index>(), {.slots = 9, .max_slots = 14}, options),
        dice_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Step();
      ExpectWhole(window_.CheckInvariants(), i);
    }
  }
  const std::vector<std::uint32_t>& log() const { return log_; }
  std::uint32_t reclaims() const { return reclaims_; }

 private:
  std::uint32_t Below(std::uint32_t bound) { return dice_.Below(bound); }
  void Log(std::uint32_t what, SlotId slot) {
    log_.push_back(what);
    log_.push_back(ToIndex(slot));
  }

  void Step() {
    ++now_;
    const std::uint32_t dice = Below(100);
    if (dice < 55) {
      Access(Below(ranges_.size()));
    } else if (dice < 65) {
      Reclaim(Below(3) == 0 ? Scope::File(FileId{Below(kFiles)}) : Scope::Any(), nullptr);
    } else if (dice < 75) {
      FinishOne();
    } else if (dice < 82) {
      if (pinned_.empty()) return;
      const SlotId slot = TakeOne(pinned_);
      if (window_.Unpin(slot)) reclaiming_.push_back(slot);
    } else if (dice < 86) {
      const std::uint32_t first = Below(kPerFile);
      window_.Invalidate(FileId{Below(kFiles)}, first, first + Below(3), Reclaiming());
    } else if (dice < 87) {
      window_.Invalidate(FileId{Below(kFiles)}, Reclaiming());
    } else if (dice < 89) {
      const std::uint32_t more = Below(3);
      const bool fits = more <= window_.capacity() - window_.size();
      Expect(window_.Grow(more).ok() == fits, "grows if it has room, by", more);
    } else if (dice < 91) {
      Expect(window_.Shrink(Below(std::min(3u, window_.size())), Reclaiming()).ok(), "shrinks");
    } else if (dice < 94) {
      const std::uint32_t number = Below(ranges_.size());
      const SlotId slot{Below(window_.capacity())};
      if (window_.BindAt(slot, Key(number), TouchOf(number)).must_map) {
        Log(5, slot);
        mapping_.push_back({slot, TouchOf(number)});
      }
    } else {
      const SlotId slot{Below(window_.capacity())};
      if (window_.state(slot) == SlotState::kMapped && !window_.doomed(slot)) {
        window_.Observe(slot, TouchOf(ranges_.Number<Index>(window_.key(slot))));
      }
    }
  }

  auto Reclaiming() {
    return [this](SlotId slot) { reclaiming_.push_back(slot); };
  }
  typename Index::Key Key(std::uint32_t number) const { return ranges_.Key<Index>(number); }
  Touch TouchOf(std::uint32_t number) {
    return {.file = ranges_.range(number).file,
            .op = Below(4) == 0 ? Op::kWrite : Op::kRead,
            .time_ns = static_cast<std::int64_t>(now_),
            .next_use = Below(5) == 0 ? kNeverUsed : now_ + Below(200)};
  }
  template <class T>
  T TakeOne(std::vector<T>& from) {
    const std::size_t at = Below(static_cast<std::uint32_t>(from.size()));
    std::swap(from[at], from.back());
    const T one = from.back();
    from.pop_back();
    return one;
  }

  void Access(std::uint32_t number) {
    const Touch touch = TouchOf(number);
    const LookupResult found = window_.Lookup(Key(number), touch);
    switch (found.kind) {
      case LookupKind::kBusy: return;
      case LookupKind::kHit:
        Log(1, found.slot);
        if (Below(4) == 0) {
          window_.Pin(found.slot);
          pinned_.push_back(found.slot);
        }
        return;
      case LookupKind::kMustUpgrade:
        window_.BeginUpgrade(found.slot);
        mapping_.push_back({found.slot, touch});
        return;
      case LookupKind::kMiss: break;
    }
    if (!window_.Admit(Key(number), touch)) {
      Log(2, kNoSlot);
      return;
    }
    SlotId slot = window_.Take();
    if (slot == kNoSlot) {
      slot = Reclaim(Below(4) == 0 ? Scope::File(touch.file) : Scope::Any(), &number, &touch);
      if (slot == kNoSlot) return;
      reclaiming_.pop_back();  // it is ours, if it comes through
      if (Below(10) == 0) {
        if (!window_.AbortReclaim(slot)) reclaiming_.push_back(slot);
        return;
      }
      if (!window_.CommitReclaimAndTake(slot)) return;
    }
    if (!window_.Bind(slot, Key(number), touch).must_map) return;
    Log(3, slot);
    if (Below(3) == 0) {
      mapping_.push_back({slot, touch});
    } else if (window_.Commit(slot, touch)) {
      reclaiming_.push_back(slot);
    }
  }

  // Chooses, and checks that the choice may be taken, and that there is one if anything may be.
  SlotId Reclaim(Scope scope, const std::uint32_t* number, const Touch* touch = nullptr) {
    const SlotId slot = number == nullptr ? window_.PickVictim(scope) : window_.PickVictim(scope, Key(*number), *touch);
    Log(4, slot);
    if (slot == kNoSlot) {
      for (std::uint32_t i = 0; i < window_.capacity(); ++i) {
        const bool candidate =
            window_.CanReclaim(SlotId{i}) && (scope.file == kNoFile || window_.range(SlotId{i}).file == scope.file);
        Expect(!candidate, "a slot could have been taken", i);
      }
      return kNoSlot;
    }
    Expect(ToIndex(slot) < window_.capacity(), "a slot of the window", ToIndex(slot));
    Expect(window_.CanReclaim(slot), "a slot that may be taken", ToIndex(slot));
    Expect(scope.file == kNoFile || window_.range(slot).file == scope.file, "a slot in scope", ToIndex(slot));
    if (::testing::Test::HasFailure()) return kNoSlot;
    window_.BeginReclaim(slot);
    reclaiming_.push_back(slot);
    ++reclaims_;
    return slot;
  }

  // Something in flight lands, or fails.
  void FinishOne() {
    const bool fails = Below(4) == 0;
    if (!reclaiming_.empty() && (mapping_.empty() || Below(2) == 0)) {
      const SlotId slot = TakeOne(reclaiming_);
      if (fails && window_.AbortReclaim(slot)) return;
      window_.CommitReclaim(slot);
      return;
    }
    if (mapping_.empty()) return;
    const auto [slot, touch] = TakeOne(mapping_);
    if (fails ? window_.Abort(slot) : window_.Commit(slot, touch)) reclaiming_.push_back(slot);
  }

  const Ranges ranges_;
  Window<P> window_;
  Dice dice_;
  std::uint64_t now_ = 0;
  std::uint32_t reclaims_ = 0;
  std::vector<SlotId> pinned_;
  std::vector<SlotId> reclaiming_;
  std::vector<std::pair<SlotId, Touch>> mapping_;
  std::vector<std::uint32_t> log_;
};

TEST_P(PolicyConformance, NamesOnlyWhatMayBeTakenAndKeepsItsListsWhole) {
  std::uint32_t reclaims = 0;
  for (std::uint32_t seed = 1; seed <= 6 && !this->HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Ordeal<HashIndex> hash(Options<HashIndex>(), seed);
    hash.Run(2500);
    Ordeal<DenseIndex> dense(Options<DenseIndex>(), seed);
    dense.Run(2500);
    Ordeal<DenseIndex> again(Options<DenseIndex>(), seed);
    again.Run(2500);
    EXPECT_EQ(hash.log(), dense.log());
    EXPECT_EQ(dense.log(), again.log());
    reclaims += hash.reclaims();
  }
  EXPECT_GT(reclaims, 1000u);
}

// Every set of ranges pinned, in every scope.
template <class Index>
void RefuseEverySet(const typename AnyPolicy<Index>::Options& options) {
  constexpr std::uint32_t kSlots = 8;
  const Ranges ranges(2, kSlots / 2);
  Demand<AnyPolicy<Index>> demand(ranges, kSlots, options);
  for (std::uint32_t number = 0; number < kSlots; ++number) demand.Access(number, 100 - number);
  for (const std::uint32_t number : {0u, 5u, 6u}) demand.Access(number, 100 + number);
  Window<AnyPolicy<Index>>& window = demand.window();
  Expect(window.mapped_slots() == kSlots, "all are mapped");
  for (std::uint32_t set = 0; set < (1u << kSlots); ++set) {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      if (set >> i & 1) window.Pin(SlotId{i});
    }
    for (const Scope scope : {Scope::Any(), Scope::File(FileId{0}), Scope::File(FileId{1})}) {
      std::set<SlotId> allowed;
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        if (!(set >> i & 1) && (scope.file == kNoFile || window.range(SlotId{i}).file == scope.file)) {
          allowed.insert(SlotId{i});
        }
      }
      // In the background, and for a range that is not there.
      for (const SlotId slot :
           {window.PickVictim(scope), window.PickVictim(scope, ranges.Key<Index>(0), demand.TouchOf(0))}) {
        Expect((slot != kNoSlot) == !allowed.empty(), "a victim if there may be one, of set", set);
        Expect(slot == kNoSlot || allowed.contains(slot), "a victim that may be taken, of set", set);
      }
    }
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      if (set >> i & 1) Expect(!window.Unpin(SlotId{i}), "nothing is doomed");
    }
  }
  ExpectWhole(window.CheckInvariants(), -1);
}

TEST_P(PolicyConformance, FindsAVictimUnlessAllAreRefused) {
  RefuseEverySet<HashIndex>(Options<HashIndex>());
  RefuseEverySet<DenseIndex>(Options<DenseIndex>());
}

// Reclaiming everything, with nothing committed in between, names every slot once.
template <class Index>
void ReclaimAll(const typename AnyPolicy<Index>::Options& options) {
  constexpr std::uint32_t kSlots = 50;
  const Ranges ranges(10, 10);
  Demand<AnyPolicy<Index>> demand(ranges, kSlots, options);
  for (std::uint32_t i = 0; i < 500; ++i) demand.Access(i * 37 % 83, 1000 + i * 7 % 100);
  Window<AnyPolicy<Index>>& window = demand.window();
  Expect(window.free_slots() == 0, "nothing is free");
  std::set<SlotId> taken;
  while (taken.size() < kSlots) {
    const SlotId slot = window.BeginReclaim(Scope::Any());
    Expect(slot != kNoSlot, "a victim");
    if (slot == kNoSlot) return;
    Expect(taken.insert(slot).second, "no slot twice", ToIndex(slot));
  }
  Expect(window.BeginReclaim(Scope::Any()) == kNoSlot, "all are taken");
  for (const SlotId slot : taken) window.CommitReclaim(slot);
  Expect(window.free_slots() == kSlots, "all are free");
  ExpectWhole(window.CheckInvariants(), -1);
}

TEST_P(PolicyConformance, NamesNoSlotTwice) {
  ReclaimAll<HashIndex>(Options<HashIndex>());
  ReclaimAll<DenseIndex>(Options<DenseIndex>());
}

template <class Index>
void OneSlot(const typename AnyPolicy<Index>::Options& options) {
  const Ranges ranges(3, 3);
  Demand<AnyPolicy<Index>> demand(ranges, 1, options);
  for (std::uint32_t i = 0; i < 200; ++i) {
    demand.Access(i * 5 % 9, i + 1);
    ExpectWhole(demand.window().CheckInvariants(), static_cast<int>(i));
  }
  Expect(demand.window().PickVictim(Scope::File(FileId{7})) == kNoSlot, "no victim of a file that has none");
}

TEST_P(PolicyConformance, ManagesAWindowOfOneRange) {
  OneSlot<HashIndex>(Options<HashIndex>());
  OneSlot<DenseIndex>(Options<DenseIndex>());
}

// A policy that asks for less than every repeated hit must not miss what it does not see: folding a run of touches of
// one range as it allows changes no victim.
std::vector<std::uint32_t> Victims(const AnyPolicy<DenseIndex>::Options& options, const Ranges& ranges,
                                   const Stream& stream, bool fold) {
  const std::vector<std::uint64_t> next = NextUses(stream, ranges.size());
  Demand<AnyPolicy<DenseIndex>> demand(ranges, 7, options);
  const Repeats repeats = demand.policy().repeats();
  std::vector<std::uint32_t> victims;
  for (std::size_t at = 0; at < stream.size(); ++at) {
    std::size_t run = 1;
    while (at + run < stream.size() && stream[at + run] == stream[at]) ++run;
    if (!fold || repeats == Repeats::kEach || run == 1) {
      demand.Access(stream[at], next[at]);
      if (demand.victim() != demand.kNone) victims.push_back(demand.victim());
      continue;
    }
    demand.Access(stream[at], at);
    if (demand.victim() != demand.kNone) victims.push_back(demand.victim());
    at += run - 1;
    if (repeats == Repeats::kOnce) {
      Expect(demand.Access(stream[at], next[at]), "a hit", static_cast<std::uint32_t>(at));
    }
  }
  return victims;
}

TEST_P(PolicyConformance, SeesOfRepeatedHitsWhatItNeeds) {
  const Ranges ranges(10, 4);
  Stream stream = ZipfStream(ranges.size(), 4000, 1.2, 5);
  Dice dice(6);
  for (std::size_t at = 1; at < stream.size(); ++at) {
    if (dice.Below(3) == 0) stream[at] = stream[at - 1];
  }
  const auto options = Options<DenseIndex>();
  EXPECT_EQ(Victims(options, ranges, stream, true), Victims(options, ranges, stream, false));
}

// Options by default are valid, and their names are unlike each other.
TEST_P(PolicyConformance, HasValidOptions) {
  EXPECT_TRUE(Options<DenseIndex>().Validate().ok());
  EXPECT_TRUE(Options<HashIndex>().Validate().ok());
  for (const PolicyInfo& info : BuiltinPolicyInfos()) {
    std::set<std::string_view> names;
    for (const PolicyInfo::Option& option : info.options) {
      EXPECT_TRUE(names.insert(option.name).second) << option.name;
      EXPECT_FALSE(option.value.empty());
      EXPECT_FALSE(option.help.empty());
    }
  }
}

}  // namespace
}  // namespace daxcache
