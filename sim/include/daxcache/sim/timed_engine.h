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
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/guest.h"
#include "daxcache/policy.h"
#include "daxcache/range_index.h"
#include "daxcache/reclaim_options.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/cpus.h"
#include "daxcache/sim/event_queue.h"
#include "daxcache/sim/fuse_daemon.h"
#include "daxcache/sim/latency_histogram.h"
#include "daxcache/sim/page_cache.h"
#include "daxcache/sim/policy_needs.h"
#include "daxcache/sim/recorded_io.h"
#include "daxcache/sim/rw_semaphore.h"
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

struct EngineOptions {
  std::uint32_t daemon_threads = 0;    // of each queue; 0: it handles requests in line
  std::uint32_t queues = 1;            // of requests
  std::uint32_t vcpus = 0;             // of the guest; 0: one for each task
  std::uint32_t retouch = 0;           // ranges that a recorded task uses again in each of its time slices
  bool dax = true;                     // false: all files go through the guest's page cache …
  std::uint64_t page_cache_pages = 0;  // … of so many pages; 0: no limit
  std::int64_t jiffy_ns = 1'000'000;   // HZ = 1000
  std::uint64_t seed = 1;              // of the variation of latencies
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

// `Stream` gives a process its I/Os: bool Next(Io&), false when it has done all; Io has op (kRead or kWrite), file,
// offset and length, or is a RecordedIo, of jobs that were recorded: then a process here is a lane that runs one job
// after another.
template <Policy P, class Stream>
class TimedEngine {
 public:
  using WindowType = Window<P>;
  using GuestType = Guest<WindowType>;
  using Key = typename P::Key;
  using PolicyOptions = typename P::Options;
  using Io = typename Stream::Io;
  static constexpr bool kRecorded = std::is_same_v<Io, RecordedIo>;

  struct Process {
    Stream* stream = nullptr;                   // borrowed for the run
    IoPath path = IoPath::kCall;                // of recorded tasks each access says it
    std::span<const std::uint32_t> files = {};  // borrowed: which of the engine's files the stream means by 0, 1, …
    std::int64_t start_ns = 0;                  // begins so much later than the run
    std::int64_t runtime_ns = 0;                // no I/O begins later than this after the start; 0: no limit
    std::int64_t interval_ns = 0;               // least time between the beginnings of two I/Os
    std::int64_t think_ns = 0;                  // rests so long …
    std::uint32_t think_blocks = 1;             // … after so many I/Os
  };

  // `sizes`: of the files, in bytes. All options are valid (`Validate` said so).
  TimedEngine(std::span<const std::uint64_t> sizes, RangeSize range_size, const WindowOptions& window,
              const typename P::Options& policy, const ReclaimOptions& mechanics, const CostModel& costs,
              const EngineOptions& options)
      : ranges_(sizes, range_size),
        window_(ranges_.space(), window, policy),
        guest_(window_, mechanics),
        daemon_(options.daemon_threads, options.queues),
        costs_(costs),
        jiffy_ns_(options.jiffy_ns),
        random_(options.seed),
        cpus_(options.vcpus),
        retouch_(options.retouch),
        dax_(options.dax),
        pages_(options.dax && !SeesFiles<P> ? std::span<const std::uint64_t>() : sizes, options.page_cache_pages),
        files_(sizes.size()),
        entry_locks_(ranges_.count()),
        slots_(window_.capacity()),
        words_(std::max<std::uint64_t>(1, range_size.bytes() / kPageBytes / 64)),
        touched_(window_.capacity() * words_),
        written_(window_.capacity() * words_),
        tasks_(1) {}

  // Runs the processes to their end, from the mount's present time on; the mount goes on from the last one's end. The
  // results stand in the order of the processes.
  std::vector<ProcessResult> Run(std::span<const Process> processes);

