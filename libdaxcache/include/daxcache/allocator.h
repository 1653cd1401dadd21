// The production mapping allocator of a virtiofs daemon: it keeps the account of what is mapped where in the DAX
// window, and has a backend (mapping_backend.h) map and unmap. The same `Window` and policies as in simulation, with
// threads, locks and errors around them.
//
//   auto allocator = MappingAllocator<LinuxPolicy<HashIndex>, MmapBackend>::Create(
//       {.window = ByteSize(8ull << 30), .seed = random}, {}, std::move(backend)).value();
//   const FileId file = allocator->files().Intern({device, inode, generation});
//   int error = allocator->SetUp({.file = file, .fd = fd, .file_offset = 0, .length = 2 << 20,
//                                 .window_offset = 4 << 20, .writable = true});       // FUSE_SETUPMAPPING
//   error = allocator->Remove(entries);                                               // FUSE_REMOVEMAPPING
//   error = allocator->Evict(file);                                                   // its last FORGET
//
// The guest chooses window offsets (SetUp, Remove), or the allocator does (Map, and Reader, which finds and pins
// without a lock). Calls answer 0 or a negative errno and may come from any thread at once:
//
//   EINVAL     no length, or something is not a multiple of a page; with a backend that maps only over nothing: a part
//              of a mapping
//   ERANGE     past the window's end
//   EOVERFLOW  past the largest offset of a file
//   EBADF      no descriptor, or no file
//   EBUSY      the place is pinned
//   ENOMEM     the map count's budget is used up
//   ENOSPC     the journal has no room for one more mapping that is no whole range
//   ESTALE     the file was evicted meanwhile
//   others     the backend's
//
// One mutex guards window and policy, and is never held across a backend call: slots that one is under way for are in
// flight, and a request that meets one waits until it has landed. Requests for the same or overlapping places are thus
// served one after another, others at once.
//
// Every set-up of one whole range at a multiple of its size (all that Linux sends) is bound to a slot of the window by
// index, without allocation. All others are extents in an ordered map beside it.
//
// Cost beside the backend's: a set-up two passes through the mutex and one re-binding, O(log k) in the ranges k of the
// file; an irregular one O(n) in the extents held. Memory: 56 bytes a slot here, beside the window's and policy's.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/allocator_options.h"
#include "daxcache/allocator_statistics.h"
#include "daxcache/epochs.h"
#include "daxcache/event.h"
#include "daxcache/extent_map.h"
#include "daxcache/file_rules.h"
#include "daxcache/file_table.h"
#include "daxcache/ids.h"
#include "daxcache/journal.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/mapping_requests.h"
#include "daxcache/policy.h"
#include "daxcache/range.h"
#include "daxcache/range_index.h"
#include "daxcache/recovery.h"
#include "daxcache/slot_table.h"
#include "daxcache/snapshot.h"
#include "daxcache/window.h"

