// A Linux guest in front of an allocator: the guest's protocol runs over a stream of touches, every lock is had at
// once, and its set-ups and removals are calls of the allocator. One thread, no clock; the worker runs to its end after
// each touch, as in replay.
//
//   AllocatorGuest<Allocator> guest(*allocator, 512);
//   int error = guest.Run(stream, [](const Event& sent) {});
#pragma once

#include <cstdint>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/event.h"
#include "daxcache/guest.h"
#include "daxcache/ids.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/policies/linux.h"
#include "daxcache/range_index.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/window.h"

namespace daxcache {
inline namespace v0 {

template <class Allocator>
class AllocatorGuest {
 public:
  using WindowType = Window<LinuxPolicy<HashIndex>>;

  // `slots` ranges of 2 MiB, which the allocator's window has too. Borrowed.
  AllocatorGuest(Allocator& allocator, std::uint32_t slots)
      : allocator_(allocator),
        window_({}, {.slots = slots, .max_slots = 0}, {}),
        guest_(window_, ReclaimOptions::Linux()) {}

  // All of the stream. Tells `sent` of every set-up, upgrade and removal before it is made. The first error, at which
  // it stops.
  template <class Sent>
  int Run(const RangeStream& stream, const Sent& sent) {
    int error = 0;
    for (std::uint64_t at = 0; at < stream.size() && error == 0; ++at) {
      const std::uint32_t word = stream.words()[at];
      const std::uint32_t number = RangeStream::NumberOf(word);
      const RangeStream::Kind kind = RangeStream::KindOf(word);
      if (kind == RangeStream::kExtendingWrite || kind == RangeStream::kTruncate) continue;
      if (kind == RangeStream::kUnlink) {
        error = Do(guest_.StartEviction(FileId{number}), sent);
        if (error == 0) error = allocator_.Evict(FileId{number});
        continue;
      }
      const FileRange range = stream.range(number);
      const Touch touch{.file = range.file, .op = static_cast<Op>(kind)};
      error = Do(IsMapped(touch.op) ? guest_.StartFault(range, touch) : guest_.StartCall(range, touch), sent);
      while (kicked_ && error == 0) {
        kicked_ = false;
        error = Do(guest_.StartWorker(), sent);
      }
    }
    return error;
  }

  const WindowType& window() const { return window_; }

 private:
  static constexpr std::uint64_t kRange = std::uint64_t{2} << 20;

  template <class Sent>
  int Do(typename Guest<WindowType>::Call call, const Sent& sent) {
    int error = 0;
    for (Action action = guest_.Next(call); action.step != Step::kDone && error == 0; action = guest_.Next(call)) {
      if (action.step == Step::kSetup || action.step == Step::kUpgrade) {
        const FileRange range = window_.range(action.slot);
        sent(Event{.kind = action.step == Step::kSetup ? EventKind::kSetup : EventKind::kUpgrade,
                   .write = action.exclusive,
                   .slot = action.slot,
                   .range = range});
        error = allocator_.SetUp({.file = range.file,
                                  .fd = kSomeDescriptor,
                                  .file_offset = range.index * kRange,
                                  .length = kRange,
                                  .window_offset = ToIndex(action.slot) * kRange,
                                  .writable = action.exclusive});
      } else if (action.step == Step::kRemove) {
        entries_.clear();
        SlotId slot = action.slot;
        for (std::uint32_t i = 0; i < action.count; ++i, slot = guest_.NextInBatch(slot)) {
          sent(Event{.kind = EventKind::kRemove, .slot = slot, .range = window_.range(slot)});
          entries_.push_back({ToIndex(slot) * kRange, kRange});
        }
        error = allocator_.Remove(entries_);
      } else if (action.step == Step::kKickWorker) {
        kicked_ = true;
      }
    }
    return error;
  }

  // For backends that do not map.
  static constexpr int kSomeDescriptor = 3;

  Allocator& allocator_;
  WindowType window_;
  Guest<WindowType> guest_;
  std::vector<Extent> entries_;
  bool kicked_ = false;  // the worker is due
};

}  // namespace v0
}  // namespace daxcache