  const WindowType& window() const { return window_; }
  const FuseDaemon& daemon() const { return daemon_; }
  const PageCache& page_cache() const { return pages_; }
  std::uint32_t host_mappings() const { return host_mappings_; }  // slots that the host still maps
  std::int64_t now_ns() const { return now_ns_; }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::int64_t kSliceNs = 3'000'000;  // CFS with 8 CPUs or more: sched_min_granularity
  static constexpr std::int64_t kPieceNs = 500'000;    // so soon does one that computes hear that its CPU is wanted
  static constexpr std::uint64_t kDirectBytes = 128 << 10;  // of one FUSE_READ or FUSE_WRITE at most
  // FUSE_OPEN; FUSE_FLUSH and FUSE_RELEASE when it is closed; and a FUSE_LOOKUP, as compilers look for a header in
  // several folders, and that a file is not there the guest may not cache (virtiofsd answers such with an error).
  static constexpr std::uint64_t kOpenRequests = 4;
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
          far{Whole(model.far_ns), Whole(model.far_ns + model.far_store_ns)},
          share{Whole(model.share_read_ns), Whole(model.share_write_ns)},
          use{{Whole(model.read_ns), Whole(model.write_ns)},
              {Whole(model.read_ns + model.aio_ns), Whole(model.write_ns + model.aio_ns)},
              {Whole(model.load_ns), Whole(model.store_ns)}},
          request(Whole(model.direct.request_ns)),
          notify(Whole(model.direct.notify_ns)),
          page(Whole(model.direct.page_ns)),
          fault(Whole(model.direct.fault_ns)),
          host_touch(Whole(model.direct.touch_ns)),
          flush(Whole(model.direct.flush_ns)) {}
    static std::int64_t Whole(double ns) { return std::llround(ns); }
    std::int64_t service, read_only, mmap, wake, zap;
    std::int64_t far[2];  // [1]: of a store
    std::int64_t share[2];
    std::int64_t use[3][2];
    std::int64_t request, notify, page, fault, host_touch, flush;
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
    Io io{};
    bool has_io = false;     // `io` is under way …
    std::uint64_t done = 0;  // … and so many bytes of it are done
    bool in_call = false;
    bool is_fault = false;     // the call is a page fault
    bool fell_back = false;    // … that found no free range to map 2 MiB at once
    bool past_window = false;  // the I/O does not use the window
    bool asked = false;        // … and its request has been sent
    bool sleeps = false;
    RwSemaphore* retry = nullptr;  // to be tried again on waking up
    Spent why = Spent::kUse;       // it sleeps
    std::int64_t asleep_since_ns = 0;
    std::int64_t now_ns = 0;
    std::int64_t io_began_ns = 0;
    std::int64_t deadline_ns = 0;
    std::uint64_t next_offset = ~std::uint64_t{0};  // of the access that would follow the last one
    std::uint32_t until_think = 0;
    typename GuestType::Call call;
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
  };
  struct SlotInfo {
    std::uint32_t generation = 0;  // grows whenever the range goes out of the guest's page tables
    bool small = false;            // mapped page by page, for everybody, until it is reclaimed
    bool in_tables = false;        // of some process
    bool on_host = false;          // the host maps it
  };
  struct WaiterOf {
    std::vector<Task>& tasks;
    LockWaiter& operator()(std::uint32_t id) const { return tasks[id]; }
  };

  // Latencies and service times vary by up to half around their mean, evenly. (Without it the worker and the tasks fall
  // into step with one another, which no real system does.)
  std::int64_t Varied(std::int64_t ns) {
    random_ += 0x9e3779b97f4a7c15u;
    const std::uint64_t bits = internal::Mix(random_) >> 32;
    return ns / 2 + static_cast<std::int64_t>((static_cast<std::uint64_t>(ns) * bits) >> 32);
  }
  static std::int64_t& SpentOn(Task& task, Spent what) { return task.result.spent_ns[static_cast<std::size_t>(what)]; }