namespace daxcache {
inline namespace v0 {

template <Policy P, MappingBackend B>
class MappingAllocator {
  static_assert(std::same_as<typename P::Index, HashIndex>, "a daemon does not know its ranges beforehand");

 public:
  using WindowType = Window<P>;

  // InvalidArgument for options that make no sense; ResourceExhausted for a window whose ranges, each mapped by itself,
  // exceed the map count.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MappingAllocator>> Create(const AllocatorOptions& options,
                                                                                const typename P::Options& policy,
                                                                                B backend);
  MappingAllocator(const MappingAllocator&) = delete;
  MappingAllocator& operator=(const MappingAllocator&) = delete;
  // Nobody calls it any more. Everything is unmapped.
  ~MappingAllocator() { (void)RemoveAll(); }

  // --- the guest chooses --------------------------------------------------------------------------------------------

  // FUSE_SETUPMAPPING. What the place holds is replaced in one step; after an error it is still there.
  [[nodiscard]] int SetUp(const SetUpRequest& request);
  // FUSE_REMOVEMAPPING: tries every entry, and returns the first error. A length of ~0 goes to the window's end. What
  // is not mapped is no error.
  [[nodiscard]] int Remove(std::span<const Extent> entries);
  // FUSE_DESTROY, or a reset of the device.
  [[nodiscard]] int RemoveAll();
  // The file went away: its last FORGET, or its unlinking. What is pinned goes with the last Unpin.
  [[nodiscard]] int Evict(FileId file);

  // The file has `size` bytes now. Of a smaller one, kept ranges go; of a larger one, the ranges that got zero pages
  // past the old end are mapped again: from `fd`, if there is one, else from what of the range is still mapped (which
  // fails if nothing is: the next set-up maps it).
  [[nodiscard]] int OnSizeChanged(FileId file, std::uint64_t size, int fd = -1);

  // --- the allocator chooses ----------------------------------------------------------------------------------------

  class Reader;

  // Finds the range or maps it, in a free slot or in that of the policy's victim, and pins it: Unpin when done. For
  // ranges that are there already, Reader::Pin is many times faster. Not to be called inside an epoch.
  //   EOPNOTSUPP  the policy does not admit it: access the file without the window
  //   EBUSY       everything is pinned
  [[nodiscard]] int Map(const MapFileRequest& request, Pinned* pinned);
  void Unpin(const Pinned& pinned) {
    if (slots_.Unpin(pinned.slot)) UnpinLast(pinned.slot);
  }

  // --- both ---------------------------------------------------------------------------------------------------------

  // To be called where an access to the window faulted: from a handler of SIGBUS, or after KVM_RUN's EFAULT. If the
  // address lies past the end of its file, zero pages are put from there to the range's end, and the range is short
  // until it is set up again or OnSizeChanged tells of a larger file. 0: try the access again. Async-signal-safe.
  //   EFAULT  nothing is mapped there
  //   EIO     something is, and it is not past the end of its file
  [[nodiscard]] int RepairFault(void* host_address) noexcept;

  // By so many ranges; Grow up to the capacity. What lies beyond a smaller window is unmapped, pinned ranges at their
  // last Unpin.
  [[nodiscard]] absl::Status Grow(std::uint32_t ranges);
  [[nodiscard]] absl::Status Shrink(std::uint32_t ranges);

  // To be called now and then: unmaps what has been kept, or (where the allocator chooses) not used, for too long;
  // frees ranges ahead of need, as ReclaimOptions say; and tries again what could not be unmapped. At most `chunk`
  // ranges are freed; true: there is more to do.
  bool Tick(std::int64_t now_ns);

  // Whether FUSE_ATTR_DAX is set in the file's attributes: asked at LOOKUP and GETATTR, and the same answer until the
  // file is evicted. The other news of a file, for rules about hot files: `OnClose` evicts one whose answer has
  // changed.
  bool UsesDax(FileId file, std::string_view path, std::uint64_t size) {
    const std::lock_guard lock(rules_mutex_);
    return rules_.Instantiated(file) ? rules_.Admitted(file) : rules_.OnInstantiate(file, path, size);
  }
  void OnAccess(FileId file, std::int64_t time_ns) {
    const std::lock_guard lock(rules_mutex_);
    rules_.OnAccess(file, time_ns);
  }
  [[nodiscard]] int OnOpen(FileId file, std::string_view path, std::uint64_t size) {
    bool replaced = false;
    {
      const std::lock_guard lock(rules_mutex_);
      replaced = rules_.OnOpen(file, path, size);
    }
    return replaced ? DropRanges(file) : 0;
  }
  [[nodiscard]] int OnClose(FileId file) {
    bool evicted = false;
    {
      const std::lock_guard lock(rules_mutex_);
      evicted = rules_.OnClose(file);
    }
    return evicted ? DropRanges(file) : 0;
  }

  FileTable& files() { return files_; }
  B& backend() { return backend_; }

  // --- life and death -----------------------------------------------------------------------------------------------

  // What is mapped, for `Restore` in another process: kept ranges are not saved. Files are named by their identities.
  std::vector<std::byte> Save() const;
  // Maps all that a snapshot names, in an allocator that has mapped nothing yet. `open(identity, writable, &close)`
  // returns a descriptor or a negative errno, and may set `close`. All or nothing.
  template <class OpenFile>
  [[nodiscard]] absl::Status Restore(std::span<const std::byte> snapshot, const OpenFile& open);
  // Goes on from the journal that another process left: `old` is that, opened, and may be this allocator's own. What is
  // decided is taken over without a call if the host `keeps` its mappings (a VMM that lives on), else mapped anew; what
  // is undecided is unmapped, whether or not it is there, and mapped as it was before. The request that was never
  // answered is the caller's to send again. Before anybody else calls it.
  template <class OpenFile>
  [[nodiscard]] absl::Status Recover(const Journal& old, bool host_keeps, const OpenFile& open);

  // --- what there is ------------------------------------------------------------------------------------------------

  AllocatorStatistics statistics() const;
  void DumpText(std::string* out) const { daxcache::DumpText(statistics(), Mappings(), out); }
  void DumpJson(std::string* out) const { daxcache::DumpJson(statistics(), Mappings(), out); }
  // `labels` go into the braces of each, as `share="root"`.
  void DumpPrometheus(std::string* out, std::string_view labels = "") const {
    daxcache::DumpPrometheus(statistics(), labels, out);
  }
  // Everything that is mapped, in order of offset.
  std::vector<HeldMapping> Mappings() const;
  // True: the window can need more VMAs than the budget has (`warn_only`).
  bool may_exceed_map_count() const { return may_exceed_map_count_; }
  std::uint64_t map_budget() const { return budget_; }
  // Recounts what is counted on the way. Between calls.
  [[nodiscard]] absl::Status CheckInvariants() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Held = typename WindowType::Held;
  static constexpr std::uint32_t kBatch = 256;  // FUSE_REMOVEMAPPING_MAX_ENTRY
  static constexpr std::uint64_t kLargestOffset = std::numeric_limits<std::int64_t>::max();
  static constexpr int kAgain = 1;  // the lock was let go of: look again
  static constexpr int kRetries = 16;

  // Kept slots stand in a list by age, and those of a file in one of its own. Slots that are being taken back in one
  // call are chained by `age_next`.
  struct KeptLinks {
    std::uint32_t age_previous = kNoEntry;
    std::uint32_t age_next = kNoEntry;
    std::uint32_t file_previous = kNoEntry;
    std::uint32_t file_next = kNoEntry;
    std::int64_t since = 0;
  };
  struct PerFile {
    std::uint32_t first_kept = kNoEntry;
    std::uint32_t in_flight = 0;  // backend calls under way for slots that hold, or are to hold, ranges of it
    std::uint32_t evictions = 0;
    bool has_extents = false;  // perhaps
    std::int64_t size = -1;
  };
  // Slots to be unmapped together.
  struct Pending {
    std::array<SlotId, kBatch> slots;
    std::uint32_t count = 0;
    bool linked = false;         // readers may see one
    bool forget = false;         // their file goes away
    Cause cause = Cause::kNone;  // why, if it is to be told when they are free
  };
  // Slots to be taken back, in this order.
  struct Chain {
    std::uint32_t first = kNoEntry;
    std::uint32_t last = kNoEntry;
    bool linked = false;
  };
  // What is mapped at an offset, and up to where that goes on.
  struct Segment {
    bool mapped = false;
    FileId file = kNoFile;
    std::uint64_t file_offset = 0;
    bool writable = false;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Source {
    int fd = -1;
    bool writable = false;
    bool guests = false;
  };
  // What a reader has hit and the policy has not heard of. Written by the reader, read under the mutex.
  struct Hit {
    std::uint64_t index = 0;
    std::int64_t time_ns = 0;
    FileId file = kNoFile;
    SlotId slot = kNoSlot;
    Op op = Op::kRead;
  };
  struct HitBuffer {
    static constexpr std::uint32_t kSize = 512;
    alignas(64) std::atomic<std::uint32_t> written{0};
    alignas(64) std::atomic<std::uint32_t> read{0};
    std::array<Hit, kSize> hits;
  };
  // A request that fits no slot, under way.
  struct Irregular {
    Extent asked;
    Extent area;                  // out to whole slots
    std::vector<SlotId> dropped;  // kept slots that it overlaps
  };

  MappingAllocator(const AllocatorOptions& options, const typename P::Options& policy, B backend, std::uint64_t budget);

  std::uint64_t range_bytes() const { return options_.range.bytes(); }
  std::uint32_t pages() const { return static_cast<std::uint32_t>(range_bytes() / options_.page_bytes); }
  Extent ExtentOf(SlotId slot) const { return {std::uint64_t{ToIndex(slot)} << options_.range.shift(), range_bytes()}; }
  SlotId SlotAt(std::uint64_t offset) const {
    return SlotId{static_cast<std::uint32_t>(offset >> options_.range.shift())};
  }
  // One behind the last slot that [.., end) touches.
  std::uint32_t SlotsTo(std::uint64_t end) const { return ToIndex(SlotAt(end + (range_bytes() - 1))); }
  bool Aligned(std::uint64_t value) const { return (value & (options_.page_bytes - 1)) == 0; }
  bool InWindow(const Extent& extent) const {
    return extent.offset <= length_ && extent.length <= length_ - extent.offset;
  }
  bool IsSlot(const Extent& extent) const {
    return extent.length == range_bytes() && (extent.offset & (range_bytes() - 1)) == 0;
  }
  PerFile& Info(FileId file) {
    if (ToIndex(file) >= per_file_.size())
      per_file_.resize(std::max<std::size_t>(ToIndex(file) + 1, 2 * per_file_.size()));
    return per_file_[ToIndex(file)];
  }
  void Advance(std::int64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }
  // A removal that no guest has asked for: told of as replay tells of it.
  void EmitRemoval(SlotId slot, const FileRange& range, Cause cause) {
    if (options_.reclaim.send_remove) Emit(EventKind::kRemove, slot, range, false, cause);
  }
  void Emit(EventKind kind, SlotId slot, const FileRange& range, bool write, Cause cause = Cause::kNone) {
    switch (kind) {
      case EventKind::kHit: ++statistics_.hits; break;
      case EventKind::kMiss: ++statistics_.misses; break;
      case EventKind::kBypass: ++statistics_.bypasses; break;
      case EventKind::kSetup: ++statistics_.setups; break;
      case EventKind::kUpgrade: ++statistics_.upgrades; break;
      case EventKind::kRemove: ++statistics_.removes; break;
      case EventKind::kReclaim: ++statistics_.reclaims; break;
    }
    if (options_.on_event != nullptr) {
      options_.on_event(options_.event_context,
                        {.kind = kind, .cause = cause, .write = write, .slot = slot, .range = range});
    }
  }

  // --- order --------------------------------------------------------------------------------------------------------

  bool InFlight(SlotId slot) const {
    if (slots_[slot].Has(SlotRecord::kChanging)) return true;
    if (ToIndex(slot) >= window_.capacity()) return false;
    switch (window_.state(slot)) {
      case SlotState::kTaken:
      case SlotState::kMapping:
      case SlotState::kUpgrading: return true;
      case SlotState::kReclaiming: return !(slots_[slot].pins.load() & SlotRecord::kRemoveLast);  // else it is pinned
      default: return false;
    }
  }
  bool Blocked(const Extent& extent) const {
    for (const Extent& busy : busy_) {
      if (busy.offset < extent.offset + extent.length && extent.offset < busy.offset + busy.length) return true;
    }
    return false;
  }
  void Wait(Lock& lock) { landed_.wait(lock); }
  bool Bound(SlotId slot) const {
    return ToIndex(slot) < window_.capacity() && window_.state(slot) == SlotState::kMapped;
  }

  // --- calls of the backend, without the mutex -----------------------------------------------------------------------

  // What the journal is told: what a slot holds, or is to hold.
  JournalMapping Noted(const FileRange& range, bool writable, bool kept, bool guests) {
    if (range.file == kNoFile) return {};
    return {.file = files_.identity(range.file),
            .file_offset = range.index << options_.range.shift(),
            .flags = JournalMapping::kMapped | (writable ? JournalMapping::kWritable : 0) |
                     (kept ? JournalMapping::kKept : 0) | (guests ? JournalMapping::kGuests : 0)};
  }
  void NoteIntent(SlotId slot, const FileRange& range, bool writable, bool guests) {
    if (journal_ != nullptr) journal_->Begin(ToIndex(slot), Noted(range, writable, false, guests));
  }
  void NoteResult(SlotId slot, bool done) {
    if (journal_ != nullptr) journal_->End(ToIndex(slot), done);
  }
  // What the slot holds now, as the account has it.
  void NoteNow(SlotId slot) {
    if (journal_ == nullptr || ToIndex(slot) >= window_.capacity()) return;
    const SlotRecord& record = slots_[slot];
    const FileRange range = record.Has(SlotRecord::kHost) ? record.range() : FileRange{};
    journal_->Set(ToIndex(slot), Noted(range, record.Has(SlotRecord::kWritable), record.Has(SlotRecord::kKept),
                                       record.Has(SlotRecord::kGuests)));
  }

  int CallMap(const MapRequest& request) {
    for (int i = 0;; ++i) {
      const int error = backend_.Map(request);
      map_calls_.fetch_add(1, std::memory_order_relaxed);
      if (error == 0) return 0;
      failed_calls_.fetch_add(1, std::memory_order_relaxed);
      if ((error != -EINTR && error != -EAGAIN) || i == kRetries) return error;
    }
  }
  // One extent a call: of several the backend would not say which failed.
  int CallUnmap(const Extent& extent) {
    for (int i = 0;; ++i) {
      const int error = backend_.Unmap({&extent, 1});
      unmap_calls_.fetch_add(1, std::memory_order_relaxed);
      if (error == 0) return 0;
      failed_calls_.fetch_add(1, std::memory_order_relaxed);
      if ((error != -EINTR && error != -EAGAIN) || i == kRetries) return error;
    }
  }

  // Neighbours, in ascending or descending order, go in one call; if it fails, one by one. The first error.
  template <class Failed>
  int CallUnmapEach(std::span<const Extent> extents, Failed& failed) {
    int first_error = 0;
    for (std::size_t i = 0; i < extents.size();) {
      Extent run = extents[i];
      std::size_t end = i + 1;
      for (; B::kMapsOver && end < extents.size(); ++end) {
        const Extent& next = extents[end];
        if (next.offset == run.offset + run.length) {
          run.length += next.length;
        } else if (next.offset + next.length == run.offset) {
          run.offset = next.offset;
          run.length += next.length;
        } else {
          break;
        }
      }
      int error = CallUnmap(run);
      if (error != 0 && end == i + 1) {
        failed[i] = true;
      } else if (error != 0) {
        error = 0;
        for (std::size_t j = i; j < end; ++j) {
          const int single = CallUnmap(extents[j]);
          failed[j] = single != 0;
          if (error == 0) error = single;
        }
      }
      if (first_error == 0) first_error = error;
      i = end;
    }
    return first_error;
  }

  // --- the account --------------------------------------------------------------------------------------------------

  Segment SegmentAt(std::uint64_t offset) const;
  // How many VMAs begin in [begin, end], as far as this says; `as_if`: were this mapped there.
  std::uint64_t Boundaries(std::uint64_t begin, std::uint64_t end, const Segment* as_if = nullptr) const;
  bool Merge(const Segment& before, const Segment& after) const {
    if (before.mapped != after.mapped) return false;
    if (!before.mapped || before.begin == after.begin) return true;
    return options_.map_count.one_descriptor_per_file && before.file == after.file &&
           before.writable == after.writable && before.file_offset + (after.begin - before.begin) == after.file_offset;
  }
  // Changes what the host has within `extent`, by `change`, and counts VMAs.
  template <class Change>
  void Account(const Extent& extent, const Change& change) {
    const std::uint64_t end = extent.offset + extent.length;
    // Where no two merge, a range in the place of a range changes nothing.
    if (!options_.map_count.one_descriptor_per_file && extents_.empty() && extent.length == range_bytes() &&
        slots_[SlotAt(extent.offset)].Has(SlotRecord::kHost)) {
      change();
      if (slots_[SlotAt(extent.offset)].Has(SlotRecord::kHost)) return;
      // It is gone: it was a boundary at each end, and is one where a neighbour is mapped.
      vmas_ += Boundaries(extent.offset, end);
      vmas_ -= (extent.offset > 0) + (end < total_);
      return;
    }
    const std::uint64_t before = Boundaries(extent.offset, end);
    change();
    vmas_ += Boundaries(extent.offset, end) - before;
  }
  // Whether a mapping may be added. kAgain: room was made.
  int Afford(Lock& lock, const Extent& extent, FileId file, std::uint64_t file_offset, bool writable, bool upgrade);

  // --- kept ranges --------------------------------------------------------------------------------------------------

  void Keep(SlotId slot, bool forget);
  void Unkeep(SlotId slot);
  void DropKept(Lock& lock, std::uint32_t most);

  // --- slots --------------------------------------------------------------------------------------------------------

  int SetUpSlot(Lock& lock, SlotId slot, const SetUpRequest& request);
  int Upgrade(Lock& lock, SlotId slot, const Touch& touch, int fd);
  // Maps what the slot has just been bound to.
  int Install(Lock& lock, SlotId slot, const FileRange& key, const Touch& touch, const Source& source, const Held& held,
              bool linked);
  // The window counts no pin for the slot any more.
  void Untell(SlotId slot) {
    if (!(slots_[slot].pins.load() & SlotRecord::kToldWindow)) return;
    slots_[slot].pins.fetch_and(~SlotRecord::kToldWindow);
    --told_;
    [[maybe_unused]] const bool doomed = window_.Unpin(slot);
    assert(!doomed);
  }
  void UntellAll(FileId file);
  void UnpinLast(SlotId slot);
  void UnpinLast(Lock& lock, SlotId slot);
  // Takes a bound, unpinned slot from readers. False: it is pinned.
  bool TakeAway(SlotId slot, bool* linked) {
    Untell(slot);
    if (!slots_.Claim(slot)) return false;
    slots_.BeginChange(slot);
    if (slots_.Unlink(slot)) *linked = true;
    return true;
  }
  void AddPending(Pending& pending, SlotId slot) {
    slots_.BeginChange(slot);
    if (slots_.Unlink(slot)) pending.linked = true;
    const FileRange range = slots_[slot].range();
    if (range.file != kNoFile) ++Info(range.file).in_flight;
    pending.slots[pending.count++] = slot;
  }
  int Flush(Lock& lock, Pending& pending);
  void Append(SlotId slot, Chain& chain) {
    links_[ToIndex(slot)].age_next = kNoEntry;
    (chain.last == kNoEntry ? chain.first : links_[chain.last].age_next) = ToIndex(slot);
    chain.last = ToIndex(slot);
  }
  // For the window's callbacks: a slot whose range goes away. A pinned one goes with its last pin; until then nobody
  // else finds it.
  void Reclaiming(SlotId slot, Chain& chain) {
    const bool pinned = !slots_.Claim(slot) && slots_.Mark(slot, SlotRecord::kRemoveLast);
    if (slots_.Unlink(slot)) chain.linked = true;
    if (pinned) return;
    Append(slot, chain);
  }
  void ReclaimKept(SlotId slot, Chain& chain) {
    Unkeep(slot);
    ++statistics_.dropped_kept;
    Append(slot, chain);
  }
  int FlushChain(Lock& lock, const Chain& chain, bool forget, Cause cause);
  Cause DoomedBy(SlotId slot) const { return window_.shrunk(slot) ? Cause::kShrunk : Cause::kEvicted; }
  // A slot that the window has begun to reclaim because it was doomed. `told`: of its set-up.
  void FinishDoomed(Lock& lock, SlotId slot, bool told) {
    const Cause cause = told ? DoomedBy(slot) : Cause::kNone;
    const FileRange range = window_.range(slot);
    if (!slots_[slot].Has(SlotRecord::kHost)) {  // lost: nothing is left to unmap
      window_.CommitReclaim(slot);
      if (told) Emit(EventKind::kReclaim, slot, range, false, cause);
      return;
    }
    if (told) EmitRemoval(slot, range, cause);
    Chain chain;
    Reclaiming(slot, chain);
    (void)FlushChain(lock, chain, !window_.shrunk(slot), cause);
  }

  int RemoveEntry(Lock& lock, const Extent& entry, Pending& pending);
  int RemoveRange(Lock& lock, const Extent& extent, bool drop, Pending& pending);
  int DropFile(Lock& lock, FileId file);
  int DropRanges(FileId file) {
    Lock lock(mutex_);
    if (ToIndex(file) >= per_file_.size()) return 0;
    ++statistics_.evictions;
    return DropFile(lock, file);
  }
  // Maps a bound slot again that has zero pages past the end that its file had.
  int Refresh(Lock& lock, SlotId slot, int fd, std::int64_t size);

  // --- zero pages ---------------------------------------------------------------------------------------------------

  // The first page of a range that lies past the end of a file of `size` bytes.
  std::uint32_t FirstPast(std::uint64_t file_offset, std::int64_t size) const {
    if (size < 0) return pages();
    const std::uint64_t bytes = static_cast<std::uint64_t>(size);
    if (bytes <= file_offset) return 0;
    const std::uint64_t count = (bytes - file_offset + options_.page_bytes - 1) / options_.page_bytes;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, pages()));
  }
  int PutZeroPages(std::uint64_t begin, std::uint64_t end) noexcept {
    std::byte* const base = static_cast<std::byte*>(backend_.address());
    if (begin == end) return 0;
    return mmap(base + begin, end - begin, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED
               ? -errno
               : 0;
  }
  // Where the file's size is known and clamped: zero pages behind what has just been mapped. From which page on.
  std::uint32_t Clamp(SlotId slot, std::uint64_t file_offset, std::int64_t size) {
    if (!options_.clamp) return pages();
    const std::uint32_t page = FirstPast(file_offset, size);
    const Extent extent = ExtentOf(slot);
    const int error =
        PutZeroPages(extent.offset + std::uint64_t{page} * options_.page_bytes, extent.offset + extent.length);
    return error == 0 ? page : pages();
  }
  void SetZeroFrom(SlotId slot, std::uint32_t page) {
    if (slots_[slot].Has(SlotRecord::kShort)) shorts_.fetch_sub(1);
    if (page < pages()) shorts_.fetch_add(1);
    slots_.SetZeroFrom(slot, page, pages());
  }

  // --- where the allocator chooses -----------------------------------------------------------------------------------

  void Drain(HitBuffer& buffer);
  void DrainAll() {
    for (const auto& buffer : buffers_) {
      if (buffer != nullptr) Drain(*buffer);
    }
  }
  // The policy's choice among those that nobody has pinned, or kNoSlot.
  SlotId PickVictim(const Incoming<FileRange>* incoming, Scope scope);
  Pinned PinnedAt(SlotId slot) const {
    const std::uint64_t offset = ExtentOf(slot).offset;
    std::byte* const base = static_cast<std::byte*>(backend_.address());
    return {.slot = slot, .window_offset = offset, .address = base == nullptr ? nullptr : base + offset};
  }

  // --- extents ------------------------------------------------------------------------------------------------------

  int BeginIrregular(Lock& lock, const Extent& extent, bool whole_slots_too, Irregular* irregular);
  void EndIrregular(const Irregular& irregular);
  void NoteExtents();
  int SetUpExtent(Lock& lock, const SetUpRequest& request);
  int RemoveExtents(Lock& lock, const Extent& extent, FileId only);

  // --- life and death ------------------------------------------------------------------------------------------------

  template <class OpenFile>
  int MapSaved(const SavedMapping& saved, const OpenFile& open);
  void TakeOver(const SavedMapping& saved);

  AllocatorOptions options_;
  Journal* journal_;  // or nullptr
  B backend_;
  FileTable files_;
  std::uint64_t budget_;
  bool may_exceed_map_count_ = false;
  std::uint64_t total_;  // bytes, at most

  mutable std::mutex mutex_;
  std::condition_variable landed_;  // something that was in flight is not any more
  WindowType window_;
  SlotTable slots_;  // one more than the window's: the bytes behind its last whole range
  std::vector<KeptLinks> links_;
  std::uint32_t oldest_kept_ = kNoEntry;
  std::uint32_t newest_kept_ = kNoEntry;
  std::uint32_t kept_ = 0;
  std::vector<PerFile> per_file_;
  ExtentMap extents_;
  std::vector<Extent> busy_;
  std::atomic<std::uint64_t> length_;  // bytes that the guest sees
  std::uint64_t vmas_ = 1;
  std::uint64_t in_flight_maps_ = 0;
  std::uint64_t in_flight_unmaps_ = 0;
  std::int64_t now_ns_ = 0;
  AllocatorStatistics statistics_;
  std::atomic<std::uint64_t> map_calls_{0};
  std::atomic<std::uint64_t> unmap_calls_{0};
  std::atomic<std::uint64_t> failed_calls_{0};
  std::atomic<std::uint64_t> shorts_{0};
  std::atomic<bool> extents_short_{false};  // zero pages were put into one
  std::atomic<std::uint64_t> repairs_{0};
  std::atomic<std::uint32_t> repairing_{0};  // under way
  std::uint32_t told_ = 0;                   // slots of whose pins the window knows
  Epochs epochs_;
  std::vector<std::unique_ptr<HitBuffer>> buffers_;  // by reader

  std::mutex rules_mutex_;
  FileRules rules_;
};

// What a thread looks at the window with: it finds and pins ranges without a lock. One a thread, or one at a time; it
// may not outlive the allocator.
//
//   Allocator::Reader reader(*allocator);
//   {
//     Allocator::Reader::Epoch epoch(reader);           // short, and nothing that waits inside
//     const SlotId slot = reader.Find({file, index});   // stays mapped until the epoch ends
//   }
//   Pinned pinned;
//   if (!reader.Pin({file, index}, touch, &pinned)) error = allocator->Map({…}, &pinned);
//   …pinned.address…
//   allocator->Unpin(pinned);
template <Policy P, MappingBackend B>
class MappingAllocator<P, B>::Reader {
 public:
  explicit Reader(MappingAllocator& allocator) : allocator_(allocator), me_(allocator.epochs_.Register()) {
    if (!ok()) return;
    const std::lock_guard lock(allocator_.mutex_);
    allocator_.slots_.Share();
    auto& buffer = allocator_.buffers_[me_];
    if (buffer == nullptr) buffer = std::make_unique<HitBuffer>();
    buffer_ = buffer.get();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (!ok()) return;
    {
      const std::lock_guard lock(allocator_.mutex_);
      allocator_.Drain(*buffer_);
    }
    allocator_.epochs_.Unregister(me_);
  }

