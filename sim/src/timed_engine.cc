// The steps of the timed engine; see daxcache/sim/timed_engine.h.
#include "daxcache/sim/timed_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

absl::Status EngineOptions::Validate() const {
  if (grow_from > 0 && !dax) return absl::InvalidArgumentError("expected DAX: without it there is no window to grow");
  const bool of_9p = cache == CacheMode::kMmap || cache == CacheMode::kLoose;
  const bool of_virtiofs = cache == CacheMode::kAuto || cache == CacheMode::kAlways;
  if (filesystem == FileSystem::kNineP) {
    if (dax) return absl::InvalidArgumentError("expected virtiofs: 9p has no DAX");
    if (of_virtiofs) return absl::InvalidArgumentError("expected cache none, mmap or loose: those that 9p has");
  } else if (of_9p) {
    return absl::InvalidArgumentError("expected cache none, auto or always: those that virtiofs has");
  }
  return absl::OkStatus();
}

std::string EngineOptions::System() const {
  return absl::StrCat(filesystem == FileSystem::kVirtiofs ? "virtiofs" : "9p",
                      " cache=", AbslView(kCacheModeNames[static_cast<std::size_t>(cache)]), dax ? ", DAX" : "");
}

TimedEngine::TimedEngine(std::span<const std::uint64_t> sizes, RangeSize range_size, const WindowOptions& window,
                         const PolicyType::Options& policy, const ReclaimOptions& mechanics, const CostModel& costs,
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
      recorded_(options.recorded),
      dax_(options.dax),
      sees_files_(window_.policy().sees_files()),
      filesystem_(options.filesystem),
      cache_(options.cache),
      xattr_(options.xattr),
      send_remove_(mechanics.send_remove),
      least_slots_(options.grow_from > 0 ? options.grow_from : window_.capacity()),
      idle_ns_(absl::ToInt64Nanoseconds(mechanics.idle)),
      pages_(HasPages() ? sizes : std::span<const std::uint64_t>(), options.page_cache_pages),
      files_(sizes.size()),
      entry_locks_(ranges_.count()),
      slots_(window_.capacity()),
      words_(std::max<std::uint64_t>(1, range_size.bytes() / kPageBytes / 64)),
      touched_(window_.capacity() * words_),
      written_(window_.capacity() * words_),
      faulted_(window_.capacity() * words_),
      tasks_(1) {}

std::vector<ProcessResult> TimedEngine::Run(std::span<const Process> processes, std::uint32_t elsewhere) {
  tasks_.resize(1 + processes.size());
  live_ = processes.size();
  running_ = static_cast<std::int64_t>(processes.size() + elsewhere);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    Task& task = tasks_[1 + i];
    task = Task();
    task.process = processes[i];
    task.now_ns = task.result.begin_ns = now_ns_ + task.process.start_ns;
    task.deadline_ns = task.process.runtime_ns > 0 ? task.now_ns + task.process.runtime_ns : EventQueue::kNever;
    task.until_think = task.process.think_blocks;
    if (!recorded_) {
      if (task.process.path == IoPath::kMmap) {
        for (const std::uint32_t file : task.process.files) {
          task.tables.emplace_back(ranges_.first(file + 1) - ranges_.first(file));
        }
      }
    }
    queue_.Post(task.now_ns, static_cast<std::uint32_t>(1 + i));
  }
  if (idle_ns_ > 0 && !std::exchange(sweeping_, true)) queue_.Post(now_ns_ + idle_ns_, kSweeper);
  while (live_ > 0) {
    now_ns_ = queue_.next_time();
    const std::uint32_t next = queue_.Pop();
    if (next == kGrower) {
      Grow();
    } else if (next == kSweeper) {
      Sweep();
    } else {
      Resume(next);
    }
  }
  std::vector<ProcessResult> results;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    now_ns_ = std::max(now_ns_, tasks_[1 + i].result.end_ns);
    results.push_back(tasks_[1 + i].result);
  }
  return results;
}

// Another block of memory has been plugged in.
void TimedEngine::Grow() {
  growing_ = false;
  guest_.DropKick();
  const std::uint32_t more = std::min(BlockSlots(), window_.capacity() - window_.size());
  if (!window_.Grow(more).ok()) return;
  for (std::uint32_t i = 0; i < more; ++i) WakeWaiters(now_ns_);
}