  void FallAsleep(Task& task, Spent why) {
    task.why = why;
    task.asleep_since_ns = task.now_ns;
    task.sleeps = true;
    if (&task != &tasks_[kWorker]) --running_;
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
  bool Advance(std::uint32_t id, Task& task);
  bool AdvanceRecorded(std::uint32_t id, Task& task);
  bool Compute(std::uint32_t id, Task& task);
  void Retouch(Task& task);
  bool UsePageCache(std::uint32_t id, Task& task, std::uint32_t file);
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

  void Send(std::uint32_t id, Task& task, Spent why, std::int64_t service_ns, std::int64_t locked_ns,
            std::int64_t wake_ns) {
    const FuseDaemon::Handled handled = daemon_.Submit(task.now_ns, Varied(wake_ns), Varied(service_ns), locked_ns, id);
    SpentOn(task, Spent::kQueue) += handled.begin_ns - task.now_ns;
    FallAsleep(task, why);
    task.asleep_since_ns = handled.begin_ns;
    queue_.Post(handled.end_ns + Varied(wake_ns), id);
  }
  void SendDirect(std::uint32_t id, Task& task, Spent why, std::int64_t service_ns) {
    Send(id, task, why, service_ns, 0, costs_.notify);
  }
  bool UsesWindow(std::uint32_t file) {
    if constexpr (SeesFiles<P>) {
      if (dax_) return window_.policy().UsesWindow(FileId{file});
    }
    return dax_;
  }

  std::int64_t DirectNs(const Task& task) const {
    return costs_.Direct((task.io.length + kDirectBytes - 1) / kDirectBytes,
                         (task.io.length + kPageBytes - 1) / kPageBytes);
  }

  // The host takes what the slot maps out of its page tables, so that its pages have to be touched again. If any were,
  // KVM interrupts the vCPUs that run.
  void Untouch(SlotId slot) {
    const auto from = static_cast<std::ptrdiff_t>(ToIndex(slot) * words_);
    if constexpr (kRecorded) {
      for (std::uint64_t word = 0; word < words_; ++word) {
        if (touched_[static_cast<std::size_t>(from) + word] == 0) continue;
        lost_ns_ += costs_.flush;
        break;
      }
    }
    std::fill_n(touched_.begin() + from, words_, 0);
    std::fill_n(written_.begin() + from, words_, 0);
  }

  void KickWorker(const Task& task, std::int64_t delay_ns) {
    std::int64_t at = task.now_ns;
    if (delay_ns > 0) {
      // A timer of n jiffies ends at the n-th tick after the one that ends the present jiffy.
      const std::int64_t jiffies = (delay_ns + jiffy_ns_ - 1) / jiffy_ns_;
      at = (at / jiffy_ns_ + 1 + jiffies) * jiffy_ns_;
    }
    at += Varied(costs_.wake);
    if (tasks_[kWorker].in_call) {
      worker_again_at_ns_ = at;  // another run begins when this one has ended
    } else {
      queue_.Post(at, kWorker);
    }
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
  bool dax_;
  PageCache pages_;
  std::int64_t now_ns_ = 0;
  std::int64_t lost_ns_ = 0;  // so long would a CPU have been interrupted that was always busy
  std::vector<FileLocks> files_;
  std::vector<RwSemaphore> entry_locks_;  // by range number
  std::vector<SlotInfo> slots_;
  std::uint32_t host_mappings_ = 0;
  std::uint64_t words_;                 // of 64 pages, a slot
  std::vector<std::uint64_t> touched_;  // by slot and page: the host has it mapped …
  std::vector<std::uint64_t> written_;  // … and writable
  std::vector<Task> tasks_;
  std::deque<std::uint32_t> waiting_calls_;
  std::vector<std::uint32_t> waiting_faults_;
  std::int64_t worker_again_at_ns_ = EventQueue::kNever;
  std::int64_t running_ = 0;  // processes that do not sleep
  std::size_t live_ = 0;      // processes that have not ended
};

template <Policy P, class Stream>
std::vector<ProcessResult> TimedEngine<P, Stream>::Run(std::span<const Process> processes) {
  tasks_.resize(1 + processes.size());
  live_ = processes.size();
  running_ = static_cast<std::int64_t>(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    Task& task = tasks_[1 + i];
    task = Task();
    task.process = processes[i];
    task.now_ns = task.result.begin_ns = now_ns_ + task.process.start_ns;
    task.deadline_ns = task.process.runtime_ns > 0 ? task.now_ns + task.process.runtime_ns : EventQueue::kNever;
    task.until_think = task.process.think_blocks;
    if constexpr (!kRecorded) {
      if (task.process.path == IoPath::kMmap) {
        for (const std::uint32_t file : task.process.files) {
          task.tables.emplace_back(ranges_.first(file + 1) - ranges_.first(file));
        }
      }
    }
    queue_.Post(task.now_ns, static_cast<std::uint32_t>(1 + i));
  }
  while (live_ > 0) {
    now_ns_ = queue_.next_time();
    Resume(queue_.Pop());
  }
  std::vector<ProcessResult> results;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    now_ns_ = std::max(now_ns_, tasks_[1 + i].result.end_ns);
    results.push_back(std::move(tasks_[1 + i].result));
  }
  return results;
}

template <Policy P, class Stream>
void TimedEngine<P, Stream>::Resume(std::uint32_t id) {
  Task& task = tasks_[id];
  task.now_ns = now_ns_;
  if constexpr (kRecorded) {
    // What the guest's protocol comes down to for most of those that a freed range wakes: somebody else has it already.
    if (task.sleeps && task.is_fault && task.why == Spent::kRange && window_.free_slots() == 0 &&
        window_.Find(task.call.key()) == kNoSlot) {
      waiting_faults_.push_back(id);
      return;
    }
  }
  if (cpus_.limited() && !task.on_cpu) {
    if (!cpus_.Take()) {
      if (task.sleeps) WakeUp(task);
      FallAsleep(task, Spent::kCpu);
      cpus_.WaitAwake(id);
      return;
    }
    task.on_cpu = true;
  }
  if (task.retry != nullptr) {
    if (!task.retry->Retry(id, task.now_ns, WaiterOf{tasks_})) {
      WakeUp(task);
      FallAsleep(task, Spent::kLock);
      return;
    }
    task.retry = nullptr;
  }
  if (task.sleeps) WakeUp(task);
  if (id != kWorker) {
    if constexpr (kRecorded) {
      while (AdvanceRecorded(id, task)) {
      }
    } else {
      while (Advance(id, task)) {
      }
    }
    return;
  }
  if (!task.in_call) {
    task.call = guest_.StartWorker();
    task.in_call = true;
  }
  if (!StepCall(id, task)) return;
  task.in_call = false;
  GiveUpCpu(task);
  if (worker_again_at_ns_ != EventQueue::kNever) {
    queue_.Post(std::max(std::exchange(worker_again_at_ns_, EventQueue::kNever), task.now_ns), kWorker);
  }
}

// One step of a process. False: it sleeps, has yielded, or has ended.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::Advance(std::uint32_t id, Task& task) {
  if (task.in_call) {
    if (!StepCall(id, task)) return false;
    task.in_call = false;
    // A fault has only made the access possible.
    if (!task.is_fault) FinishPiece(task);
    return true;
  }
  if (!task.has_io) return NextIo(id, task);
  const std::uint32_t file = task.process.files[task.io.file];
  if (!UsesWindow(file)) return UsePageCache(id, task, file);
  const std::uint32_t number = ranges_.NumberOf(file, PieceOffset(task));
  if (task.process.path != IoPath::kMmap) return AccessByCall(id, task, file, number);
  const Entry& entry = EntryOf(task);
  if (!InTable(task, entry)) {
    StartFault(task, number, IsWrite(task.io.op));
    return true;
  }
  task.now_ns += UseCost(task, entry.slot);
  FinishPiece(task);
  return !Yields(id, task);
}