  // False: there are as many readers as `max_readers` already. Nothing else may be asked of it then.
  bool ok() const { return me_ != Epochs::kNoReader; }

  class Epoch {
   public:
    explicit Epoch(Reader& reader) : reader_(reader) { reader_.allocator_.epochs_.Enter(reader_.me_); }
    Epoch(const Epoch&) = delete;
    Epoch& operator=(const Epoch&) = delete;
    ~Epoch() { reader_.allocator_.epochs_.Leave(reader_.me_); }

   private:
    Reader& reader_;
  };

  // Inside an epoch: the slot that holds the range, or kNoSlot. The policy hears nothing of it.
  SlotId Find(const FileRange& range) const { return allocator_.slots_.Find(range); }

  // Finds and pins a range that is mapped, and writable if the access writes; the policy will hear of the hit. False:
  // it is not, or is just being taken away.
  bool Pin(const FileRange& range, const Touch& touch, Pinned* pinned) {
    SlotTable& slots = allocator_.slots_;
    SlotId slot = kNoSlot;
    {
      const Epoch epoch(*this);
      slot = slots.Find(range);
      if (slot == kNoSlot || (IsWrite(touch.op) && !slots[slot].Has(SlotRecord::kWritable))) return false;
      if (!slots.TryPin(slot)) [[unlikely]] {
        if (slots.Unpin(slot)) refused_ = slot;
        slot = kNoSlot;
      }
    }
    if (slot == kNoSlot) [[unlikely]] {
      if (refused_ != kNoSlot) allocator_.UnpinLast(std::exchange(refused_, kNoSlot));
      return false;
    }
    Push({.index = range.index, .time_ns = touch.time_ns, .file = range.file, .slot = slot, .op = touch.op});
    *pinned = allocator_.PinnedAt(slot);
    return true;
  }
  void Unpin(const Pinned& pinned) { allocator_.Unpin(pinned); }

 private:
  void Push(const Hit& hit) {
    HitBuffer& buffer = *buffer_;
    const std::uint32_t at = buffer.written.load(std::memory_order_relaxed);
    const std::uint32_t waiting = at - buffer.read.load(std::memory_order_acquire);
    // Half full: if the mutex is to be had. Full: in any case.
    if (waiting >= HitBuffer::kSize / 2 && (waiting % 64 == 0 || waiting == HitBuffer::kSize)) [[unlikely]] {
      Lock lock(allocator_.mutex_, std::defer_lock);
      if (waiting == HitBuffer::kSize) {
        lock.lock();
        allocator_.Drain(buffer);
      } else if (lock.try_lock()) {
        allocator_.Drain(buffer);
      }
    }
    buffer.hits[at % HitBuffer::kSize] = hit;
    buffer.written.store(at + 1, std::memory_order_release);
  }

  MappingAllocator& allocator_;
  std::uint32_t me_;
  HitBuffer* buffer_ = nullptr;
  SlotId refused_ = kNoSlot;
};

namespace internal {

// A number in a file of /proc, or the number of its lines; 0 if it cannot be read.
inline std::uint64_t ReadNumber(const char* path) {
  std::uint64_t number = 0;
  if (std::FILE* const file = std::fopen(path, "re"); file != nullptr) {
    if (std::fscanf(file, "%lu", &number) != 1) number = 0;
    std::fclose(file);
  }
  return number;
}
inline std::uint64_t CountLines(const char* path) {
  std::uint64_t lines = 0;
  if (std::FILE* const file = std::fopen(path, "re"); file != nullptr) {
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n';
    std::fclose(file);
  }
  return lines;
}

}  // namespace internal

template <Policy P, MappingBackend B>
absl::StatusOr<std::unique_ptr<MappingAllocator<P, B>>> MappingAllocator<P, B>::Create(
    const AllocatorOptions& options, const typename P::Options& policy, B backend) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (absl::Status status = policy.Validate(); !status.ok()) return status;
  if (options.clamp && backend.address() == nullptr) {
    return absl::InvalidArgumentError("clamp: expected a backend in this address space");
  }
  const ByteSize whole = options.max_window.bytes() != 0 ? options.max_window : options.window;
  if constexpr (requires { backend.size(); }) {
    if (backend.size() < whole.bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("expected a backend of at least ", whole.ToString(), ", got ",
                                                     ByteSize(backend.size()).ToString()));
    }
  }
  if (options.journal != nullptr) {
    const JournalGeometry& g = options.journal->geometry();
    if (g.slots != whole.bytes() >> options.range.shift() ||
        g.range_shift != static_cast<std::uint32_t>(options.range.shift())) {
      return absl::InvalidArgumentError("expected a journal of a window of this size");
    }
  }
  std::uint64_t budget = options.map_count.budget;
  if (budget == 0) {
    const std::uint64_t limit = internal::ReadNumber("/proc/sys/vm/max_map_count");
    const std::uint64_t used = backend.address() != nullptr ? internal::CountLines("/proc/self/maps") : 0;
    budget = limit == 0 ? std::numeric_limits<std::uint32_t>::max() : limit - std::min(limit, used);
  }
  // Each range by itself, and the end that is no whole range.
  const std::uint64_t worst = (whole.bytes() + options.range.bytes() - 1) >> options.range.shift();
  const std::uint64_t usable = budget - std::min(budget, options.map_count.spare);
  if (worst > usable && !options.map_count.warn_only) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a window of ", whole.ToString(), " can take ", worst, " mappings, and the map count allows ", usable, " (",
        budget, " less ", options.map_count.spare, " to spare): raise vm.max_map_count, or make the window smaller"));
  }
  std::unique_ptr<MappingAllocator> allocator(new MappingAllocator(options, policy, std::move(backend), budget));
  allocator->may_exceed_map_count_ = worst > usable;
  return allocator;
}

template <Policy P, MappingBackend B>
MappingAllocator<P, B>::MappingAllocator(const AllocatorOptions& options, const typename P::Options& policy, B backend,
                                         std::uint64_t budget)
    : options_(options),
      journal_(options.journal),
      backend_(std::move(backend)),
      files_(options.seed),
      budget_(budget),
      total_(options.max_window.bytes() != 0 ? options.max_window.bytes() : options.window.bytes()),
      window_({.seed = options.seed},
              {.slots = static_cast<std::uint32_t>(options.window.bytes() >> options.range.shift()),
               .max_slots = static_cast<std::uint32_t>(total_ >> options.range.shift())},
              policy),
      slots_(window_.capacity() + 1, options.seed),
      links_(window_.capacity() + 1),
      per_file_(std::max(1u, options.files)),
      extents_(options.map_count.one_descriptor_per_file && B::kMapsOver),
      length_(options.window.bytes()),
      epochs_(options.max_readers),
      buffers_(options.max_readers),
      rules_(options.rules) {
  busy_.reserve(16);
}

