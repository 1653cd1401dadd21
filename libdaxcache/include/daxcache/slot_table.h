// What the host has mapped in each slot of the window, and a look-up by file and range that takes no lock. It is the
// account that has to agree with the kernel's maps: the window says what the guest may use, this says what is there,
// and the two differ while a mapping is under way, for ranges kept after the guest gave them back, and after errors.
//
// Writers hold the allocator's mutex. `Find` is called inside an epoch (epochs.h); a slot that was unlinked is written
// only after the readers of that moment are gone. The words `pins` and `state` may be changed by anyone, atomically:
// `state` also by a signal handler (`BeginRepair`).
//
// Memory: 24 bytes a slot and two chain heads, 32 in all. Find O(1): one hash, two cache lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "daxcache/ids.h"
#include "daxcache/range.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

struct SlotRecord {
  // Of `state`.
  static constexpr std::uint32_t kHost = 1;         // the host has `file`, `index` mapped here
  static constexpr std::uint32_t kWritable = 2;     // … for writing too
  static constexpr std::uint32_t kShort = 4;        // … and zero pages from page `state >> kZeroShift` on
  static constexpr std::uint32_t kKept = 8;         // … and the guest has given it back
  static constexpr std::uint32_t kChanging = 16;    // a backend call is under way
  static constexpr std::uint32_t kRepairing = 32;   // … or a signal handler's
  static constexpr std::uint32_t kLinked = 64;      // Find finds it
  static constexpr std::uint32_t kForgotten = 128;  // kept because it could not be unmapped: no set-up may find it
  static constexpr std::uint32_t kGuests = 256;     // a guest has chosen this place: only a guest gives it up
  static constexpr int kZeroShift = 9;
  // Of `pins`: the rest is how many there are.
  static constexpr std::uint32_t kClaimed = 1u << 31;     // being taken away: may not be pinned
  static constexpr std::uint32_t kToldWindow = 1u << 30;  // the window counts one pin for all of these
  static constexpr std::uint32_t kRemoveLast = 1u << 29;  // the last one to unpin has it removed
  static constexpr std::uint32_t kPinCount = kRemoveLast - 1;

  std::atomic<std::uint64_t> index{0};
  std::atomic<std::uint32_t> file{ToIndex(kNoFile)};
  std::atomic<std::uint32_t> next{kNoEntry};
  std::atomic<std::uint32_t> pins{kClaimed};
  std::atomic<std::uint32_t> state{0};

  FileRange range() const {
    return {FileId{file.load(std::memory_order_relaxed)}, index.load(std::memory_order_relaxed)};
  }
  bool Has(std::uint32_t flags) const { return (state.load(std::memory_order_acquire) & flags) == flags; }
};
static_assert(sizeof(SlotRecord) == 24);

class SlotTable {
 public:
  SlotTable(std::uint32_t slots, std::uint64_t seed)
      : records_(std::make_unique<SlotRecord[]>(slots)),
        heads_(std::make_unique<std::atomic<std::uint32_t>[]>(std::size_t{2} * slots)),
        buckets_(std::uint64_t{2} * slots),
        slots_(slots),
        of_index_(internal::Mix(seed + 1) | 1),
        of_file_(internal::Mix(seed + 2) | 1) {
    for (std::uint64_t i = 0; i < buckets_; ++i) heads_[i].store(kNoEntry, std::memory_order_relaxed);
  }

  std::uint32_t slots() const { return slots_; }
  // From now on there are readers. Before, only holders of the mutex pin and find, and plain stores will do where
  // nothing is pinned. Under the mutex, before the first Find without it.
  void Share() { shared_ = true; }
  SlotRecord& operator[](SlotId slot) { return records_[ToIndex(slot)]; }
  const SlotRecord& operator[](SlotId slot) const { return records_[ToIndex(slot)]; }

