// perf_event_open: one event for page faults and one that samples CPU time, per CPU (events that descendants inherit
// can only be mapped per CPU). The records of the rings are merged by time, and faults are resolved to files as they
// come, so that memory is bounded by the distinct (task, 2 MiB of file), not by the faults.
#include "record_events.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr int kRangeShift = 21;  // faults are gathered by 2 MiB of file
constexpr std::size_t kPagesInRange = (std::size_t{1} << kRangeShift) / kPage;
constexpr std::uint64_t kSamplePeriodNs = 1'000'000;
constexpr std::size_t kLargestRing = std::size_t{16} << 20;
constexpr std::size_t kSmallestRing = std::size_t{64} << 10;
constexpr std::size_t kRingBudget = std::size_t{256} << 20;  // of all CPUs together: the kernel locks this memory

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int PerfEventOpen(perf_event_attr* attr, pid_t pid, int cpu) {
  return static_cast<int>(syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

// A file as the kernel knows it.
struct FileKey {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};

struct MappedFile {
  std::int64_t time_ns = 0;
  std::string path;
  FileKey key;
  bool shared_writable = false;
  std::uint32_t number = 0;  // in the result, 1-based; 0: no fault seen yet
};

struct Vma {
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file, bytes, of its first address
  std::shared_ptr<MappedFile> file;
};
using AddressSpace = std::map<std::uint64_t, Vma>;

struct Process {
  AddressSpace space;
  bool traced = false;  // has exec'd since it came from the tracer, or descends from one that has
  int threads = 1;
};

struct FaultKey {
  FileKey file;
  bool shared_writable = false;
  std::uint64_t range = 0;
  friend auto operator<=>(const FaultKey&, const FaultKey&) = default;
};

struct FaultGroup {
  KernelEvents::Faults faults;
  std::bitset<kPagesInRange> pages;
};

struct Thread {
  std::map<FaultKey, FaultGroup> faults;
  KernelEvents::CpuTime cpu;
};

// One record, parsed; what a field means depends on the type.
struct Event {
  std::uint64_t time = 0;
  std::uint32_t type = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint32_t parent_pid = 0;
  std::uint32_t parent_tid = 0;
  std::uint64_t address = 0;
  bool exec = false;    // COMM
  bool cpu = false;     // SAMPLE: of CPU time, not of a fault
  bool kernel = false;  // SAMPLE
  std::uint64_t length = 0;
  std::uint64_t offset = 0;
  std::shared_ptr<MappedFile> file;  // MMAP2
};

// Reads numbers and strings from the front of a record; nothing beyond its end.
class Cursor {
 public:
  Cursor(const char* data, std::size_t size) : at_(data), end_(data + size) {}
  template <class T>
  T Take() {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) {
      at_ = end_;
      return value;
    }
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string TakeString() {
    const std::size_t length = strnlen(at_, static_cast<std::size_t>(end_ - at_));
    return std::string(at_, length);
  }

 private:
  const char* at_;
  const char* end_;
};

struct Ring {
  int fault_fd = -1;
  int cpu_fd = -1;
  void* map = MAP_FAILED;
  std::size_t data_size = 0;
  std::size_t map_size = 0;
};

}  // namespace

struct EventRecorder::State {
  ~State() {
    for (const Ring& ring : rings) {
      if (ring.map != MAP_FAILED) munmap(ring.map, ring.map_size);
      if (ring.cpu_fd >= 0) close(ring.cpu_fd);
      if (ring.fault_fd >= 0) close(ring.fault_fd);
    }
  }

  absl::Status OpenAll();
  absl::Status OpenCpu(int cpu);
  void DrainRing(Ring& ring);
  void Parse(const perf_event_header& header, const char* body, std::size_t size);
  void ProcessUntil(std::uint64_t time);
  void Handle(const Event& event);
  void Map(Process& process, const Event& event);
  void Fault(const Event& event);
  void EndThread(std::uint32_t tid);

  std::uint32_t tracer = 0;
  bool kernel = true;
  std::size_t ring_size = kLargestRing;
  std::vector<Ring> rings;
  std::vector<int> descriptors;
  std::set<std::uint64_t> cpu_ids;  // of the events that sample CPU time
  std::vector<Event> events;        // not yet processed
  std::uint64_t last_drain = 0;
  std::string scratch;

  absl::flat_hash_map<std::uint32_t, Process> processes;
  absl::flat_hash_map<std::uint32_t, Thread> threads;
  KernelEvents result;
  std::uint64_t lost = 0;
  std::uint64_t unresolved = 0;
};

absl::Status EventRecorder::State::OpenCpu(int cpu) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_PAGE_FAULTS;
  attr.sample_period = 1;
  attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
  attr.disabled = 1;
  attr.enable_on_exec = 1;
  attr.inherit = 1;
  attr.mmap = 1;       // mappings of code …
  attr.mmap_data = 1;  // … and of data
  attr.mmap2 = 1;
  attr.comm = 1;
  attr.comm_exec = 1;
  attr.task = 1;
  attr.sample_id_all = 1;
  attr.exclude_kernel = kernel ? 0 : 1;
  attr.exclude_hv = 1;
  attr.watermark = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_REALTIME;  // the clock of strace -ttt
  Ring ring;
  int error = 0;
  // Smaller where the user may not lock so much memory.
  for (std::size_t size = ring_size; size >= kSmallestRing; size /= 4) {
    attr.wakeup_watermark = static_cast<std::uint32_t>(size / 4);
    ring.fault_fd = PerfEventOpen(&attr, static_cast<pid_t>(tracer), cpu);
    if (ring.fault_fd < 0) {
      error = errno;
      break;
    }
    ring.data_size = size;
    ring.map_size = size + static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    ring.map = mmap(nullptr, ring.map_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fault_fd, 0);
    if (ring.map != MAP_FAILED) break;
    error = errno;
    close(ring.fault_fd);
    ring.fault_fd = -1;
  }
  if (ring.map == MAP_FAILED) {
    const std::string text = absl::StrCat("perf_event_open: ", std::strerror(error));
    if (error == ENODEV) return absl::NotFoundError(text);  // no such CPU
    if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
    return absl::UnavailableError(text);
  }
  attr.config = PERF_COUNT_SW_TASK_CLOCK;
  attr.sample_period = kSamplePeriodNs;
  attr.mmap = attr.mmap_data = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 0;
  ring.cpu_fd = PerfEventOpen(&attr, static_cast<pid_t>(tracer), cpu);
  std::uint64_t id = 0;
  if (ring.cpu_fd >= 0 && ioctl(ring.cpu_fd, PERF_EVENT_IOC_SET_OUTPUT, ring.fault_fd) == 0 &&
      ioctl(ring.cpu_fd, PERF_EVENT_IOC_ID, &id) == 0) {
    cpu_ids.insert(id);
  }
  descriptors.push_back(ring.fault_fd);
  rings.push_back(ring);
  return absl::OkStatus();
}

