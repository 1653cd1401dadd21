// The guest's protocol around the window, as Linux has it (fs/fuse/dax.c, 6.1), written once: given an access, or the
// answer to what it asked for last, it says what comes next. It does none of it. Replay answers everything at once, the
// timed engine gives every step a time and every lock its waiters, and a test guest sends real messages.
//
//   Guest<Win>::Call call = guest.StartFault(key, touch);
//   for (Action action = guest.Next(call); action.step != Step::kDone; action = guest.Next(call, error)) Do(action);
//
// A call is a few words, owned by the driver; any number may be under way. Each inode has three locks; a fault holds a
// fourth, of its range alone (`Lock`).
#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daxcache/access.h"
#include "daxcache/event.h"
#include "daxcache/ids.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/window.h"

namespace daxcache {
inline namespace v0 {

// In the order in which they are taken.
enum class Lock : std::uint8_t {
  kInode,       // i_rwsem: reads shared, writes exclusive
  kInvalidate,  // mapping.invalidate_lock: faults shared; reclaim, which takes ranges out of page tables, exclusive
  kEntry,       // the range's entry in the mapping's xarray, held by a fault: exclusive
  kDax,         // fi->dax->sem: look-ups shared; set-up, upgrade and reclaim exclusive
};

enum class Step : std::uint8_t {
  kLock,  // take `lock` of `file` (kEntry: of this range of it), shared or `exclusive`
  kUnlock,
  kSetup,         // FUSE_SETUPMAPPING of `slot`, `exclusive` for writing; answer with its error
  kUpgrade,       // the same over the same slot, now for writing
  kRemove,        // FUSE_REMOVEMAPPING of the `count` slots that begin with `slot` (NextInBatch); answer with its error
  kZap,           // take a range out of the guest's page tables and wait for its pinned pages, or write its dirty pages
                  // back; answer with the error, which ends the reclaim (but not a shrink: that range has to go)
  kUse,           // read, write or map through `slot`, which is pinned meanwhile
  kUseDirect,     // the access goes to the daemon without the window (extends its file, or was not admitted)
  kWaitForRange,  // sleep until a range is freed: faults all wake, calls (`exclusive`) one at a time
  kFreed,         // `slot` was taken back because of `cause`; `wake`: it is on the free list, so wake those who wait
  kKickWorker,    // run the worker after `delay_ns`
  kTryAgain,      // somebody else's step has to come first: let others run
  kDone,          // `error`: 0, or the negative errno that ended it
};

// What the driver has to do. Which fields mean something depends on the step.
struct Action {
  Step step = Step::kDone;
  Lock lock = Lock::kInode;    // kLock, kUnlock
  Cause cause = Cause::kNone;  // kRemove, kFreed: why the slots are given up; kNone: one was taken and not needed
  bool exclusive = false;      // kLock, kUnlock: not shared; kSetup, kUpgrade, kUse, kUseDirect: for writing;
                               // kWaitForRange: woken one at a time
  bool wake = false;           // kFreed
  FileId file = kNoFile;       // whose lock, or whose range; kNoFile for the kRemove of a shrink, which is of any files
  SlotId slot = kNoSlot;       // which; kNoSlot for kUseDirect
  std::uint32_t count = 0;     // kRemove: how many
  int error = 0;               // kDone
  std::int64_t delay_ns = 0;   // kKickWorker
};

template <class WindowType>
class Guest {
 public:
  using Key = typename WindowType::Key;
  using Index = typename WindowType::Index;
  // FUSE_REMOVEMAPPING_MAX_ENTRY: a page's worth of 16-byte entries.
  static constexpr std::uint32_t kRemoveBatch = 4096 / 16;

  // One access, eviction or worker run under way. Opaque but for what was asked.
  class Call {
   public:
    const Key& key() const { return key_; }  // the range it is at
    const Touch& touch() const { return touch_; }
    const Key& victim_key() const { return victim_key_; }  // the range of a kZap
    SlotId slot() const { return slot_; }                  // it uses, or kNoSlot

   private:
    friend class Guest;
    enum class Kind : std::uint8_t { kCall, kFault, kWorker, kEviction, kShrink };
    // Named for what is done next.
    enum class State : std::uint8_t {
      // an access
      kStart,
      kLockEntry,
      kLockDax,
      kLookup,
      kTryAgain,
      kUse,
      kUseDirect,
      kUnpin,
      kUnpinRemove,
      kUnpinned,
      kNextRange,
      kFinish,
      kFinishFault,
      kEnd,
      // its upgrade; its set-up
      kLockToUpgrade,
      kUpgrade,
      kUpgraded,
      kTake,
      kTaken,
      kLockToBind,
      kBind,
      kUnlockLost,
      kSetUp,
      kUnlockFailed,
      // its wait for a range
      kSleep,
      kSleepUnlock,
      kWait,
      kWoken,
      // a reclaim, by an access or by the worker
      kReclaimUnlockEntry,
      kReclaimUnlockFault,
      kReclaimBegin,
      kLockToPick,
      kPick,
      kUnlockNoVictim,
      kZap,
      kLockToReclaim,
      kReclaim,
      kZapped,
      kReclaimed,
      kReclaimUnlock,
      kReclaimUnlockOuter,
      kReclaimEnd,
      kNoVictim,
      kWorkerEnd,
      // an eviction, or a smaller window
      kEvict,
      kEvictZap,
      kEvictSend,
      kEvictFree,
      kEvictEnd,
    };
    Kind kind_ = Kind::kCall;
    State state_ = State::kStart;
    bool extends_ = false;
    bool asked_ = false;     // the policy has been asked to admit this range
    bool unlocked_ = false;  // a fault that let go of its locks to reclaim
    bool redo_ = false;      // look this range up again
    int error_ = 0;
    std::uint32_t ranges_ = 1;    // of the access, still to come; of an eviction, still to be removed; of a shrink, all
    std::uint32_t attempts_ = 0;  // of the worker's run
    FileId file_ = kNoFile;
    FileId victim_file_ = kNoFile;
    SlotId slot_ = kNoSlot;    // in use, and pinned
    SlotId spare_ = kNoSlot;   // taken, to be bound
    SlotId victim_ = kNoSlot;  // being reclaimed; of an eviction, the first
    SlotId cursor_ = kNoSlot;  // of an eviction, the next to remove
    Key key_{};
    Key victim_key_{};
    Touch touch_;
  };

  Guest(WindowType& window, const ReclaimOptions& options)
      : window_(window), options_(options), batch_(window.capacity(), kNoSlot) {}

  // A read(2) or write(2) of `ranges` >= 1 ranges from `key` on. `extends`: a write whose end lies beyond the file's.
  // The keys that follow `key` (`Index::Following`) must be those of the following ranges of the same file: always so
  // with HashIndex, but with DenseIndex only if the trace has numbered them all.
  Call StartCall(const Key& key, const Touch& touch, std::uint32_t ranges = 1, bool extends = false) const {
    Call call;
    call.kind_ = Call::Kind::kCall;
    call.key_ = key;
    call.touch_ = touch;
    call.file_ = touch.file;
    call.ranges_ = ranges;
    call.extends_ = extends;
    return call;
  }
  // A page fault.
  Call StartFault(const Key& key, const Touch& touch) const {
    Call call = StartCall(key, touch);
    call.kind_ = Call::Kind::kFault;
    return call;
  }
  // The inode of `file` goes away, and with it its ranges.
  Call StartEviction(FileId file) const {
    Call call;
    call.kind_ = Call::Kind::kEviction;
    call.file_ = file;
    call.state_ = Call::State::kEvict;
    return call;
  }
  // The window becomes `slots` ranges smaller, from its end (Window::Shrink). Ranges in use go when their last user is
  // done, which is after this call. Ends with -EINVAL, and has done nothing, if no range would be left.
  Call StartShrink(std::uint32_t slots) const {
    Call call;
    call.kind_ = Call::Kind::kShrink;
    call.ranges_ = slots;
    call.state_ = Call::State::kEvict;
    return call;
  }
  // A run of the worker, when a kick's delay is over. Kicks that come from now on queue another run.
  Call StartWorker() {
    worker_pending_ = false;
    Call call;
    call.kind_ = Call::Kind::kWorker;
    call.state_ = Call::State::kPick;
    return call;
  }

  // Instead of StartWorker, where a kick was answered by a larger window: the next one that is due is told again.
  void DropKick() { worker_pending_ = false; }

  // What comes next. `error`: of the message that the last action asked to send, 0 or a negative errno; of a wait, 0 or
  // what ended it early. `lost`: a kUpgrade ended with an error, and the host has not kept the mapping that was there
  // before, so the range is gone.
  Action Next(Call& call, int error = 0, bool lost = false);

  // The slot after `slot` in a kRemove of several, or kNoSlot.
  SlotId NextInBatch(SlotId slot) const { return batch_[ToIndex(slot)]; }

  bool BelowThreshold() const { return window_.free_slots() < options_.Threshold(window_.size()); }
  const ReclaimOptions& options() const { return options_; }
  WindowType& window() { return window_; }

 private:
  using State = typename Call::State;
  using Kind = typename Call::Kind;

  // Every action that is returned sets the state in which the call goes on.
  Action Do(Call& call, State next, Action action) const {
    call.state_ = next;
    return action;
  }
  Action Acquire(Call& call, State next, Lock lock, bool exclusive) const {
    return Do(call, next, {.step = Step::kLock, .lock = lock, .exclusive = exclusive, .file = LockFile(call)});
  }
  Action Unlock(Call& call, State next, Lock lock, bool exclusive) const {
    return Do(call, next, {.step = Step::kUnlock, .lock = lock, .exclusive = exclusive, .file = LockFile(call)});
  }
  Action Ask(Call& call, State next, Step step, SlotId slot) const {
    return Do(call, next,
              {.step = step, .exclusive = IsWrite(call.touch_.op), .file = call.file_, .slot = slot, .count = 1});
  }
  Action Freed(Call& call, State next, SlotId slot, Cause cause) const {
    // A slot that its reclaimer keeps wakes nobody, nor does one that retired.
    const bool wake = window_.state(slot) == SlotState::kFree;
    return Do(call, next, {.step = Step::kFreed, .cause = cause, .wake = wake, .slot = slot, .count = 1});
  }
  static bool Reclaims(State state) { return state >= State::kReclaimBegin && state < State::kReclaimEnd; }
  // A reclaim locks its victim's inode, everything else the access's own.
  static FileId LockFile(const Call& call) { return Reclaims(call.state_) ? call.victim_file_ : call.file_; }

  InlineReclaim Inline(const Call& call) const { return call.kind_ == Kind::kFault ? options_.faults : options_.calls; }
  bool OwnFileOnly(const Call& call) const {
    return call.kind_ != Kind::kWorker && Inline(call) == InlineReclaim::kOwnFile;
  }
  // The victim's range, whatever its slot has come to hold meanwhile.
  Action Zap(Call& call, State next) const {
    return Do(call, next, {.step = Step::kZap, .file = call.victim_file_, .slot = call.victim_, .count = 1});
  }
  SlotId Pick(const Call& call) {
    if (call.kind_ == Kind::kWorker) return window_.PickVictim(Scope::Any());
    return window_.PickVictim(OwnFileOnly(call) ? Scope::File(call.file_) : Scope::Any(), call.key_, call.touch_);
  }
  bool StillThere(const Call& call) const {
    return window_.CanReclaim(call.victim_) && window_.key(call.victim_) == call.victim_key_;
  }
  // Why a slot that is reclaimed because it is doomed is.
  Cause DoomedBy(SlotId slot) const { return window_.shrunk(slot) ? Cause::kShrunk : Cause::kEvicted; }
  static Cause CauseOf(const Call& call) { return call.kind_ == Kind::kShrink ? Cause::kShrunk : Cause::kEvicted; }
  // True if the worker has to be queued.
  bool Kick() {
    if (worker_pending_ || !BelowThreshold()) return false;
    return worker_pending_ = true;
  }

  WindowType& window_;
  ReclaimOptions options_;
  std::vector<SlotId> batch_;  // by slot: the next one of an eviction or a shrink
  bool worker_pending_ = false;
};

template <class WindowType>
Action Guest<WindowType>::Next(Call& call, int error, bool lost) {
  for (;;) {
    switch (call.state_) {
      // --- an access ------------------------------------------------------------------------------------------------
      case State::kStart:
        if (call.kind_ == Kind::kFault) return Acquire(call, State::kLockEntry, Lock::kInvalidate, false);
        return Acquire(call, call.extends_ ? State::kUseDirect : State::kLockDax, Lock::kInode,
                       IsWrite(call.touch_.op));
      case State::kLockEntry: return Acquire(call, State::kLockDax, Lock::kEntry, true);
      case State::kLockDax: return Acquire(call, State::kLookup, Lock::kDax, false);
      case State::kLookup: {
        if (call.spare_ != kNoSlot && window_.Find(call.key_) != kNoSlot) {
          // A fault let go of its locks to find a slot, and somebody else mapped the range meanwhile.
          window_.Return(call.spare_);
          return Freed(call, State::kLookup, std::exchange(call.spare_, kNoSlot), Cause::kNone);
        }
        const LookupResult found = window_.Lookup(call.key_, call.touch_);
        switch (found.kind) {
          case LookupKind::kHit:
            window_.Pin(call.slot_ = found.slot);
            return Unlock(call, State::kUse, Lock::kDax, false);
          case LookupKind::kMustUpgrade:
            window_.Pin(call.slot_ = found.slot);  // so that it stays while the semaphore is let go
            return Unlock(call, State::kLockToUpgrade, Lock::kDax, false);
          case LookupKind::kBusy: return Unlock(call, State::kTryAgain, Lock::kDax, false);
          case LookupKind::kMiss: break;
        }
        if (call.spare_ != kNoSlot) return Unlock(call, State::kLockToBind, Lock::kDax, false);
        const bool admitted = call.asked_ || window_.Admit(call.key_, call.touch_);
        call.asked_ = true;
        return Unlock(call, admitted ? State::kTake : State::kUseDirect, Lock::kDax, false);
      }
      case State::kTryAgain: return Do(call, State::kLockDax, {.step = Step::kTryAgain});
      case State::kUse: return Ask(call, State::kUnpin, Step::kUse, call.slot_);
      case State::kUseDirect:
        return Ask(call, call.extends_ ? State::kFinish : State::kNextRange, Step::kUseDirect, kNoSlot);
      case State::kUnpin:
        if (!window_.Unpin(call.slot_)) {
          call.slot_ = kNoSlot;
          call.state_ = State::kNextRange;
          continue;
        }
        // Its file or its slot went away while it was in use, and this was the last user. Nobody can find it any more,
        // so it needs no lock; but if its file is still there, tasks may have it in their page tables.
        call.state_ = State::kUnpinRemove;
        if (!window_.shrunk(call.slot_) && !window_.lost(call.slot_)) continue;
        call.victim_key_ = window_.key(call.slot_);
        return {.step = Step::kZap, .file = call.file_, .slot = call.slot_, .count = 1};
      case State::kUnpinRemove: {
        call.state_ = State::kUnpinned;
        if (!options_.send_remove || window_.lost(call.slot_)) continue;
        Action remove = Ask(call, State::kUnpinned, Step::kRemove, call.slot_);
        remove.cause = DoomedBy(call.slot_);
        return remove;
      }
      case State::kUnpinned: {
        const Cause cause = DoomedBy(call.slot_);
        window_.CommitReclaim(call.slot_);
        return Freed(call, State::kNextRange, std::exchange(call.slot_, kNoSlot), cause);
      }
      case State::kNextRange:
        if (call.error_ == 0 && !call.redo_ && --call.ranges_ > 0) {
          call.key_ = Index::Following(call.key_);
          call.asked_ = false;
          call.redo_ = true;
        }
        call.state_ = call.error_ == 0 && std::exchange(call.redo_, false) ? State::kLockDax : State::kFinish;
        continue;
      case State::kFinish:
        if (call.kind_ == Kind::kFault) {
          if (call.unlocked_) {
            call.state_ = State::kEnd;
            continue;
          }
          return Unlock(call, State::kFinishFault, Lock::kEntry, true);
        }
        return Unlock(call, State::kEnd, Lock::kInode, IsWrite(call.touch_.op));
      case State::kFinishFault: return Unlock(call, State::kEnd, Lock::kInvalidate, false);
      case State::kEnd: return {.step = Step::kDone, .error = call.error_};

      // --- an upgrade -----------------------------------------------------------------------------------------------
      case State::kLockToUpgrade: return Acquire(call, State::kUpgrade, Lock::kDax, true);
      case State::kUpgrade:
        if (window_.state(call.slot_) != SlotState::kMapped || window_.doomed(call.slot_) ||
            window_.writable(call.slot_)) {
          // Upgraded by somebody else: use it. Gone with its file: begin again.
          call.redo_ = window_.Lookup(call.key_, call.touch_).slot != call.slot_;
          return Unlock(call, call.redo_ ? State::kUnpin : State::kUse, Lock::kDax, true);
        }
        window_.BeginUpgrade(call.slot_);
        return Ask(call, State::kUpgraded, Step::kUpgrade, call.slot_);
      case State::kUpgraded: {
        // The slot is pinned, so no answer makes it ours to remove before the pin is gone.
        call.error_ = error;
        [[maybe_unused]] const bool remove = error == 0 ? window_.Commit(call.slot_, call.touch_)
                                             : lost     ? window_.AbortLost(call.slot_)
                                                        : window_.Abort(call.slot_);
        return Unlock(call, error == 0 ? State::kUse : State::kUnpin, Lock::kDax, true);
      }

      // --- a set-up -------------------------------------------------------------------------------------------------
      case State::kTake:
        call.spare_ = window_.Take();
        call.state_ = State::kTaken;
        if (Kick()) return {.step = Step::kKickWorker};
        continue;
      case State::kTaken:
        if (call.spare_ != kNoSlot) {
          call.state_ = State::kLockToBind;
        } else if (Inline(call) == InlineReclaim::kNever) {
          call.state_ = State::kSleep;
        } else {
          call.state_ = call.kind_ == Kind::kFault ? State::kReclaimUnlockEntry : State::kReclaimBegin;
        }
        continue;
      case State::kLockToBind: return Acquire(call, State::kBind, Lock::kDax, true);
      case State::kBind: {
        const SlotId slot = std::exchange(call.spare_, kNoSlot);
        const auto bound = window_.Bind(slot, call.key_, call.touch_);
        if (!bound.must_map) {
          // Mapped by somebody else meanwhile: use that, unless this is a write and that is read-only.
          const LookupResult found = window_.Lookup(call.key_, call.touch_);
          if (found.kind == LookupKind::kHit) window_.Pin(call.slot_ = found.slot);
          return Freed(call, State::kUnlockLost, slot, Cause::kNone);
        }
        call.slot_ = slot;
        return Ask(call, State::kSetUp, Step::kSetup, slot);
      }
      case State::kUnlockLost:
        return Unlock(call, call.slot_ != kNoSlot ? State::kUse : State::kLockDax, Lock::kDax, true);
      case State::kSetUp: {
        if (error != 0) {
          call.error_ = error;
          [[maybe_unused]] const bool remove = window_.Abort(call.slot_);  // nothing was mapped
          return Freed(call, State::kUnlockFailed, std::exchange(call.slot_, kNoSlot), Cause::kNone);
        }
        window_.Pin(call.slot_);
        [[maybe_unused]] const bool remove = window_.Commit(call.slot_, call.touch_);  // pinned: never now
        return Unlock(call, State::kUse, Lock::kDax, true);
      }
      case State::kUnlockFailed: return Unlock(call, State::kFinish, Lock::kDax, true);

      // --- nothing free, and no reclaim allowed: wait ---------------------------------------------------------------
      case State::kSleep:
        if (call.kind_ == Kind::kFault) return Unlock(call, State::kSleepUnlock, Lock::kEntry, true);
        call.state_ = State::kWait;
        continue;
      case State::kSleepUnlock: return Unlock(call, State::kWait, Lock::kInvalidate, false);
      case State::kWait:
        if (window_.free_slots() > 0) {
          error = 0;
          call.state_ = State::kWoken;
          continue;
        }
        return Do(call, State::kWoken, {.step = Step::kWaitForRange, .exclusive = call.kind_ == Kind::kCall});
      case State::kWoken:
        // A fault begins anew; a call only tries to take a range again, and can be killed.
        call.error_ = call.kind_ == Kind::kCall ? error : 0;
        if (call.kind_ == Kind::kFault) {
          call.state_ = State::kStart;
        } else {
          call.state_ = error == 0 ? State::kTake : State::kFinish;
        }
        continue;

      // --- a reclaim ------------------------------------------------------------------------------------------------
      // A fault holds its own inode's invalidate lock, which the reclaim may need: it lets go of its locks and, with a
      // slot in hand, begins again.
      case State::kReclaimUnlockEntry:
        call.unlocked_ = true;
        return Unlock(call, State::kReclaimUnlockFault, Lock::kEntry, true);
      case State::kReclaimUnlockFault: return Unlock(call, State::kReclaimBegin, Lock::kInvalidate, false);
      case State::kReclaimBegin:
        if (OwnFileOnly(call)) {
          call.victim_file_ = call.file_;
          return Acquire(call, State::kLockToPick, Lock::kInvalidate, true);
        }
        call.state_ = State::kPick;
        continue;
      case State::kLockToPick: return Acquire(call, State::kPick, Lock::kDax, false);
      case State::kPick:
        call.victim_ = Pick(call);
        if (call.victim_ != kNoSlot) {
          call.victim_key_ = window_.key(call.victim_);
          call.victim_file_ = window_.range(call.victim_).file;
        }
        if (OwnFileOnly(call)) {
          return Unlock(call, call.victim_ != kNoSlot ? State::kZap : State::kUnlockNoVictim, Lock::kDax, false);
        }
        if (call.victim_ != kNoSlot) return Acquire(call, State::kZap, Lock::kInvalidate, true);
        call.state_ = call.kind_ == Kind::kWorker ? State::kWorkerEnd : State::kNoVictim;
        continue;
      case State::kUnlockNoVictim: return Unlock(call, State::kNoVictim, Lock::kInvalidate, true);
      case State::kZap: return Zap(call, State::kLockToReclaim);
      case State::kLockToReclaim:
        if (error != 0) {
          call.error_ = error;
          call.state_ = State::kReclaimUnlockOuter;
          continue;
        }
        return Acquire(call, State::kReclaim, Lock::kDax, true);
      case State::kReclaim:
        if (!StillThere(call)) {
          call.state_ = State::kReclaimUnlock;
          continue;
        }
        window_.BeginReclaim(call.victim_);
        return Zap(call, State::kZapped);  // again: somebody may have faulted pages in until the semaphore was held
      case State::kZapped:
        if (error != 0 && window_.AbortReclaim(call.victim_)) {
          call.error_ = error;
          call.state_ = State::kReclaimUnlock;
          continue;
        }
        call.state_ = State::kReclaimed;
        if (!options_.send_remove) continue;
        return {.step = Step::kRemove,
                .cause = call.kind_ == Kind::kWorker ? Cause::kBackground : Cause::kInline,
                .file = call.victim_file_,
                .slot = call.victim_,
                .count = 1};
      case State::kReclaimed:
        // An error from the removal is only logged: the slot is used again all the same.
        if (call.kind_ == Kind::kWorker) {
          window_.CommitReclaim(call.victim_);
          return Freed(call, State::kReclaimUnlock, call.victim_, Cause::kBackground);
        }
        if (window_.CommitReclaimAndTake(call.victim_)) call.spare_ = call.victim_;
        return Freed(call, State::kReclaimUnlock, call.victim_, Cause::kInline);
      case State::kReclaimUnlock: return Unlock(call, State::kReclaimUnlockOuter, Lock::kDax, true);
      case State::kReclaimUnlockOuter: return Unlock(call, State::kReclaimEnd, Lock::kInvalidate, true);
      case State::kReclaimEnd:
        if (call.kind_ == Kind::kWorker) {
          // A range that vanished or is in use counts as an attempt; an error ends the run.
          call.state_ = call.error_ == 0 && ++call.attempts_ < options_.chunk ? State::kPick : State::kWorkerEnd;
        } else if (call.error_ != 0) {
          call.state_ = State::kFinish;
        } else if (std::exchange(call.unlocked_, false)) {
          call.state_ = State::kStart;
        } else {
          call.state_ = call.spare_ != kNoSlot ? State::kLockToBind : State::kTake;
        }
        continue;
      case State::kNoVictim: {
        // All of the ranges in scope are in use: try again at once. None there at all: sleep, like those who may not
        // reclaim.
        const bool some = !OwnFileOnly(call) || window_.index().AtOrAfter(call.file_, 0) != kNoSlot;
        const bool fault = std::exchange(call.unlocked_, false);
        if (some) return Do(call, fault ? State::kStart : State::kTake, {.step = Step::kTryAgain});
        call.state_ = State::kWait;
        continue;
      }
      case State::kWorkerEnd:
        call.state_ = State::kEnd;
        if (Kick()) return {.step = Step::kKickWorker, .delay_ns = absl::ToInt64Nanoseconds(options_.delay)};
        continue;

      // --- an eviction, or a smaller window -------------------------------------------------------------------------
      case State::kEvict: {
        std::uint32_t found = 0;
        const auto reclaiming = [&](SlotId slot) {
          (found++ == 0 ? call.victim_ : batch_[ToIndex(call.cursor_)]) = slot;
          call.cursor_ = slot;
          batch_[ToIndex(slot)] = kNoSlot;
        };
        if (call.kind_ == Kind::kEviction) {
          window_.Invalidate(call.file_, reclaiming);
        } else if (!window_.Shrink(call.ranges_, reclaiming).ok()) {
          call.error_ = -EINVAL;
        }
        call.ranges_ = found;
        call.cursor_ = call.victim_;
        call.state_ = State::kEvictZap;
        continue;
      }
      case State::kEvictZap: {
        // An inode that goes away has no pages left in anybody's page tables. The files of a smaller window live on;
        // their ranges cannot be found any more, so no lock is needed.
        if (call.kind_ == Kind::kShrink && call.cursor_ != kNoSlot) {
          const SlotId slot = std::exchange(call.cursor_, batch_[ToIndex(call.cursor_)]);
          call.victim_key_ = window_.key(slot);
          return Do(call, State::kEvictZap,
                    {.step = Step::kZap, .file = window_.range(slot).file, .slot = slot, .count = 1});
        }
        call.cursor_ = call.victim_;
        call.state_ = options_.send_remove ? State::kEvictSend : State::kEvictFree;
        error = 0;
        continue;
      }
      case State::kEvictSend: {
        // None is free until all are answered. An error is only logged, but ends the sending of an eviction: all ranges
        // are used again, removed or not. Those of a shrink are not, so the host has to be asked for all.
        if (call.ranges_ == 0 || (error != 0 && call.kind_ == Kind::kEviction)) {
          call.state_ = State::kEvictFree;
          continue;
        }
        const SlotId first = call.cursor_;
        const std::uint32_t count = call.ranges_ < kRemoveBatch ? call.ranges_ : kRemoveBatch;
        for (std::uint32_t i = 0; i < count; ++i) call.cursor_ = batch_[ToIndex(call.cursor_)];
        call.ranges_ -= count;
        return Do(call, State::kEvictSend,
                  {.step = Step::kRemove, .cause = CauseOf(call), .file = call.file_, .slot = first, .count = count});
      }
      case State::kEvictFree: {
        if (call.victim_ == kNoSlot) {
          call.state_ = State::kEvictEnd;
          continue;
        }
        const SlotId slot = std::exchange(call.victim_, batch_[ToIndex(call.victim_)]);
        window_.CommitReclaim(slot);
        return Freed(call, State::kEvictFree, slot, CauseOf(call));
      }
      case State::kEvictEnd:
        call.state_ = State::kEnd;
        // What is free of a smaller window may be too little.
        if (call.kind_ == Kind::kShrink && call.error_ == 0 && Kick()) return {.step = Step::kKickWorker};
        continue;
    }
  }
}

}  // namespace v0
}  // namespace daxcache