  // A slot that holds the range, or kNoSlot. Inside an epoch, or under the mutex.
  SlotId Find(const FileRange& range) const {
    std::uint32_t at = heads_[Bucket(range)].load(std::memory_order_seq_cst);
    while (at != kNoEntry) {
      const SlotRecord& record = records_[at];
      if (record.index.load(std::memory_order_relaxed) == range.index &&
          record.file.load(std::memory_order_relaxed) == ToIndex(range.file)) {
        return SlotId{at};
      }
      at = record.next.load(std::memory_order_acquire);
    }
    return kNoSlot;
  }
  // The next one that holds the same range. Under the mutex.
  SlotId FindNext(SlotId slot) const {
    const FileRange range = (*this)[slot].range();
    std::uint32_t at = (*this)[slot].next.load(std::memory_order_acquire);
    while (at != kNoEntry && records_[at].range() != range) at = records_[at].next.load(std::memory_order_acquire);
    return SlotId{at};
  }

  // Makes a slot findable, and pinnable.
  void Link(SlotId slot) {
    SlotRecord& record = (*this)[slot];
    if (shared_) {
      record.pins.fetch_and(~SlotRecord::kClaimed, std::memory_order_relaxed);
    } else {
      record.pins.store(record.pins.load(std::memory_order_relaxed) & ~SlotRecord::kClaimed, std::memory_order_relaxed);
    }
    std::atomic<std::uint32_t>& head = heads_[Bucket(record.range())];
    record.next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
    Update(slot, 0, SlotRecord::kLinked);
    head.store(ToIndex(slot), std::memory_order_release);
  }
  // Takes a slot away from those who might pin it. False: it is pinned.
  bool Claim(SlotId slot) {
    std::uint32_t pins = (*this)[slot].pins.load(std::memory_order_acquire);
    if (!shared_ && pins == 0) {
      (*this)[slot].pins.store(SlotRecord::kClaimed, std::memory_order_relaxed);
      return true;
    }
    pins = 0;
    return (*this)[slot].pins.compare_exchange_strong(pins, SlotRecord::kClaimed, std::memory_order_acq_rel) ||
           (pins & SlotRecord::kClaimed) != 0;
  }
  // False: it has been taken away.
  // Pins it. False: it has been taken away, and the pin has to be undone (Unpin) all the same.
  bool TryPin(SlotId slot) {
    return !((*this)[slot].pins.fetch_add(1, std::memory_order_acq_rel) & SlotRecord::kClaimed);
  }
  // True: that was the last pin, and somebody has asked to be told.
  bool Unpin(SlotId slot) {
    const std::uint32_t left = (*this)[slot].pins.fetch_sub(1, std::memory_order_acq_rel) - 1;
    return (left & SlotRecord::kPinCount) == 0 && (left & (SlotRecord::kToldWindow | SlotRecord::kRemoveLast)) != 0;
  }
  // Asks to be told, by one of the two marks. False: there are no pins any more.
  bool Mark(SlotId slot, std::uint32_t mark) {
    std::atomic<std::uint32_t>& pins = (*this)[slot].pins;
    std::uint32_t now = pins.load(std::memory_order_relaxed);
    do {
      if ((now & SlotRecord::kPinCount) == 0 && !(now & (SlotRecord::kToldWindow | SlotRecord::kRemoveLast)))
        return false;
    } while (!pins.compare_exchange_weak(now, now | mark, std::memory_order_acq_rel));
    return true;
  }

  // False: it was not linked.
  bool Unlink(SlotId slot) {
    SlotRecord& record = (*this)[slot];
    if (!(record.state.load(std::memory_order_relaxed) & SlotRecord::kLinked)) return false;
    std::atomic<std::uint32_t>* link = &heads_[Bucket(record.range())];
    while (link->load(std::memory_order_relaxed) != ToIndex(slot)) {
      link = &records_[link->load(std::memory_order_relaxed)].next;
    }
    link->store(record.next.load(std::memory_order_relaxed),
                shared_ ? std::memory_order_seq_cst : std::memory_order_release);
    Update(slot, SlotRecord::kLinked, 0);
    return true;
  }

