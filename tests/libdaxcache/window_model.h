// A second window, written naively from the documented rules: vectors, linear searches, no index. Tests give it and the
// real one the same calls and compare everything that can be seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/range.h"
#include "daxcache/window.h"

namespace daxcache::testing_ {

enum class Order { kFifo, kLru, kLinux };

class WindowModel {
 public:
  struct Slot {
    SlotState state = SlotState::kRetired;
    std::uint32_t pins = 0;
    bool writable = false;
    bool dirty = false;
    bool doomed = false;  // bound, but to be forgotten
    FileRange range;
    bool shrunk = false;  // doomed by a smaller window
    bool lost = false;    // doomed by the host
  };
  struct Held {
    bool any = false;
    bool writable = false;
    bool dirty = false;
    FileRange range;
  };

  WindowModel(std::uint32_t usable, std::uint32_t max_slots, Order order)
      : slots(max_slots), size(usable), order_(order) {
    for (std::uint32_t i = 0; i < size; ++i) Free(i);
  }

  std::uint32_t Find(FileRange range) const {
    const auto at = bound_.find(range);
    return at == bound_.end() ? kNone : at->second.front();
  }
  LookupKind Lookup(FileRange range, bool write) {
    const std::uint32_t slot = Find(range);
    if (slot == kNone) return LookupKind::kMiss;
    Slot& s = slots[slot];
    if (s.state != SlotState::kMapped) return LookupKind::kBusy;
    if (write && !s.writable) return LookupKind::kMustUpgrade;
    s.dirty = s.dirty || write;
    Used(slot);
    return LookupKind::kHit;
  }
  void Used(std::uint32_t slot) {
    if (order_ == Order::kLru) ToTail(slot);
  }

  std::uint32_t Take() {
    if (free.empty()) return kNone;
    const std::uint32_t slot = free.front();
    free.pop_front();
    slots[slot].state = SlotState::kTaken;
    return slot;
  }
  void Return(std::uint32_t slot) { Free(slot); }
  bool Bind(std::uint32_t slot, FileRange range, bool write) {
    if (Find(range) != kNone || slot >= size) {
      Free(slot);
      return false;
    }
    Start(slot, range, write);
    return true;
  }
  std::pair<bool, Held> BindAt(std::uint32_t slot, FileRange range, bool write) {
    if (slot >= size) return {};
    Slot& s = slots[slot];
    Held held;
    switch (s.state) {
      case SlotState::kFree: free.erase(std::find(free.begin(), free.end(), slot)); break;
      case SlotState::kTaken: break;
      case SlotState::kMapped:
        if (s.pins > 0) return {};
        held = {true, s.writable, s.dirty, s.range};
        Leave(slot);
        Unbind(slot);
        break;
      default: return {};
    }
    Start(slot, range, write);
    return {true, held};
  }
  void BeginUpgrade(std::uint32_t slot) { slots[slot].state = SlotState::kUpgrading; }
  bool Commit(std::uint32_t slot, bool write) {
    Slot& s = slots[slot];
    if (s.state == SlotState::kUpgrading) {
      s.writable = true;
      Used(slot);
    } else {
      queue.push_back(slot);
    }
    s.state = SlotState::kMapped;
    s.dirty = s.dirty || write;
    return Settle(slot);
  }
  bool Abort(std::uint32_t slot, const Held& held) {
    Slot& s = slots[slot];
    if (s.state == SlotState::kUpgrading) {
      s.state = SlotState::kMapped;
      return Settle(slot);
    }
    if (!s.doomed) Unbind(slot);
    if (!held.any) {
      Free(slot);
      return false;
    }
    const std::uint32_t pins = s.pins;
    s = {SlotState::kMapped, pins, held.writable, held.dirty, slot >= size, held.range, slot >= size};
    queue.push_back(slot);
    if (!s.doomed) Insert(slot);
    return Settle(slot);
  }
  bool AbortLost(std::uint32_t slot) {
    Slot& s = slots[slot];
    if (!s.doomed) Unbind(slot);
    s.doomed = true;
    s.lost = true;
    s.state = SlotState::kMapped;
    return Settle(slot);
  }

