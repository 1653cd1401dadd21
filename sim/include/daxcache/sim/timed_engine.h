// The timed driver of the window: a discrete-event simulation of the guest's tasks, its reclaim worker and the daemon,
// in integer nanoseconds. It drives the same Window and Guest as replay and the production allocator do; what it adds
// is what each step costs and who waits for whom: the inodes' semaphores, the daemon's queue, the list of free ranges,
// the VMM's mmap lock. docs/model.md has the equations and their sources.
//
// An engine is one mount: the window, the guest's locks and the host's page tables live as long as it does, over any
// number of runs; each run brings its own processes.
//
// Costs: a hit some 50 ns of real time, a miss a microsecond. Memory: 128 bytes a slot for the pages touched (2 MiB
// ranges), 32 a range of the files for its entry lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daxcache/access.h"
#include "daxcache/guest.h"
#include "daxcache/policies/any_policy.h"
#include "daxcache/range_index.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/cpus.h"
#include "daxcache/sim/event_queue.h"
#include "daxcache/sim/fuse_daemon.h"
#include "daxcache/sim/latency_histogram.h"
#include "daxcache/sim/page_cache.h"
#include "daxcache/sim/rw_semaphore.h"
#include "daxcache/sim/timed_io.h"
#include "daxcache/window.h"