// A read(2) or write(2) of a piece.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::AccessByCall(std::uint32_t id, Task& task, std::uint32_t file, std::uint32_t number) {
  // What the guest's protocol comes down to if nobody is in the way and the range is mapped.
  const bool write = IsWrite(task.io.op);
  FileLocks& locks = files_[file];
  if (const std::int64_t until = write ? locks.used_until_ns : locks.written_until_ns; until > task.now_ns) {
    FallAsleep(task, Spent::kLock);
    queue_.Post(until, id);
    return false;
  }
  const Touch touch{.file = FileId{file}, .op = task.io.op, .time_ns = task.now_ns};
  LookupResult found;
  const bool free = !locks.dax.contended() && !locks.inode.contended() && !(write && locks.inode.held());
  if (free) found = window_.Lookup(Key{number}, touch);
  if (!free || found.kind != LookupKind::kHit) {
    task.is_fault = false;
    task.call = guest_.StartCall(Key{number}, touch);
    task.in_call = true;
    return true;
  }
  task.now_ns += UseCost(task, found.slot);
  locks.used_until_ns = std::max(locks.used_until_ns, task.now_ns);
  if (write) locks.written_until_ns = task.now_ns;
  FinishPiece(task);
  return !Yields(id, task);
}

template <Policy P, class Stream>
void TimedEngine<P, Stream>::StartFault(Task& task, std::uint32_t range, bool write) {
  ++task.result.faults;
  task.is_fault = true;
  task.fell_back = false;
  task.call = guest_.StartFault(
      Key{range},
      {.file = FileId{ranges_.file(range)}, .op = write ? Op::kMappedWrite : Op::kMappedRead, .time_ns = task.now_ns});
  task.in_call = true;
}

