// A guest in front of a daemon: the `Guest` state machine with threads, real locks and page tables, whose messages go
// over a link and whose loads and stores go to a window of real memory. Whatever it reads there is compared with the
// file. Between accesses it creates, truncates, replaces and removes files, as guests do.
//
//   GuestVm guest(share, link, base, {.slots = 512, .files = 32});
//   guest.CreateAll();
//   crew.Do([&](int me) { guest.Load(me, 10'000); });
//   guest.RemoveAll();
//   EXPECT_EQ(guest.wrong(), 0u);
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <ostream>
#include <random>
#include <shared_mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/share.h"
#include "daxcache/fuse_wire.h"
#include "daxcache/guest.h"
#include "daxcache/policies/linux.h"
#include "daxcache/window.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

// How messages reach the daemon. Any number of threads.
class Link {
 public:
  virtual ~Link() = default;
  // Sends a request and waits for the answer: the error in its header.
  virtual int Call(std::uint64_t unique, std::span<const std::byte> request) = 0;
  // Sends a message that has no answer.
  virtual void Post(std::span<const std::byte> request) = 0;
};

// What the guest loads and stores is none of the sanitizers' business: it is another machine, and races as it likes.
#define DAXCACHE_GUEST_CODE [[gnu::noinline]] __attribute__((no_sanitize("address"), no_sanitize("thread")))
DAXCACHE_GUEST_CODE inline std::uint64_t GuestLoad(const std::byte* at) {
  return *reinterpret_cast<const volatile std::uint64_t*>(at);
}
DAXCACHE_GUEST_CODE inline void GuestStore(std::byte* at, std::uint64_t word) {
  *reinterpret_cast<volatile std::uint64_t*>(at) = word;
}
#undef DAXCACHE_GUEST_CODE

struct GuestVmOptions {
  std::uint32_t slots = 64;
  std::uint32_t files = 16;
  std::uint64_t most_ranges = 16;  // of a file
  std::uint64_t seed = 1;
  ReclaimOptions reclaim = ReclaimOptions::Linux();
  // The host repairs faults past the end of a file: so the guest touches what lies there, and files become shorter
  // behind its back.
  bool past_the_end = false;
  bool changes_files = true;
  // One thread, no locks, and the worker runs as replay lets it run: to its end, while the access that kicked it holds
  // its range. What happens is logged.
  bool as_replay = false;
};

// For load: files that are four times as large as the window, or, where that is a large one, larger.
inline GuestVmOptions LoadOptions(std::uint32_t slots) {
  GuestVmOptions options{.slots = slots, .files = std::max(24u, slots / 32)};
  options.most_ranges = std::max<std::uint64_t>(8, slots * (slots > 1024 ? 3ull : 8ull) / options.files);
  return options;
}

class GuestVm {
 public:
  using Win = Window<LinuxPolicy<HashIndex>>;
  using Machine = Guest<Win>;
  using Call = typename Machine::Call;
  using Random = std::mt19937_64;

