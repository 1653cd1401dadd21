// What a policy that knows the future would do: give up the range whose next use lies furthest ahead. No policy misses
// less, so these two are the bound the others are measured against. They read the next use from `Touch::next_use`,
// which a driver must compute beforehand for policies with `kNeedsNextUse`; a driver that cannot (one with a clock,
// where the order of accesses depends on what the window does) refuses them.
//
//   belady         always admits, as a DAX window must; the fewest misses of all that do.
//   belady-bypass  may also leave a range out, if nothing is free and the range is needed later than all that are in;
//                  the fewest misses of all.
//
// L. A. Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
// R. L. Mattson et al., ibid. 9(2), 1970 (proof). Time O(log slots), and O(refused) more where `candidates` refuses the
// first choices; space 16 bytes a slot.
#pragma once

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

// The mapped slots are a heap, the latest next use on top; of two that are never used again the lower slot.
template <class Index_>
class BeladyPolicy {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  using Options = NoOptions;
  static constexpr std::string_view kName = "belady";
  static constexpr std::string_view kSummary = "the fewest misses of all that always admit; knows the future";
  // The next use of the first touch of a run is its own repetition, which decides whether it may come in; that of the
  // second is the one that counts from then on.
  static constexpr Repeats kRepeats = Repeats::kOnce;
  static constexpr bool kNeedsNextUse = true;

  BeladyPolicy(const Options&, const typename Index::Space&, std::uint32_t max_slots)
      : heap_(max_slots), places_(max_slots), next_uses_(max_slots) {}

  void OnResize(std::uint32_t) {}
  void OnMap(SlotId slot, const Key&, const Touch& touch) {
    next_uses_[ToIndex(slot)] = touch.next_use;
    Put(size_++, slot);
    Up(size_ - 1);
  }
  void OnHit(SlotId slot, const Touch& touch) {
    const std::uint64_t before = next_uses_[ToIndex(slot)];
    next_uses_[ToIndex(slot)] = touch.next_use;
    // Only an access seen late (Window::Observe) can bring a next use nearer.
    touch.next_use >= before ? Up(places_[ToIndex(slot)]) : Down(places_[ToIndex(slot)]);
  }
  void OnMiss(const Key&, const Touch&) {}
  bool Admit(const Key&, const Touch&, std::uint32_t) { return true; }
  void OnUnmap(SlotId slot, const Key&, Unmap) {
    const std::uint32_t place = places_[ToIndex(slot)];
    const SlotId last = heap_[--size_];
    if (last == slot) return;
    Put(place, last);
    Up(place);
    Down(places_[ToIndex(last)]);
  }
  void Prefetch(SlotId slot) const { __builtin_prefetch(&places_[ToIndex(slot)]); }

  SlotId Victim(const Incoming<Key>*, const auto& candidates) {
    if (size_ == 0) return kNoSlot;
    if (candidates(heap_[0])) return heap_[0];
    // The first candidate in the heap's order: a walk in depth that turns back at a candidate (nothing below it comes
    // before it) and at what comes after the best found. The walk needs no stack, since parents are known by number.
    SlotId best = kNoSlot;
    for (std::uint32_t at = 0;;) {
      const SlotId slot = heap_[at];
      bool descend = best == kNoSlot || Before(slot, best);
      if (descend && candidates(slot)) {
        best = slot;
        descend = false;
      }
      if (descend && 2 * at + 1 < size_) {
        at = 2 * at + 1;
        continue;
      }
      // On to the right sibling of the nearest node that has one; up from there.
      while (at != 0 && (at % 2 == 0 || at + 1 >= size_)) at = (at - 1) / 2;
      if (at == 0) return best;
      ++at;
    }
  }

  [[nodiscard]] absl::Status CheckInvariants() const {
    if (size_ > heap_.size()) return absl::InternalError(absl::StrCat(size_, " of ", heap_.size(), " slots mapped"));
    for (std::uint32_t place = 0; place < size_; ++place) {
      const std::uint32_t slot = ToIndex(heap_[place]);
      if (slot >= places_.size() || places_[slot] != place) {
        return absl::InternalError(absl::StrCat("slot ", slot, " does not know its place ", place));
      }
      if (place > 0 && Before(heap_[place], heap_[(place - 1) / 2])) {
        return absl::InternalError(absl::StrCat("the heap is out of order at place ", place));
      }
    }
    return absl::OkStatus();
  }

 protected:
  // The latest next use of all that is mapped; 0 if nothing is.
  std::uint64_t Latest() const { return size_ == 0 ? 0 : next_uses_[ToIndex(heap_[0])]; }
  bool empty() const { return size_ == 0; }

 private:
  bool Before(SlotId a, SlotId b) const {
    const std::uint64_t use_a = next_uses_[ToIndex(a)];
    const std::uint64_t use_b = next_uses_[ToIndex(b)];
    return use_a != use_b ? use_a > use_b : a < b;
  }
  void Put(std::uint32_t place, SlotId slot) {
    heap_[place] = slot;
    places_[ToIndex(slot)] = place;
  }
  void Up(std::uint32_t place) {
    const SlotId slot = heap_[place];
    while (place > 0 && Before(slot, heap_[(place - 1) / 2])) {
      Put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    Put(place, slot);
  }
  void Down(std::uint32_t place) {
    const SlotId slot = heap_[place];
    for (;;) {
      std::uint32_t child = 2 * place + 1;
      if (child >= size_) break;
      if (child + 1 < size_ && Before(heap_[child + 1], heap_[child])) ++child;
      if (!Before(heap_[child], slot)) break;
      Put(place, heap_[child]);
      place = child;
    }
    Put(place, slot);
  }

  std::uint32_t size_ = 0;
  std::vector<SlotId> heap_;
  std::vector<std::uint32_t> places_;     // by slot: where it stands in the heap
  std::vector<std::uint64_t> next_uses_;  // by slot
};

template <class Index_>
class BeladyBypassPolicy : public BeladyPolicy<Index_> {
 public:
  using typename BeladyPolicy<Index_>::Key;
  static constexpr std::string_view kName = "belady-bypass";
  static constexpr std::string_view kSummary = "the fewest misses of all; knows the future, and may leave a range out";
  using BeladyPolicy<Index_>::BeladyPolicy;

  bool Admit(const Key&, const Touch& touch, std::uint32_t free_slots) {
    // Two next uses are equal only if both ranges are never used again: then coming in is not worth a mapping either.
    return free_slots > 0 || this->empty() || touch.next_use < this->Latest();
  }
};

}  // namespace v0
}  // namespace daxcache