// Takes back what nobody has used for a while, and unplugs memory that is not needed then.
void TimedEngine::Sweep() {
  for (std::uint32_t slot = 0; slot < window_.capacity(); ++slot) {
    if (window_.CanReclaim(SlotId{slot}) && slots_[slot].used_ns + idle_ns_ <= now_ns_) {
      window_.BeginReclaim(SlotId{slot});
      TakeBack(SlotId{slot});
    }
  }
  const std::uint32_t block = BlockSlots();
  while (window_.size() >= least_slots_ + block && least_slots_ < window_.capacity() &&
         window_.free_slots() > block + window_.size() / 4) {
    if (!window_.Shrink(block, [&](SlotId slot) { TakeBack(slot); }).ok()) break;
  }
  queue_.Post(now_ns_ + std::max<std::int64_t>(1, idle_ns_ / 2), kSweeper);
}

// A range that is being reclaimed, and that nobody uses or waits for: beside the guest's protocol.
void TimedEngine::TakeBack(SlotId slot) {
  SlotInfo& info = slots_[ToIndex(slot)];
  ++info.generation;
  if (std::exchange(info.in_tables, false)) lost_ns_ += costs_.flush;
  if (send_remove_) {
    host_mappings_ -= std::exchange(info.on_host, false) ? 1 : 0;
    const std::int64_t unmap_ns = Untouch(slot);
    daemon_.Submit(now_ns_, Varied(costs_.wake), Varied(costs_.service + unmap_ns), costs_.mmap + unmap_ns, kWorker);
  }
  window_.CommitReclaim(slot);
  WakeWaiters(now_ns_);
}