  // A change of the slot's mapping begins; a repair that is under way is waited for: it is one system call.
  void BeginChange(SlotId slot) {
    std::atomic<std::uint32_t>& state = (*this)[slot].state;
    std::uint32_t now = state.load(std::memory_order_relaxed);
    if (now & SlotRecord::kChanging) return;  // the same caller's
    for (;;) {
      if (now & SlotRecord::kRepairing) {
        std::this_thread::yield();
        now = state.load(std::memory_order_relaxed);
      } else if (state.compare_exchange_weak(now, now | SlotRecord::kChanging, std::memory_order_acquire)) {
        return;
      }
    }
  }
  void EndChange(SlotId slot) { Update(slot, SlotRecord::kChanging, 0); }
  // Clears flags and sets others. During a change nobody else writes them, so that a plain store will do.
  void Update(SlotId slot, std::uint32_t clear, std::uint32_t set) {
    std::atomic<std::uint32_t>& state = (*this)[slot].state;
    std::uint32_t now = state.load(std::memory_order_relaxed);
    if (now & SlotRecord::kChanging) {
      state.store((now & ~clear) | set, std::memory_order_release);
      return;
    }
    while (!state.compare_exchange_weak(now, (now & ~clear) | set, std::memory_order_acq_rel)) {
    }
  }
  // During a change: what the host has now. kNoFile: nothing.
  void SetHost(SlotId slot, const FileRange& range, bool writable) {
    SlotRecord& record = (*this)[slot];
    record.index.store(range.index, std::memory_order_relaxed);
    record.file.store(ToIndex(range.file), std::memory_order_relaxed);
    std::uint32_t stays = SlotRecord::kChanging | SlotRecord::kLinked;
    if (range.file != kNoFile) stays |= SlotRecord::kGuests;
    std::uint32_t state = record.state.load(std::memory_order_relaxed) & stays;
    if (range.file != kNoFile) state |= SlotRecord::kHost | (writable ? SlotRecord::kWritable : 0);
    record.state.store(state, std::memory_order_release);
  }

  // A repair of the slot begins, by whoever has faulted in it. Async-signal-safe. False: somebody changes it: try the
  // access again.
  bool BeginRepair(SlotId slot) {
    std::atomic<std::uint32_t>& state = (*this)[slot].state;
    std::uint32_t now = state.load(std::memory_order_acquire);
    for (;;) {
      if (now & (SlotRecord::kChanging | SlotRecord::kRepairing)) return false;
      if (state.compare_exchange_weak(now, now | SlotRecord::kRepairing, std::memory_order_acquire)) {
        return true;
      }
    }
  }
  // A repair that is under way has ended.
  void WaitForRepair(SlotId slot) const {
    while ((*this)[slot].Has(SlotRecord::kRepairing)) std::this_thread::yield();
  }
  // From which page on there are zero pages; the number of pages of a range if there are none.
  std::uint32_t ZeroFrom(SlotId slot, std::uint32_t pages) const {
    const std::uint32_t state = (*this)[slot].state.load(std::memory_order_acquire);
    return state & SlotRecord::kShort ? state >> SlotRecord::kZeroShift : pages;
  }
  // During a change or a repair. `page`: the number of pages of a range if there are none.
  void SetZeroFrom(SlotId slot, std::uint32_t page, std::uint32_t pages) {
    std::atomic<std::uint32_t>& state = (*this)[slot].state;
    std::uint32_t now = state.load(std::memory_order_relaxed);
    std::uint32_t want = 0;
    do {
      want = now & ((1u << SlotRecord::kZeroShift) - 1) & ~SlotRecord::kShort;
      if (page < pages) want |= SlotRecord::kShort | page << SlotRecord::kZeroShift;
    } while (!state.compare_exchange_weak(now, want, std::memory_order_release));
  }
  void EndRepair(SlotId slot) { (*this)[slot].state.fetch_and(~SlotRecord::kRepairing, std::memory_order_release); }

 private:
  // Both parts are multiplied by numbers that a guest does not know, so that it cannot choose ranges that collide.
  std::uint64_t Bucket(const FileRange& range) const {
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t hash = internal::Mix((range.index + 1) * of_index_ + (ToIndex(range.file) + 1ull) * of_file_);
    return static_cast<std::uint64_t>((static_cast<Wide>(hash) * buckets_) >> 64);
  }

  std::unique_ptr<SlotRecord[]> records_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> heads_;
  std::uint64_t buckets_;
  std::uint32_t slots_;
  bool shared_ = false;
  std::uint64_t of_index_;
  std::uint64_t of_file_;
};

}  // namespace v0
}  // namespace daxcache