  GuestVm(const Share& share, Link& link, std::byte* base, const GuestVmOptions& options)
      : share_(share),
        link_(link),
        base_(base),
        options_(options),
        window_({}, {.slots = options.slots, .max_slots = 0}, {}),
        guest_(window_, options.reclaim),
        nodes_(options.files),
        pages_(options.slots),
        worker_([this] { Worker(); }) {}
  GuestVm(const GuestVm&) = delete;
  GuestVm& operator=(const GuestVm&) = delete;
  ~GuestVm() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    kicked_.notify_all();
    worker_.join();
    for (Node& node : nodes_) {
      if (node.fd >= 0) close(node.fd);
    }
  }

  // The nodeids of new files begin here.
  void StartAt(std::uint64_t nodeid) { next_nodeid_ = nodeid; }
  // Wrong bytes are counted there too, for others to see if this process is killed.
  void CountWrongIn(std::atomic<std::uint64_t>* count) { wrong_elsewhere_ = count; }

  void CreateAll() {
    Random random(options_.seed);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const std::unique_lock life(nodes_[i].life);
      CreateFile(i, random);
    }
  }

  // One file more, of this number.
  void AddFile(std::uint32_t i, std::uint64_t nodeid, std::uint64_t bytes) {
    Node& node = nodes_[i];
    node.nodeid = nodeid;
    node.size = bytes;
    node.fd = share_.Create(nodeid, bytes);
    EXPECT_GE(node.fd, 0);
  }
  bool has_file(std::uint32_t i) const { return nodes_[i].fd >= 0; }
  void RemoveFile(std::uint32_t i) {
    const std::unique_lock life(nodes_[i].life);
    DropFile(i);
  }
  // One access. 0, or the error that ended it.
  int Access(const FileRange& range, Op op, Random& random) {
    if (options_.as_replay && window_.Find(range) == kNoSlot) Log(EventKind::kMiss, kNoSlot, range, IsWrite(op));
    const Touch touch{.file = range.file, .op = op};
    return Drive(IsMapped(op) ? guest_.StartFault(range, touch) : guest_.StartCall(range, touch), &random);
  }
  const std::vector<Event>& log() const { return log_; }

  // The nodeids of the files, 0 where there is none: with `Beliefs`, what of a guest is saved with its VMM.
  std::vector<std::uint64_t> Nodes() const {
    std::vector<std::uint64_t> nodeids;
    for (const Node& node : nodes_) nodeids.push_back(node.fd >= 0 ? node.nodeid : 0);
    return nodeids;
  }

  // `accesses` of one thread.
  void Load(int me, std::uint64_t accesses) {
    Random random(options_.seed * 1000 + static_cast<std::uint64_t>(me));
    for (std::uint64_t i = 0; i < accesses; ++i) Access(random);
  }
  // … until so many set-ups have been asked for by all.
  void LoadUntil(int me, std::uint64_t setups) {
    Random random(options_.seed * 1000 + static_cast<std::uint64_t>(me));
    while (setups_.load(std::memory_order_relaxed) < setups) Access(random);
  }

  // … as long as it is to.
  void LoadWhile(int me, const std::atomic<bool>& running) {
    Random random(options_.seed * 1000 + static_cast<std::uint64_t>(me));
    while (running.load(std::memory_order_relaxed)) Access(random);
  }

  // All files go away, and with them all mappings.
  void RemoveAll() {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const std::unique_lock life(nodes_[i].life);
      if (nodes_[i].fd >= 0) DropFile(i);
    }
    WaitForWorker();
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(window_.mapped_slots(), 0u);
    EXPECT_EQ(window_.free_slots(), window_.size());
  }

  // Until it has nothing to do. Between accesses.
  void WaitForWorker() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return options_.as_replay || (!working_ && !kick_); });
  }

  std::uint64_t wrong() const { return wrong_.load(); }
  std::uint64_t checked() const { return checked_.load(); }  // words
  std::uint64_t setups() const { return setups_.load(); }
  std::uint64_t errors() const { return errors_.load(); }    // answers that were one
  std::uint64_t changes() const { return changes_.load(); }  // of files
  std::uint64_t NextUnique() { return unique_.fetch_add(2) + 2; }
  Win& window() { return window_; }

  // What the guest believes is mapped: where, of which file, and whether it may write.
  struct Belief {
    std::uint32_t slot = 0;
    std::uint64_t nodeid = 0;
    std::uint64_t index = 0;
    bool writable = false;
    friend bool operator==(const Belief&, const Belief&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Belief& b) {
      return out << "slot " << b.slot << ": node " << b.nodeid << " range " << b.index << (b.writable ? " rw" : " ro");
    }
  };
  std::vector<Belief> Beliefs() {
    WaitForWorker();
    const std::lock_guard lock(mutex_);
    std::vector<Belief> beliefs;
    for (std::uint32_t i = 0; i < window_.size(); ++i) {
      if (window_.state(SlotId{i}) != SlotState::kMapped) continue;
      const FileRange range = window_.range(SlotId{i});
      beliefs.push_back({i, nodes_[ToIndex(range.file)].nodeid, range.index, window_.writable(SlotId{i})});
    }
    return beliefs;
  }

  // Goes on where another guest was, of the same options.
  void Adopt(std::span<const std::uint64_t> nodeids, std::span<const Belief> beliefs) {
    const std::lock_guard lock(mutex_);
    std::map<std::uint64_t, FileId> files;
    for (std::uint32_t i = 0; i < nodeids.size(); ++i) {
      if (nodeids[i] == 0) continue;
      Node& node = nodes_[i];
      node.nodeid = nodeids[i];
      node.fd = open(share_.Handle(node.nodeid).c_str(), O_RDWR | O_CLOEXEC);
      struct stat status {};
      EXPECT_EQ(fstat(node.fd, &status), 0);
      node.size = static_cast<std::uint64_t>(status.st_size);
      files[node.nodeid] = FileId{i};
      next_nodeid_ = std::max(next_nodeid_.load(), node.nodeid + 1);
    }
    for (const Belief& belief : beliefs) {
      const FileId file = files.at(belief.nodeid);
      const Touch touch{.file = file, .op = belief.writable ? Op::kWrite : Op::kRead};
      const SlotId slot{belief.slot};
      EXPECT_TRUE(window_.BindAt(slot, {file, belief.index}, touch).must_map);
      EXPECT_FALSE(window_.Commit(slot, touch));
    }
  }
  // Every mapping shows its file.
  void CheckAll() {
    Random random(1);
    for (const Belief& belief : Beliefs()) {
      const FileId file = window_.range(SlotId{belief.slot}).file;
      for (int i = 0; i < 8; ++i) Read(nodes_[ToIndex(file)], SlotId{belief.slot}, belief.index, random);
    }
  }

 private:
  // An inode of the guest. Its locks are those of guest.h; the others are this test's.
  struct Node {
    std::shared_mutex life;  // exclusive: the inode comes or goes, and nobody uses it
    std::shared_mutex inode;
    std::shared_mutex invalidate;
    std::shared_mutex dax;
    std::shared_mutex bytes;  // exclusive: the file's bytes or size change, so do not compare
    std::uint64_t nodeid = 0;
    int fd = -1;
    std::uint64_t size = 0;  // as the guest knows it
  };
  // The guest's page tables, a range of them: what is there can be read, or written, without a call.
  struct Pages {
    std::shared_mutex mutex;
    bool present = false;
    bool writable = false;
    FileRange range;
  };

  std::byte* At(SlotId slot, std::uint64_t offset) const { return base_ + ToIndex(slot) * kRange + offset; }

  // --- an access ----------------------------------------------------------------------------------------------------

  void Access(Random& random) {
    const std::uint64_t kind = random() % 1000;
    if (options_.changes_files && kind < 12) return ChangeFile(kind, random);
    if (kind < 250) return Touch_(random);
    const auto file = FileId{static_cast<std::uint32_t>(random() % nodes_.size())};
    Node& node = nodes_[ToIndex(file)];
    const std::shared_lock life(node.life);
    if (node.fd < 0) return;
    const std::uint64_t size = SizeOf(node);
    if (size == 0 && !options_.past_the_end) return;
    const std::uint64_t ranges = size == 0 ? 1 : (size + kRange - 1) / kRange;
    // Some ranges are used more than others.
    const std::uint64_t index = std::min(random() % ranges, random() % ranges);
    const Op op = kind < 500 ? Op::kMappedRead : kind < 600 ? Op::kMappedWrite : kind < 900 ? Op::kRead : Op::kWrite;
    (void)Access({file, index}, op, random);
  }

  static std::uint64_t SizeOf(Node& node) {
    const std::shared_lock bytes(node.bytes);
    return node.size;
  }

  // Loads and stores through page tables that an earlier fault filled: no lock of the guest, and no message.
  void Touch_(Random& random) {
    Pages& pages = pages_[random() % pages_.size()];
    const std::shared_lock lock(pages.mutex);
    if (!pages.present) return;
    const SlotId slot{static_cast<std::uint32_t>(&pages - pages_.data())};
    Node& node = nodes_[ToIndex(pages.range.file)];
    Read(node, slot, pages.range.index, random);
    if (pages.writable && random() % 4 == 0) Write(node, slot, pages.range.index, random);
  }

  void Use(const Action& action, const FileRange& range, bool fault, Random& random) {
    Node& node = nodes_[ToIndex(range.file)];
    if (fault) {
      Pages& pages = pages_[ToIndex(action.slot)];
      const std::unique_lock lock(pages.mutex);
      const bool same = pages.present && pages.range == range;
      pages.writable = action.exclusive || (same && pages.writable);
      pages.present = true;
      pages.range = range;
    }
    Read(node, action.slot, range.index, random);
    if (action.exclusive) Write(node, action.slot, range.index, random);
  }

  // One place of a range, mostly one that bears a mark.
  static std::uint64_t Place(Random& random) {
    const std::uint64_t r = random();
    return (r % 8 == 0 ? r / 8 % (kRange / kPage) : kMarkedPages[r / 8 % kMarkedPages.size()]) * kPage;
  }

  void Read(Node& node, SlotId slot, std::uint64_t index, Random& random) {
    const std::uint64_t place = Place(random);
    const std::uint64_t offset = index * kRange + place;
    std::array<std::uint64_t, kMarkBytes / 8> seen;
    const auto load = [&] {
      for (std::uint64_t i = 0; i < seen.size(); ++i) seen[i] = GuestLoad(At(slot, place + i * 8));
      checked_.fetch_add(seen.size(), std::memory_order_relaxed);
    };
    if (random() % 2 == 0) {
      // While others may write to it, or change its size: a mark of this place, or nothing.
      if (!options_.past_the_end && offset + kMarkBytes > SizeOf(node)) return;
      load();
      for (std::uint64_t i = 0; i < seen.size(); ++i) {
        if (seen[i] != 0 && (seen[i] & ~kCountMask) != MarkAt(node.nodeid, offset + i * 8)) {
          Wrong("load", node, slot, offset + i * 8, seen[i], MarkAt(node.nodeid, offset + i * 8));
        }
      }
      return;
    }
    const std::shared_lock bytes(node.bytes);
    if (!options_.past_the_end && offset + kMarkBytes > node.size) return;
    load();
    std::array<std::uint64_t, kMarkBytes / 8> expected{};  // zeros past the end
    if (pread(node.fd, expected.data(), kMarkBytes, static_cast<off_t>(offset)) < 0)
      Wrong("pread", node, slot, 0, 0, 0);
    for (std::uint64_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != expected[i]) Wrong("read", node, slot, offset + i * 8, seen[i], expected[i]);
    }
  }

  void Write(Node& node, SlotId slot, std::uint64_t index, Random& random) {
    const std::uint64_t place = kMarkedPages[random() % kMarkedPages.size()] * kPage + random() % (kMarkBytes / 8) * 8;
    const std::uint64_t offset = index * kRange + place;
    const std::unique_lock bytes(node.bytes);
    if (offset + 8 > node.size) return;
    const std::uint64_t word = MarkAt(node.nodeid, offset) | (random() & kCountMask);
    GuestStore(At(slot, place), word);
    std::uint64_t got = 0;
    if (pread(node.fd, &got, sizeof got, static_cast<off_t>(offset)) != sizeof got || got != word) {
      Wrong("store", node, slot, offset, got, word);
    }
  }

  void Wrong(const char* what, const Node& node, SlotId slot, std::uint64_t offset, std::uint64_t got,
             std::uint64_t expected) {
    if (wrong_elsewhere_ != nullptr) wrong_elsewhere_->fetch_add(1);
    if (wrong_.fetch_add(1) < 10) {
      std::fprintf(stderr, "%s: node %lu offset %lu slot %u: got %lx, expected %lx\n", what, node.nodeid, offset,
                   ToIndex(slot), got, expected);
    }
  }

  // --- files come and go --------------------------------------------------------------------------------------------

  void ChangeFile(std::uint64_t kind, Random& random) {
    const std::uint32_t i = static_cast<std::uint32_t>(random() % nodes_.size());
    Node& node = nodes_[i];
    changes_.fetch_add(1, std::memory_order_relaxed);
    if (kind < 4) {  // removed, replaced, or created
      const std::unique_lock life(node.life);
      if (node.fd >= 0) DropFile(i);
      if (kind > 0) CreateFile(i, random);
      return;
    }
    const std::shared_lock life(node.life);
    if (node.fd < 0) return;
    if (options_.past_the_end && kind < 6) {  // shorter, behind the guest's back
      const std::unique_lock bytes(node.bytes);
      node.size = random() % (node.size + 1) / 8 * 8;
      Share::Resize(node.nodeid, node.fd, node.size, node.size);
      return;
    }
    // ftruncate(2)
    const std::unique_lock inode(node.inode);
    const std::unique_lock invalidate(node.invalidate);
    ZapFile(FileId{i});
    const std::unique_lock bytes(node.bytes);
    const std::uint64_t size = RandomSize(random);
    // Until it has been done: after an error the daemon may not have told all of its ranges.
    for (int tries = 0;; ++tries) {
      const std::uint64_t unique = NextUnique();
      const int error = link_.Call(unique, SetSizeRequest(unique, node.nodeid, size));
      if (error == 0) break;
      errors_.fetch_add(1);
      if (tries > 1000) {
        Wrong("set size", node, kNoSlot, size, static_cast<std::uint64_t>(-error), 0);
        break;
      }
    }
    node.size = size;
  }

  std::uint64_t RandomSize(Random& random) const {
    const std::uint64_t bytes = random() % (options_.most_ranges * kRange + 1);
    return random() % 4 == 0 ? bytes / kRange * kRange : bytes / 8 * 8;
  }

  void CreateFile(std::uint32_t i, Random& random) {
    Node& node = nodes_[i];
    node.nodeid = next_nodeid_.fetch_add(1);
    node.size = RandomSize(random);
    node.fd = share_.Create(node.nodeid, node.size);
    if (node.fd < 0) Wrong("create", node, kNoSlot, 0, static_cast<std::uint64_t>(-node.fd), 0);
  }

  // The last name and the last reference go away.
  void DropFile(std::uint32_t i) {
    Node& node = nodes_[i];
    ZapFile(FileId{i});
    (void)Drive(guest_.StartEviction(FileId{i}), nullptr);
    link_.Post(ForgetRequest(NextUnique(), node.nodeid, 1));
    share_.Remove(node.nodeid);
    close(std::exchange(node.fd, -1));
  }

  void ZapFile(FileId file) {
    for (Pages& pages : pages_) {
      const std::unique_lock lock(pages.mutex);
      if (pages.present && pages.range.file == file) pages.present = false;
    }
  }

  // --- the protocol -------------------------------------------------------------------------------------------------

  std::shared_mutex& LockOf(Lock lock, FileId file) {
    Node& node = nodes_[ToIndex(file)];
    switch (lock) {
      case Lock::kInode: return node.inode;
      case Lock::kInvalidate: return node.invalidate;
      case Lock::kDax: return node.dax;
      case Lock::kEntry: break;
    }
    return node.inode;  // an entry's lock is another one
  }
  std::mutex& EntryOf(const FileRange& range) {
    return entries_[internal::Mix(range.index * 64 + ToIndex(range.file)) % entries_.size()];
  }
  void DoLock(const Action& action, const FileRange& range, bool take) {
    if (action.lock == Lock::kEntry) {
      return take ? EntryOf(range).lock() : EntryOf(range).unlock();
    }
    std::shared_mutex& mutex = LockOf(action.lock, action.file);
    if (take) {
      action.exclusive ? mutex.lock() : mutex.lock_shared();
    } else {
      action.exclusive ? mutex.unlock() : mutex.unlock_shared();
    }
  }

  // Does what the state machine asks for, to the end of the call. The machine itself is under one mutex; everything it
  // asks for is done without.
  int Drive(Call call, Random* random) {
    std::unique_lock lock(mutex_);
    int error = 0;
    bool mapped = false;
    for (;;) {
      const Action action = guest_.Next(call, error);
      error = 0;
      const FileRange key = call.key();
      switch (action.step) {
        case Step::kDone: return action.error;
        case Step::kLock:
        case Step::kUnlock:
          if (options_.as_replay) break;
          lock.unlock();
          DoLock(action, key, action.step == Step::kLock);
          lock.lock();
          break;
        case Step::kSetup:
        case Step::kUpgrade: {
          const FileRange range = window_.range(action.slot);
          mapped = true;
          Log(action.step == Step::kSetup ? EventKind::kSetup : EventKind::kUpgrade, action.slot, range,
              action.exclusive);
          lock.unlock();
          error = SendSetUp(action.slot, range, action.exclusive);
          lock.lock();
          break;
        }
        case Step::kRemove: {
          std::vector<FuseRemoveMappingEntry> entries;
          SlotId slot = action.slot;
          for (std::uint32_t i = 0; i < action.count; ++i, slot = guest_.NextInBatch(slot)) {
            entries.push_back({.moffset = ToIndex(slot) * kRange, .len = kRange});
            Log(EventKind::kRemove, slot, window_.range(slot), false, action.cause);
          }
          lock.unlock();
          const std::uint64_t unique = NextUnique();
          error = link_.Call(unique, RemoveMappingRequest(unique, 1, entries));
          if (error != 0) errors_.fetch_add(1);
          lock.lock();
          break;
        }
        case Step::kZap: {
          lock.unlock();
          Pages& pages = pages_[ToIndex(action.slot)];
          {
            const std::unique_lock zapping(pages.mutex);
            if (pages.range.file == action.file) pages.present = false;
          }
          lock.lock();
          break;
        }
        case Step::kUse:
          if (options_.as_replay) {
            if (!mapped) Log(EventKind::kHit, action.slot, key, action.exclusive);
            if (mapped && kick_) RunWorker(lock);
          }
          lock.unlock();
          Use(action, key, IsMapped(call.touch().op), *random);
          lock.lock();
          break;
        case Step::kUseDirect: break;
        case Step::kWaitForRange:
          if (options_.as_replay) {
            RunWorker(lock);
          } else {
            (action.exclusive ? calls_ : faults_).wait(lock);
          }
          break;
        case Step::kFreed:
          if (action.cause != Cause::kNone) {
            Log(EventKind::kReclaim, action.slot, window_.range(action.slot), false, action.cause);
          }
          if (!action.wake) break;
          faults_.notify_all();
          calls_.notify_one();
          break;
        case Step::kKickWorker:
          kick_at_ = Clock::now() + std::chrono::nanoseconds(action.delay_ns);
          kick_ = true;
          kicked_.notify_all();
          break;
        case Step::kTryAgain:
          lock.unlock();
          std::this_thread::yield();
          lock.lock();
          break;
      }
    }
  }

  void Log(EventKind kind, SlotId slot, const FileRange& range, bool write, Cause cause = Cause::kNone) {
    if (!options_.as_replay) return;
    log_.push_back({.kind = kind, .cause = cause, .write = write, .slot = slot, .range = range});
  }
  // As long as it queues itself again, and gets on.
  void RunWorker(std::unique_lock<std::mutex>& lock) {
    for (bool freed = true; freed;) {
      const std::uint32_t before = window_.free_slots();
      kick_ = false;
      Call call = guest_.StartWorker();
      lock.unlock();
      (void)Drive(call, nullptr);
      lock.lock();
      freed = kick_ && window_.free_slots() > before;
    }
  }

  int SendSetUp(SlotId slot, const FileRange& range, bool writable) {
    const std::uint64_t unique = NextUnique();
    setups_.fetch_add(1, std::memory_order_relaxed);
    const int error =
        link_.Call(unique, SetupMappingRequest(unique, nodes_[ToIndex(range.file)].nodeid,
                                               {.foffset = range.index * kRange,
                                                .len = kRange,
                                                .flags = kSetupMappingRead | (writable ? kSetupMappingWrite : 0),
                                                .moffset = ToIndex(slot) * kRange}));
    if (error != 0) errors_.fetch_add(1);
    return error;
  }

  void Worker() {
    std::unique_lock lock(mutex_);
    for (;;) {
      kicked_.wait(lock, [this] { return over_ || (kick_ && !options_.as_replay); });
      if (over_) return;
      if (const auto at = kick_at_; Clock::now() < at) {
        kicked_.wait_until(lock, at);
        continue;
      }
      kick_ = false;
      working_ = true;
      Call call = guest_.StartWorker();
      lock.unlock();
      (void)Drive(call, nullptr);
      lock.lock();
      working_ = false;
      idle_.notify_all();
    }
  }

  using Clock = std::chrono::steady_clock;

  const Share& share_;
  Link& link_;
  std::byte* base_;
  const GuestVmOptions options_;

  std::mutex mutex_;  // of the machine
  Win window_;
  Machine guest_;
  std::condition_variable faults_;
  std::condition_variable calls_;
  std::condition_variable kicked_;
  std::condition_variable idle_;
  std::vector<Event> log_;
  bool kick_ = false;
  bool working_ = false;
  bool over_ = false;
  Clock::time_point kick_at_;

  std::vector<Node> nodes_;
  std::vector<Pages> pages_;
  std::array<std::mutex, 64> entries_;
  std::atomic<std::uint64_t> next_nodeid_{2};
  std::atomic<std::uint64_t> unique_{0};
  std::atomic<std::uint64_t> setups_{0};
  std::atomic<std::uint64_t> checked_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<std::uint64_t>* wrong_elsewhere_ = nullptr;
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace daxcache::testing_
