// The DAX window as a pure state machine: which file range sits in which slot, what is pinned, dirty, writable, free or
// in flight. It makes no system call, reads no clock, takes no lock and allocates nothing after construction. A mapping
// takes time and can fail, so the window answers in phases; whoever drives it (replay, the timed engine, the production
// allocator) does the work between them.
//
//   Lookup ── Hit ───────────────────────────────► use (Pin … Unpin)
//     │ ├──── MustUpgrade ► BeginUpgrade ► (map again, writable) ► Commit | Abort
//     │ └──── Busy: in flight; ask again when it has landed
//     └ Miss ► Admit ► Take ► Bind ► (map) ► Commit | Abort
//                       └ none free: BeginReclaim ► (remove) ► CommitReclaim | AbortReclaim
//
//   Window<LruPolicy<HashIndex>> window({}, {.slots = 2048, .max_slots = 2048}, {});
//   if (window.Lookup(key, touch).kind == LookupKind::kMiss && window.Admit(key, touch)) {
//     SlotId slot = window.Take();
//     if (slot == kNoSlot) {
//       slot = window.BeginReclaim(Scope::Any(), key, touch);
//       …unmap what it holds…
//       if (!window.CommitReclaimAndTake(slot)) …the window shrank below it: begin again…
//     }
//     if (window.Bind(slot, key, touch).must_map) {
//       …mmap…
//       if (window.Commit(slot, touch)) …its file went away meanwhile: unmap, and CommitReclaim…
//     }
//   }
//
// Calls out of order (Commit of a free slot, say) are faults of the caller and are caught by assertions in debug
// builds; nothing that a guest or a trace says can lead to them.
//
// Cost: every call O(1) beside the policy's and index's own, but for Shrink (O(slots)), Invalidate (O(ranges found))
// and reclaim within one file (the policy's). Memory: 16 bytes a slot here, 36 in HashIndex.
#pragma once

#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/policy.h"
#include "daxcache/range.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

enum class LookupKind : std::uint8_t {
  kHit,          // mapped, and writable if the access writes
  kMustUpgrade,  // mapped read-only, and the access writes
  kBusy,         // a set-up, upgrade or reclaim of it is in flight
  kMiss,
};

enum class SlotState : std::uint8_t {
  kFree,     // on the free list
  kTaken,    // off the free list, holding nothing yet
  kMapping,  // bound; its first set-up is in flight
  kMapped,
  kUpgrading,   // mapped read-only; a writable set-up is in flight
  kReclaiming,  // being taken back: still findable (Busy), unless its file went away
  kRetired,     // beyond the window's present size
};

struct LookupResult {
  LookupKind kind = LookupKind::kMiss;
  SlotId slot = kNoSlot;
  SlotState state = SlotState::kFree;  // kBusy: why
};

// Which ranges a reclaim may choose from.
struct Scope {
  FileId file = kNoFile;  // kNoFile: any
  static Scope Any() { return {}; }
  static Scope File(FileId file) { return {file}; }
};

struct WindowOptions {
  std::uint32_t slots = 0;      // usable at first
  std::uint32_t max_slots = 0;  // 0: as many as `slots`; Grow moves within it

  [[nodiscard]] absl::Status Validate() const {
    if (slots == 0) return absl::InvalidArgumentError("expected a window of at least one range, got 0");
    if (slots > kMaxSlots || max_slots > kMaxSlots) {
      return absl::InvalidArgumentError(absl::StrCat("expected a window of at most ", kMaxSlots, " ranges, got ",
                                                     slots > max_slots ? slots : max_slots));
    }
    if (max_slots != 0 && max_slots < slots) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected at most ", max_slots, " ranges (the capacity), got ", slots));
    }
    return absl::OkStatus();
  }
};

template <Policy P>
class Window {
 public:
  using PolicyType = P;
  using Index = typename P::Index;
  using Key = typename Index::Key;
  using Space = typename Index::Space;

