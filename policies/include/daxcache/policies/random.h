// Random replacement: any range that may be taken is as likely as any other. It keeps no order and learns nothing, so
// it is the yardstick for whether an order is worth its keeping; on loops a little longer than the window it beats LRU.
// The numbers come from a small generator of its own, so that a seed means the same everywhere.
//
// Time O(1) expected while most ranges may be taken, else O(slots); space 8 bytes a slot.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policies/options.h"
#include "daxcache/policy.h"

namespace daxcache {
inline namespace v0 {

struct RandomOptions {
  std::uint64_t seed = 1;

  static constexpr auto Fields() {
    return std::array{OptionField<RandomOptions>{"seed", "N", "of the random numbers (default 1)",
                                                 &SetNumber<&RandomOptions::seed, RandomOptions>}};
  }
  [[nodiscard]] absl::Status Validate() const { return absl::OkStatus(); }
};

template <class Index_>
class RandomPolicy {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  using Options = RandomOptions;
  static constexpr std::string_view kName = "random";
  static constexpr std::string_view kSummary = "any range, each as likely as the other";
  static constexpr Repeats kRepeats = Repeats::kNone;

  RandomPolicy(const Options& options, const typename Index::Space&, std::uint32_t max_slots)
      : state_(options.seed), mapped_(max_slots), places_(max_slots) {}

  void OnResize(std::uint32_t) {}
  void OnMap(SlotId slot, const Key&, const Touch&) {
    places_[ToIndex(slot)] = size_;
    mapped_[size_++] = slot;
  }
  void OnHit(SlotId, const Touch&) {}
  void OnMiss(const Key&, const Touch&) {}
  bool Admit(const Key&, const Touch&, std::uint32_t) { return true; }
  void OnUnmap(SlotId slot, const Key&, Unmap) {
    // The last one takes its place.
    const std::uint32_t place = places_[ToIndex(slot)];
    const SlotId last = mapped_[--size_];
    mapped_[place] = last;
    places_[ToIndex(last)] = place;
  }

  SlotId Victim(const Incoming<Key>*, const auto& candidates) {
    if (size_ == 0) return kNoSlot;
    for (int draw = 0; draw < kDraws; ++draw) {
      const SlotId slot = mapped_[Below(size_)];
      if (candidates(slot)) return slot;
    }
    // Few may be taken: look at all, and keep the n-th that may with probability 1/n, which makes all equally likely.
    SlotId chosen = kNoSlot;
    std::uint32_t seen = 0;
    for (std::uint32_t place = 0; place < size_; ++place) {
      if (candidates(mapped_[place]) && Below(++seen) == 0) chosen = mapped_[place];
    }
    return chosen;
  }

  [[nodiscard]] absl::Status CheckInvariants() const {
    if (size_ > mapped_.size())
      return absl::InternalError(absl::StrCat(size_, " of ", mapped_.size(), " slots mapped"));
    for (std::uint32_t place = 0; place < size_; ++place) {
      const std::uint32_t slot = ToIndex(mapped_[place]);
      if (slot >= places_.size() || places_[slot] != place) {
        return absl::InternalError(absl::StrCat("slot ", slot, " does not know its place ", place));
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int kDraws = 16;

  // SplitMix64: G. L. Steele, D. Lea, C. H. Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
  std::uint32_t Next() { return static_cast<std::uint32_t>(internal::Mix(state_ += 0x9e3779b97f4a7c15u) >> 32); }
  // Uniform below `bound`: the high word of a product, drawing anew where some values would come up once too often
  // (D. Lemire: "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019).
  std::uint32_t Below(std::uint32_t bound) {
    for (;;) {
      const std::uint64_t product = std::uint64_t{Next()} * bound;
      const auto low = static_cast<std::uint32_t>(product);
      if (low >= bound || low >= (0u - bound) % bound) return static_cast<std::uint32_t>(product >> 32);
    }
  }

  std::uint64_t state_;
  std::uint32_t size_ = 0;
  std::vector<SlotId> mapped_;         // the first size_ are the mapped slots, in any order
  std::vector<std::uint32_t> places_;  // by slot: where it stands there
};

}  // namespace v0
}  // namespace daxcache
