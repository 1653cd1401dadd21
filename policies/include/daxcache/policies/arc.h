// ARC, the adaptive replacement cache: keeps what was used once and what was used again apart, remembers what it gave
// up of either, and learns from misses on those memories how much room each deserves. Holds against scans that flush
// LRU, and has nothing to tune.
//
// N. Megiddo, D. S. Modha: "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4.
// Time O(1), but that Victim walks past ranges that are pinned or of other files. Space 9 bytes a slot and at most two
// ghosts a slot: of 29 bytes each with HashIndex, of 13 with DenseIndex and 4 a range of the trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policies/options.h"
#include "daxcache/policies/slot_list.h"
#include "daxcache/policy.h"

namespace daxcache {
inline namespace v0 {

// Glossary, with the names of the paper:
//
//   c   the window's size in ranges
//   T1  mapped, used once since it came in (or since it was forgotten)     L1 = T1 + B1
//   T2  mapped, used at least twice                                        L2 = T2 + B2
//   B1  ghosts of T1: keys of ranges that were given up from it            |T1| + |T2| <= c
//   B2  ghosts of T2                                                       |L1| <= c, |L1| + |L2| <= 2c
//   p   the size that T1 should have, 0 … c: a hit in B1 raises it, a hit in B2 lowers it
//
// Each list is in order of use; its LRU end stands first.
//
// The paper handles a miss in one go; here it comes in phases (OnMiss, Victim, OnUnmap, OnMap), between which other
// misses may run, and which may be left out: Victim where a slot was free, OnUnmap and OnMap where a mapping failed. So
// nothing is carried from one phase to the next but the lists: a ghost stays a ghost until its range is mapped, and
// what figure 4 deletes *before* the range comes in is trimmed *after*, in OnMap. For a single miss on a full window
// that gives the same lists:
//
//   Case II, III  the ghost's range moves from B1 or B2 to T2 and one of T moves to B, so |L1| and the total do not
//                 grow. Nothing to trim.
//   Case IV A     |L1| = c. If |T1| < c, B1 is not empty; REPLACE may add to its MRU end, the new range makes |L1| =
//                 c + 1, and trimming drops its LRU end: the one the paper drops. If |T1| = c, T2 and B1 are empty, and
//                 the paper drops the LRU of T1 without a ghost; here REPLACE makes it the only ghost of B1, and
//                 trimming drops that.
//   Case IV B     |L1| < c. If the total is 2c, |L2| > c >= |T2|, so B2 is not empty; REPLACE may add to its MRU end,
//   the
//                 new range makes the total 2c + 1, and trimming drops its LRU end: again the paper's.
template <class Index_>
class ArcPolicy {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  using Options = NoOptions;
  static constexpr std::string_view kName = "arc";
  static constexpr std::string_view kSummary = "adaptive: balances used once against used again by what it regrets";
  // The first hit moves a range to the MRU end of T2, where further hits leave it.
  static constexpr Repeats kRepeats = Repeats::kOnce;

  enum List : std::uint8_t { kT1, kT2, kB1 = 0, kB2 = 1 };

  ArcPolicy(const Options&, const typename Index::Space& space, std::uint32_t max_slots)
      : slots_(max_slots, 2),
        slot_lists_(max_slots),
        ghosts_(2 * max_slots, 3),
        ghost_lists_(2 * max_slots),
        ghost_keys_(space, 2 * max_slots) {
    for (std::uint32_t ghost = 0; ghost < 2 * max_slots; ++ghost) ghosts_.PushBack(SlotId{ghost}, kUnused);
  }

  void OnResize(std::uint32_t slots) {
    c_ = slots;
    p_ = std::min(p_, c_);
    Trim();
  }

  // Case I: x is in T1 or T2.
  void OnHit(SlotId slot, const Touch&) {
    std::uint8_t& list = slot_lists_[ToIndex(slot)];
    if (list == kT1) {
      --t_[kT1];
      ++t_[kT2];
      list = kT2;
    }
    slots_.MoveToBack(slot, kT2);
  }
  void Prefetch(SlotId slot) const {
    slots_.Prefetch(slot);
    __builtin_prefetch(&slot_lists_[ToIndex(slot)]);
  }

  // p is a whole number, and the quotient of the list sizes is rounded down, but is at least 1.
  void OnMiss(const Key& key, const Touch&) {
    const std::uint32_t ghost = ghost_keys_.Find(key);
    if (ghost == kNoEntry) return;  // Case IV: p stays
    if (ghost_lists_[ghost] == kB1) {
      // Case II: x is in B1. Had T1 been larger, this would have been a hit.
      const std::uint32_t delta = std::max(b_[kB2] / b_[kB1], 1u);
      p_ = delta < c_ - p_ ? p_ + delta : c_;
    } else {
      // Case III: x is in B2.
      const std::uint32_t delta = std::max(b_[kB1] / b_[kB2], 1u);
      p_ = delta < p_ ? p_ - delta : 0;
    }
  }

  bool Admit(const Key&, const Touch&, std::uint32_t) { return true; }

  // REPLACE(x, p). Background reclaim has no x: as for one in neither ghost list. Where the list that should give one
  // has none to give, the other does.
  SlotId Victim(const Incoming<Key>* incoming, const auto& candidates) {
    bool from_t1 = t_[kT1] > p_;
    if (t_[kT1] == p_ && incoming != nullptr) {
      const std::uint32_t ghost = ghost_keys_.Find(incoming->key);
      from_t1 = ghost != kNoEntry && ghost_lists_[ghost] == kB2;
    }
    const SlotId slot = FirstOf(from_t1 ? kT1 : kT2, candidates);
    return slot != kNoSlot ? slot : FirstOf(from_t1 ? kT2 : kT1, candidates);
  }

  // What REPLACE took becomes the MRU of the ghosts of its list; what went away with its file is not remembered.
  void OnUnmap(SlotId slot, const Key& key, Unmap why) {
    const std::uint8_t list = slot_lists_[ToIndex(slot)];
    slots_.Erase(slot);
    --t_[list];
    if (why != Unmap::kReclaimed) return;
    // A guest that binds one key at two slots can give it up twice.
    if (const std::uint32_t ghost = ghost_keys_.Find(key); ghost != kNoEntry) DropGhost(SlotId{ghost});
    const SlotId ghost = ghosts_.Front(kUnused);
    ghosts_.MoveToBack(ghost, list);
    ghost_lists_[ToIndex(ghost)] = list;
    ghost_keys_.Insert(key, ToIndex(ghost));
    ++b_[list];
    Trim();  // nothing, but while the window is being shrunk: L1 and the total are what they were
  }

  // The end of each case: x comes in, at the MRU end of T2 if it was a ghost (Cases II and III), else of T1 (Case IV).
  void OnMap(SlotId slot, const Key& key, const Touch&) {
    List list = kT1;
    if (const std::uint32_t ghost = ghost_keys_.Find(key); ghost != kNoEntry) {
      DropGhost(SlotId{ghost});
      list = kT2;
    }
    slots_.PushBack(slot, list);
    slot_lists_[ToIndex(slot)] = list;
    ++t_[list];
    Trim();
  }

  [[nodiscard]] absl::Status CheckInvariants() const;

  // For tests and the curious.
  std::uint32_t target() const { return p_; }
  // Calls `see(slot)` for those of T1 or T2, or `see(key)` for the ghosts of B1 or B2, from LRU to MRU.
  template <class See>
  void VisitSlots(List list, const See& see) const {
    for (SlotId slot = slots_.Front(list); slot != kNoSlot; slot = slots_.Next(slot)) see(slot);
  }
  template <class See>
  void VisitGhosts(List list, const See& see) const {
    for (SlotId ghost = ghosts_.Front(list); ghost != kNoSlot; ghost = ghosts_.Next(ghost)) {
      see(ghost_keys_.KeyOf(ToIndex(ghost)));
    }
  }

 private:
  static constexpr std::uint32_t kUnused = 2;  // the list of ghost entries that hold nothing

  SlotId FirstOf(List list, const auto& candidates) const {
    SlotId slot = slots_.Front(list);
    while (slot != kNoSlot && !candidates(slot)) slot = slots_.Next(slot);
    return slot;
  }
  void DropGhost(SlotId ghost) {
    --b_[ghost_lists_[ToIndex(ghost)]];
    ghost_keys_.Erase(ToIndex(ghost));
    ghosts_.MoveToBack(ghost, kUnused);
  }
  // Case IV A's and IV B's deletions. After a shrink, while pinned slots are still mapped, T can be more than c; then
  // the ghosts go first. So there are never more than 2c of them, since OnUnmap leaves the total as it is.
  void Trim() {
    while (t_[kT1] + b_[kB1] > c_ && b_[kB1] > 0) DropGhost(ghosts_.Front(kB1));
    while (t_[kT1] + t_[kT2] + b_[kB1] + b_[kB2] > 2 * c_ && b_[kB1] + b_[kB2] > 0) {
      DropGhost(ghosts_.Front(b_[kB2] > 0 ? kB2 : kB1));
    }
  }

  std::uint32_t c_ = 0;
  std::uint32_t p_ = 0;
  std::uint32_t t_[2] = {};  // |T1|, |T2|
  std::uint32_t b_[2] = {};  // |B1|, |B2|
  SlotLists slots_;          // T1, T2
  std::vector<std::uint8_t> slot_lists_;
  SlotLists ghosts_;  // B1, B2, and the unused entries
  std::vector<std::uint8_t> ghost_lists_;
  typename Index::Table ghost_keys_;
};

template <class Index_>
absl::Status ArcPolicy<Index_>::CheckInvariants() const {
  for (const List list : {kT1, kT2}) {
    absl::Status status =
        slots_.CheckList(list, t_[list], [&](SlotId slot) { return slot_lists_[ToIndex(slot)] == list; });
    if (!status.ok()) return status;
    status = ghosts_.CheckList(list, b_[list], [&](SlotId ghost) {
      return ghost_lists_[ToIndex(ghost)] == list &&
             ghost_keys_.Find(ghost_keys_.KeyOf(ToIndex(ghost))) == ToIndex(ghost);
    });
    if (!status.ok()) return status;
  }
  const auto entries = static_cast<std::uint32_t>(ghost_lists_.size());
  if (absl::Status status = ghosts_.CheckList(kUnused, entries - b_[kB1] - b_[kB2], [](SlotId) { return true; });
      !status.ok()) {
    return status;
  }
  const std::uint32_t mapped = t_[kT1] + t_[kT2];
  if (p_ > c_ || (b_[kB1] > 0 && t_[kT1] + b_[kB1] > c_) ||
      (b_[kB1] + b_[kB2] > 0 && mapped + b_[kB1] + b_[kB2] > 2 * c_)) {
    return absl::InternalError(absl::StrCat("c ", c_, ", p ", p_, ", T1 ", t_[kT1], ", T2 ", t_[kT2], ", B1 ", b_[kB1],
                                            ", B2 ", b_[kB2], ": a list is too long"));
  }
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