// The same of a lane of recorded jobs.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::AdvanceRecorded(std::uint32_t id, Task& task) {
  if (task.in_call) {
    if (!StepCall(id, task)) return false;
    task.in_call = false;
    if (std::exchange(task.retouched, nullptr) != nullptr) return true;
    if (TouchesData(task.io.op)) {
      FinishPiece(task);
    } else {
      task.has_io = false;
    }
    return true;
  }
  if (!task.has_io) return NextIo(id, task);
  if (task.to_retouch > 0) {
    Retouch(task);
    return true;
  }
  if (task.compute_ns > 0) return Compute(id, task);
  const RecordedIo& io = task.io;
  if (!TouchesData(io.op)) return FileEvent(id, task);
  if (!UsesWindow(io.file)) return UsePageCache(id, task, io.file);
  const std::uint32_t number = ranges_.NumberOf(io.file, PieceOffset(task));
  if (IsMapped(io.op)) {
    StartFault(task, number, IsWrite(io.op));
    return true;
  }
  if (!io.extends) return AccessByCall(id, task, io.file, number);
  const Touch touch{.file = FileId{io.file}, .op = io.op, .time_ns = task.now_ns};
  if constexpr (SeesFiles<P>) window_.policy().OnNonDax(touch);  // it makes its file hotter
  task.past_window = true;
  task.is_fault = false;
  task.call = guest_.StartCall(Key{number}, touch, 1, true);
  task.in_call = true;
  return true;
}

// It computes for a while on the CPU that it has, and gives way at the end of its time slice, or when others have woken
// up. At the end of each slice it is due to use its ranges again.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::Compute(std::uint32_t id, Task& task) {
  RangesInUse& in_use = InUse(task);
  if (in_use.slice_ns == 0) in_use.slice_ns = kSliceNs;
  if (task.piece_ns == 0) {
    task.piece_ns = std::min(task.compute_ns, in_use.slice_ns);
    if (cpus_.limited()) task.piece_ns = std::min(task.piece_ns, kPieceNs);
    task.lost_ns = lost_ns_;
    task.now_ns += task.piece_ns;
    if (Yields(id, task)) return false;
  }
  const std::int64_t piece_ns = std::exchange(task.piece_ns, 0);
  // May be more than the piece: what is interrupted goes on afterwards.
  const std::int64_t lost_ns = lost_ns_ - task.lost_ns;
  SpentOn(task, Spent::kCompute) += piece_ns - lost_ns;
  SpentOn(task, Spent::kLost) += lost_ns;
  task.compute_ns -= piece_ns - lost_ns;
  in_use.slice_ns -= piece_ns;
  const bool slice_is_over = in_use.slice_ns == 0;
  if (slice_is_over && dax_) task.to_retouch = in_use.size();
  if (!cpus_.limited() || !cpus_.Wanted(slice_is_over)) return true;
  FallAsleep(task, Spent::kCpu);
  cpus_.WaitForSlice(id);
  return false;
}

// Uses the next of its ranges again: a fault if that was taken away meanwhile.
template <Policy P, class Stream>
void TimedEngine<P, Stream>::Retouch(Task& task) {
  RangesInUse& in_use = InUse(task);
  RangesInUse::Entry& entry = in_use[in_use.size() - task.to_retouch--];
  if (slots_[ToIndex(entry.slot)].generation == entry.generation) return;
  task.retouched = &entry;
  StartFault(task, entry.range, entry.write);
}

