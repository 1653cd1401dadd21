// Replay: a trace through a window with no clock. Every mapping commits at once; what comes out is events. As fast as
// memory allows: a hit is a table look-up and the policy's own work, no hashing, no allocation, no virtual call.
//
// Under `demand` mechanics a miss takes a free slot or the policy's victim. Under Linux's the guest's protocol runs
// (daxcache/guest.h) with every answer given at once; the worker runs to its end while the access that kicked it still
// holds its range, so it never takes the range just mapped, and nothing is reclaimed inline in a window of two ranges
// or more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/event.h"
#include "daxcache/guest.h"
#include "daxcache/policy.h"
#include "daxcache/range_index.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/traces/trace.h"
#include "daxcache/window.h"

namespace daxcache {
inline namespace v0 {

struct ReplayOptions {
  ReclaimOptions mechanics;
  bool map_extending_writes = false;  // Linux: a write that extends its file bypasses the window
  bool keep_deleted = false;          // Linux: a deleted file returns its ranges
};

// What a replay runs over. Borrowed: it must outlive the replay.
struct ReplayView {
  const Trace& trace;
  const RangeStream& stream;
  // By word: the position of the next word that touches the same range, or kNoNextUse. Only for policies that look
  // ahead.
  const std::vector<std::uint32_t>* next_use = nullptr;

  static constexpr std::uint32_t kNoNextUse = 0xffffffffu;
};

// `Sink` takes every event by operator()(const Event&). Hits are many, and how many there were follows from the rest,
// so only a sink with kWantsHits = true is told of them.
template <Policy P, class Sink>
class Replay {
 public:
  using WindowType = Window<P>;
  using Key = typename P::Key;

  Replay(const ReplayView& view, const WindowOptions& window, const typename P::Options& policy,
         const ReplayOptions& options, Sink& sink)
      : view_(view),
        options_(options),
        window_({view.stream.parts().range_files, view.stream.parts().range_indexes, view.stream.parts().first_range},
                window, policy),
        guest_(window_, options.mechanics),
        sink_(sink),
        seen_(view.stream.ranges()) {
    demand_ = options.mechanics.threshold_percent == 0;
  }

  // Words [begin, end) of the stream.
  void Run(std::uint64_t begin, std::uint64_t end);

  const WindowType& window() const { return window_; }
  // Touches that took the path without DAX because their file may not use the window.
  std::uint64_t non_dax_touches() const { return non_dax_touches_; }

 private:
  // How many touches ahead the table's entry of a range is fetched, and, once that is there, what a hit on its slot
  // will read. Together as long as memory takes to answer.
  static constexpr std::uint64_t kEntryAhead = 24;
  static constexpr std::uint64_t kSlotAhead = 8;

  Touch TouchAt(std::uint64_t at, std::uint32_t number, Op op) const {
    Touch touch{.file = FileId{view_.stream.parts().range_files[number]}, .op = op};
    if constexpr (NeedsTime<P>) {
      touch.time_ns = static_cast<std::int64_t>(view_.trace.columns().time_ns[view_.stream.records()[at]]);
    }
    if constexpr (NeedsNextUse<P>) {
      const std::uint32_t next = (*view_.next_use)[at];
      touch.next_use = next == ReplayView::kNoNextUse ? kNeverUsed : next;
    }
    return touch;
  }

  void FileEvent(RangeStream::Kind kind, FileId file);
  void FilesUpTo(std::uint64_t record);
  [[gnu::always_inline]] inline void Word(std::uint64_t at, std::uint32_t word);
  [[gnu::always_inline]] inline void TouchOnce(std::uint64_t at, std::uint32_t number, Op op, bool again_at_once);
  [[gnu::noinline]] void MissOrUpgrade(const LookupResult& found, std::uint32_t number, const Touch& touch);
  void Drive(typename Guest<WindowType>::Call call);
  void RunWorker();
  // Inlined, and the sink with it, so that what a sink does not look at is never loaded: the tables of ranges are
  // larger than the processor's caches.
  [[gnu::always_inline]] void Emit(EventKind kind, SlotId slot, std::uint32_t number, bool write = false,
                                   Cause cause = Cause::kNone, bool repeated = false) {
    sink_(Event{.kind = kind,
                .cause = cause,
                .write = write,
                .repeated = repeated,
                .slot = slot,
                .range = view_.stream.range(number)},
          number);
  }
  std::uint32_t NumberAt(SlotId slot) const { return static_cast<std::uint32_t>(window_.key(slot)); }

  ReplayView view_;
  ReplayOptions options_;
  WindowType window_;
  Guest<WindowType> guest_;
  Sink& sink_;
  std::vector<bool> seen_;  // by range number: has been missed before
  bool demand_;
  bool kicked_ = false;  // a run of the worker is queued
  std::uint64_t next_record_ = 0;
  std::uint64_t non_dax_touches_ = 0;
};

template <Policy P, class Sink>
void Replay<P, Sink>::Run(std::uint64_t begin, std::uint64_t end) {
  const RangeStream& stream = view_.stream;
  const std::span<const std::uint32_t> words = stream.words();
  const std::uint32_t* const range_files = stream.parts().range_files.data();
  const std::uint32_t ranges = stream.ranges();
  const auto key_at = [&](std::uint64_t at) {
    const std::uint32_t number = RangeStream::NumberOf(words[at]);
    return Key{number < ranges ? number : 0};  // the number of a file event is a file
  };
  std::uint64_t at = begin;
  const std::uint64_t fetching = words.size() > kEntryAhead ? std::min(end, words.size() - kEntryAhead) : 0;
  for (; at < fetching; ++at) {
    window_.PrefetchEntry(key_at(at + kEntryAhead));
    const Key next = key_at(at + kSlotAhead);
    window_.PrefetchSlot(next, &range_files[static_cast<std::uint32_t>(next)]);
    Word(at, words[at]);
  }
  for (; at < end; ++at) Word(at, words[at]);
  if constexpr (SeesFiles<P>) {
    if (end == words.size() && view_.trace.size() > 0) FilesUpTo(view_.trace.size() - 1);
  }
}

template <Policy P, class Sink>
void Replay<P, Sink>::Word(std::uint64_t at, std::uint32_t word) {
  RangeStream::Kind kind = RangeStream::KindOf(word);
  const std::uint32_t number = RangeStream::NumberOf(word);
  const std::uint8_t* const repeats = view_.stream.repeats().data();
  if constexpr (SeesFiles<P>) FilesUpTo(view_.stream.records()[at]);
  if (kind >= RangeStream::kExtendingWrite) [[unlikely]] {
    if (kind != RangeStream::kExtendingWrite) {
      FileEvent(kind, FileId{number});
      return;
    }
    if (!options_.map_extending_writes) {
      // Past the window, but it makes its file hotter.
      if constexpr (SeesFiles<P>) {
        const Touch touch = TouchAt(at, number, Op::kWrite);
        (void)window_.policy().UsesWindow(touch.file);
        window_.policy().OnNonDax(touch);
      }
      return;
    }
    kind = RangeStream::kWrite;
  }
  const Op op = static_cast<Op>(kind);
  if constexpr (SeesFiles<P>) {
    const Touch touch = TouchAt(at, number, op);
    if (!window_.policy().UsesWindow(touch.file)) {
      window_.policy().OnNonDax(touch);
      non_dax_touches_ += repeats[at];
      return;
    }
  }
  TouchOnce(at, number, op, NeedsNextUse<P> && repeats[at] > 1);
  if constexpr (P::kRepeats != Repeats::kNone || Sink::kWantsHits) {
    const int again = P::kRepeats == Repeats::kOnce && !Sink::kWantsHits ? repeats[at] > 1 : repeats[at] - 1;
    for (int i = 0; i < again; ++i) TouchOnce(at, number, op, false);
  }
}

// `again_at_once`: the touch is the first of a run, so its next use is its own repetition.
template <Policy P, class Sink>
void Replay<P, Sink>::TouchOnce(std::uint64_t at, std::uint32_t number, Op op, bool again_at_once) {
  // The touch is made anew where it is needed, so that a hit loads only what its policy looks at.
  const auto touch = [&] {
    Touch made = TouchAt(at, number, op);
    if (again_at_once) made.next_use = at;
    return made;
  };
  const LookupResult found = window_.Lookup(Key{number}, touch());
  if (found.kind == LookupKind::kHit) {
    if constexpr (Sink::kWantsHits) Emit(EventKind::kHit, found.slot, number, IsWrite(op));
  } else {
    MissOrUpgrade(found, number, touch());
  }
}

template <Policy P, class Sink>
void Replay<P, Sink>::FileEvent(RangeStream::Kind kind, FileId file) {
  // Truncation leaves ranges mapped: a file written anew finds them.
  if (kind != RangeStream::kUnlink || options_.keep_deleted) return;
  Drive(guest_.StartEviction(file));
  if constexpr (SeesFiles<P>) window_.policy().OnEvict(file);
}

// Tells a policy that follows files of the opens and closes up to `record`.
template <Policy P, class Sink>
void Replay<P, Sink>::FilesUpTo(std::uint64_t record) {
  if constexpr (SeesFiles<P>) {
    const Trace::Columns& columns = view_.trace.columns();
    for (; next_record_ <= record; ++next_record_) {
      const Op op = static_cast<Op>(columns.op[next_record_]);
      if (op != Op::kOpen && op != Op::kClose) continue;
      const Access access = view_.trace[next_record_];
      // True: the inode was evicted, and with an open instantiated again with another answer.
      const bool evicted =
          op == Op::kOpen ? window_.policy().OnOpen(access.file, access.length) : window_.policy().OnClose(access.file);
      if (evicted) Drive(guest_.StartEviction(access.file));
    }
  }
}

template <Policy P, class Sink>
void Replay<P, Sink>::MissOrUpgrade(const LookupResult& found, std::uint32_t number, const Touch& touch) {
  const Key key{number};
  const bool write = IsWrite(touch.op);
  if (found.kind == LookupKind::kMiss) {
    Emit(EventKind::kMiss, kNoSlot, number, write, Cause::kNone, seen_[number]);
    seen_[number] = true;
  }
  if (!demand_) {
    Drive(IsMapped(touch.op) ? guest_.StartFault(key, touch) : guest_.StartCall(key, touch));
    return;
  }
  // Nothing waits and nothing is pinned, so the protocol comes down to this.
  if (found.kind == LookupKind::kMustUpgrade) {
    window_.BeginUpgrade(found.slot);
    Emit(EventKind::kUpgrade, found.slot, number, true);
    [[maybe_unused]] const bool doomed = window_.Commit(found.slot, touch);
    return;
  }
  if (!window_.Admit(key, touch)) {
    Emit(EventKind::kBypass, kNoSlot, number, write);
    return;
  }
  SlotId slot = window_.Take();
  if (slot == kNoSlot) {
    slot = window_.BeginReclaim(Scope::Any(), key, touch);
    if (slot == kNoSlot) {
      Emit(EventKind::kBypass, kNoSlot, number, write);
      return;
    }
    const std::uint32_t victim = NumberAt(slot);
    if (options_.mechanics.send_remove) Emit(EventKind::kRemove, slot, victim, false, Cause::kInline);
    Emit(EventKind::kReclaim, slot, victim, false, Cause::kInline);
    [[maybe_unused]] const bool kept = window_.CommitReclaimAndTake(slot);
  }
  [[maybe_unused]] const auto bound = window_.Bind(slot, key, touch);
  Emit(EventKind::kSetup, slot, number, write);
  [[maybe_unused]] const bool doomed = window_.Commit(slot, touch);
}

template <Policy P, class Sink>
void Replay<P, Sink>::Drive(typename Guest<WindowType>::Call call) {
  for (;;) {
    const Action action = guest_.Next(call);
    switch (action.step) {
      case Step::kDone: return;
      case Step::kSetup: Emit(EventKind::kSetup, action.slot, NumberAt(action.slot), action.exclusive); break;
      case Step::kUpgrade: Emit(EventKind::kUpgrade, action.slot, NumberAt(action.slot), true); break;
      case Step::kRemove: {
        SlotId slot = action.slot;
        for (std::uint32_t i = 0; i < action.count; ++i, slot = guest_.NextInBatch(slot)) {
          Emit(EventKind::kRemove, slot, NumberAt(slot), false, action.cause);
        }
        break;
      }
      case Step::kFreed:
        if (action.cause != Cause::kNone) {
          Emit(EventKind::kReclaim, action.slot, NumberAt(action.slot), false, action.cause);
        }
        break;
      case Step::kUseDirect:
        Emit(EventKind::kBypass, kNoSlot, static_cast<std::uint32_t>(call.key()), action.exclusive);
        break;
      case Step::kKickWorker: kicked_ = true; break;
      case Step::kUse:
        if (kicked_) RunWorker();
        break;
      case Step::kWaitForRange: RunWorker(); break;
      case Step::kLock:
      case Step::kUnlock:
      case Step::kZap:
      case Step::kTryAgain: break;
    }
  }
}

// Runs the worker as long as it queues itself again and gets on. If it does not get on (everything left is in use), it
// stays queued, and runs when the next access maps a range.
template <Policy P, class Sink>
void Replay<P, Sink>::RunWorker() {
  for (bool freed = true; freed;) {
    const std::uint32_t before = window_.free_slots();
    kicked_ = false;
    Drive(guest_.StartWorker());
    freed = kicked_ && window_.free_slots() > before;
  }
}

}  // namespace v0
}  // namespace daxcache