  bool Candidate(std::uint32_t slot, FileId file) const {
    const Slot& s = slots[slot];
    return s.state == SlotState::kMapped && s.pins == 0 && (file == kNoFile || s.range.file == file);
  }
  std::uint32_t Pick(FileId file) {
    std::uint32_t best = kNone;
    if (order_ == Order::kLinux && file != kNoFile) {
      for (const auto& [range, bound] : bound_) {  // in order of file and offset
        for (const std::uint32_t slot : bound) {
          if (best == kNone && Candidate(slot, file)) best = slot;
        }
      }
      return best;
    }
    for (const std::uint32_t slot : queue) {
      if (best == kNone && Candidate(slot, file)) best = slot;
    }
    if (best != kNone && order_ == Order::kLinux) ToTail(best);
    return best;
  }
  void BeginReclaim(std::uint32_t slot) { slots[slot].state = SlotState::kReclaiming; }
  void CommitReclaim(std::uint32_t slot) {
    Finish(slot);
    Free(slot);
  }
  bool CommitReclaimAndTake(std::uint32_t slot) {
    Finish(slot);
    Free(slot);
    if (slot >= size) return false;
    free.pop_back();
    slots[slot].state = SlotState::kTaken;
    return true;
  }
  bool AbortReclaim(std::uint32_t slot) {
    if (slots[slot].doomed) return false;
    slots[slot].state = SlotState::kMapped;
    return true;
  }

  std::vector<std::uint32_t> Invalidate(FileId file, std::uint64_t first, std::uint64_t last) {
    std::vector<std::uint32_t> gone;
    for (auto at = bound_.rbegin(); at != bound_.rend(); ++at) {
      if (at->first.file != file || at->first.index < first || at->first.index > last) continue;
      gone.insert(gone.end(), at->second.begin(), at->second.end());
    }
    return Drop(gone);
  }
  void Grow(std::uint32_t by) {
    size += by;
    for (std::uint32_t slot = size - by; slot < size; ++slot) {
      if (slots[slot].state == SlotState::kRetired) Free(slot);
    }
  }
  std::vector<std::uint32_t> Shrink(std::uint32_t by) {
    size -= by;
    std::vector<std::uint32_t> gone;
    for (std::uint32_t slot = size + by; slot-- > size;) {
      const SlotState state = slots[slot].state;
      if (state == SlotState::kFree) {
        free.erase(std::find(free.begin(), free.end(), slot));
        slots[slot] = {};
      } else if (state != SlotState::kTaken && state != SlotState::kRetired && !slots[slot].doomed) {
        slots[slot].shrunk = true;
        gone.push_back(slot);
      }
    }
    return Drop(gone);
  }
  bool Unpin(std::uint32_t slot) {
    --slots[slot].pins;
    return slots[slot].state == SlotState::kMapped && Settle(slot);
  }

  static constexpr std::uint32_t kNone = 0xffffffffu;
  std::vector<Slot> slots;
  std::uint32_t size;
  std::deque<std::uint32_t> free;
  std::vector<std::uint32_t> queue;  // mapped slots, in the policy's order

 private:
  void Free(std::uint32_t slot) {
    slots[slot] = {};
    if (slot >= size) return;
    slots[slot].state = SlotState::kFree;
    free.push_back(slot);
  }
  void Leave(std::uint32_t slot) { std::erase(queue, slot); }
  void ToTail(std::uint32_t slot) {
    Leave(slot);
    queue.push_back(slot);
  }
  void Start(std::uint32_t slot, FileRange range, bool write) {
    slots[slot] = {SlotState::kMapping, 0, write, false, false, range};
    Insert(slot);
  }
  // The first slot bound to a range is found; a new one stands second, so that it is the next to be.
  void Insert(std::uint32_t slot) {
    auto& bound = bound_[slots[slot].range];
    bound.insert(bound.empty() ? bound.begin() : bound.begin() + 1, slot);
  }
  void Unbind(std::uint32_t slot) {
    auto& bound = bound_[slots[slot].range];
    std::erase(bound, slot);
    if (bound.empty()) bound_.erase(slots[slot].range);
  }
  // A doomed slot that is mapped and used by nobody is to be removed now: true.
  bool Settle(std::uint32_t slot) {
    Slot& s = slots[slot];
    if (!s.doomed || s.pins > 0) return false;
    Leave(slot);
    s.state = SlotState::kReclaiming;
    return true;
  }
  std::vector<std::uint32_t> Drop(const std::vector<std::uint32_t>& gone) {
    std::vector<std::uint32_t> now;
    for (const std::uint32_t slot : gone) {
      Unbind(slot);
      slots[slot].doomed = true;
      if (slots[slot].state == SlotState::kMapped && Settle(slot)) now.push_back(slot);
    }
    return now;
  }
  void Finish(std::uint32_t slot) {
    if (!slots[slot].doomed) Unbind(slot);
    Leave(slot);
  }

  Order order_;
  std::map<FileRange, std::vector<std::uint32_t>> bound_;
};

}  // namespace daxcache::testing_