// An open, a close, a deletion; or nothing, where a task has computed until its end.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::FileEvent(std::uint32_t id, Task& task) {
  const RecordedIo& io = task.io;
  task.has_io = false;
  if (io.file == ToIndex(kNoFile)) return true;
  const FileId file{io.file};
  if (io.op == Op::kOpen && !std::exchange(task.asked, false)) {
    task.has_io = task.asked = true;
    SendDirect(id, task, Spent::kOpen, costs_.Direct(kOpenRequests, 0));
    return false;
  }
  bool evicts = io.op == Op::kUnlink;
  if constexpr (SeesFiles<P>) {
    if (dax_) {
      if (io.op == Op::kOpen) evicts = window_.policy().OnOpen(file, io.length);
      if (io.op == Op::kClose) evicts = window_.policy().OnClose(file);
      if (io.op == Op::kUnlink) window_.policy().OnEvict(file);
    }
  }
  if (!evicts) return true;
  if (!dax_ || SeesFiles<P>) pages_.Drop(io.file);
  if (!dax_) return true;
  task.is_fault = false;
  task.call = guest_.StartEviction(file);
  task.in_call = task.has_io = true;
  return true;
}

// Past the window: reads and faults fetch what the page cache does not have, writes go through. A store through a
// mapping only makes its page dirty.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::UsePageCache(std::uint32_t id, Task& task, std::uint32_t file) {
  const Io& io = task.io;
  task.past_window = true;
  if (!std::exchange(task.asked, false)) {
    if constexpr (SeesFiles<P>) {
      if (dax_) window_.policy().OnNonDax({.file = FileId{file}, .op = io.op, .time_ns = task.now_ns});
    }
    std::int64_t service_ns = 0;
    if (io.op == Op::kWrite) {
      pages_.Write(file, io.offset, io.length);
      service_ns = DirectNs(task);
    } else {
      const bool ahead = kRecorded || io.offset == 0 || io.offset == task.next_offset;
      const PageCache::Fetched fetched = pages_.Read(file, io.offset, io.length, ahead);
      service_ns = costs_.Direct(fetched.requests, fetched.pages);
    }
    if (service_ns > 0) {
      task.asked = true;
      SendDirect(id, task, Spent::kDirect, service_ns);
      return false;
    }
  }
  ++task.result.past_window;
  if constexpr (!kRecorded) {  // else it is in what its task computes
    const bool write = IsWrite(io.op);
    const std::int64_t pages = static_cast<std::int64_t>((io.length + kPageBytes - 1) / kPageBytes);
    const std::int64_t share = costs_.share[write] * (running_ - 1);
    std::int64_t use = costs_.use[static_cast<std::size_t>(task.process.path)][write] + share +
                       (pages - 1) * (costs_.use[static_cast<std::size_t>(IoPath::kMmap)][write] / 4 + share);
    if (io.offset != task.next_offset) use += costs_.far[write && task.process.path == IoPath::kMmap];
    task.next_offset = io.offset + io.length;
    SpentOn(task, Spent::kUse) += use;
    task.now_ns += use;
  }
  FinishPiece(task);
  return !Yields(id, task);
}

// Takes the next I/O of the process. False: it rests before, or has ended.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::NextIo(std::uint32_t id, Task& task) {
  std::int64_t rest_ns = 0;
  if (task.process.think_ns > 0 && task.until_think == 0) {
    rest_ns = task.process.think_ns;
    task.until_think = task.process.think_blocks;
  } else if (task.process.interval_ns > 0 && task.result.reads + task.result.writes > 0) {
    rest_ns = task.io_began_ns + task.process.interval_ns - task.now_ns;
  }
  if (rest_ns > 0) {
    FallAsleep(task, Spent::kPause);
    queue_.Post(task.now_ns + rest_ns, id);
    return false;
  }
  if (task.now_ns >= task.deadline_ns || !task.process.stream->Next(task.io)) {
    task.result.end_ns = task.now_ns;
    --running_;
    --live_;
    GiveUpCpu(task);
    return false;
  }
  if constexpr (kRecorded) {
    if (task.io.new_job) task.in_use.clear();
    if (task.in_use.size() <= task.io.process) task.in_use.resize(task.io.process + 1);
    const std::int64_t saved_ns = std::min(task.saved_ns, task.io.cpu_ns);
    task.saved_ns -= saved_ns;
    task.compute_ns = task.io.cpu_ns - saved_ns;
  }
  task.has_io = true;
  task.past_window = false;
  task.done = 0;
  task.io_began_ns = task.now_ns;
  if constexpr (kRecorded) {
    if (const std::int64_t due_ns = task.result.begin_ns + task.io.not_before_ns; due_ns > task.now_ns) {
      FallAsleep(task, Spent::kPause);
      queue_.Post(due_ns, id);
      return false;
    }
  }
  return true;
}