  // The options are valid (`Validate` said so); `policy` likewise.
  Window(const Space& space, const WindowOptions& options, const typename P::Options& policy)
      : index_(space, Capacity(options)),
        policy_(policy, space, Capacity(options)),
        slots_(Capacity(options)),
        size_(options.slots) {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      slots_[i].state = SlotState::kRetired;
      if (i < size_) PushFree(SlotId{i});
    }
    policy_.OnResize(size_);
  }

  // Slots in use or free: the window's size in ranges.
  std::uint32_t size() const { return size_; }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t free_slots() const { return free_; }
  // Slots that hold a range and are not on their way in or out.
  std::uint32_t mapped_slots() const { return mapped_; }

  SlotState state(SlotId slot) const { return at(slot).state; }
  std::uint32_t pins(SlotId slot) const { return at(slot).pins; }
  bool writable(SlotId slot) const { return at(slot).flags & kWritable; }
  bool dirty(SlotId slot) const { return at(slot).flags & kDirty; }
  bool doomed(SlotId slot) const { return at(slot).flags & kDoomed; }
  // Why a slot is doomed: the window became smaller; the host lost the mapping. Neither: its file or its bytes went
  // away.
  bool shrunk(SlotId slot) const { return at(slot).flags & kShrunk; }
  bool lost(SlotId slot) const { return at(slot).flags & kLost; }
  // What a slot holds, or, when it holds nothing, what it held last.
  Key key(SlotId slot) const { return index_.KeyOf(slot); }
  FileRange range(SlotId slot) const { return index_.RangeOf(index_.KeyOf(slot)); }
  const Index& index() const { return index_; }
  const P& policy() const { return policy_; }
  P& policy() { return policy_; }

  // --- finding ------------------------------------------------------------------------------------------------------

  // A hit is told to the policy, and a write makes its range dirty; the other answers change nothing.
  LookupResult Lookup(const Key& key, const Touch& touch) {
    const SlotId slot = index_.Find(key);
    if (slot == kNoSlot) return {};
    Slot& s = at(slot);
    if (s.state != SlotState::kMapped) [[unlikely]] {
      return {.kind = LookupKind::kBusy, .slot = slot, .state = s.state};
    }
    if (IsWrite(touch.op)) {
      if (!(s.flags & kWritable)) return {.kind = LookupKind::kMustUpgrade, .slot = slot, .state = s.state};
      s.flags |= kDirty;
    }
    policy_.OnHit(slot, touch);
    return {.kind = LookupKind::kHit, .slot = slot, .state = SlotState::kMapped};
  }

  // The same question, asked without consequences.
  SlotId Find(const Key& key) const { return index_.Find(key); }
  // Hints that `key` will be looked up soon: what finding it will read, and, once that has been fetched, what a hit
  // will.
  void PrefetchEntry(const Key& key) const { index_.Prefetch(key); }
  // `otherwise` is fetched instead if it is not mapped at present; without a branch, which nobody could predict.
  void PrefetchSlot(const Key& key, const void* otherwise) const {
    const SlotId slot = index_.Find(key);
    __builtin_prefetch(slot == kNoSlot ? otherwise : &at(slot));
    if constexpr (requires { policy_.Prefetch(slot); }) policy_.Prefetch(slot == kNoSlot ? SlotId{0} : slot);
  }

  // An access seen after the fact (an accessed bit): the policy hears of a hit.
  void Observe(SlotId slot, const Touch& touch) {
    assert(at(slot).state == SlotState::kMapped || at(slot).state == SlotState::kUpgrading);
    policy_.OnHit(slot, touch);
  }

  void Pin(SlotId slot) {
    assert(at(slot).state == SlotState::kMapped || at(slot).state == SlotState::kMapping ||
           at(slot).state == SlotState::kUpgrading);
    ++at(slot).pins;
  }
  // True: that was the last pin of a doomed slot, which is now being reclaimed: remove it and CommitReclaim.
  [[nodiscard]] bool Unpin(SlotId slot) {
    Slot& s = at(slot);
    assert(s.pins > 0);
    if (--s.pins > 0 || !(s.flags & kDoomed) || s.state != SlotState::kMapped) return false;
    Doom(slot);
    return true;
  }

  // --- mapping ------------------------------------------------------------------------------------------------------

  // Once for each access that misses: tells the policy of the miss and asks whether the range may come in.
  bool Admit(const Key& key, const Touch& touch) {
    policy_.OnMiss(key, touch);
    return policy_.Admit(key, touch, free_);
  }

  // The head of the free list, or kNoSlot.
  SlotId Take() {
    if (free_head_ == kNone) return kNoSlot;
    const SlotId slot{free_head_};
    Unlink(slot);
    at(slot).state = SlotState::kTaken;
    return slot;
  }
  // A taken slot that was not needed goes to the tail of the free list.
  void Return(SlotId slot) {
    assert(at(slot).state == SlotState::kTaken);
    Release(slot);
  }

  // Not must_map: the slot offered has been given back, because somebody bound the key at `other` meanwhile, or, if
  // that is kNoSlot, because the window shrank below the slot: look again.
  struct Bound {
    bool must_map = false;
    SlotId other = kNoSlot;
  };
  Bound Bind(SlotId slot, const Key& key, const Touch& touch) {
    assert(at(slot).state == SlotState::kTaken);
    if (const SlotId other = index_.Find(key); other != kNoSlot || ToIndex(slot) >= size_) {
      Return(slot);
      return {.must_map = false, .other = other};
    }
    index_.Insert(key, slot);
    StartMapping(slot, touch);
    return {.must_map = true};
  }

  // What a slot held before a guest chose its offset for something else.
  struct Held {
    bool any = false;
    bool writable = false;
    bool dirty = false;
    Key key{};
  };
  struct BoundAt {
    bool must_map = false;  // false: the slot is in flight, pinned, or beyond the window
    Held held;
  };
  // The guest chose the offset: whatever the slot holds is replaced. One key may be bound at several slots.
  BoundAt BindAt(SlotId slot, const Key& key, const Touch& touch) {
    if (ToIndex(slot) >= size_) return {};
    Slot& s = at(slot);
    if (s.pins > 0 || (s.state != SlotState::kFree && s.state != SlotState::kTaken && s.state != SlotState::kMapped)) {
      return {};
    }
    Held held;
    if (s.state == SlotState::kFree) {
      Unlink(slot);
    } else if (s.state == SlotState::kMapped) {
      held = {.any = true, .writable = writable(slot), .dirty = dirty(slot), .key = index_.KeyOf(slot)};
      policy_.OnUnmap(slot, held.key, Unmap::kGone);
      Forget(slot);
      --mapped_;
    }
    InsertAlias(key, slot);
    StartMapping(slot, touch);
    return {.must_map = true, .held = held};
  }

  void BeginUpgrade(SlotId slot) {
    assert(at(slot).state == SlotState::kMapped && !(at(slot).flags & kWritable));
    at(slot).state = SlotState::kUpgrading;
    --mapped_;
  }

  // The set-up or upgrade in flight succeeded. True: the slot was doomed meanwhile and is now being reclaimed: remove
  // it and CommitReclaim.
  [[nodiscard, gnu::always_inline]] bool Commit(SlotId slot, const Touch& touch) {
    Slot& s = at(slot);
    if (s.state == SlotState::kMapping) {
      policy_.OnMap(slot, index_.KeyOf(slot), touch);
    } else {
      assert(s.state == SlotState::kUpgrading);
      s.flags |= kWritable;
      policy_.OnHit(slot, touch);
    }
    if (IsWrite(touch.op)) s.flags |= kDirty;
    s.state = SlotState::kMapped;
    ++mapped_;
    if (!(s.flags & kDoomed) || s.pins > 0) return false;
    Doom(slot);
    return true;
  }

  // The set-up or upgrade in flight failed. An upgrade falls back to the read-only mapping; a set-up gives the slot
  // back to the tail of the free list, or, if the host kept what `held` says, to that; whether the file of `held` is
  // still there is for the caller to know. True: as for Commit.
  [[nodiscard]] bool Abort(SlotId slot, const Held& held = {}) {
    Slot& s = at(slot);
    if (s.state == SlotState::kUpgrading) {
      s.state = SlotState::kMapped;
      ++mapped_;
    } else {
      assert(s.state == SlotState::kMapping);
      Forget(slot);
      if (!held.any) {
        assert(s.pins == 0);
        Release(slot);
        return false;
      }
      // What doomed the range that did not come does not concern the one that stays; a smaller window does.
      s.flags = static_cast<std::uint16_t>((held.writable ? kWritable : 0) | (held.dirty ? kDirty : 0));
      InsertAlias(held.key, slot);
      s.state = SlotState::kMapped;
      ++mapped_;
      policy_.OnMap(slot, held.key, Touch{.file = index_.FileOf(slot)});
      if (ToIndex(slot) >= size_) {
        Forget(slot);
        s.flags |= kDoomed | kShrunk;
      }
    }
    if (!(s.flags & kDoomed) || s.pins > 0) return false;
    Doom(slot);
    return true;
  }
  // An upgrade failed and the host lost the mapping too: the range is gone, and found no more. True: the slot is being
  // reclaimed; nothing is left to remove, so CommitReclaim may follow at once. False: it is pinned, and the last Unpin
  // says so.
  [[nodiscard]] bool AbortLost(SlotId slot) {
    Slot& s = at(slot);
    assert(s.state == SlotState::kUpgrading);
    s.state = SlotState::kMapped;
    ++mapped_;
    Forget(slot);
    s.flags |= kDoomed | kLost;
    if (s.pins > 0) return false;
    Doom(slot);
    return true;
  }

  // --- reclaim ------------------------------------------------------------------------------------------------------

  // The policy's choice among the mapped, unpinned ranges in scope, or kNoSlot. The range stays mapped: Linux picks
  // first, then takes the locks, and looks again.
  SlotId PickVictim(Scope scope) { return policy_.Victim(nullptr, Candidates(*this, scope)); }
  SlotId PickVictim(Scope scope, const Key& key, const Touch& touch) {
    const Incoming<Key> incoming{key, touch};
    return policy_.Victim(&incoming, Candidates(*this, scope));
  }
  bool CanReclaim(SlotId slot) const {
    const Slot& s = at(slot);
    return s.state == SlotState::kMapped && s.pins == 0;
  }
  // From now on lookups of the range are Busy.
  void BeginReclaim(SlotId slot) {
    assert(CanReclaim(slot));
    at(slot).state = SlotState::kReclaiming;
    --mapped_;
  }
  // Pick and begin in one.
  SlotId BeginReclaim(Scope scope) {
    const SlotId slot = PickVictim(scope);
    if (slot != kNoSlot) BeginReclaim(slot);
    return slot;
  }
  SlotId BeginReclaim(Scope scope, const Key& key, const Touch& touch) {
    const SlotId slot = PickVictim(scope, key, touch);
    if (slot != kNoSlot) BeginReclaim(slot);
    return slot;
  }
  // The range is removed: the slot goes to the tail of the free list (or retires, if the window shrank).
  void CommitReclaim(SlotId slot) {
    FinishReclaim(slot);
    Release(slot);
  }
  // The same for whoever reclaimed it for itself: the slot does not pass through the free list. False: the window
  // shrank, and the slot is retired.
  [[nodiscard]] bool CommitReclaimAndTake(SlotId slot) {
    FinishReclaim(slot);
    if (ToIndex(slot) >= size_) {
      Release(slot);
      return false;
    }
    at(slot).state = SlotState::kTaken;
    at(slot).flags = 0;
    return true;
  }
  // The removal failed: the range stays. False: it cannot, because its file or its slot went away; it is still being
  // reclaimed, and CommitReclaim must follow.
  [[nodiscard]] bool AbortReclaim(SlotId slot) {
    Slot& s = at(slot);
    assert(s.state == SlotState::kReclaiming);
    if (s.flags & kDoomed) return false;
    s.state = SlotState::kMapped;
    ++mapped_;
    return true;
  }

  // --- files and size -----------------------------------------------------------------------------------------------

  // The bytes of `file` from range `first` to range `last` went away. Calls `reclaiming(slot)` for each slot that has
  // to be removed, in descending order of offset, as Linux does; each is then unfindable and waits for CommitReclaim.
  // Pinned and in-flight ones are doomed: unfindable, and reclaimed at the last Unpin, Commit or Abort.
  template <class Reclaiming>
  void Invalidate(FileId file, std::uint64_t first, std::uint64_t last, const Reclaiming& reclaiming) {
    for (;;) {
      const SlotId slot = index_.AtOrBefore(file, last);
      if (slot == kNoSlot || range(slot).index < first) return;
      last = range(slot).index;  // not one less: another slot may be bound to it
      Drop(slot, reclaiming);
    }
  }
  template <class Reclaiming>
  void Invalidate(FileId file, const Reclaiming& reclaiming) {
    Invalidate(file, 0, std::numeric_limits<std::uint64_t>::max(), reclaiming);
  }

  // The window becomes `slots` ranges larger (at most up to its capacity: OutOfRange).
  [[nodiscard]] absl::Status Grow(std::uint32_t slots) {
    if (slots > capacity() - size_) {
      return absl::OutOfRangeError(
          absl::StrCat("expected a window of at most ", capacity(), " ranges, got ", size_, " + ", slots));
    }
    const std::uint32_t from = size_;
    size_ += slots;
    for (std::uint32_t i = from; i < size_; ++i) {
      // A slot doomed by an earlier shrink and not yet free comes back by itself when it is.
      if (slots_[i].state == SlotState::kRetired) PushFree(SlotId{i});
    }
    policy_.OnResize(size_);
    return absl::OkStatus();
  }

  // The window becomes `slots` ranges smaller, from its end; `reclaiming` as for Invalidate.
  template <class Reclaiming>
  [[nodiscard]] absl::Status Shrink(std::uint32_t slots, const Reclaiming& reclaiming) {
    if (slots >= size_) {
      return absl::OutOfRangeError(absl::StrCat("expected to keep at least one range, got ", size_, " - ", slots));
    }
    const std::uint32_t end = size_;
    size_ -= slots;
    policy_.OnResize(size_);
    for (std::uint32_t i = end; i-- > size_;) {
      const SlotId slot{i};
      switch (at(slot).state) {
        case SlotState::kFree:
          Unlink(slot);
          at(slot).state = SlotState::kRetired;
          break;
        case SlotState::kMapping:
        case SlotState::kMapped:
        case SlotState::kUpgrading:
        case SlotState::kReclaiming:  // doomed, so that it does not stay if its removal fails
          if (doomed(slot)) break;
          at(slot).flags |= kShrunk;
          Drop(slot, reclaiming);
          break;
        case SlotState::kTaken:
        case SlotState::kRetired: break;  // retires when it is given back
      }
    }
    return absl::OkStatus();
  }

  // Recounts everything that is counted on the way, and asks the policy to do the same. O(slots).
  [[nodiscard]] absl::Status CheckInvariants() const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::uint16_t kWritable = 1;
  static constexpr std::uint16_t kDirty = 2;
  static constexpr std::uint16_t kDoomed = 4;   // never found again; reclaimed as soon as nobody uses it
  static constexpr std::uint16_t kTold = 8;     // the policy has been told that it is unmapped
  static constexpr std::uint16_t kShrunk = 16;  // doomed because the window became smaller
  static constexpr std::uint16_t kLost = 32;    // … because the host lost the mapping

  struct Slot {
    std::uint32_t pins = 0;
    // Free list while free; while bound, the other slots bound to the same key (a ring without the findable one's end).
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    SlotState state = SlotState::kRetired;
    std::uint16_t flags = 0;  // not a byte: stores of bytes may alias anything, and cost the hot loop its registers
  };
  static_assert(sizeof(Slot) == 16);

  // What `Victim` may choose from.
  class Candidates {
   public:
    Candidates(const Window& window, Scope scope) : window_(window), scope_(scope) {}
    bool operator()(SlotId slot) const {
      return window_.CanReclaim(slot) && (!one_file() || window_.index_.FileOf(slot) == scope_.file);
    }
    bool one_file() const { return scope_.file != kNoFile; }
    void Prefetch(SlotId slot) const {
      __builtin_prefetch(&window_.at(slot), 1);
      window_.index_.Prefetch(window_.index_.KeyOf(slot));
    }
    SlotId LowestOffset() const {
      std::uint64_t index = 0;
      for (;;) {
        SlotId slot = window_.index_.AtOrAfter(scope_.file, index);
        if (slot == kNoSlot) return kNoSlot;
        index = window_.range(slot).index;
        for (; slot != kNoSlot; slot = SlotId{window_.at(slot).next}) {
          if ((*this)(slot)) return slot;
        }
        if (index++ == std::numeric_limits<std::uint64_t>::max()) return kNoSlot;
      }
    }

   private:
    const Window& window_;
    Scope scope_;
  };

  static std::uint32_t Capacity(const WindowOptions& options) {
    return options.max_slots != 0 ? options.max_slots : options.slots;
  }

  Slot& at(SlotId slot) { return slots_[ToIndex(slot)]; }
  const Slot& at(SlotId slot) const { return slots_[ToIndex(slot)]; }

  void PushFree(SlotId slot) {
    Slot& s = at(slot);
    s.state = SlotState::kFree;
    s.flags = 0;
    s.previous = free_tail_;
    s.next = kNone;
    (free_tail_ == kNone ? free_head_ : slots_[free_tail_].next) = ToIndex(slot);
    free_tail_ = ToIndex(slot);
    ++free_;
  }
  void Unlink(SlotId slot) {
    Slot& s = at(slot);
    (s.previous == kNone ? free_head_ : slots_[s.previous].next) = s.next;
    (s.next == kNone ? free_tail_ : slots_[s.next].previous) = s.previous;
    s.previous = s.next = kNone;
    --free_;
  }
  // A slot that holds nothing: free, or retired if the window shrank below it.
  void Release(SlotId slot) {
    if (ToIndex(slot) < size_) {
      PushFree(slot);
    } else {
      at(slot).state = SlotState::kRetired;
      at(slot).flags = 0;
    }
  }

  void StartMapping(SlotId slot, const Touch& touch) {
    Slot& s = at(slot);
    s.state = SlotState::kMapping;
    s.flags = IsWrite(touch.op) ? kWritable : 0;
  }

  // Slots bound to one key form a list headed by the findable one.
  void InsertAlias(const Key& key, SlotId slot) {
    const SlotId head = index_.Find(key);
    if (head == kNoSlot) {
      index_.Insert(key, slot);
      return;
    }
    index_.SetKey(slot, key);
    Slot& h = at(head);
    Slot& s = at(slot);
    s.previous = ToIndex(head);
    s.next = h.next;
    if (h.next != kNone) slots_[h.next].previous = ToIndex(slot);
    h.next = ToIndex(slot);
  }
  // Makes a bound slot unfindable. Idempotent for doomed slots.
  [[gnu::always_inline]] void Forget(SlotId slot) {
    Slot& s = at(slot);
    if (s.flags & kDoomed) return;
    const std::uint32_t next = s.next;
    if (s.previous == kNone) {
      const Key key = index_.KeyOf(slot);
      index_.Erase(slot);
      if (next != kNone) index_.Insert(key, SlotId{next});
    } else {
      slots_[s.previous].next = next;
    }
    if (next != kNone) slots_[next].previous = s.previous;
    s.previous = s.next = kNone;
  }

  // The slot's range goes away: now if nobody uses it, else later.
  template <class Reclaiming>
  void Drop(SlotId slot, const Reclaiming& reclaiming) {
    Forget(slot);
    at(slot).flags |= kDoomed;
    if (!CanReclaim(slot)) return;
    Doom(slot);
    reclaiming(slot);
  }
  // A mapped, unpinned slot whose range is to be forgotten starts being reclaimed.
  void Doom(SlotId slot) {
    Forget(slot);
    Slot& s = at(slot);
    s.flags |= kDoomed | kTold;
    policy_.OnUnmap(slot, index_.KeyOf(slot), Unmap::kGone);
    s.state = SlotState::kReclaiming;
    --mapped_;
  }
  void FinishReclaim(SlotId slot) {
    Slot& s = at(slot);
    assert(s.state == SlotState::kReclaiming);
    if (!(s.flags & kTold)) {
      policy_.OnUnmap(slot, index_.KeyOf(slot), s.flags & kDoomed ? Unmap::kGone : Unmap::kReclaimed);
    }
    Forget(slot);
  }

  Index index_;
  P policy_;
  std::vector<Slot> slots_;
  std::uint32_t size_;
  std::uint32_t free_ = 0;
  std::uint32_t mapped_ = 0;
  std::uint32_t free_head_ = kNone;
  std::uint32_t free_tail_ = kNone;
};