absl::Status EventRecorder::State::OpenAll() {
  const long cpus = std::max(1L, sysconf(_SC_NPROCESSORS_CONF));
  while (ring_size > kRingBudget / static_cast<std::size_t>(cpus) && ring_size > kSmallestRing) ring_size /= 2;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    absl::Status status = OpenCpu(cpu);
    if (absl::IsPermissionDenied(status) && kernel && rings.empty()) {
      // Without privileges only what happens in user mode may be seen; nearly all faults do.
      kernel = false;
      status = OpenCpu(cpu);
    }
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return rings.empty() ? absl::UnavailableError("perf_event_open: no CPU") : absl::OkStatus();
}

void EventRecorder::State::Parse(const perf_event_header& header, const char* body, std::size_t size) {
  Event event;
  event.type = header.type;
  Cursor cursor(body, size);
  // Records other than samples end with the sample's id fields: pid and tid, time, identifier.
  constexpr std::size_t kTrailer = 24;
  if (header.type != PERF_RECORD_SAMPLE) {
    if (size < kTrailer) return;
    Cursor trailer(body + size - kTrailer, kTrailer);
    event.pid = trailer.Take<std::uint32_t>();
    event.tid = trailer.Take<std::uint32_t>();
    event.time = trailer.Take<std::uint64_t>();
  }
  switch (header.type) {
    case PERF_RECORD_SAMPLE:
      event.cpu = cpu_ids.contains(cursor.Take<std::uint64_t>());
      event.pid = cursor.Take<std::uint32_t>();
      event.tid = cursor.Take<std::uint32_t>();
      event.time = cursor.Take<std::uint64_t>();
      event.address = cursor.Take<std::uint64_t>();
      event.kernel = (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
      break;
    case PERF_RECORD_MMAP2: {
      event.pid = cursor.Take<std::uint32_t>();
      event.tid = cursor.Take<std::uint32_t>();
      event.address = cursor.Take<std::uint64_t>();
      event.length = cursor.Take<std::uint64_t>();
      event.offset = cursor.Take<std::uint64_t>();
      auto file = std::make_shared<MappedFile>();
      file->key.major = cursor.Take<std::uint32_t>();
      file->key.minor = cursor.Take<std::uint32_t>();
      file->key.inode = cursor.Take<std::uint64_t>();
      file->key.generation = cursor.Take<std::uint64_t>();
      const auto protection = cursor.Take<std::uint32_t>();
      const auto flags = cursor.Take<std::uint32_t>();
      file->shared_writable = (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0;
      file->path = cursor.TakeString();
      file->time_ns = static_cast<std::int64_t>(event.time);
      // What is no file is spelt "//anon", "[heap]", "anon_inode:…", "/dev/zero (deleted)".
      const std::string& path = file->path;
      if (path.starts_with("/") && !path.starts_with("//") && !path.starts_with("/dev/zero")) event.file = file;
      break;
    }
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      event.pid = cursor.Take<std::uint32_t>();
      event.parent_pid = cursor.Take<std::uint32_t>();
      event.tid = cursor.Take<std::uint32_t>();
      event.parent_tid = cursor.Take<std::uint32_t>();
      break;
    case PERF_RECORD_COMM: event.exec = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0; break;
    case PERF_RECORD_LOST:
      cursor.Take<std::uint64_t>();
      lost += cursor.Take<std::uint64_t>();
      return;
    default: return;
  }
  events.push_back(std::move(event));
}

void EventRecorder::State::DrainRing(Ring& ring) {
  auto* const page = static_cast<perf_event_mmap_page*>(ring.map);
  const char* const data = static_cast<const char*>(ring.map) + (ring.map_size - ring.data_size);
  const std::uint64_t head = std::atomic_ref<__u64>(page->data_head).load(std::memory_order_acquire);
  std::uint64_t tail = page->data_tail;
  const auto copy = [&](std::uint64_t from, void* to, std::size_t size) {
    const std::size_t begin = from & (ring.data_size - 1);
    const std::size_t first = std::min(size, ring.data_size - begin);
    std::memcpy(to, data + begin, first);
    std::memcpy(static_cast<char*>(to) + first, data, size - first);
  };
  while (head - tail >= sizeof(perf_event_header)) {
    perf_event_header header{};
    copy(tail, &header, sizeof(header));
    if (header.size < sizeof(header) || header.size > head - tail) break;
    const std::size_t size = header.size - sizeof(header);
    scratch.resize(size);
    copy(tail + sizeof(header), scratch.data(), size);
    Parse(header, scratch.data(), size);
    tail += header.size;
  }
  std::atomic_ref<__u64>(page->data_tail).store(tail, std::memory_order_release);
}

// A record that the kernel was writing when its ring was read can be older than others already read; none is older than
// the reading before.
void EventRecorder::State::ProcessUntil(std::uint64_t time) {
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  std::size_t done = 0;
  while (done < events.size() && events[done].time <= time) Handle(events[done++]);
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(done));
}

void EventRecorder::State::Map(Process& process, const Event& event) {
  AddressSpace& space = process.space;
  const std::uint64_t begin = event.address;
  const std::uint64_t end = begin + event.length;
  if (end <= begin) return;
  // Whatever was there has gone.
  auto at = space.lower_bound(begin);
  if (at != space.begin()) {
    const auto before = std::prev(at);
    if (before->second.end > begin) {
      Vma rest = before->second;
      before->second.end = begin;
      if (rest.end > end) {
        rest.offset += end - before->first;
        space[end] = rest;
      }
    }
  }
  at = space.lower_bound(begin);
  while (at != space.end() && at->first < end) {
    if (at->second.end > end) {
      Vma rest = at->second;
      rest.offset += end - at->first;
      space.erase(at);
      space[end] = rest;
      break;
    }
    at = space.erase(at);
  }
  if (event.file != nullptr) space[begin] = {.end = end, .offset = event.offset, .file = event.file};
}

void EventRecorder::State::Fault(const Event& event) {
  const auto process = processes.find(event.pid);
  if (process == processes.end()) {
    ++unresolved;
    return;
  }
  if (!process->second.traced) return;
  AddressSpace& space = process->second.space;
  auto at = space.upper_bound(event.address);
  if (at == space.begin()) return;
  at = std::prev(at);
  if (event.address >= at->second.end) return;  // memory of no file
  MappedFile& file = *at->second.file;
  const std::uint64_t offset = (at->second.offset + (event.address - at->first)) & ~(kPage - 1);
  if (file.number == 0) {
    result.mappings.push_back({.time_ns = file.time_ns, .path = file.path});
    file.number = static_cast<std::uint32_t>(result.mappings.size());
  }
  const FaultKey key{.file = file.key, .shared_writable = file.shared_writable, .range = offset >> kRangeShift};
  const auto [group, fresh] = threads[event.tid].faults.try_emplace(key);
  if (fresh) {
    group->second.faults = {.time_ns = static_cast<std::int64_t>(event.time),
                            .task = static_cast<std::int32_t>(event.tid),
                            .mapping = file.number - 1,
                            .offset = offset,
                            .shared_writable = file.shared_writable};
  }
  group->second.pages.set(offset / kPage % kPagesInRange);
}

void EventRecorder::State::EndThread(std::uint32_t tid) {
  const auto at = threads.find(tid);
  if (at == threads.end()) return;
  for (auto& [key, group] : at->second.faults) {
    group.faults.pages = group.pages.count();
    result.faults.push_back(group.faults);
  }
  if (at->second.cpu.user_us + at->second.cpu.system_us > 0) {
    at->second.cpu.task = static_cast<std::int32_t>(tid);
    result.cpu_times.push_back(at->second.cpu);
  }
  threads.erase(at);
}

void EventRecorder::State::Handle(const Event& event) {
  switch (event.type) {
    case PERF_RECORD_SAMPLE: {
      if (event.pid == tracer || event.pid == 0) return;
      if (!event.cpu) return Fault(event);
      const auto process = processes.find(event.pid);
      if (process == processes.end() || !process->second.traced) return;
      Thread& thread = threads[event.tid];
      thread.cpu.time_ns = static_cast<std::int64_t>(event.time);
      (event.kernel ? thread.cpu.system_us : thread.cpu.user_us) += kSamplePeriodNs / 1000;
      return;
    }
    case PERF_RECORD_MMAP2:
      if (event.pid != tracer) Map(processes[event.pid], event);
      return;
    case PERF_RECORD_FORK: {
      if (event.pid == event.parent_pid) {
        ++processes[event.pid].threads;
      } else {
        Process child;
        if (const auto parent = processes.find(event.parent_pid); parent != processes.end()) child = parent->second;
        child.threads = 1;
        if (event.parent_pid == tracer) child.traced = false;
        processes[event.pid] = std::move(child);
      }
      const auto process = processes.find(event.pid);
      if (process->second.traced) {
        result.forks.push_back({.time_ns = static_cast<std::int64_t>(event.time),
                                .parent = static_cast<std::int32_t>(event.parent_tid),
                                .child = static_cast<std::int32_t>(event.tid)});
      }
      return;
    }
    case PERF_RECORD_COMM:
      if (event.exec && event.pid != tracer) {
        Process& process = processes[event.pid];
        process.space.clear();
        process.traced = true;
      }
      return;
    case PERF_RECORD_EXIT: {
      EndThread(event.tid);
      const auto process = processes.find(event.pid);
      if (process != processes.end() && --process->second.threads <= 0) processes.erase(process);
      return;
    }
    default: return;
  }
}

EventRecorder::EventRecorder(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventRecorder::~EventRecorder() = default;
EventRecorder::EventRecorder(EventRecorder&&) noexcept = default;
EventRecorder& EventRecorder::operator=(EventRecorder&&) noexcept = default;

absl::StatusOr<EventRecorder> EventRecorder::Open(pid_t tracer) {
  auto state = std::make_unique<State>();
  state->tracer = static_cast<std::uint32_t>(tracer);
  if (absl::Status status = state->OpenAll(); !status.ok()) return status;
  return EventRecorder(std::move(state));
}

const std::vector<int>& EventRecorder::descriptors() const {
  return state_->descriptors;
}
bool EventRecorder::system_time() const {
  return state_->kernel && !state_->cpu_ids.empty();
}
std::uint64_t EventRecorder::lost() const {
  return state_->lost;
}
std::uint64_t EventRecorder::unresolved() const {
  return state_->unresolved;
}

void EventRecorder::Drain() {
  const auto before = static_cast<std::uint64_t>(Now());
  for (Ring& ring : state_->rings) state_->DrainRing(ring);
  state_->ProcessUntil(state_->last_drain);
  state_->last_drain = before;
}

KernelEvents EventRecorder::Finish() {
  Drain();
  state_->ProcessUntil(~std::uint64_t{0});
  std::vector<std::uint32_t> left;
  for (const auto& [tid, thread] : state_->threads) left.push_back(tid);
  for (const std::uint32_t tid : left) state_->EndThread(tid);

  // The reader wants mappings by time; faults name them by place.
  KernelEvents& result = state_->result;
  std::vector<std::uint32_t> order(result.mappings.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return result.mappings[a].time_ns < result.mappings[b].time_ns;
  });
  std::vector<std::uint32_t> place(order.size());
  std::vector<KernelEvents::Mapping> mappings;
  mappings.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<std::uint32_t>(i);
    mappings.push_back(std::move(result.mappings[order[i]]));
  }
  result.mappings = std::move(mappings);
  for (KernelEvents::Faults& faults : result.faults) faults.mapping = place[faults.mapping];
  // By more than the time, so that equal inputs give equal results.
  std::stable_sort(result.faults.begin(), result.faults.end(),
                   [](const KernelEvents::Faults& a, const KernelEvents::Faults& b) {
                     return std::tie(a.time_ns, a.task, a.offset) < std::tie(b.time_ns, b.task, b.offset);
                   });
  return std::move(result);
}

}  // namespace v0
}  // namespace daxcache