template <Policy P, class Stream>
void TimedEngine<P, Stream>::FinishPiece(Task& task) {
  task.done += PieceLength(task);
  if (task.done < task.io.length) return;
  task.has_io = false;
  ++(IsWrite(task.io.op) ? task.result.writes : task.result.reads);
  task.result.bytes += task.io.length;
  task.result.latency.Record(task.now_ns - task.io_began_ns);
  if (task.until_think > 0) --task.until_think;
}

// Whether the process can load or store there without a fault.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::InTable(const Task& task, const Entry& entry) const {
  if (entry.slot == kNoSlot || slots_[ToIndex(entry.slot)].generation != entry.generation) return false;
  if (IsWrite(task.io.op) && !entry.writable) return false;
  const std::uint64_t page = ranges_.Within(PieceOffset(task)) / kPageBytes;
  return !entry.small || ((entry.pages[page / 64] >> (page % 64)) & 1);
}

template <Policy P, class Stream>
void TimedEngine<P, Stream>::EnterInTable(Task& task, SlotId slot) {
  SlotInfo& info = slots_[ToIndex(slot)];
  info.in_tables = true;
  info.small = info.small || task.fell_back;
  if constexpr (kRecorded) {
    const auto range = static_cast<std::uint32_t>(task.call.key());
    const bool write = task.call.touch().op == Op::kMappedWrite;
    info.small = info.small || !ranges_.whole(range);
    const RangesInUse::Entry entry = {range, write, slot, info.generation};
    if (task.retouched != nullptr) {
      *task.retouched = entry;
      task.now_ns += costs_.fault;
      SpentOn(task, Spent::kUse) += costs_.fault;
      return;
    }
    InUse(task).Add(entry, retouch_);
    // The recorded task took a fault a page.
    if (!info.small) task.saved_ns += costs_.fault * static_cast<std::int64_t>(PieceLength(task) / kPageBytes);
    task.now_ns += UseCost(task, slot);
    return;
  } else {
    Entry& entry = EntryOf(task);
    if (info.small) {
      if (!entry.small || entry.slot != slot || entry.generation != info.generation) entry.pages.assign(words_, 0);
      const std::uint64_t page = ranges_.Within(PieceOffset(task)) / kPageBytes;
      entry.pages[page / 64] |= std::uint64_t{1} << (page % 64);
    }
    entry.small = info.small;
    entry.slot = slot;
    entry.generation = info.generation;
    entry.writable = window_.writable(slot);
  }
}

// The piece is copied from or to where it is mapped.
template <Policy P, class Stream>
std::int64_t TimedEngine<P, Stream>::UseCost(Task& task, SlotId slot) {
  const bool write = IsWrite(task.io.op);
  const std::uint64_t offset = PieceOffset(task);
  const std::uint64_t length = PieceLength(task);
  const std::int64_t share = costs_.share[write] * (running_ - 1);
  ++task.result.hits;
  std::int64_t use = costs_.use[static_cast<std::size_t>(task.process.path)][write] + share;
  if (offset != task.next_offset) use += costs_.far[write && task.process.path == IoPath::kMmap];
  task.next_offset = offset + length;
  if constexpr (kRecorded) use = 0;  // in what its task computes
  std::int64_t touch = 0;
  const std::uint64_t first = ranges_.Within(offset) / kPageBytes;
  const std::uint64_t last = (ranges_.Within(offset) + (length > 0 ? length - 1 : 0)) / kPageBytes;
  for (std::uint64_t page = first; page <= last; ++page) {
    // Pages after the first cost no system call and no engine, but the copying: what a load or store does.
    if (page > first && !kRecorded) use += costs_.use[static_cast<std::size_t>(IoPath::kMmap)][write] / 4 + share;
    std::uint64_t& touched = touched_[ToIndex(slot) * words_ + page / 64];
    std::uint64_t& written = written_[ToIndex(slot) * words_ + page / 64];
    const std::uint64_t bit = std::uint64_t{1} << (page % 64);
    if ((write ? written : touched) & bit) continue;
    touch += daemon_.LockedFor(task.now_ns + use + touch);
    if constexpr (kRecorded) touch += costs_.host_touch;  // which `use` has else
    if (write) {
      written |= bit;
      touched |= bit;
    } else {
      // KVM's legacy MMU fills what precedes the page within its block of eight: the host's fault-around had it.
      const std::uint64_t block = std::uint64_t{0xff} << (page % 64 & ~std::uint64_t{7});
      touched |= block & (bit | (bit - 1));
    }
  }
  SpentOn(task, Spent::kUse) += use;
  SpentOn(task, Spent::kTouch) += touch;
  return use + touch;
}