// --- the account ----------------------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
typename MappingAllocator<P, B>::Segment MappingAllocator<P, B>::SegmentAt(std::uint64_t offset) const {
  const SlotId slot = SlotAt(offset);
  const Extent whole = ExtentOf(slot);
  const SlotRecord& record = slots_[slot];
  if (record.Has(SlotRecord::kHost)) {
    const FileRange range = record.range();
    return {.mapped = true,
            .file = range.file,
            .file_offset = range.index << options_.range.shift(),
            .writable = record.Has(SlotRecord::kWritable),
            .begin = whole.offset,
            .end = whole.offset + whole.length};
  }
  const std::uint64_t end = std::min(whole.offset + whole.length, total_);
  if (extents_.empty()) return {.begin = whole.offset, .end = end};
  const auto at = extents_.At(offset);
  if (at == extents_.all().end() || at->first >= end) return {.begin = offset, .end = end};
  if (at->first > offset) return {.begin = offset, .end = at->first};
  return {.mapped = true,
          .file = at->second.file,
          .file_offset = at->second.file_offset,
          .writable = at->second.writable,
          .begin = at->first,
          .end = at->first + at->second.length};
}

template <Policy P, MappingBackend B>
std::uint64_t MappingAllocator<P, B>::Boundaries(std::uint64_t begin, std::uint64_t end, const Segment* as_if) const {
  std::uint64_t boundaries = 0;
  std::uint64_t at = begin;
  Segment before = begin > 0 ? SegmentAt(begin - 1) : Segment{};
  while (at < total_) {
    const Segment here = as_if != nullptr && at == begin ? *as_if : SegmentAt(at);
    if (at > 0 && !Merge(before, here)) ++boundaries;
    if (at == end) break;
    before = here;
    at = std::min(here.end, end);
  }
  return boundaries;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Afford(Lock& lock, const Extent& extent, FileId file, std::uint64_t file_offset,
                                   bool writable, bool upgrade) {
  const std::uint64_t limit = upgrade ? budget_ : budget_ - std::min(budget_, options_.map_count.spare);
  // A change adds two at most.
  const std::uint64_t now = vmas_ + 2 * in_flight_maps_ + 2 * shorts_.load(std::memory_order_relaxed);
  if (now + 2 <= limit) return 0;
  const std::uint64_t end = extent.offset + extent.length;
  const Segment added{true, file, file_offset, writable, extent.offset, end};
  const std::uint64_t after = now + Boundaries(extent.offset, end, &added) - Boundaries(extent.offset, end);
  if (after <= now || after <= limit) return 0;
  if (kept_ > 0) {
    DropKept(lock, kBatch);
    return kAgain;
  }
  ++statistics_.refused;
  return -ENOMEM;
}

// --- kept ranges ----------------------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::Keep(SlotId slot, bool forget) {
  const std::uint32_t i = ToIndex(slot);
  slots_[slot].state.fetch_or(SlotRecord::kKept | (forget ? SlotRecord::kForgotten : 0), std::memory_order_acq_rel);
  KeptLinks& links = links_[i];
  links = {.age_previous = newest_kept_, .since = now_ns_};
  (newest_kept_ == kNoEntry ? oldest_kept_ : links_[newest_kept_].age_next) = i;
  newest_kept_ = i;
  ++kept_;
  NoteNow(slot);
  if (forget) return;
  PerFile& info = Info(slots_[slot].range().file);
  links.file_next = info.first_kept;
  if (info.first_kept != kNoEntry) links_[info.first_kept].file_previous = i;
  info.first_kept = i;
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::Unkeep(SlotId slot) {
  const KeptLinks links = links_[ToIndex(slot)];
  (links.age_previous == kNoEntry ? oldest_kept_ : links_[links.age_previous].age_next) = links.age_next;
  (links.age_next == kNoEntry ? newest_kept_ : links_[links.age_next].age_previous) = links.age_previous;
  --kept_;
  const bool forgotten = slots_[slot].Has(SlotRecord::kForgotten);
  slots_[slot].state.fetch_and(~SlotRecord::kKept);
  if (forgotten) return;
  (links.file_previous == kNoEntry ? Info(slots_[slot].range().file).first_kept
                                   : links_[links.file_previous].file_next) = links.file_next;
  if (links.file_next != kNoEntry) links_[links.file_next].file_previous = links.file_previous;
}

// Unmaps the oldest of those that are kept.
template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::DropKept(Lock& lock, std::uint32_t most) {
  Pending pending;
  while (oldest_kept_ != kNoEntry && pending.count < std::min(most, kBatch)) {
    const SlotId slot{oldest_kept_};
    Unkeep(slot);
    AddPending(pending, slot);
  }
  statistics_.dropped_kept += pending.count;
  (void)Flush(lock, pending);
}

// --- slots ----------------------------------------------------------------------------------------------------------

// Unmaps what is pending. What cannot be unmapped is kept: the account stays true, and the next Tick tries again.
template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Flush(Lock& lock, Pending& pending) {
  const std::uint32_t count = std::exchange(pending.count, 0);
  if (count == 0) return 0;
  std::array<Extent, kBatch> extents;
  for (std::uint32_t i = 0; i < count; ++i) extents[i] = ExtentOf(pending.slots[i]);
  std::bitset<kBatch> failed;
  for (std::uint32_t i = 0; i < count; ++i) NoteIntent(pending.slots[i], {}, false, false);
  ++in_flight_unmaps_;
  lock.unlock();
  if (std::exchange(pending.linked, false)) epochs_.WaitForReaders();
  const int first_error = CallUnmapEach(std::span<const Extent>(extents.data(), count), failed);
  lock.lock();
  --in_flight_unmaps_;
  for (std::uint32_t i = 0; i < count; ++i) {
    const SlotId slot = pending.slots[i];
    const FileId file = slots_[slot].range().file;
    if (!failed[i]) {
      if (slots_[slot].Has(SlotRecord::kShort)) shorts_.fetch_sub(1);
      Account(extents[i], [&] { slots_.SetHost(slot, {}, false); });
    }
    NoteResult(slot, !failed[i]);
    slots_.EndChange(slot);
    if (file != kNoFile) --Info(file).in_flight;
    if (ToIndex(slot) < window_.capacity() && window_.state(slot) == SlotState::kReclaiming) {
      const FileRange range = window_.range(slot);
      window_.CommitReclaim(slot);
      if (pending.cause != Cause::kNone) Emit(EventKind::kReclaim, slot, range, false, pending.cause);
    }
    if (failed[i]) Keep(slot, pending.forget || slots_[slot].Has(SlotRecord::kForgotten));
  }
  landed_.notify_all();
  return first_error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::FlushChain(Lock& lock, const Chain& chain, bool forget, Cause cause) {
  int first_error = 0;
  // All are in flight from the first on, so that nobody else takes one.
  for (std::uint32_t i = chain.first; i != kNoEntry; i = links_[i].age_next) slots_.BeginChange(SlotId{i});
  Pending pending;
  pending.forget = forget;
  pending.cause = cause;
  for (std::uint32_t i = chain.first; i != kNoEntry;) {
    const SlotId slot{i};
    i = links_[i].age_next;
    pending.linked = pending.linked || chain.linked;
    AddPending(pending, slot);
    if (i != kNoEntry && pending.count < kBatch) continue;
    const int error = Flush(lock, pending);
    if (first_error == 0) first_error = error;
  }
  return first_error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Install(Lock& lock, SlotId slot, const FileRange& key, const Touch& touch,
                                    const Source& source, const Held& held, bool linked) {
  SlotRecord& record = slots_[slot];
  const Extent extent = ExtentOf(slot);
  const bool had = record.Has(SlotRecord::kHost);
  const bool forgotten = record.Has(SlotRecord::kForgotten);
  const FileRange before = record.range();
  if (record.Has(SlotRecord::kKept)) Unkeep(slot);
  const std::uint32_t evictions = had ? Info(before.file).evictions : 0;
  if (had) ++Info(before.file).in_flight;
  ++Info(key.file).in_flight;
  ++in_flight_maps_;
  slots_.BeginChange(slot);
  const MapRequest request{.window = extent,
                           .fd = source.fd,
                           .file_offset = key.index << options_.range.shift(),
                           .writable = source.writable,
                           .prefault = options_.prefault};
  const std::int64_t size = Info(key.file).size;
  std::uint32_t zero_from = pages();
  int error = 0;
  bool host_lost = false;
  std::vector<Extent> exact;  // empty, and nothing allocated, where one maps over what is held
  if constexpr (!B::kMapsOver) {
    extents_.ForEachIn(extent, [&](const Extent& part, const ExtentRecord&) { exact.push_back(part); });
  }
  NoteIntent(slot, key, source.writable, source.guests);
  const bool carves = journal_ != nullptr && extents_.Overlaps(extent);
  lock.unlock();
  if (linked) epochs_.WaitForReaders();
  std::vector<bool> failed;
  if constexpr (!B::kMapsOver) {
    if (had) {
      error = CallUnmap(extent);
      host_lost = error == 0;
    } else {
      failed.resize(exact.size());
      error = CallUnmapEach(exact, failed);
    }
  }
  if (error == 0) error = CallMap(request);
  if (error == 0) zero_from = Clamp(slot, request.file_offset, size);
  lock.lock();
  if (error == -ENOMEM && kept_ > 0 && (B::kMapsOver || host_lost || !had)) {
    // The kernel's count is full: what is merely kept makes room, once.
    DropKept(lock, kBatch);
    lock.unlock();
    error = CallMap(request);
    if (error == 0) zero_from = Clamp(slot, request.file_offset, size);
    lock.lock();
  }
  const bool was_short = record.Has(SlotRecord::kShort);
  if (error == 0) {
    if (was_short) shorts_.fetch_sub(1);
    Account(extent, [&] {
      extents_.Carve(extent);
      slots_.SetHost(slot, key, source.writable);
    });
    SetZeroFrom(slot, zero_from);
    slots_.Update(slot, SlotRecord::kGuests, source.guests ? SlotRecord::kGuests : 0);
  } else if (host_lost || !exact.empty()) {
    if (was_short && host_lost) shorts_.fetch_sub(1);
    Account(extent, [&] {
      if (host_lost) slots_.SetHost(slot, {}, false);
      for (std::size_t i = 0; i < failed.size(); ++i) {
        if (!failed[i]) extents_.Carve(exact[i]);
      }
    });
  }
  if (!extents_.empty() || !exact.empty() || carves) extents_.Publish();
  if (host_lost && error != 0) {
    NoteNow(slot);
  } else {
    NoteResult(slot, error == 0);
  }
  if (carves) NoteExtents();
  if (had) --Info(before.file).in_flight;
  --Info(key.file).in_flight;
  --in_flight_maps_;
  const bool doomed = error == 0 && window_.Commit(slot, touch);
  if (error == 0 && !doomed) slots_.Link(slot);
  slots_.EndChange(slot);
  if (doomed) {
    FinishDoomed(lock, slot, false);
    error = -ESTALE;
  } else if (error == 0) {
    // In place.
  } else if (had && !host_lost) {
    const bool evicted = forgotten || Info(before.file).evictions != evictions;
    if (held.any && !evicted) {
      if (window_.Abort(slot, held)) {
        FinishDoomed(lock, slot, true);
      } else {
        slots_.Link(slot);
      }
    } else {
      (void)window_.Abort(slot);
      Keep(slot, evicted);
      if (evicted) {
        Pending pending;
        pending.forget = true;
        Unkeep(slot);
        AddPending(pending, slot);
        (void)Flush(lock, pending);
      }
    }
  } else {
    (void)window_.Abort(slot);
  }
  landed_.notify_all();
  return error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Upgrade(Lock& lock, SlotId slot, const Touch& touch, int fd) {
  SlotRecord& record = slots_[slot];
  const Extent extent = ExtentOf(slot);
  const FileRange range = record.range();
  const MapRequest request{.window = extent,
                           .fd = fd,
                           .file_offset = range.index << options_.range.shift(),
                           .writable = true,
                           .prefault = options_.prefault};
  // Where one maps over what is held, readers go on while it is upgraded; else there is a gap.
  bool linked = false;
  if (!B::kMapsOver && !TakeAway(slot, &linked)) return -EBUSY;
  window_.BeginUpgrade(slot);
  const std::int64_t size = Info(range.file).size;
  std::uint32_t zero_from = pages();
  ++Info(range.file).in_flight;
  ++in_flight_maps_;
  slots_.BeginChange(slot);
  NoteIntent(slot, range, true, record.Has(SlotRecord::kGuests));
  lock.unlock();
  int error = 0;
  bool lost = false;
  if constexpr (!B::kMapsOver) {
    if (linked) epochs_.WaitForReaders();
    error = CallUnmap(extent);
    lost = error == 0;
  }
  if (error == 0) error = CallMap(request);
  if (error == 0) zero_from = Clamp(slot, request.file_offset, size);
  lock.lock();
  if (error == -ENOMEM && kept_ > 0 && (B::kMapsOver || lost)) {
    DropKept(lock, kBatch);
    lock.unlock();
    error = CallMap(request);
    if (error == 0) zero_from = Clamp(slot, request.file_offset, size);
    lock.lock();
  }
  if (lost && error != 0) {
    // The guest still believes in what it had: so that is put back, however often it takes.
    MapRequest back = request;
    back.writable = false;
    lock.unlock();
    for (int i = 0; lost && i < kRetries; ++i) lost = CallMap(back) != 0;
    if (!lost) zero_from = Clamp(slot, request.file_offset, size);
    lock.lock();
    if (!lost) SetZeroFrom(slot, zero_from);
  }
  if ((error == 0 || lost) && record.Has(SlotRecord::kShort)) shorts_.fetch_sub(1);
  if (error == 0) {
    Account(extent, [&] { slots_.SetHost(slot, range, true); });
    SetZeroFrom(slot, zero_from);
  } else if (lost) {
    Account(extent, [&] { slots_.SetHost(slot, {}, false); });
  }
  if (lost && error != 0) {
    NoteNow(slot);
  } else {
    NoteResult(slot, error == 0);
  }
  --Info(range.file).in_flight;
  --in_flight_maps_;
  slots_.EndChange(slot);
  Untell(slot);
  bool doomed = false;
  if (error == 0) {
    doomed = window_.Commit(slot, touch);
    if (doomed) error = -ESTALE;
  } else {
    doomed = lost ? window_.AbortLost(slot) : window_.Abort(slot);
  }
  if (doomed) {
    FinishDoomed(lock, slot, true);
  } else if (linked) {
    slots_.Link(slot);
  }
  landed_.notify_all();
  return error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::SetUpSlot(Lock& lock, SlotId slot, const SetUpRequest& request) {
  SlotRecord& record = slots_[slot];
  const FileRange key{request.file, request.file_offset >> options_.range.shift()};
  const Touch touch{.file = request.file, .op = request.writable ? Op::kWrite : Op::kRead, .time_ns = request.time_ns};
  const std::uint32_t state = record.state.load(std::memory_order_acquire);
  const bool same = (state & SlotRecord::kHost) && !(state & SlotRecord::kForgotten) && record.range() == key;
  const bool writable = state & SlotRecord::kWritable;
  const bool bound = Bound(slot);
  if (window_.state(slot) == SlotState::kReclaiming) return -EBUSY;  // pinned, and to go
  // A repair under way makes it short, perhaps.
  if (same && writable == request.writable && !(state & (SlotRecord::kShort | SlotRecord::kRepairing))) {
    if (!bound) {
      Unkeep(slot);
      ++statistics_.found_kept;
      (void)window_.BindAt(slot, key, touch);
      [[maybe_unused]] const bool doomed = window_.Commit(slot, touch);
      slots_.Update(slot, 0, SlotRecord::kGuests);
      NoteNow(slot);
      slots_.Link(slot);
    }
    Emit(EventKind::kSetup, slot, key, request.writable);
    return 0;
  }
  const bool upgrade = bound && same && !writable && request.writable;
  if (bound && same && writable == request.writable) {
    const int error = Refresh(lock, slot, request.fd, Info(request.file).size);
    if (error == 0) Emit(EventKind::kSetup, slot, key, request.writable);
    return error;
  }
  const Extent extent = ExtentOf(slot);
  if (const int error = Afford(lock, extent, key.file, request.file_offset, request.writable, upgrade); error != 0) {
    return error;
  }
  if (upgrade) {
    const int error = Upgrade(lock, slot, touch, request.fd);
    if (error == 0) Emit(EventKind::kUpgrade, slot, key, true);
    return error;
  }
  if constexpr (!B::kMapsOver) {
    if (extents_.Straddles(extent)) return -EINVAL;
  }
  // Of an extent two pieces can be left, also by the others that are under way.
  if (journal_ != nullptr && extents_.Straddles(extent) &&
      extents_.size() + in_flight_maps_ >= journal_->geometry().extents) {
    return -ENOSPC;
  }
  bool linked = false;
  if (bound && !TakeAway(slot, &linked)) return -EBUSY;
  const auto at = window_.BindAt(slot, key, touch);
  assert(at.must_map);
  const int error = Install(lock, slot, key, touch, {.fd = request.fd, .writable = request.writable, .guests = true},
                            at.held, linked);
  if (error == 0) Emit(EventKind::kSetup, slot, key, request.writable);
  return error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::SetUp(const SetUpRequest& request) {
  if (request.length == 0 || !Aligned(request.file_offset | request.length | request.window_offset)) return -EINVAL;
  if (request.fd < 0 || request.file == kNoFile) return -EBADF;
  if (request.file_offset > kLargestOffset || request.length > kLargestOffset - request.file_offset) {
    return -EOVERFLOW;
  }
  const Extent extent{request.window_offset, request.length};
  Lock lock(mutex_);
  Advance(request.time_ns);
  PerFile& info = Info(request.file);
  if (request.file_size >= 0) info.size = request.file_size;
  const bool regular = IsSlot(extent) && (request.file_offset & (range_bytes() - 1)) == 0;
  for (;;) {
    if (!InWindow(extent)) return -ERANGE;
    const SlotId slot = SlotAt(extent.offset);
    if (!regular || ToIndex(slot) >= window_.size()) return SetUpExtent(lock, request);
    if (InFlight(slot) || Blocked(extent)) {
      Wait(lock);
      continue;
    }
    const int error = SetUpSlot(lock, slot, request);
    if (error != kAgain) return error;
  }
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Remove(std::span<const Extent> entries) {
  Lock lock(mutex_);
  Pending pending;
  int first_error = 0;
  for (const Extent& entry : entries) {
    const int error = RemoveEntry(lock, entry, pending);
    if (first_error == 0) first_error = error;
  }
  const int error = Flush(lock, pending);
  return first_error != 0 ? first_error : error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::RemoveEntry(Lock& lock, const Extent& entry, Pending& pending) {
  const bool to_end = entry.length == std::numeric_limits<std::uint64_t>::max();
  if (!Aligned(entry.offset) || entry.length == 0 || (!to_end && !Aligned(entry.length))) return -EINVAL;
  if (to_end) {
    if (entry.offset >= length_) return -ERANGE;
    return RemoveRange(lock, {entry.offset, length_ - entry.offset}, true, pending);
  }
  if (!InWindow(entry)) return -ERANGE;
  return RemoveRange(lock, entry, false, pending);
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::RemoveAll() {
  Lock lock(mutex_);
  Pending pending;
  const int error = RemoveRange(lock, {0, total_}, true, pending);
  const int flushed = Flush(lock, pending);
  return error != 0 ? error : flushed;
}

// `drop`: kept ranges go too, and nothing is kept.
template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::RemoveRange(Lock& lock, const Extent& extent, bool drop, Pending& pending) {
  int first_error = 0;
  const auto note = [&](int error) {
    if (first_error == 0) first_error = error;
  };
  const std::uint64_t end = extent.offset + extent.length;
  const std::uint32_t last = std::min(ToIndex(SlotAt(end)), window_.capacity());
  for (std::uint32_t i = SlotsTo(extent.offset); i < last; ++i) {
    const SlotId slot{i};
    while (InFlight(slot) || Blocked(ExtentOf(slot))) {
      // Nobody waits for somebody who waits for him.
      if (pending.count > 0) {
        note(Flush(lock, pending));
      } else {
        Wait(lock);
      }
    }
    if (Bound(slot)) {
      Untell(slot);
      if (!slots_.Claim(slot)) {
        note(-EBUSY);
        continue;
      }
      window_.BeginReclaim(slot);
      Emit(EventKind::kRemove, slot, slots_[slot].range(), false);
      if (!options_.lazy.enabled || drop) {
        AddPending(pending, slot);
      } else {
        window_.CommitReclaim(slot);
        // Readers that see it still see a mapping that stays.
        slots_.Unlink(slot);
        Keep(slot, false);
        if (kept_ > options_.lazy.max_kept) {
          const SlotId oldest{oldest_kept_};
          ++statistics_.dropped_kept;
          Unkeep(oldest);
          AddPending(pending, oldest);
        }
      }
    } else if (drop && slots_[slot].Has(SlotRecord::kKept)) {
      Unkeep(slot);
      AddPending(pending, slot);
    }
    if (pending.count == kBatch) note(Flush(lock, pending));
  }
  const auto partly_held = [&](std::uint64_t edge) {
    return edge % range_bytes() != 0 && edge < total_ && slots_[SlotAt(edge)].Has(SlotRecord::kHost);
  };
  while (extents_.Overlaps(extent) || !busy_.empty() || partly_held(extent.offset) || partly_held(end)) {
    note(Flush(lock, pending));
    if (Blocked(extent)) {
      Wait(lock);
      continue;
    }
    if (extents_.Overlaps(extent) || partly_held(extent.offset) || partly_held(end)) {
      note(RemoveExtents(lock, extent, kNoFile));
    }
    break;
  }
  return first_error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Evict(FileId file) {
  {
    const std::lock_guard lock(rules_mutex_);
    rules_.OnEvict(file);
  }
  return DropRanges(file);
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::DropFile(Lock& lock, FileId file) {
  while (!busy_.empty()) Wait(lock);
  DrainAll();
  ++Info(file).evictions;
  if (told_ > 0) UntellAll(file);
  Chain chain;
  window_.Invalidate(file, [&](SlotId slot) {
    EmitRemoval(slot, slots_[slot].range(), Cause::kEvicted);
    Reclaiming(slot, chain);
  });
  while (Info(file).first_kept != kNoEntry) ReclaimKept(SlotId{Info(file).first_kept}, chain);
  int first_error = FlushChain(lock, chain, true, Cause::kEvicted);
  while (!busy_.empty()) Wait(lock);
  if (Info(file).has_extents) {
    Info(file).has_extents = false;
    for (std::uint64_t from = 0;;) {
      auto at = extents_.At(from);
      while (at != extents_.all().end() && at->second.file != file) ++at;
      if (at == extents_.all().end()) break;
      from = at->first + at->second.length;
      const int error = RemoveExtents(lock, {at->first, at->second.length}, file);
      if (first_error == 0) first_error = error;
    }
  }
  // Calls that were under way for the file have landed, and seen that it is gone; but for removals that failed, which
  // have kept their ranges. These may not be found under a number that another file gets.
  for (;;) {
    while (Info(file).in_flight > 0) Wait(lock);
    if (Info(file).first_kept == kNoEntry) return first_error;
    Chain failed;
    while (Info(file).first_kept != kNoEntry) ReclaimKept(SlotId{Info(file).first_kept}, failed);
    const int error = FlushChain(lock, failed, true, Cause::kNone);
    if (first_error == 0) first_error = error;
  }
}

// --- extents --------------------------------------------------------------------------------------------------------

// Waits until nothing is in flight in the slots that `extent` touches, and puts them in flight. Bound slots among them
// become extents, and kept ones are handed to the caller, who drops them; those that lie inside wholly only if
// `whole_slots_too`.
template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::BeginIrregular(Lock& lock, const Extent& extent, bool whole_slots_too,
                                           Irregular* irregular) {
  const std::uint32_t first = ToIndex(SlotAt(extent.offset));
  const std::uint32_t last = SlotsTo(extent.offset + extent.length);
  const std::uint64_t area_begin = ExtentOf(SlotId{first}).offset;
  irregular->asked = extent;
  irregular->area = {area_begin, std::min(std::uint64_t{last} << options_.range.shift(), total_) - area_begin};
  for (bool waited = true; waited;) {
    waited = false;
    if (whole_slots_too && !InWindow(extent)) return -ERANGE;
    bool in_flight = Blocked(irregular->area);
    for (std::uint32_t i = first; i < last && !in_flight; ++i) in_flight = InFlight(SlotId{i});
    if (in_flight) {
      Wait(lock);
      waited = true;
    }
  }
  const std::uint64_t end = extent.offset + extent.length;
  const auto touches = [&](std::uint32_t i) {
    // Of slots that lie inside wholly, a removal has taken care.
    const Extent slot = ExtentOf(SlotId{i});
    const bool inside = slot.offset >= extent.offset && slot.offset + slot.length <= end;
    return slots_[SlotId{i}].Has(SlotRecord::kHost) && (whole_slots_too || !inside);
  };
  if constexpr (!B::kMapsOver) {
    if (extents_.Straddles(extent)) return -EINVAL;
    for (std::uint32_t i = first; i < last; ++i) {
      const Extent slot = ExtentOf(SlotId{i});
      const bool inside = slot.offset >= extent.offset && slot.offset + slot.length <= end;
      if (touches(i) && !inside && !slots_[SlotId{i}].Has(SlotRecord::kKept)) return -EINVAL;
    }
  }
  if (journal_ != nullptr) {
    // A slot becomes one extent, what is cut in its middle two, and a set-up adds its own.
    std::size_t pieces = extents_.size() + (whole_slots_too ? 1 : 0) + (extents_.Straddles(extent) ? 1 : 0);
    for (std::uint32_t i = first; i < last; ++i) pieces += touches(i) ? 2 : 0;
    if (pieces > journal_->geometry().extents || !journal_->BeginArea(irregular->area)) return -ENOSPC;
  }
  for (std::uint32_t i = first; i < last; ++i) {
    if (!touches(i) || slots_[SlotId{i}].Has(SlotRecord::kKept)) continue;
    Untell(SlotId{i});
    if (slots_.Claim(SlotId{i})) continue;
    // Pinned: those before it are given back.
    for (std::uint32_t back = first; back < i; ++back) {
      if (touches(back) && slots_[SlotId{back}].Has(SlotRecord::kLinked)) {
        slots_[SlotId{back}].pins.fetch_and(~SlotRecord::kClaimed);
      }
    }
    if (journal_ != nullptr) journal_->EndArea(irregular->area);
    return -EBUSY;
  }
  for (std::uint32_t i = first; i < last; ++i) {
    const SlotId slot{i};
    SlotRecord& record = slots_[slot];
    const bool touched = touches(i);
    slots_.BeginChange(slot);
    if (!touched) continue;
    if (record.Has(SlotRecord::kKept)) {
      Unkeep(slot);
      irregular->dropped.push_back(slot);
      continue;
    }
    window_.BeginReclaim(slot);
    Emit(EventKind::kRemove, slot, record.range(), false);
    window_.CommitReclaim(slot);
    slots_.Unlink(slot);
    const FileRange range = record.range();
    const bool writable = record.Has(SlotRecord::kWritable);
    if (record.Has(SlotRecord::kShort)) {
      shorts_.fetch_sub(1);
      extents_short_.store(true);
    }
    Account(ExtentOf(slot), [&] {
      slots_.SetHost(slot, {}, false);
      extents_.Insert(ExtentOf(slot),
                      {.file = range.file, .file_offset = range.index << options_.range.shift(), .writable = writable});
    });
    Info(range.file).has_extents = true;
  }
  busy_.push_back(irregular->area);
  return 0;
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::NoteExtents() {
  if (journal_ == nullptr) return;
  auto at = extents_.all().begin();
  const std::uint32_t count =
      static_cast<std::uint32_t>(std::min<std::size_t>(extents_.size(), journal_->geometry().extents));
  journal_->SetExtents(count, [&](std::uint32_t) {
    const ExtentRecord& record = at->second;
    const std::uint64_t flags = JournalMapping::kMapped | JournalMapping::kGuests |
                                (record.writable ? JournalMapping::kWritable : 0) |
                                (record.kept ? JournalMapping::kKept : 0);
    const Extent window{at->first, record.length};
    const JournalMapping mapping{
        .file = files_.identity(record.file), .file_offset = record.file_offset, .flags = flags};
    ++at;
    return Journal::ExtentEntry{window, mapping};
  });
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::EndIrregular(const Irregular& irregular) {
  const std::uint32_t first = ToIndex(SlotAt(irregular.area.offset));
  const std::uint32_t last = SlotsTo(irregular.area.offset + irregular.area.length);
  extents_.Publish();
  if (journal_ != nullptr) {
    NoteExtents();
    for (std::uint32_t i = first; i < last; ++i) NoteNow(SlotId{i});
    journal_->EndArea(irregular.area);
  }
  for (std::uint32_t i = first; i < last; ++i) slots_.EndChange(SlotId{i});
  busy_.erase(std::find(busy_.begin(), busy_.end(), irregular.area));
  landed_.notify_all();
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::SetUpExtent(Lock& lock, const SetUpRequest& request) {
  const Extent extent{request.window_offset, request.length};
  Irregular irregular;
  for (;;) {
    const int error = Afford(lock, extent, request.file, request.file_offset, request.writable, false);
    if (error == 0) break;
    if (error != kAgain) return error;
  }
  if (const int error = BeginIrregular(lock, extent, true, &irregular); error != 0) return error;
  Info(request.file).has_extents = true;
  ++in_flight_maps_;
  std::vector<Extent> unmap;
  for (const SlotId slot : irregular.dropped) unmap.push_back(ExtentOf(slot));
  const std::size_t kept = unmap.size();
  if constexpr (!B::kMapsOver) {
    extents_.ForEachIn(extent, [&](const Extent& part, const ExtentRecord&) { unmap.push_back(part); });
  }
  lock.unlock();
  epochs_.WaitForReaders();
  std::vector<bool> failed(unmap.size());
  int error = CallUnmapEach(unmap, failed);
  if (B::kMapsOver) error = 0;  // what is left is mapped over, or stays as an extent
  if (error == 0) {
    error = CallMap({.window = extent,
                     .fd = request.fd,
                     .file_offset = request.file_offset,
                     .writable = request.writable,
                     .prefault = options_.prefault});
  }
  lock.lock();
  for (std::size_t i = 0; i < unmap.size(); ++i) {
    if (i >= kept) {
      if (!failed[i]) Account(unmap[i], [&] { extents_.Carve(unmap[i]); });
      continue;
    }
    const SlotId slot = irregular.dropped[i];
    const FileRange range = slots_[slot].range();
    const bool writable = slots_[slot].Has(SlotRecord::kWritable);
    if (slots_[slot].Has(SlotRecord::kShort)) shorts_.fetch_sub(1);
    Account(unmap[i], [&] {
      slots_.SetHost(slot, {}, false);
      if (!failed[i]) return;
      extents_.Insert(unmap[i], {.file = range.file,
                                 .file_offset = range.index << options_.range.shift(),
                                 .writable = writable,
                                 .kept = true});
    });
    if (failed[i]) Info(range.file).has_extents = true;
  }
  if (error == 0) {
    Account(extent, [&] {
      extents_.Carve(extent);
      extents_.Insert(extent, {.file = request.file, .file_offset = request.file_offset, .writable = request.writable});
    });
    Emit(EventKind::kSetup, kNoSlot, {request.file, request.file_offset >> options_.range.shift()}, request.writable);
  }
  --in_flight_maps_;
  EndIrregular(irregular);
  return error;
}

// Unmaps the extents, and the parts of slots, within `extent`; `only`: those of a file that goes away.
template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::RemoveExtents(Lock& lock, const Extent& extent, FileId only) {
  Irregular irregular;
  if (const int error = BeginIrregular(lock, extent, false, &irregular); error != 0) return error;
  std::vector<Extent> unmap;
  std::vector<ExtentRecord> records;
  for (const SlotId slot : irregular.dropped) unmap.push_back(ExtentOf(slot));
  const std::size_t kept = unmap.size();
  extents_.ForEachIn(extent, [&](const Extent& part, const ExtentRecord& record) {
    if (only != kNoFile && record.file != only) return;
    unmap.push_back(part);
    records.push_back(record);
  });
  lock.unlock();
  epochs_.WaitForReaders();
  std::vector<bool> failed(unmap.size());
  const int error = CallUnmapEach(unmap, failed);
  lock.lock();
  for (std::size_t i = 0; i < unmap.size(); ++i) {
    ExtentRecord left;
    if (i < kept) {
      const SlotRecord& record = slots_[irregular.dropped[i]];
      left = {.file = record.range().file,
              .file_offset = record.range().index << options_.range.shift(),
              .writable = record.Has(SlotRecord::kWritable)};
      if (record.Has(SlotRecord::kShort)) shorts_.fetch_sub(1);
    } else {
      left = records[i - kept];
    }
    left.kept = true;
    Account(unmap[i], [&] {
      if (i < kept) slots_.SetHost(irregular.dropped[i], {}, false);
      extents_.Carve(unmap[i]);
      if (failed[i]) extents_.Insert(unmap[i], left);
    });
    if (failed[i]) Info(left.file).has_extents = true;
  }
  EndIrregular(irregular);
  return error;
}

// --- zero pages -----------------------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::RepairFault(void* host_address) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(backend_.address());
  const auto address = reinterpret_cast<std::uintptr_t>(host_address);
  if (base == 0 || address < base || address - base >= total_) return -EFAULT;
  const int saved = errno;
  const std::uint64_t offset = (address - base) & ~(options_.page_bytes - 1);
  const SlotId slot = SlotAt(offset);
  // Somebody maps here just now: the access will find that, or fault again.
  repairing_.fetch_add(1);
  if (!slots_.BeginRepair(slot)) {
    repairing_.fetch_sub(1);
    return 0;
  }
  const Extent whole = ExtentOf(slot);
  const bool in_slot = slots_[slot].Has(SlotRecord::kHost);
  std::uint64_t end = whole.offset + whole.length;
  int error = 0;
  if (!in_slot) {
    const std::uint64_t extent_end = extents_.EndFor(offset);
    error = extent_end == 0 ? -EFAULT : extent_end == 1 ? 1 : 0;
    end = std::min(end, extent_end);
  }
  if (error == 0) {
    // Populating fails as the access did, past the end with EFAULT. If it does not, the page is there: the file has
    // grown since. If it cannot be written to, that is another error, and zero pages would hide it.
    constexpr int kPopulateRead = 22;
    constexpr int kPopulateWrite = 23;
    void* const page = static_cast<std::byte*>(backend_.address()) + offset;
    if (madvise(page, options_.page_bytes, kPopulateRead) == 0) {
      const bool writable = in_slot && slots_[slot].Has(SlotRecord::kWritable);
      error = !writable || madvise(page, options_.page_bytes, kPopulateWrite) == 0 ? 1 : -EIO;
    } else if (errno == EHWPOISON) {
      error = -EIO;
    }
  }
  if (error == 0) error = PutZeroPages(offset, end);
  if (error == 0) {
    if (!in_slot) {
      extents_short_.store(true);
    } else {
      const auto page = static_cast<std::uint32_t>((offset - whole.offset) / options_.page_bytes);
      if (!slots_[slot].Has(SlotRecord::kShort)) shorts_.fetch_add(1);
      slots_.SetZeroFrom(slot, std::min(page, slots_.ZeroFrom(slot, pages())), pages());
    }
    repairs_.fetch_add(1, std::memory_order_relaxed);
  }
  slots_.EndRepair(slot);
  repairing_.fetch_sub(1);
  errno = saved;
  return error > 0 ? 0 : error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Refresh(Lock& lock, SlotId slot, int fd, std::int64_t size) {
  SlotRecord& record = slots_[slot];
  const FileRange range = record.range();
  const Extent extent = ExtentOf(slot);
  const bool writable = record.Has(SlotRecord::kWritable);
  const std::uint64_t file_offset = range.index << options_.range.shift();
  record.pins.fetch_add(1);  // nobody takes it away meanwhile
  ++Info(range.file).in_flight;
  slots_.BeginChange(slot);
  lock.unlock();
  int error = -EBADF;
  if (fd >= 0) error = CallMap({.window = extent, .fd = fd, .file_offset = file_offset, .writable = writable});
  if constexpr (requires { backend_.Renew(extent); }) {
    if (error != 0) error = backend_.Renew(extent);
  }
  std::uint32_t zero_from = pages();
  if (error == 0) zero_from = Clamp(slot, file_offset, size);
  lock.lock();
  if (error == 0) SetZeroFrom(slot, zero_from);
  slots_.EndChange(slot);
  --Info(range.file).in_flight;
  if (slots_.Unpin(slot)) UnpinLast(lock, slot);
  landed_.notify_all();
  return error;
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::OnSizeChanged(FileId file, std::uint64_t size, int fd) {
  if (file == kNoFile) return -EBADF;
  Lock lock(mutex_);
  while (!busy_.empty()) Wait(lock);
  const std::int64_t before = std::exchange(Info(file).size, static_cast<std::int64_t>(std::min(size, kLargestOffset)));
  const bool smaller = before < 0 || size < static_cast<std::uint64_t>(before);
  // A repair may have looked at the file before it had this size, and put its zero pages only after this. One that
  // begins from now on sees the size.
  for (std::uint32_t i = 0; repairing_.load() > 0 && i < slots_.slots(); ++i) slots_.WaitForRepair(SlotId{i});
  int first_error = 0;
  const auto note = [&](int error) {
    if (first_error == 0) first_error = error;
  };
  const auto ends_past = [&](const FileRange& range) {
    return FirstPast(range.index << options_.range.shift(), Info(file).size) < pages();
  };
  if (smaller) {
    Chain chain;
    for (std::uint32_t i = Info(file).first_kept; i != kNoEntry;) {
      const SlotId slot{i};
      i = links_[i].file_next;
      if (ends_past(slots_[slot].range())) ReclaimKept(slot, chain);
    }
    note(FlushChain(lock, chain, true, Cause::kNone));
  }
  // What got zero pages, and lies within the file now; or, clamped, does not any more.
  if (shorts_.load() > 0 || (options_.clamp && smaller)) {
    std::vector<SlotId> again;
    for (std::uint64_t index = 0;; ++index) {
      const SlotId next = window_.index().AtOrAfter(file, index);
      if (next == kNoSlot) break;
      index = slots_[next].range().index;
      const std::uint32_t past = FirstPast(index << options_.range.shift(), Info(file).size);
      for (SlotId slot = slots_.Find({file, index}); slot != kNoSlot; slot = slots_.FindNext(slot)) {
        if (slots_.ZeroFrom(slot, pages()) < past || (options_.clamp && past < pages())) again.push_back(slot);
      }
    }
    for (const SlotId slot : again) {
      // Others may have come first, while the mutex was let go of.
      while (InFlight(slot)) Wait(lock);
      if (Bound(slot) && slots_[slot].range().file == file && slots_[slot].Has(SlotRecord::kLinked)) {
        note(Refresh(lock, slot, fd, Info(file).size));
      }
    }
  }
  if (extents_short_.load() && Info(file).has_extents) {
    std::vector<Extent> again;
    std::vector<ExtentRecord> records;
    for (const auto& [offset, record] : extents_.all()) {
      if (record.file != file || record.kept) continue;
      again.push_back({offset, record.length});
      records.push_back(record);
    }
    for (std::size_t i = 0; i < again.size(); ++i) {
      Irregular irregular;
      if (BeginIrregular(lock, again[i], false, &irregular) != 0) continue;
      const auto at = extents_.all().find(again[i].offset);
      const bool same = at != extents_.all().end() && at->second.file == file && at->second.length == again[i].length &&
                        at->second.file_offset == records[i].file_offset;
      lock.unlock();
      int error = -EBADF;
      if (same && fd >= 0) {
        error = CallMap(
            {.window = again[i], .fd = fd, .file_offset = records[i].file_offset, .writable = records[i].writable});
      }
      if constexpr (requires { backend_.Renew(again[i]); }) {
        if (same && error != 0) error = backend_.Renew(again[i]);
      }
      lock.lock();
      if (same) note(error);
      EndIrregular(irregular);
    }
  }
  return first_error;
}

// --- where the allocator chooses ------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::UntellAll(FileId file) {
  for (std::uint64_t index = 0;; ++index) {
    const SlotId next = window_.index().AtOrAfter(file, index);
    if (next == kNoSlot) return;
    index = window_.range(next).index;
    for (SlotId slot = slots_.Find({file, index}); slot != kNoSlot; slot = slots_.FindNext(slot)) Untell(slot);
  }
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::UnpinLast(SlotId slot) {
  Lock lock(mutex_);
  UnpinLast(lock, slot);
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::UnpinLast(Lock& lock, SlotId slot) {
  std::atomic<std::uint32_t>& pins = slots_[slot].pins;
  if ((pins.load() & SlotRecord::kPinCount) != 0) return;
  if (!slots_[slot].Has(SlotRecord::kGuests)) Untell(slot);
  std::uint32_t marked = SlotRecord::kRemoveLast;
  if (!pins.compare_exchange_strong(marked, SlotRecord::kClaimed)) return;
  // It was unlinked long ago, but a reader that saw it then may be looking still.
  Chain chain{.linked = true};
  Append(slot, chain);
  const Cause cause = DoomedBy(slot);
  (void)FlushChain(lock, chain, cause == Cause::kEvicted, cause);
}

template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::Drain(HitBuffer& buffer) {
  const std::uint32_t end = buffer.written.load(std::memory_order_acquire);
  std::uint32_t at = buffer.read.load(std::memory_order_relaxed);
  for (; at != end; ++at) {
    const Hit& hit = buffer.hits[at % HitBuffer::kSize];
    const FileRange range{hit.file, hit.index};
    const Touch touch{.file = hit.file, .op = hit.op, .time_ns = hit.time_ns};
    Advance(hit.time_ns);
    // Meanwhile it may have been taken away, and even come back.
    if (Bound(hit.slot) && !window_.doomed(hit.slot) && window_.range(hit.slot) == range) {
      if (IsWrite(hit.op)) {
        (void)window_.Lookup(range, touch);
      } else {
        window_.Observe(hit.slot, touch);
      }
      links_[ToIndex(hit.slot)].since = hit.time_ns;
    }
    Emit(EventKind::kHit, hit.slot, range, IsWrite(hit.op));
  }
  buffer.read.store(at, std::memory_order_release);
}

template <Policy P, MappingBackend B>
SlotId MappingAllocator<P, B>::PickVictim(const Incoming<FileRange>* incoming, Scope scope) {
  for (;;) {
    const SlotId slot =
        incoming != nullptr ? window_.PickVictim(scope, incoming->key, incoming->touch) : window_.PickVictim(scope);
    if (slot == kNoSlot) return kNoSlot;
    const bool guests = slots_[slot].Has(SlotRecord::kGuests);
    if (!guests && !slots_[slot].Has(SlotRecord::kChanging) && slots_.Claim(slot)) return slot;
    // The window is told, so that the policy is not offered it again.
    if (guests) {
      slots_[slot].pins.fetch_or(SlotRecord::kToldWindow);
    } else if (!slots_.Mark(slot, SlotRecord::kToldWindow)) {
      continue;
    }
    window_.Pin(slot);
    ++told_;
  }
}

template <Policy P, MappingBackend B>
int MappingAllocator<P, B>::Map(const MapFileRequest& request, Pinned* pinned) {
  if (request.file == kNoFile || request.fd < 0) return -EBADF;
  if (request.file_offset > kLargestOffset - range_bytes()) return -EOVERFLOW;
  const FileRange key{request.file, request.file_offset >> options_.range.shift()};
  const Touch touch{.file = request.file, .op = request.op, .time_ns = request.time_ns};
  const bool write = IsWrite(request.op);
  const Incoming<FileRange> incoming{key, touch};
  Lock lock(mutex_);
  Advance(request.time_ns);
  if (request.file_size >= 0) Info(request.file).size = request.file_size;
  DrainAll();
  bool missed = false;
  const auto pin = [&](SlotId slot) {
    links_[ToIndex(slot)].since = request.time_ns;
    (void)slots_.TryPin(slot);  // it is bound, and the mutex is held
    *pinned = PinnedAt(slot);
    return 0;
  };
  for (;;) {
    if (const SlotId there = window_.Find(key); there != kNoSlot && InFlight(there)) {
      Wait(lock);
      continue;
    }
    const LookupResult found = window_.Lookup(key, touch);
    if (found.kind == LookupKind::kHit) {
      if (!missed) Emit(EventKind::kHit, found.slot, key, write);
      return pin(found.slot);
    }
    if (found.kind == LookupKind::kMustUpgrade) {
      const int afford = Afford(lock, ExtentOf(found.slot), key.file, key.index << options_.range.shift(), true, true);
      if (afford == kAgain) continue;
      if (afford != 0) return afford;
      if (const int error = Upgrade(lock, found.slot, touch, request.fd); error != 0) return error;
      Emit(EventKind::kUpgrade, found.slot, key, true);
      return pin(found.slot);
    }
    if (found.kind == LookupKind::kBusy) {
      Wait(lock);
      continue;
    }
    if (!missed) {
      missed = true;
      Emit(EventKind::kMiss, kNoSlot, key, write);
      if (!window_.Admit(key, touch)) {
        Emit(EventKind::kBypass, kNoSlot, key, write);
        return -EOPNOTSUPP;
      }
    }
    const std::uint64_t file_offset = key.index << options_.range.shift();
    bool linked = false;
    SlotId slot = kNoSlot;
    // Beside the range before it, so that the two share a VMA; else the head of the free list; else the victim's.
    if (options_.contiguous && key.index > 0) {
      const SlotId before = window_.Find({key.file, key.index - 1});
      const SlotId beside{ToIndex(before) + 1};
      if (before != kNoSlot && ToIndex(beside) < window_.size() && window_.state(beside) == SlotState::kFree &&
          !InFlight(beside) && !extents_.Overlaps(ExtentOf(beside))) {
        slot = beside;
      }
    }
    const bool chosen = slot != kNoSlot;
    if (!chosen) slot = window_.Take();
    const bool taken = !chosen && slot != kNoSlot;
    if (taken && (slots_[slot].Has(SlotRecord::kChanging) || Blocked(ExtentOf(slot)))) {
      window_.Return(slot);
      Wait(lock);
      continue;
    }
    if (slot == kNoSlot) {
      if (options_.reclaim.calls == InlineReclaim::kOwnFile) slot = PickVictim(&incoming, Scope::File(key.file));
      if (slot == kNoSlot) slot = PickVictim(&incoming, Scope::Any());
      if (slot == kNoSlot) {
        if (in_flight_maps_ + in_flight_unmaps_ > 0) {
          Wait(lock);
          continue;
        }
        Emit(EventKind::kBypass, kNoSlot, key, write);
        return -EBUSY;
      }
    }
    if (const int afford = Afford(lock, ExtentOf(slot), key.file, file_offset, write, false); afford != 0) {
      if (taken) window_.Return(slot);
      if (!taken && !chosen) slots_[slot].pins.fetch_and(~SlotRecord::kClaimed);
      if (afford == kAgain) continue;
      return afford;
    }
    if (chosen) {
      (void)window_.BindAt(slot, key, touch);
    } else {
      if (!taken) {
        const FileRange victim = slots_[slot].range();
        window_.BeginReclaim(slot);
        linked = slots_.Unlink(slot);
        EmitRemoval(slot, victim, Cause::kInline);
        Emit(EventKind::kReclaim, slot, victim, false, Cause::kInline);
        if (!window_.CommitReclaimAndTake(slot)) continue;
      }
      (void)window_.Bind(slot, key, touch);
    }
    if (const int error = Install(lock, slot, key, touch, {.fd = request.fd, .writable = write}, {}, linked);
        error != 0) {
      return error;
    }
    Emit(EventKind::kSetup, slot, key, write);
    return pin(slot);
  }
}

template <Policy P, MappingBackend B>
bool MappingAllocator<P, B>::Tick(std::int64_t now_ns) {
  Lock lock(mutex_);
  Advance(now_ns);
  DrainAll();
  // Kept ranges, the oldest first; those that could not be unmapped go in any case.
  Chain chain;
  const std::int64_t keep_ns = absl::ToInt64Nanoseconds(options_.lazy.idle);
  for (std::uint32_t i = oldest_kept_; i != kNoEntry;) {
    const SlotId slot{i};
    i = links_[i].age_next;
    const bool aged = options_.lazy.enabled && now_ns_ - links_[ToIndex(slot)].since < keep_ns;
    if (aged && !slots_[slot].Has(SlotRecord::kForgotten)) continue;
    ReclaimKept(slot, chain);
  }
  (void)FlushChain(lock, chain, false, Cause::kNone);
  std::vector<Extent> again;
  for (const auto& [offset, record] : extents_.all()) {
    if (record.kept) again.push_back({offset, record.length});
  }
  for (const Extent& extent : again) {
    const auto at = extents_.all().find(extent.offset);
    if (at != extents_.all().end() && at->second.kept)
      (void)RemoveExtents(lock, {extent.offset, at->second.length}, kNoFile);
  }
  // Ahead of need, and those that nobody has used for long. Ranges of a guest are the guest's.
  Pending pending;
  const std::uint32_t most = std::min(options_.reclaim.chunk, kBatch);
  const auto give_up = [&](SlotId slot) {
    const FileRange victim = slots_[slot].range();
    window_.BeginReclaim(slot);
    EmitRemoval(slot, victim, Cause::kBackground);
    Emit(EventKind::kReclaim, slot, victim, false, Cause::kBackground);
    AddPending(pending, slot);
  };
  const std::uint32_t threshold = options_.reclaim.Threshold(window_.size());
  while (pending.count < most && window_.free_slots() + pending.count < threshold) {
    const SlotId slot = PickVictim(nullptr, Scope::Any());
    if (slot == kNoSlot) break;
    give_up(slot);
  }
  if (options_.reclaim.idle > absl::ZeroDuration()) {
    const std::int64_t idle_ns = absl::ToInt64Nanoseconds(options_.reclaim.idle);
    for (std::uint32_t i = 0; i < window_.size() && pending.count < most; ++i) {
      const SlotId slot{i};
      if (!Bound(slot) || InFlight(slot) || slots_[slot].Has(SlotRecord::kGuests)) continue;
      if (now_ns_ - links_[i].since < idle_ns) continue;
      Untell(slot);
      if (slots_.Claim(slot)) give_up(slot);
    }
  }
  const bool more = pending.count == most && most > 0;
  (void)Flush(lock, pending);
  return more;
}

template <Policy P, MappingBackend B>
absl::Status MappingAllocator<P, B>::Grow(std::uint32_t ranges) {
  const std::lock_guard lock(mutex_);
  absl::Status status = window_.Grow(ranges);
  if (status.ok()) length_ += std::uint64_t{ranges} << options_.range.shift();
  return status;
}

template <Policy P, MappingBackend B>
absl::Status MappingAllocator<P, B>::Shrink(std::uint32_t ranges) {
  Lock lock(mutex_);
  while (!busy_.empty()) Wait(lock);
  DrainAll();
  if (ranges >= window_.size()) return window_.Shrink(ranges, [](SlotId) {});
  const std::uint32_t end = window_.size();
  for (std::uint32_t i = end - ranges; i < end; ++i) Untell(SlotId{i});
  Chain chain;
  absl::Status status = window_.Shrink(ranges, [&](SlotId slot) {
    EmitRemoval(slot, slots_[slot].range(), Cause::kShrunk);
    Reclaiming(slot, chain);
  });
  length_ -= std::uint64_t{ranges} << options_.range.shift();
  for (std::uint32_t i = end - ranges; i < end; ++i) {
    if (slots_[SlotId{i}].Has(SlotRecord::kKept)) ReclaimKept(SlotId{i}, chain);
  }
  int error = FlushChain(lock, chain, false, Cause::kShrunk);
  const Extent beyond{length_, total_ - length_};
  if (beyond.length > 0 && extents_.Overlaps(beyond)) {
    const int removed = RemoveExtents(lock, beyond, kNoFile);
    if (error == 0) error = removed;
  }
  if (error != 0) return absl::UnavailableError(absl::StrCat("could not unmap all beyond the window's end: ", error));
  return status;
}

// --- life and death -------------------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
std::vector<std::byte> MappingAllocator<P, B>::Save() const {
  std::vector<SavedMapping> saved;
  for (const HeldMapping& held : Mappings()) {
    if (held.kept) continue;
    saved.push_back({.window = held.window,
                     .file_offset = held.file_offset,
                     .file = files_.identity(held.file),
                     .writable = held.writable,
                     .guests = held.guests});
  }
  return EncodeSnapshot({total_, range_bytes(), options_.page_bytes}, saved);
}

template <Policy P, MappingBackend B>
template <class OpenFile>
int MappingAllocator<P, B>::MapSaved(const SavedMapping& saved, const OpenFile& open) {
  bool to_close = false;
  const int fd = open(saved.file, saved.writable, &to_close);
  if (fd < 0) return fd;
  const int error = SetUp({.file = files_.Intern(saved.file),
                           .fd = fd,
                           .file_offset = saved.file_offset,
                           .length = saved.window.length,
                           .window_offset = saved.window.offset,
                           .writable = saved.writable});
  if (to_close) close(fd);
  const SlotId slot = SlotAt(saved.window.offset);
  if (error == 0 && !saved.guests && slots_[slot].Has(SlotRecord::kHost)) {
    slots_.Update(slot, SlotRecord::kGuests, 0);
  }
  return error;
}

template <Policy P, MappingBackend B>
template <class OpenFile>
absl::Status MappingAllocator<P, B>::Restore(std::span<const std::byte> snapshot, const OpenFile& open) {
  const auto saved = DecodeSnapshot(snapshot, {total_, range_bytes(), options_.page_bytes});
  if (!saved.ok()) return saved.status();
  if (!Mappings().empty()) return absl::FailedPreconditionError("expected to restore into an empty window");
  for (std::size_t i = 0; i < saved->size(); ++i) {
    const SavedMapping& mapping = (*saved)[i];
    if (const int error = MapSaved(mapping, open); error != 0) {
      (void)RemoveAll();
      return absl::UnavailableError(absl::StrCat("mapping ", i, " of ", saved->size(), " at offset ",
                                                 mapping.window.offset, " cannot be restored: error ", -error));
    }
  }
  return absl::OkStatus();
}

template <Policy P, MappingBackend B>
template <class OpenFile>
absl::Status MappingAllocator<P, B>::Recover(const Journal& old, bool host_keeps, const OpenFile& open) {
  const JournalGeometry& g = old.geometry();
  if (g.slots != window_.capacity() || g.range_shift != static_cast<std::uint32_t>(options_.range.shift())) {
    return absl::DataLossError("expected a journal of a window of this size");
  }
  if (!Mappings().empty()) return absl::FailedPreconditionError("expected to recover into an empty window");
  const std::vector<Extent> areas = old.Areas();
  const auto plan = PlanRecovery(old, {total_, range_bytes(), options_.page_bytes}, host_keeps, B::kMapsOver);
  if (!plan.ok()) return plan.status();
  // Until all is as it was, the journal stays as it is: if this process dies too, the next one begins anew.
  Journal* const journal = std::exchange(journal_, nullptr);
  // "Not mapped" is no error here.
  for (const Extent& extent : plan->unmap) (void)CallUnmap(extent);
  for (const SavedMapping& saved : plan->taken) TakeOver(saved);
  int lost = 0;
  for (const SavedMapping& saved : plan->map) {
    if (MapSaved(saved, open) == 0) continue;
    ++lost;
    if (host_keeps && B::kMapsOver) (void)CallUnmap(saved.window);
  }
  const std::lock_guard lock(mutex_);
  journal_ = journal;
  if (journal_ != nullptr) {
    NoteExtents();
    for (std::uint32_t i = 0; i < window_.capacity(); ++i) NoteNow(SlotId{i});
    for (const Extent& area : areas) journal_->EndArea(area);
  }
  if (lost > 0) return absl::UnavailableError(absl::StrCat(lost, " mappings could not be made again"));
  return absl::OkStatus();
}

// Accounts for a mapping that the host has already.
template <Policy P, MappingBackend B>
void MappingAllocator<P, B>::TakeOver(const SavedMapping& saved) {
  const std::lock_guard lock(mutex_);
  const FileId file = files_.Intern(saved.file);
  const SlotId slot = SlotAt(saved.window.offset);
  const bool regular =
      IsSlot(saved.window) && (saved.file_offset & (range_bytes() - 1)) == 0 && ToIndex(slot) < window_.size();
  if (!regular) {
    Account(saved.window, [&] {
      extents_.Insert(saved.window, {.file = file, .file_offset = saved.file_offset, .writable = saved.writable});
    });
    extents_.Publish();
    Info(file).has_extents = true;
    return;
  }
  const FileRange key{file, saved.file_offset >> options_.range.shift()};
  const Touch touch{.file = file, .op = saved.writable ? Op::kWrite : Op::kRead};
  (void)window_.BindAt(slot, key, touch);
  Account(saved.window, [&] {
    slots_.BeginChange(slot);
    slots_.SetHost(slot, key, saved.writable);
    if (saved.guests) slots_.Update(slot, 0, SlotRecord::kGuests);
    slots_.EndChange(slot);
  });
  [[maybe_unused]] const bool doomed = window_.Commit(slot, touch);
  slots_.Link(slot);
}

// --- what there is --------------------------------------------------------------------------------------------------

template <Policy P, MappingBackend B>
AllocatorStatistics MappingAllocator<P, B>::statistics() const {
  const std::lock_guard lock(mutex_);
  AllocatorStatistics s = statistics_;
  s.map_calls = map_calls_.load(std::memory_order_relaxed);
  s.unmap_calls = unmap_calls_.load(std::memory_order_relaxed);
  s.failed_calls = failed_calls_.load(std::memory_order_relaxed);
  s.ranges = window_.size();
  s.mapped = window_.mapped_slots();
  s.kept = kept_;
  s.extents = extents_.size();
  s.shorts = shorts_.load(std::memory_order_relaxed);
  s.repairs = repairs_.load(std::memory_order_relaxed);
  s.vmas = vmas_;
  return s;
}

template <Policy P, MappingBackend B>
std::vector<HeldMapping> MappingAllocator<P, B>::Mappings() const {
  const std::lock_guard lock(mutex_);
  std::vector<HeldMapping> held;
  for (std::uint32_t i = 0; i < window_.capacity(); ++i) {
    const SlotRecord& record = slots_[SlotId{i}];
    if (!record.Has(SlotRecord::kHost)) continue;
    HeldMapping mapping{.window = ExtentOf(SlotId{i}),
                        .file = record.range().file,
                        .file_offset = record.range().index << options_.range.shift(),
                        .writable = record.Has(SlotRecord::kWritable),
                        .kept = record.Has(SlotRecord::kKept),
                        .guests = record.Has(SlotRecord::kGuests)};
    if (record.Has(SlotRecord::kShort)) {
      mapping.zero_from = std::uint64_t{slots_.ZeroFrom(SlotId{i}, pages())} * options_.page_bytes;
    }
    held.push_back(mapping);
  }
  for (const auto& [offset, record] : extents_.all()) {
    held.push_back({.window = {offset, record.length},
                    .file = record.file,
                    .file_offset = record.file_offset,
                    .writable = record.writable,
                    .kept = record.kept,
                    .guests = true});
  }
  std::sort(held.begin(), held.end(),
            [](const HeldMapping& a, const HeldMapping& b) { return a.window.offset < b.window.offset; });
  return held;
}

template <Policy P, MappingBackend B>
absl::Status MappingAllocator<P, B>::CheckInvariants() const {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = window_.CheckInvariants(); !status.ok()) return status;
  std::uint32_t kept = 0;
  std::uint64_t shorts = 0;
  for (std::uint32_t i = 0; i < window_.capacity(); ++i) {
    const SlotId slot{i};
    const SlotRecord& record = slots_[slot];
    kept += record.Has(SlotRecord::kKept);
    shorts += record.Has(SlotRecord::kShort);
    if (InFlight(slot)) continue;
    if (Bound(slot) != record.Has(SlotRecord::kLinked)) {
      return absl::InternalError(absl::StrCat("slot ", i, " is bound, or findable, but not both"));
    }
    if (record.Has(SlotRecord::kHost) && Bound(slot) == record.Has(SlotRecord::kKept)) {
      return absl::InternalError(absl::StrCat("slot ", i, " is mapped, and neither bound nor kept, or both"));
    }
    if (Bound(slot) && (!record.Has(SlotRecord::kHost) || record.range() != window_.range(slot) ||
                        record.Has(SlotRecord::kWritable) != window_.writable(slot))) {
      return absl::InternalError(absl::StrCat("slot ", i, " holds something else on the host"));
    }
    if (record.Has(SlotRecord::kHost) && extents_.Overlaps(ExtentOf(slot))) {
      return absl::InternalError(absl::StrCat("slot ", i, " and an extent overlap"));
    }
  }
  if (kept != kept_ || shorts != shorts_.load()) {
    return absl::InternalError(absl::StrCat("counted ", kept, " kept and ", shorts, " short slots, recorded ", kept_,
                                            " and ", shorts_.load()));
  }
  const std::uint64_t vmas = 1 + Boundaries(0, total_);
  if (vmas != vmas_) return absl::InternalError(absl::StrCat("counted ", vmas, " VMAs, recorded ", vmas_));
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
