// Fuzzes the window and the guest: bytes become legal calls, answers and interleavings, for every policy on the list.
// The first byte chooses the policy, the second whether the window is called bare or through a guest with several
// calls at once under real locks. After every step the invariants hold, or the program aborts.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daxcache/guest.h"
#include "daxcache/policies/any_policy.h"
#include "daxcache/window.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace daxcache;
using daxcache::testing_::FuzzInput;
using daxcache::testing_::Require;

constexpr std::uint32_t kSlots = 6;
constexpr std::uint32_t kMaxRanges = 10;

class Fuzzer {
 public:
  using P = AnyPolicy<HashIndex>;

  Fuzzer(FuzzInput& bytes, const PolicySpec& policy, const ReclaimOptions& mechanics)
      : bytes_(bytes),
        window_({}, {.slots = kSlots, .max_slots = kMaxRanges}, {.spec = policy}),
        guest_(window_, mechanics) {}

  void Bare() {
    while (!bytes_.empty()) {
      Call();
      Check();
    }
  }

  void Interleaved() {
    while (!bytes_.empty()) {
      const std::uint32_t what = bytes_.Below(16);
      if (what < 4 && calls_.size() < 8) {
        Start();
      } else if (what == 4) {
        Resize();
      } else if (what == 5 && kicked_ && !worker_runs_) {
        StartWorker();
      } else {
        StepOne(bytes_.Next(), bytes_.Below(8) == 0 ? -5 : 0);
      }
      Check();
    }
    // All come to their end when everything is answered.
    for (int step = 0; !calls_.empty(); ++step) {
      Require(step < 100000, "some call never ends");
      if (kicked_ && !worker_runs_) StartWorker();
      // Any order that gives each its turn; in a regular one, calls that try again can keep step with one another.
      StepOne(static_cast<std::uint32_t>(step) * 2654435761u >> 16, 0);
      Check();
    }
    Require(locks_.empty(), "a lock is held at the end");
    for (std::uint32_t i = 0; i < window_.capacity(); ++i) {
      const SlotState state = window_.state(SlotId{i});
      Require(state == SlotState::kFree || state == SlotState::kMapped || state == SlotState::kRetired,
              "a slot is in flight at the end");
      Require(window_.pins(SlotId{i}) == 0, "a slot is pinned at the end");
    }
  }

 private:
  using Win = Window<P>;
  using GuestCall = Guest<Win>::Call;
  struct LockName {
    Lock lock;
    FileId file;
    std::uint64_t range;
    auto operator<=>(const LockName&) const = default;
  };
  struct Running {
    GuestCall call;
    Action action;
    bool worker = false;
    bool fault = false;
    bool locking = false;
    bool waiting = false;
  };

  FileRange Range() {
    const std::uint8_t byte = bytes_.Next();
    const std::uint64_t index = byte % 8 == 7 ? ~std::uint64_t{0} - byte / 64 : byte % 8;
    return {FileId{byte / 64u}, index};
  }
  Touch TouchOf(FileId file, bool write, bool mapped = false) {
    time_ += bytes_.Below(4);
    return {.file = file,
            .op = mapped ? (write ? Op::kMappedWrite : Op::kMappedRead) : (write ? Op::kWrite : Op::kRead),
            .time_ns = time_,
            .next_use = static_cast<std::uint64_t>(time_) + 1 + bytes_.Below(32)};
  }
  void Check() {
    const absl::Status status = window_.CheckInvariants();
    if (!status.ok()) Require(false, status.ToString().c_str());
  }

  // --- the window alone: one call that is legal in the slot's state
  // ---------------------------------------------------