void TimedEngine::Resume(std::uint32_t id) {
  Task& task = tasks_[id];
  task.now_ns = now_ns_;
  if (recorded_) {
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
    if (recorded_) {
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
  GoOnWithPreempted();
  GiveUpCpu(task);
  if (worker_again_at_ns_ != EventQueue::kNever) {
    // Between two runs it lets others run (cond_resched), so that those that the last release has woken come first.
    const std::int64_t yielded_ns = task.now_ns + costs_.wake * 3 / 2;
    queue_.Post(std::max(std::exchange(worker_again_at_ns_, EventQueue::kNever), yielded_ns), kWorker);
  }
}

// One step of a process. False: it sleeps, has yielded, or has ended.
bool TimedEngine::Advance(std::uint32_t id, Task& task) {
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
bool TimedEngine::AccessByCall(std::uint32_t id, Task& task, std::uint32_t file, std::uint32_t number) {
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

void TimedEngine::StartFault(Task& task, std::uint32_t range, bool write) {
  ++task.result.faults;
  task.is_fault = true;
  task.fell_back = false;
  task.call = guest_.StartFault(
      Key{range},
      {.file = FileId{ranges_.file(range)}, .op = write ? Op::kMappedWrite : Op::kMappedRead, .time_ns = task.now_ns});
  task.in_call = true;
}

// The same of a lane of recorded jobs.
bool TimedEngine::AdvanceRecorded(std::uint32_t id, Task& task) {
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
  const TimedIo& io = task.io;
  if (!TouchesData(io.op)) return FileEvent(id, task);
  if (!UsesWindow(io.file)) return UsePageCache(id, task, io.file);
  const std::uint32_t number = ranges_.NumberOf(io.file, PieceOffset(task));
  if (IsMapped(io.op)) {
    StartFault(task, number, IsWrite(io.op));
    return true;
  }
  if (!io.extends) return AccessByCall(id, task, io.file, number);
  const Touch touch{.file = FileId{io.file}, .op = io.op, .time_ns = task.now_ns};
  if (sees_files_) window_.policy().OnNonDax(touch);  // it makes its file hotter
  task.past_window = true;
  task.is_fault = false;
  task.call = guest_.StartCall(Key{number}, touch, 1, true);
  task.in_call = true;
  return true;
}

// It computes for a while on the CPU that it has, and gives way at the end of its time slice, or when others have woken
// up. At the end of each slice it is due to use its ranges again.
bool TimedEngine::Compute(std::uint32_t id, Task& task) {
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
void TimedEngine::Retouch(Task& task) {
  RangesInUse& in_use = InUse(task);
  RangesInUse::Entry& entry = in_use[in_use.size() - task.to_retouch--];
  SlotInfo& slot = slots_[ToIndex(entry.slot)];
  if (slot.generation == entry.generation) {
    slot.used_ns = task.now_ns;
    return;
  }
  task.retouched = &entry;
  StartFault(task, entry.range, entry.write);
}

// An open, a close, a deletion; or nothing, where a task has computed until its end.
bool TimedEngine::FileEvent(std::uint32_t id, Task& task) {
  const TimedIo& io = task.io;
  task.has_io = false;
  if (io.file == ToIndex(kNoFile)) return true;
  const FileId file{io.file};
  if (io.op == Op::kOpen && !std::exchange(task.asked, false)) {
    task.has_io = task.asked = true;
    SendDirect(id, task, Spent::kOpen, costs_.Direct(kOpenRequests, 0));
    return false;
  }
  bool evicts = io.op == Op::kUnlink;
  if (sees_files_) {
    if (dax_) {
      if (io.op == Op::kOpen) evicts = window_.policy().OnOpen(file, io.length);
      if (io.op == Op::kClose) evicts = window_.policy().OnClose(file);
      if (io.op == Op::kUnlink) window_.policy().OnEvict(file);
    }
  }
  if (!evicts) return true;
  DropPages(io.file);
  if (!dax_) return true;
  task.is_fault = false;
  task.call = guest_.StartEviction(file);
  task.in_call = task.has_io = true;
  return true;
}

// Past the window: what the page cache does not have is requested, then used.
bool TimedEngine::UsePageCache(std::uint32_t id, Task& task, std::uint32_t file) {
  const TimedIo& io = task.io;
  const bool write = IsWrite(io.op);
  const bool mapped = recorded_ ? IsMapped(io.op) : task.process.path == IoPath::kMmap;
  task.past_window = true;
  if (!std::exchange(task.asked, true)) {
    if (sees_files_ && dax_) {
      window_.policy().OnNonDax({.file = FileId{file}, .op = io.op, .time_ns = task.now_ns});
    }
    std::uint64_t& next = task.process.shared != nullptr ? task.process.shared->next_offset : task.next_offset;
    task.far = io.offset != next;
    next = io.offset + io.length;
    task.requests = 0;
    task.getattr_ns = task.worker_ns = task.guest_ns = task.cache_ns = task.ready_ns = 0;
    if (filesystem_ == FileSystem::kVirtiofs) {
      PlanVirtiofs(task, file, mapped);
    } else {
      PlanNineP(task, file, mapped);
    }
  }
  if (task.getattr_ns > 0) {
    Send(id, task, Spent::kDirect, std::exchange(task.getattr_ns, 0), 0, costs_.notify);
    return false;
  }
  if (task.requests > 0) {
    --task.requests;
    Send(id, task, Spent::kDirect, task.request_ns, 0, costs_.notify, task.worker_ns);
    return false;
  }
  // Nothing that takes the CPU: with several I/Os under way these waits overlap.
  if (const std::int64_t ready_ns = std::max(std::exchange(task.ready_ns, 0), task.now_ns + task.cache_ns);
      ready_ns > task.now_ns) {
    task.cache_ns = 0;
    FallAsleep(task, Spent::kDirect);
    queue_.Post(ready_ns, id);
    return false;
  }
  if (mapped && write && !recorded_ && filesystem_ == FileSystem::kVirtiofs && !WriteBack(id, task)) return false;
  task.asked = false;
  ++task.result.past_window;
  if (!recorded_) {  // else it is in what its task computes
    const auto pages = static_cast<std::int64_t>((io.length + kPageBytes - 1) / kPageBytes);
    const std::int64_t share = task.process.shared != nullptr ? 0 : costs_.share[write] * (running_ - 1);
    const std::int64_t use = costs_.use[static_cast<std::size_t>(task.process.path)][write] + share +
                             (pages - 1) * (costs_.use[static_cast<std::size_t>(IoPath::kMmap)][write] / 4 + share);
    Work(task, use + task.guest_ns + (task.far ? costs_.far : 0));
  }
  FinishPiece(task);
  return !Yields(id, task);
}

// Without a page cache a call is a request; with one, what is missing is fetched, with read-ahead, and writes go
// through. A read that follows a write asks for the file's attributes first (FUSE_AUTO_INVAL_DATA).
void TimedEngine::PlanVirtiofs(Task& task, std::uint32_t file, bool mapped) {
  const TimedIo& io = task.io;
  const bool write = IsWrite(io.op);
  const std::uint64_t pages = (io.length + kPageBytes - 1) / kPageBytes;
  const bool cached = cache_ != CacheMode::kNone && !task.process.direct;
  if (!cached || (write && !mapped)) {
    task.requests = 1;
    task.request_ns = costs_.Direct((io.length + kDirectBytes - 1) / kDirectBytes, pages);
    if (write && xattr_) task.getattr_ns = costs_.Direct(1, 0);
    if (!cached) return;
    pages_.Write(file, io.offset, io.length);
    files_[file].stale = true;
    if (!recorded_) task.cache_ns = costs_.cache;
    return;
  }
  if (!mapped && costs_.attr > 0 && std::exchange(files_[file].stale, false)) {
    task.getattr_ns = costs_.Direct(1, 0);
    task.guest_ns = costs_.attr;
  }
  // Whatever a recorded task did at random, its mappings and reads had read-ahead around them.
  const bool ahead = recorded_ || io.offset == 0 || !task.far;
  const PageCache::Fetched fetched = pages_.Read(file, io.offset, io.length, ahead);
  if (ahead && !mapped && !recorded_) ReadAhead(task, file, fetched);
  if (fetched.requests == 0) return;
  task.requests = 1;  // all at once: they do not wait for one another
  task.request_ns = costs_.Direct(fetched.requests, fetched.pages);
  task.guest_ns += FillNs(fetched);
  // A fault that has waited for its page is taken once more, when who holds the page has woken it.
  if (!recorded_) task.cache_ns = costs_.cache * (mapped ? 2 : 1);
}

// A sequential reader finds the next pages on their way: they were requested when it came to those before.
void TimedEngine::ReadAhead(Task& task, std::uint32_t file, const PageCache::Fetched& fetched) {
  FileLocks& state = files_[file];
  std::uint64_t begin = 0;  // of the pages to be requested now
  if (fetched.requests > 0) {
    begin = (task.io.offset / kPageBytes + fetched.pages) * kPageBytes;
  } else if (task.io.offset <= state.ahead_offset && state.ahead_offset < task.io.offset + task.io.length) {
    task.ready_ns = state.ahead_ready_ns;
    begin = state.ahead_offset + PageCache::kRequestPages * kPageBytes;
  } else {
    return;
  }
  state.ahead_offset = begin;
  state.ahead_ready_ns = 0;
  if (begin >= pages_.Bytes(file)) return;
  const PageCache::Fetched next = pages_.Read(file, begin, kPageBytes, true);
  if (next.requests == 0) return;
  task.guest_ns += FillNs(next);
  const FuseDaemon::Handled handled =
      daemon_.Submit(task.now_ns, Varied(costs_.notify), Varied(costs_.Direct(next.requests, next.pages)), 0, 0);
  state.ahead_ready_ns = handled.end_ns + Varied(costs_.notify);
}

// A call past the page cache is one request; through it, each page that is missing is one, and waits for the one
// before.
void TimedEngine::PlanNineP(Task& task, std::uint32_t file, bool mapped) {
  const TimedIo& io = task.io;
  const Costs::NineP& costs = costs_.nine_p;
  task.request_ns = costs.request;
  task.worker_ns = costs.worker;
  const bool cached = mapped || (cache_ == CacheMode::kLoose && !task.process.direct);
  if (!cached || (IsWrite(io.op) && !mapped)) {
    task.requests = static_cast<std::uint32_t>((io.length + kDirectBytes - 1) / kDirectBytes);
    if (!cached) return;
    pages_.Write(file, io.offset, io.length);
    task.cache_ns = costs.cache + costs.dirty;
    return;
  }
  const bool ahead = cache_ != CacheMode::kNone && (io.offset == 0 || !task.far);
  const PageCache::Fetched fetched = pages_.Read(file, io.offset, io.length, ahead);
  task.requests = static_cast<std::uint32_t>(fetched.pages);
  task.cache_ns = static_cast<std::int64_t>(fetched.requests) * (costs.cache + (mapped ? costs.fault : 0));
}

// A store makes its page dirty, and the page is written back at once: the limit on dirty pages of a FUSE filesystem is
// low (1 % of what all may have), so that a process that writes through a mapping is held to what the daemon writes.
// False: too many are under way.
bool TimedEngine::WriteBack(std::uint32_t id, Task& task) {
  while (!writes_back_.empty() && writes_back_.front() <= task.now_ns) writes_back_.pop_front();
  if (writes_back_.size() >= kMostWritesBack) {
    FallAsleep(task, Spent::kDirect);
    queue_.Post(writes_back_.front(), id);
    return false;
  }
  const FuseDaemon::Handled handled = daemon_.Submit(task.now_ns, Varied(costs_.notify), Varied(DirectNs(task)), 0, id);
  writes_back_.push_back(handled.end_ns);
  return true;
}

// Takes the next I/O of the process. False: it rests before, or has ended.
bool TimedEngine::NextIo(std::uint32_t id, Task& task) {
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
  if (task.now_ns >= task.deadline_ns || !task.process.source->Next(task.io)) {
    task.result.end_ns = task.now_ns;
    --running_;
    --live_;
    GiveUpCpu(task);
    return false;
  }
  if (recorded_) {
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
  if (recorded_) {
    if (const std::int64_t due_ns = task.result.begin_ns + task.io.not_before_ns; due_ns > task.now_ns) {
      FallAsleep(task, Spent::kPause);
      queue_.Post(due_ns, id);
      return false;
    }
  }
  return true;
}

void TimedEngine::FinishPiece(Task& task) {
  task.done += PieceLength(task);
  if (task.done < task.io.length) return;
  task.has_io = false;
  ++(IsWrite(task.io.op) ? task.result.writes : task.result.reads);
  task.result.bytes += task.io.length;
  task.result.latency.Record(task.now_ns - task.io_began_ns);
  if (task.until_think > 0) --task.until_think;
}

// Whether the process can load or store there without a fault.
bool TimedEngine::InTable(const Task& task, const Entry& entry) const {
  if (entry.slot == kNoSlot || slots_[ToIndex(entry.slot)].generation != entry.generation) return false;
  if (IsWrite(task.io.op) && !entry.writable) return false;
  const std::uint64_t page = ranges_.Within(PieceOffset(task)) / kPageBytes;
  return !entry.small || ((entry.pages[page / 64] >> (page % 64)) & 1);
}

void TimedEngine::EnterInTable(Task& task, SlotId slot) {
  SlotInfo& info = slots_[ToIndex(slot)];
  info.in_tables = true;
  info.used_ns = task.now_ns;
  info.small = info.small || task.fell_back;
  if (recorded_) {
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
std::int64_t TimedEngine::UseCost(Task& task, SlotId slot) {
  slots_[ToIndex(slot)].used_ns = task.now_ns;
  const bool write = IsWrite(task.io.op);
  const std::uint64_t offset = PieceOffset(task);
  const std::uint64_t length = PieceLength(task);
  const std::int64_t share = costs_.share[write] * (running_ - 1);
  ++task.result.hits;
  std::int64_t use = costs_.use[static_cast<std::size_t>(task.process.path)][write] + share;
  // Where it was last is as near as what follows.
  if (offset != task.next_offset && offset + length != task.next_offset) use += costs_.far;
  task.next_offset = offset + length;
  if (recorded_) use = 0;  // in what its task computes
  std::int64_t touch = 0;
  const std::uint64_t first = ranges_.Within(offset) / kPageBytes;
  const std::uint64_t last = (ranges_.Within(offset) + (length > 0 ? length - 1 : 0)) / kPageBytes;
  for (std::uint64_t page = first; page <= last; ++page) {
    // Pages after the first cost no system call and no engine, but the copying: what a load or store does.
    if (page > first && !recorded_) use += costs_.use[static_cast<std::size_t>(IoPath::kMmap)][write] / 4 + share;
    std::uint64_t& touched = touched_[ToIndex(slot) * words_ + page / 64];
    std::uint64_t& written = written_[ToIndex(slot) * words_ + page / 64];
    const std::uint64_t bit = std::uint64_t{1} << (page % 64);
    if ((write ? written : touched) & bit) continue;
    touch += costs_.touch;
    // Beside the exit the host's page fault, which a neighbour's may have spared: one that reads maps sixteen pages.
    std::uint64_t& faulted = faulted_[ToIndex(slot) * words_ + page / 64];
    if (write || !(faulted & bit)) {
      touch += daemon_.LockedFor(task.now_ns + use + touch) + costs_.touch * (write ? 1 : 2);
    }
    if (write) {
      written |= bit;
      touched |= bit;
      faulted |= bit;
    } else {
      faulted |= std::uint64_t{0xffff} << (page % 64 & ~std::uint64_t{15});
      // KVM's legacy MMU fills what precedes the page within its block of eight, if the host has it.
      const std::uint64_t block = std::uint64_t{0xff} << (page % 64 & ~std::uint64_t{7});
      touched |= block & (bit | (bit - 1));
    }
  }
  SpentOn(task, Spent::kUse) += use;
  SpentOn(task, Spent::kTouch) += touch;
  return use + touch;
}

// Goes on with the call under way. True: it is over. False: the task sleeps, or has yielded.
bool TimedEngine::StepCall(std::uint32_t id, Task& task) {
  for (;;) {
    const Action action = guest_.Next(task.call);
    switch (action.step) {
      case Step::kLock:
        if (LockOf(task, action).Acquire(id, action.exclusive, task.now_ns, WaiterOf{tasks_})) break;
        FallAsleep(task, Spent::kLock);
        return false;
      case Step::kUnlock: Unlock(task, action); break;
      case Step::kSetup: {
        ++task.result.misses;
        slots_[ToIndex(action.slot)].small = false;
        host_mappings_ += std::exchange(slots_[ToIndex(action.slot)].on_host, true) ? 0 : 1;
        const std::int64_t unmap_ns = Untouch(action.slot);
        Send(id, task, Spent::kSetup, costs_.service + (action.exclusive ? 0 : costs_.read_only) + unmap_ns,
             costs_.mmap + unmap_ns, costs_.wake);
        return false;
      }
      case Step::kUpgrade: {
        ++task.result.upgrades;
        const std::int64_t unmap_ns = Untouch(action.slot);
        Send(id, task, Spent::kUpgrade, costs_.service + unmap_ns, costs_.mmap + unmap_ns, costs_.wake);
        return false;
      }
      case Step::kRemove: {
        std::int64_t service_ns = 0;
        std::int64_t locked_ns = 0;
        for (std::uint32_t i = 0, slot = ToIndex(action.slot); i < action.count; ++i) {
          host_mappings_ -= std::exchange(slots_[slot].on_host, false) ? 1 : 0;
          const std::int64_t unmap_ns = Untouch(SlotId{slot});
          service_ns += costs_.service + (window_.writable(SlotId{slot}) ? 0 : costs_.read_only) + unmap_ns;
          locked_ns += costs_.mmap + unmap_ns;
          slot = ToIndex(guest_.NextInBatch(SlotId{slot}));
        }
        Send(id, task, Spent::kReclaim, service_ns, locked_ns, costs_.wake);
        return false;
      }
      case Step::kZap: {
        SlotInfo& slot = slots_[ToIndex(action.slot)];
        ++slot.generation;
        std::int64_t zap_ns = costs_.zap;
        if (slot.in_tables) {
          lost_ns_ += costs_.flush;
          zap_ns *= 2;
        }
        task.now_ns += zap_ns;
        SpentOn(task, Spent::kReclaim) += zap_ns;
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
      case Step::kKickWorker:
        if (KickWorker(id, task, action.delay_ns)) return false;
        break;
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