// Goes on with the call under way. True: it is over. False: the task sleeps, or has yielded.
template <Policy P, class Stream>
bool TimedEngine<P, Stream>::StepCall(std::uint32_t id, Task& task) {
  for (;;) {
    const Action action = guest_.Next(task.call);
    switch (action.step) {
      case Step::kLock:
        if (LockOf(task, action).Acquire(id, action.exclusive, task.now_ns, WaiterOf{tasks_})) break;
        FallAsleep(task, Spent::kLock);
        return false;
      case Step::kUnlock: Unlock(task, action); break;
      case Step::kSetup:
        ++task.result.misses;
        slots_[ToIndex(action.slot)].small = false;
        host_mappings_ += std::exchange(slots_[ToIndex(action.slot)].on_host, true) ? 0 : 1;
        Untouch(action.slot);
        Send(id, task, Spent::kSetup, costs_.service + (action.exclusive ? 0 : costs_.read_only), costs_.mmap,
             costs_.wake);
        return false;
      case Step::kUpgrade:
        ++task.result.upgrades;
        Untouch(action.slot);
        Send(id, task, Spent::kUpgrade, costs_.service, costs_.mmap, costs_.wake);
        return false;
      case Step::kRemove:
        for (std::uint32_t i = 0, slot = ToIndex(action.slot); i < action.count; ++i) {
          host_mappings_ -= std::exchange(slots_[slot].on_host, false) ? 1 : 0;
          Untouch(SlotId{std::exchange(slot, ToIndex(guest_.NextInBatch(SlotId{slot})))});
        }
        Send(id, task, Spent::kReclaim, costs_.service * action.count, costs_.mmap * action.count, costs_.wake);
        return false;
      case Step::kZap: {
        SlotInfo& slot = slots_[ToIndex(action.slot)];
        ++slot.generation;
        if (!slot.in_tables) break;
        lost_ns_ += costs_.flush;
        task.now_ns += costs_.zap;
        SpentOn(task, Spent::kReclaim) += costs_.zap;
        if (Yields(id, task)) return false;
        break;
      }
      case Step::kUse:
        if (task.is_fault) {
          EnterInTable(task, action.slot);
          break;
        }
        task.now_ns += UseCost(task, action.slot);
        if (Yields(id, task)) return false;
        break;
      case Step::kUseDirect:
        ++task.result.past_window;
        SendDirect(id, task, Spent::kDirect, DirectNs(task));
        return false;
      case Step::kWaitForRange:
        if (task.is_fault && !std::exchange(task.fell_back, true)) break;  // tries once more, now for a single page
        if (action.exclusive) {
          waiting_calls_.push_back(id);
        } else {
          waiting_faults_.push_back(id);
        }
        FallAsleep(task, Spent::kRange);
        return false;
      case Step::kFreed:
        slots_[ToIndex(action.slot)].in_tables = false;
        if (action.wake) WakeWaiters(task.now_ns);
        break;
      case Step::kKickWorker: KickWorker(task, action.delay_ns); break;
      case Step::kTryAgain:
        FallAsleep(task, Spent::kLock);
        queue_.Post(task.now_ns + 1000, id);
        return false;
      case Step::kDone: return true;
    }
  }
}

}  // namespace v0
}  // namespace daxcache