  void Call() {
    const FileRange key = Range();
    const std::uint8_t byte = bytes_.Next();
    const bool write = byte & 0x80;
    const SlotId slot{byte % kMaxRanges};
    const SlotState state = window_.state(slot);
    const Touch touch = TouchOf(key.file, write);
    switch (bytes_.Below(16)) {
      case 0: {
        const LookupResult found = window_.Lookup(key, touch);
        if (found.kind == LookupKind::kMiss) (void)window_.Admit(key, touch);
        break;
      }
      case 1: (void)window_.Take(); break;
      case 2:
        if (state == SlotState::kTaken) window_.Return(slot);
        break;
      case 3:
        if (state == SlotState::kTaken) {
          held_[ToIndex(slot)] = {};
          (void)window_.Bind(slot, key, touch);
        }
        break;
      case 4: {
        const auto bound = window_.BindAt(slot, key, touch);
        if (bound.must_map) held_[ToIndex(slot)] = bound.held;
        break;
      }
      case 5:
        if (state == SlotState::kMapping || state == SlotState::kUpgrading) {
          const bool writes = state == SlotState::kUpgrading || (write && window_.writable(slot));
          Finish(window_.Commit(slot, TouchOf(window_.range(slot).file, writes)), slot);
        }
        break;
      case 6:
        if (state == SlotState::kMapping || state == SlotState::kUpgrading) {
          Finish(window_.Abort(slot, write ? held_[ToIndex(slot)] : typename Win::Held{}), slot);
        }
        break;
      case 7:
        if (state == SlotState::kMapped && !window_.writable(slot)) window_.BeginUpgrade(slot);
        break;
      case 8:
        if (state == SlotState::kUpgrading) Finish(window_.AbortLost(slot), slot);
        break;
      case 9:
        if (state == SlotState::kMapped || state == SlotState::kUpgrading) window_.Pin(slot);
        break;
      case 10:
        if (window_.pins(slot) > 0) Finish(window_.Unpin(slot), slot);
        break;
      case 11:
        if (state == SlotState::kMapped) window_.Observe(slot, touch);
        break;
      case 12: {
        const Scope scope = write ? Scope::File(key.file) : Scope::Any();
        const SlotId victim = byte & 1 ? window_.BeginReclaim(scope) : window_.BeginReclaim(scope, key, touch);
        if (victim != kNoSlot) {
          Require(!write || window_.range(victim).file == key.file, "a victim of another file");
        }
        break;
      }
      case 13:
        if (state == SlotState::kReclaiming) {
          if (byte & 0x40 && window_.AbortReclaim(slot)) break;
          if (write) {
            window_.CommitReclaim(slot);
          } else {
            (void)window_.CommitReclaimAndTake(slot);
          }
        }
        break;
      case 14: {
        const std::uint64_t last = write ? ~std::uint64_t{0} : key.index;
        window_.Invalidate(key.file, key.index, last, [](SlotId) {});
        for (auto& held : held_) {
          if (held.key.file == key.file) held = {};
        }
        break;
      }
      default: Resize(); break;
    }
  }
  void Finish(bool reclaiming, SlotId slot) {
    Require(!reclaiming || window_.state(slot) == SlotState::kReclaiming, "told to remove what is not being reclaimed");
  }
  void Resize() {
    const std::uint32_t by = bytes_.Below(4);
    if (bytes_.Next() & 1) {
      if (window_.Grow(by).ok()) WakeAll();
    } else {
      (void)window_.Shrink(by, [&](SlotId slot) { window_.CommitReclaim(slot); });
    }
  }

  // --- the guest
  // ------------------------------------------------------------------------------------------------------