namespace daxcache {
inline namespace v0 {

// How a process reaches its files.
enum class IoPath : std::uint8_t {
  kCall,  // read(2), write(2)
  kAio,   // the same through libaio: with DAX it is synchronous whatever the queue depth
  kMmap,  // loads and stores
};

// What a process spends its time on.
enum class Spent : std::uint8_t {
  kUse,      // accesses to mapped, touched memory
  kTouch,    // first touches of pages wait for the VMM's mmap lock
  kSetup,    // its own FUSE_SETUPMAPPING, from the moment the daemon has begun until the process runs again
  kUpgrade,  // the same over a read-only mapping
  kReclaim,  // takes ranges out of page tables and has them removed, for itself or because their file is gone
  kQueue,    // its requests wait in the queue until the daemon begins
  kRange,    // nothing is free: waits for a range
  kLock,     // a semaphore of the inode is held: reclaim, set-up or upgrade in the same file
  kDirect,   // accesses past the window
  kPause,    // think time, holding back for its rate, or until its recorded time
  kCompute,  // what a recorded task does between its accesses
  kCpu,      // ready to run, but all CPUs are busy
  kLost,     // its CPU flushes its TLBs, as others unmap
  kOpen,     // opens and closes files
};
inline constexpr std::size_t kNumSpent = 14;

// What serves the files that do not use the window, and how the guest caches them.
enum class FileSystem : std::uint8_t { kVirtiofs, kNineP };
enum class CacheMode : std::uint8_t {
  kNone,    // every call is a request; mappings do not work (9p: private ones do, page by page)
  kMmap,    // 9p: only mappings are cached
  kAuto,    // virtiofs: through the page cache
  kAlways,  // … and attributes are believed for ever
  kLoose,   // 9p: through the page cache
};
// By CacheMode, as the mount options have them.
inline constexpr std::array<std::string_view, 5> kCacheModeNames = {"none", "mmap", "auto", "always", "loose"};

struct EngineOptions {
  std::uint32_t daemon_threads = 0;               // of each queue; 0: it handles requests in line
  std::uint32_t queues = 1;                       // of requests
  std::uint32_t vcpus = 0;                        // of the guest; 0: one for each task
  std::uint32_t retouch = 0;                      // ranges that a recorded task uses again in each of its time slices
  bool recorded = false;                          // the processes are lanes that run recorded jobs, one after another
  bool dax = true;                                // false: no file uses the window …
  FileSystem filesystem = FileSystem::kVirtiofs;  // … but this, and what is cached …
  CacheMode cache = CacheMode::kAuto;
  std::uint32_t grow_from = 0;  // the window begins with so many slots and grows when it would reclaim; 0: has all
  bool xattr =
      false;  // a write asks for the file's capabilities first (FUSE_GETXATTR), as long as a daemon answers such
  std::uint64_t page_cache_pages = 0;  // … takes so many pages; 0: no limit
  std::int64_t jiffy_ns = 1'000'000;   // HZ = 1000
  std::uint64_t seed = 1;              // of the variation of latencies

  // virtiofs has the cache modes none, auto and always, 9p none, mmap and loose, and no DAX.
  [[nodiscard]] absl::Status Validate() const;
  // What serves the files: "virtiofs cache=auto, DAX", "9p cache=loose".
  std::string System() const;
};

struct ProcessResult {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hits = 0;      // accesses to a range that was mapped (of an I/O over several ranges, each counts)
  std::uint64_t misses = 0;    // set-ups of a free range
  std::uint64_t upgrades = 0;  // set-ups over a read-only mapping
  std::uint64_t faults = 0;
  std::uint64_t past_window = 0;  // accesses past the window: they extend their file, or it may not use the window
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::array<std::int64_t, kNumSpent> spent_ns{};
  LatencyHistogram latency;
};

class TimedEngine {
 public:
  using PolicyType = AnyPolicy<DenseIndex>;
  using WindowType = Window<PolicyType>;

  // What the lanes of one process share that has several I/Os under way at once.
  struct SharedCpu {
    std::int64_t free_at_ns = 0;
    std::uint64_t next_offset = ~std::uint64_t{0};
  };
  struct Process {
    IoSource* source = nullptr;                 // borrowed for the run
    IoPath path = IoPath::kCall;                // of recorded tasks each access says it
    std::span<const std::uint32_t> files = {};  // borrowed: which of the engine's files the source means by 0, 1, …
    std::int64_t start_ns = 0;                  // begins so much later than the run
    std::int64_t runtime_ns = 0;                // no I/O begins later than this after the start; 0: no limit
    std::int64_t interval_ns = 0;               // least time between the beginnings of two I/Os
    std::int64_t think_ns = 0;                  // rests so long …
    std::uint32_t think_blocks = 1;             // … after so many I/Os
    bool direct = false;                        // O_DIRECT: past the guest's page cache
    SharedCpu* shared = nullptr;                // borrowed: it is a lane of a process
  };

  // `sizes`: of the files, in bytes. All options are valid (`Validate` said so).
  TimedEngine(std::span<const std::uint64_t> sizes, RangeSize range_size, const WindowOptions& window,
              const PolicyType::Options& policy, const ReclaimOptions& mechanics, const CostModel& costs,
              const EngineOptions& options);

  // Runs the processes to their end, from the mount's present time on; the mount goes on from the last one's end. The
  // results stand in the order of the processes. `elsewhere`: so many others run in the same guest, on other mounts.
  std::vector<ProcessResult> Run(std::span<const Process> processes, std::uint32_t elsewhere = 0);
  // Nothing happens on this mount until then.
  void RestUntil(std::int64_t now_ns) { now_ns_ = std::max(now_ns_, now_ns); }

  // Nothing of the file stays in the guest's page cache: posix_fadvise(POSIX_FADV_DONTNEED).
  void DropPages(std::uint32_t file) {
    if (HasPages()) pages_.Drop(file);
  }

  const WindowType& window() const { return window_; }
  const FuseDaemon& daemon() const { return daemon_; }
  const PageCache& page_cache() const { return pages_; }
  std::uint32_t host_mappings() const { return host_mappings_; }  // slots that the host still maps
  std::int64_t now_ns() const { return now_ns_; }

 private:
  using GuestType = Guest<WindowType>;
  using Key = WindowType::Key;
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::int64_t kSliceNs = 3'000'000;  // CFS with 8 CPUs or more: sched_min_granularity
  static constexpr std::int64_t kPieceNs = 500'000;    // so soon does one that computes hear that its CPU is wanted
  static constexpr std::uint64_t kDirectBytes = 128 << 10;  // of one FUSE_READ or FUSE_WRITE at most
  // FUSE_OPEN; FUSE_FLUSH and FUSE_RELEASE when it is closed; and a FUSE_LOOKUP, as compilers look for a header in
  // several folders, and that a file is not there the guest may not cache (virtiofsd answers such with an error).
  static constexpr std::uint64_t kOpenRequests = 4;
  static constexpr std::size_t kMostWritesBack = 12;  // FUSE_DEFAULT_MAX_BACKGROUND
  // A window grows and shrinks by a memory block of x86-64 Linux; to plug one in, with 2 MiB of struct pages to be
  // initialised, is taken to last so long.
  static constexpr std::uint64_t kBlockBytes = std::uint64_t{128} << 20;
  static constexpr std::int64_t kPlugNs = 2'000'000;
  // A page that was touched, out of the VMM's page table and out of the guest's second one: mmap(2) over 2 MiB of
  // touched pages takes 24 us longer than over untouched ones (measured, without a guest), 47 ns a page and table.
  static constexpr std::int64_t kUnmapPageNs = 2 * 47;
  static constexpr std::uint32_t kSweeper = ~std::uint32_t{0};  // not tasks: takes back idle ranges
  static constexpr std::uint32_t kGrower = kSweeper - 1;        // … makes the window larger
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0} - 2;
  static constexpr std::uint32_t kWorker = 0;  // the task that is the reclaim worker

  // The ranges of the files, numbered.
  class Ranges {
   public:
    Ranges(std::span<const std::uint64_t> sizes, RangeSize range_size) : shift_(range_size.shift()), first_{0} {
      for (std::uint32_t file = 0; file < sizes.size(); ++file) {
        const std::uint64_t count = (sizes[file] + range_size.bytes() - 1) >> shift_;
        for (std::uint64_t i = 0; i < count; ++i) {
          files_.push_back(file);
          indexes_.push_back(i);
        }
        first_.push_back(static_cast<std::uint32_t>(files_.size()));
        wholes_.push_back(sizes[file] >> shift_);
      }
    }
    DenseIndex::Space space() const { return {files_, indexes_, first_}; }
    std::size_t count() const { return files_.size(); }
    std::uint32_t file(std::uint32_t number) const { return files_[number]; }
    // The file reaches to its end.
    bool whole(std::uint32_t number) const { return indexes_[number] < wholes_[files_[number]]; }
    std::uint32_t first(std::uint32_t file) const { return first_[file]; }
    std::uint32_t NumberOf(std::uint32_t file, std::uint64_t offset) const {
      return first_[file] + static_cast<std::uint32_t>(offset >> shift_);
    }
    std::uint64_t IndexOf(std::uint64_t offset) const { return offset >> shift_; }
    std::uint64_t Within(std::uint64_t offset) const { return offset & ((std::uint64_t{1} << shift_) - 1); }
    std::uint64_t bytes() const { return std::uint64_t{1} << shift_; }

   private:
    int shift_;
    std::vector<std::uint32_t> files_;
    std::vector<std::uint64_t> indexes_;
    std::vector<std::uint32_t> first_;
    std::vector<std::uint64_t> wholes_;  // by file: ranges that it fills
  };

  // The parameters as they are used: whole nanoseconds, by path and direction.
  struct Costs {
    explicit Costs(const CostModel& model)
        : service(Whole(model.service_ns)),
          read_only(Whole(model.read_only_ns)),
          mmap(Whole(model.mmap_ns)),
          wake(Whole(model.wake_ns)),
          zap(Whole(model.zap_ns)),
          touch(Whole(model.touch_ns)),
          far(Whole(model.far_ns)),
          share{Whole(model.share_read_ns), Whole(model.share_write_ns)},
          use{{Whole(model.read_ns), Whole(model.write_ns)},
              {Whole(model.read_ns + model.aio_ns), Whole(model.write_ns + model.aio_ns)},
              {Whole(model.load_ns), Whole(model.store_ns)}},
          request(Whole(model.direct.request_ns)),
          notify(Whole(model.direct.notify_ns)),
          page(Whole(model.direct.page_ns)),
          fault(Whole(model.direct.fault_ns)),
          flush(Whole(model.direct.flush_ns)),
          cache(Whole(model.direct.cache_ns)),
          fill(Whole(model.direct.fill_ns)),
          attr(Whole(model.direct.attr_ns)),
          nine_p{.request = Whole(model.nine_p.request_ns),
                 .worker = Whole(model.nine_p.worker_ns),
                 .cache = Whole(model.nine_p.cache_ns),
                 .dirty = Whole(model.nine_p.dirty_ns),
                 .fault = Whole(model.nine_p.fault_ns)} {}
    static std::int64_t Whole(double ns) { return std::llround(ns); }
    std::int64_t service, read_only, mmap, wake, zap, touch, far;
    std::int64_t share[2];
    std::int64_t use[3][2];
    std::int64_t request, notify, page, fault, flush, cache, fill, attr;
    struct NineP {
      std::int64_t request, worker, cache, dirty, fault;
    } nine_p;
    // FUSE_READs or FUSE_WRITEs of so many bytes.
    std::int64_t Direct(std::uint64_t requests, std::uint64_t pages) const {
      return request * static_cast<std::int64_t>(requests) + page * static_cast<std::int64_t>(pages);
    }
  };

  // What a process's page table says of a range.
  struct Entry {
    SlotId slot = kNoSlot;
    std::uint32_t generation = 0;  // of the slot, when it was entered
    bool small = false;            // page by page
    bool writable = false;
    std::vector<std::uint64_t> pages;  // of a small one: the pages that are there
  };

  struct Task : LockWaiter {
    Process process;
    TimedIo io;
    bool has_io = false;     // `io` is under way …
    std::uint64_t done = 0;  // … and so many bytes of it are done
    bool in_call = false;
    bool is_fault = false;        // the call is a page fault
    bool fell_back = false;       // … that found no free range to map 2 MiB at once
    bool past_window = false;     // the I/O does not use the window
    bool asked = false;           // … and it is known what it takes:
    std::uint32_t requests = 0;   // so many requests …
    std::int64_t request_ns = 0;  // … of so long each, one after another, …
    std::int64_t worker_ns = 0;   // … and so long outside the server's queue,
    std::int64_t getattr_ns = 0;  // after one that takes so long, if there is one,
    std::int64_t cache_ns = 0;    // then so long until the pages can be used,
    std::int64_t ready_ns = 0;    // … which are not there before,
    std::int64_t guest_ns = 0;    // and so much work of the guest's.
    bool far = false;             // it does not follow the one before
    bool sleeps = false;
    RwSemaphore* retry = nullptr;  // to be tried again on waking up
    Spent why = Spent::kUse;       // it sleeps
    std::int64_t asleep_since_ns = 0;
    std::int64_t now_ns = 0;
    std::int64_t io_began_ns = 0;
    std::int64_t deadline_ns = 0;
    std::uint64_t next_offset = ~std::uint64_t{0};  // of the access that would follow the last one
    std::uint32_t until_think = 0;
    GuestType::Call call;
    std::vector<std::vector<Entry>> tables;  // of kMmap: by its files, and their ranges
    bool on_cpu = false;
    // Of recorded jobs.
    std::int64_t compute_ns = 0;              // to go before its access
    std::int64_t piece_ns = 0;                // of it is being computed
    std::int64_t saved_ns = 0;                // that need not be computed, as fewer faults are taken than were recorded
    std::vector<RangesInUse> in_use;          // by process of the job
    std::uint32_t to_retouch = 0;             // so many of the last ones are yet to be used in this slice
    std::int64_t lost_ns = 0;                 // had been when its piece began
    RangesInUse::Entry* retouched = nullptr;  // the fault under way is for this one
    ProcessResult result;
  };

  struct FileLocks {
    RwSemaphore inode;
    RwSemaphore invalidate;
    RwSemaphore dax;
    // Hits do not go through the inode lock one by one: until when the last one holds it, for writing and at all.
    std::int64_t written_until_ns = 0;
    std::int64_t used_until_ns = 0;
    // Where the pages begin that are read ahead, and when they will be there.
    std::uint64_t ahead_offset = ~std::uint64_t{0};
    std::int64_t ahead_ready_ns = 0;
    bool stale = false;  // written since a call last read it: what is cached of it may not be believed
  };
  struct SlotInfo {
    std::uint32_t generation = 0;  // grows whenever the range goes out of the guest's page tables
    bool small = false;            // mapped page by page, for everybody, until it is reclaimed
    bool in_tables = false;        // of some process
    bool on_host = false;          // the host maps it
    std::int64_t used_ns = 0;      // last
  };
  struct WaiterOf {
    std::vector<Task>& tasks;
    LockWaiter& operator()(std::uint32_t id) const { return tasks[id]; }
  };

  // Latencies and service times vary by up to an eighth around their mean, evenly: of the misses that waited for
  // nobody, about 128 us each, nearly all were published as 120 to 143 us. (Without it the worker and the tasks fall
  // into step with one another, which no real system does.)
  std::int64_t Varied(std::int64_t ns) {
    random_ += 0x9e3779b97f4a7c15u;
    const std::uint64_t bits = internal::Mix(random_) >> 32;
    return ns - ns / 8 + static_cast<std::int64_t>((static_cast<std::uint64_t>(ns) / 4 * bits) >> 32);
  }
  static std::int64_t& SpentOn(Task& task, Spent what) { return task.result.spent_ns[static_cast<std::size_t>(what)]; }

  void FallAsleep(Task& task, Spent why) {
    task.why = why;
    task.asleep_since_ns = task.now_ns;
    task.sleeps = true;
    if (&task != &tasks_[kWorker]) --running_;
    if (&task == &tasks_[kWorker]) GoOnWithPreempted();
    GiveUpCpu(task);
  }
  void GiveUpCpu(Task& task) {
    if (!std::exchange(task.on_cpu, false)) return;
    const std::uint32_t next = cpus_.Release();
    if (next == Cpus::kNobody) return;
    tasks_[next].on_cpu = true;
    queue_.Post(task.now_ns, next);
  }
  void WakeUp(Task& task) {
    task.sleeps = false;
    SpentOn(task, task.why) += task.now_ns - task.asleep_since_ns;
    if (&task != &tasks_[kWorker]) ++running_;
  }
  // True: the task's own clock has gone past what others do next, so it comes back later.
  bool Yields(std::uint32_t id, const Task& task) {
    if (task.now_ns <= queue_.next_time()) return false;
    queue_.Post(task.now_ns, id);
    return true;
  }

  void Resume(std::uint32_t id);
  void Grow();
  void Sweep();
  void TakeBack(SlotId slot);
  std::uint32_t BlockSlots() const {
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, kBlockBytes / ranges_.bytes()));
  }
  bool Advance(std::uint32_t id, Task& task);
  bool AdvanceRecorded(std::uint32_t id, Task& task);
  bool Compute(std::uint32_t id, Task& task);
  void Retouch(Task& task);
  bool UsePageCache(std::uint32_t id, Task& task, std::uint32_t file);
  void PlanVirtiofs(Task& task, std::uint32_t file, bool mapped);
  void PlanNineP(Task& task, std::uint32_t file, bool mapped);
  void ReadAhead(Task& task, std::uint32_t file, const PageCache::Fetched& fetched);
  bool WriteBack(std::uint32_t id, Task& task);
  bool FileEvent(std::uint32_t id, Task& task);
  void StartFault(Task& task, std::uint32_t range, bool write);
  bool AccessByCall(std::uint32_t id, Task& task, std::uint32_t file, std::uint32_t number);
  bool NextIo(std::uint32_t id, Task& task);
  void FinishPiece(Task& task);
  bool StepCall(std::uint32_t id, Task& task);
  void EnterInTable(Task& task, SlotId slot);
  bool InTable(const Task& task, const Entry& entry) const;
  std::int64_t UseCost(Task& task, SlotId slot);

  // The piece of its I/O that a task is at lies in one range.
  std::uint64_t PieceOffset(const Task& task) const { return task.io.offset + task.done; }
  Entry& EntryOf(Task& task) { return task.tables[task.io.file][ranges_.IndexOf(PieceOffset(task))]; }
  RangesInUse& InUse(Task& task) { return task.in_use[task.io.process]; }
  std::uint64_t PieceLength(const Task& task) const {
    if (task.past_window) return task.io.length - task.done;
    const std::uint64_t offset = PieceOffset(task);
    return std::min(task.io.length - task.done, ranges_.bytes() - ranges_.Within(offset));
  }

  RwSemaphore& LockOf(const Task& task, const Action& action) {
    switch (action.lock) {
      case Lock::kInode: return files_[ToIndex(action.file)].inode;
      case Lock::kInvalidate: return files_[ToIndex(action.file)].invalidate;
      case Lock::kEntry: return entry_locks_[static_cast<std::uint32_t>(task.call.key())];
      case Lock::kDax: break;
    }
    return files_[ToIndex(action.file)].dax;
  }
  void Unlock(const Task& task, const Action& action) {
    RwSemaphore& lock = LockOf(task, action);
    lock.Release(action.exclusive, task.now_ns, WaiterOf{tasks_}, [&](std::uint32_t other, LockWake how) {
      tasks_[other].retry = how == LockWake::kRetry ? &lock : nullptr;
      queue_.Post(task.now_ns + (how == LockWake::kSpinning ? 0 : Varied(costs_.wake)), other);
    });
  }

  // `after_ns`: of it, what is done outside the daemon's queue.
  void Send(std::uint32_t id, Task& task, Spent why, std::int64_t service_ns, std::int64_t locked_ns,
            std::int64_t wake_ns, std::int64_t after_ns = 0) {
    const FuseDaemon::Handled handled = daemon_.Submit(task.now_ns, Varied(wake_ns), Varied(service_ns), locked_ns, id);
    SpentOn(task, Spent::kQueue) += handled.begin_ns - task.now_ns;
    FallAsleep(task, why);
    task.asleep_since_ns = handled.begin_ns;
    queue_.Post(handled.end_ns + (after_ns > 0 ? Varied(after_ns) : 0) + Varied(wake_ns), id);
  }
  void SendDirect(std::uint32_t id, Task& task, Spent why, std::int64_t service_ns) {
    Send(id, task, why, service_ns, 0, costs_.notify);
  }
  bool UsesWindow(std::uint32_t file) {
    if (sees_files_) {
      if (dax_) return window_.policy().UsesWindow(FileId{file});
    }
    return dax_;
  }

  // The guest's own work for pages that it fetches. A recorded task's is in what it computes.
  std::int64_t FillNs(const PageCache::Fetched& fetched) const {
    return recorded_ ? 0 : costs_.fill * static_cast<std::int64_t>(fetched.pages);
  }

  std::int64_t DirectNs(const Task& task) const {
    return costs_.Direct((task.io.length + kDirectBytes - 1) / kDirectBytes,
                         (task.io.length + kPageBytes - 1) / kPageBytes);
  }

  // The host takes what the slot maps out of its page tables, so that its pages have to be touched again. If any were,
  // KVM interrupts the vCPUs that run. How much longer than for a range that nobody has touched.
  std::int64_t Untouch(SlotId slot) {
    const std::size_t from = ToIndex(slot) * words_;
    std::int64_t pages = 0;
    for (std::size_t word = from; word < from + words_; ++word) {
      pages += std::popcount(faulted_[word]);
      touched_[word] = written_[word] = faulted_[word] = 0;
    }
    if (recorded_ && pages > 0) lost_ns_ += costs_.flush;
    return pages * kUnmapPageNs;
  }

  // True: the worker runs first. It is a kworker of the CPU that kicks it, and preempts who runs there, until it
  // sleeps.
  bool KickWorker(std::uint32_t id, Task& task, std::int64_t delay_ns) {
    if (window_.size() < window_.capacity()) {
      if (!std::exchange(growing_, true)) queue_.Post(task.now_ns + kPlugNs, kGrower);
      return false;
    }
    Task& worker = tasks_[kWorker];
    if (delay_ns == 0 && !worker.in_call) {
      preempted_ = id;
      worker.on_cpu = std::exchange(task.on_cpu, false);
      queue_.Post(task.now_ns, kWorker);
      FallAsleep(task, Spent::kCpu);
      return true;
    }
    std::int64_t at = task.now_ns;
    if (delay_ns > 0) {
      // A timer of n jiffies ends at the n-th tick after the one that ends the present jiffy.
      const std::int64_t jiffies = (delay_ns + jiffy_ns_ - 1) / jiffy_ns_;
      at = (at / jiffy_ns_ + 1 + jiffies) * jiffy_ns_;
    }
    at += Varied(costs_.wake);
    if (worker.in_call) {
      worker_again_at_ns_ = at;  // another run begins when this one has ended
    } else {
      queue_.Post(at, kWorker);
    }
    return false;
  }
  void GoOnWithPreempted() {
    const std::uint32_t id = std::exchange(preempted_, kNobody);
    if (id == kNobody) return;
    tasks_[id].on_cpu = std::exchange(tasks_[kWorker].on_cpu, false);
    queue_.Post(tasks_[kWorker].now_ns, id);
  }
  // Each range that is freed wakes all waiting faults, the last to come first, and one call.
  void WakeWaiters(std::int64_t now_ns) {
    for (auto id = waiting_faults_.rbegin(); id != waiting_faults_.rend(); ++id) {
      queue_.Post(now_ns + Varied(costs_.wake), *id);
    }
    waiting_faults_.clear();
    if (waiting_calls_.empty()) return;
    queue_.Post(now_ns + Varied(costs_.wake), waiting_calls_.front());
    waiting_calls_.pop_front();
  }

  bool HasPages() const { return !dax_ || sees_files_; }
  // The guest works for a task: lanes of one process take turns.
  void Work(Task& task, std::int64_t ns) {
    if (SharedCpu* const cpu = task.process.shared; cpu != nullptr) {
      const std::int64_t begin = std::max(task.now_ns, cpu->free_at_ns);
      SpentOn(task, Spent::kCpu) += begin - task.now_ns;
      task.now_ns = begin;
      cpu->free_at_ns = begin + ns;
    }
    SpentOn(task, Spent::kUse) += ns;
    task.now_ns += ns;
  }

  Ranges ranges_;
  WindowType window_;
  GuestType guest_;
  FuseDaemon daemon_;
  EventQueue queue_;
  Costs costs_;
  std::int64_t jiffy_ns_;
  std::uint64_t random_;
  Cpus cpus_;
  std::uint32_t retouch_;
  bool recorded_;
  bool dax_;
  bool sees_files_;
  FileSystem filesystem_;
  CacheMode cache_;
  bool xattr_;
  bool send_remove_;
  std::uint32_t least_slots_;  // a window that grows has at least so many
  std::int64_t idle_ns_;       // ranges that were not used for so long are taken back; 0: none
  PageCache pages_;
  std::int64_t now_ns_ = 0;
  std::int64_t lost_ns_ = 0;  // so long would a CPU have been interrupted that was always busy
  std::vector<FileLocks> files_;
  std::vector<RwSemaphore> entry_locks_;  // by range number
  std::vector<SlotInfo> slots_;
  std::uint32_t host_mappings_ = 0;
  std::uint64_t words_;                 // of 64 pages, a slot
  std::vector<std::uint64_t> touched_;  // by slot and page: the guest reaches it without an exit …
  std::vector<std::uint64_t> written_;  // … to write, too
  std::vector<std::uint64_t> faulted_;  // the VMM has it in its page table
  std::vector<Task> tasks_;
  std::deque<std::uint32_t> waiting_calls_;
  std::vector<std::uint32_t> waiting_faults_;
  bool growing_ = false;
  bool sweeping_ = false;
  std::deque<std::int64_t> writes_back_;  // when those under way will have been answered
  std::int64_t worker_again_at_ns_ = EventQueue::kNever;
  std::uint32_t preempted_ = kNobody;  // goes on when the worker sleeps
  std::int64_t running_ = 0;           // processes that do not sleep
  std::size_t live_ = 0;               // processes that have not ended
};

}  // namespace v0
}  // namespace daxcache