template <Policy P>
absl::Status Window<P>::CheckInvariants() const {
  std::uint32_t free = 0;
  std::uint32_t mapped = 0;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    const SlotId slot{i};
    const Slot& s = slots_[i];
    if (s.state == SlotState::kFree) ++free;
    if (s.state == SlotState::kMapped) ++mapped;
    const bool holds_nothing =
        s.state == SlotState::kFree || s.state == SlotState::kTaken || s.state == SlotState::kRetired;
    if (holds_nothing) {
      if (s.pins != 0) return absl::InternalError(absl::StrCat("slot ", i, " holds nothing and is pinned"));
      if (s.state == SlotState::kFree && i >= size_) {
        return absl::InternalError(absl::StrCat("slot ", i, " is free beyond the window's end"));
      }
      continue;
    }
    if (s.state == SlotState::kReclaiming && s.pins != 0) {
      return absl::InternalError(absl::StrCat("slot ", i, " is being reclaimed and is pinned"));
    }
    if (s.flags & kDoomed) continue;
    if (i >= size_) return absl::InternalError(absl::StrCat("slot ", i, " stays bound beyond the window's end"));
    SlotId head = index_.Find(index_.KeyOf(slot));
    if (head != kNoSlot && at(head).previous != kNone) {
      return absl::InternalError(absl::StrCat("slot ", ToIndex(head), " is found and is not the first of its key"));
    }
    while (head != kNoSlot && head != slot) head = SlotId{at(head).next};
    if (head != slot) return absl::InternalError(absl::StrCat("slot ", i, " is bound and cannot be found by its key"));
  }
  if (free != free_ || mapped != mapped_) {
    return absl::InternalError(
        absl::StrCat("counted ", free, " free and ", mapped, " mapped slots, recorded ", free_, " and ", mapped_));
  }
  std::uint32_t listed = 0;
  std::uint32_t previous = kNone;
  for (std::uint32_t i = free_head_; i != kNone; i = slots_[i].next) {
    if (slots_[i].state != SlotState::kFree || slots_[i].previous != previous || ++listed > free_) {
      return absl::InternalError(absl::StrCat("the free list is broken at slot ", i));
    }
    previous = i;
  }
  if (listed != free_ || free_tail_ != previous)
    return absl::InternalError("the free list does not hold all free slots");
  return policy_.CheckInvariants();
}

}  // namespace v0
}  // namespace daxcache