  void Start() {
    const FileRange key = Range();
    const std::uint8_t byte = bytes_.Next();
    const bool write = byte & 1;
    Running running;
    // A range beyond the last there can be is no range.
    const std::uint32_t ranges = key.index > 8 ? 1 : 1 + (byte >> 4) % 4;
    if (byte & 2) {
      running.call = guest_.StartFault(key, TouchOf(key.file, write, true));
      running.fault = true;
    } else if ((byte & 12) == 12) {
      running.call = guest_.StartEviction(key.file);
    } else {
      running.call = guest_.StartCall(key, TouchOf(key.file, write), ranges, write && (byte & 4));
    }
    calls_.push_back(running);
  }
  void StartWorker() {
    Running running;
    running.worker = true;
    running.call = guest_.StartWorker();
    kicked_ = false;
    worker_runs_ = true;
    calls_.push_back(running);
  }
  void WakeAll() {
    for (Running& running : calls_) running.waiting = false;
  }
  // The next of the calls that can go on, from `first`.
  void StepOne(std::uint32_t first, int error) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const std::size_t at = (first + i) % calls_.size();
      Running& running = calls_[at];
      if (running.waiting) continue;
      if (running.locking) {
        if (!TryLock(running)) continue;
        running.locking = false;
      }
      const Step asked = running.action.step;
      const bool answers = asked == Step::kSetup || asked == Step::kUpgrade || asked == Step::kRemove;
      running.action = guest_.Next(running.call, answers ? error : 0);
      Carry(at);
      return;
    }
    if (calls_.empty() || (kicked_ && !worker_runs_)) return;
    Require(false, "deadlock");
  }
  LockName Name(const Running& running) const {
    return {running.action.lock, running.action.file,
            running.action.lock == Lock::kEntry ? running.call.key().index : 0};
  }
  bool TryLock(const Running& running) {
    int& holders = locks_[Name(running)];  // -1: exclusive
    const bool able = running.action.exclusive ? holders == 0 : holders >= 0;
    if (able) holders = running.action.exclusive ? -1 : holders + 1;
    return able;
  }
  void Carry(std::size_t at) {
    Running& running = calls_[at];
    const Action& action = running.action;
    switch (action.step) {
      case Step::kLock: running.locking = true; break;
      case Step::kUnlock: {
        int& holders = locks_[Name(running)];
        Require(action.exclusive ? holders == -1 : holders > 0, "a lock released that is not held so");
        holders = action.exclusive ? 0 : holders - 1;
        if (holders == 0) locks_.erase(Name(running));
        break;
      }
      case Step::kSetup: Require(window_.state(action.slot) == SlotState::kMapping, "set-up of another slot"); break;
      case Step::kUpgrade: Require(window_.state(action.slot) == SlotState::kUpgrading, "upgrade of another"); break;
      case Step::kRemove: Require(window_.state(action.slot) == SlotState::kReclaiming, "removal of another"); break;
      case Step::kUse:
        Require(window_.pins(action.slot) > 0, "use without a pin");
        Require(window_.key(action.slot) == running.call.key(), "use of another range");
        Require(!IsWrite(running.call.touch().op) || window_.writable(action.slot), "write through a read-only range");
        break;
      case Step::kWaitForRange: running.waiting = true; break;
      case Step::kFreed:
        if (action.wake) WakeAll();
        break;
      case Step::kKickWorker:
        Require(!kicked_, "the worker is queued twice");
        kicked_ = true;
        break;
      case Step::kDone:
        if (running.worker) worker_runs_ = false;
        calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case Step::kZap:
      case Step::kUseDirect:
      case Step::kTryAgain: break;
    }
  }

  FuzzInput& bytes_;
  Win window_;
  Guest<Win> guest_;
  std::int64_t time_ = 0;
  std::array<Win::Held, kMaxRanges> held_{};
  std::vector<Running> calls_;
  std::map<LockName, int> locks_;
  bool kicked_ = false;
  bool worker_runs_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  FuzzInput bytes({data, size});
  static const std::vector<PolicySpec> policies = [] {
    std::vector<PolicySpec> specs;
    for (const std::string_view name : kBasePolicyNames) specs.push_back(ParsePolicySpec(name).value());
    specs.push_back(
        ParsePolicySpec("per-file:base=lru").value());  // of the wrappers one: they differ by what they wrap
    return specs;
  }();
  const PolicySpec& policy = policies[bytes.Below(static_cast<std::uint32_t>(policies.size()))];
  const std::uint8_t mode = bytes.Next();
  ReclaimOptions mechanics = mode & 2 ? ReclaimOptions::Demand() : ReclaimOptions::Linux();
  mechanics.send_remove = !(mode & 4);
  mechanics.chunk = 1 + (mode >> 3) % 4;
  Fuzzer fuzzer(bytes, policy, mechanics);
  if (mode & 1) {
    fuzzer.Interleaved();
  } else {
    fuzzer.Bare();
  }
  return 0;
}
