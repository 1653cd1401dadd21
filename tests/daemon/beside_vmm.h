// The arrangement of virtiofsd: the daemon is a process beside the VMM. FUSE messages go over one socket; over a second
// one the daemon asks the VMM to map, by the bytes of ShmemBackend with the file's descriptor beside them, and the VMM
// maps and answers. The VMM and its guest live in the test's process and outlive any number of daemons: one that dies
// is started again, recovers from the journal that the VMM holds, and is sent again what was never answered.
//
// Daemons are children of a supervisor, which is forked before there are threads and forks no other way. It dies with
// the test, and they with it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/guest_vm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "daxcache/allocator.h"
#include "daxcache/journal.h"
#include "daxcache/policies/linux.h"
#include "daxcache/shmem_backend.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

// --- sockets: each message whole, or not at all ----------------------------------------------------------------------

struct SocketPair {
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0); }
  int ends[2] = {-1, -1};
};

// 0, or a negative errno. `fds` go with it.
inline int SendMessage(int socket, std::span<const std::byte> bytes, std::span<const int> fds = {}) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return -errno;
  }
}

// Its length; 0 when the other side is gone, and all that it sent has been received.
inline std::size_t ReceiveMessage(int socket, std::span<std::byte> bytes, std::vector<int>* fds = nullptr) {
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  for (;;) {
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;  // what has arrived before comes after that
    if (got <= 0) return 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        fds != nullptr ? fds->push_back(fd) : void(close(fd));
      }
    }
    return static_cast<std::size_t>(got);
  }
}

// --- what VMM and daemons share --------------------------------------------------------------------------------------

// Where a daemon can be made to die.
enum class DeathAt : std::uint32_t {
  kNowhere,
  kBeforeIntent,  // the request has arrived
  kAfterIntent,   // the journal has the intent, the VMM nothing
  kAfterSend,     // the VMM has the message
  kBeforeResult,  // the VMM has answered, the journal has no result
  kBeforeReply,   // all is done, the guest has no reply
};
inline constexpr std::uint32_t kDeaths = 6;

// An event as the daemon's allocator told of it, with the file's nodeid.
struct DaemonEvent {
  EventKind kind = EventKind::kHit;
  bool write = false;
  std::uint32_t slot = 0;
  std::uint64_t nodeid = 0;
  std::uint64_t index = 0;
  friend bool operator==(const DaemonEvent&, const DaemonEvent&) = default;
};

// In memory that all map. Behind it: the journal.
struct alignas(64) Board {
  static constexpr std::uint32_t kEvents = 1 << 16;
  std::atomic<std::uint32_t> death{0};
  std::atomic<std::int32_t> calls_left{0};
  std::atomic<std::uint32_t> recovered{0};  // mappings found in the journal, by the last daemon
  std::atomic<std::uint32_t> events{0};
  std::array<DaemonEvent, kEvents> log;

  void Die(DeathAt at) {
    if (death.load() != static_cast<std::uint32_t>(at) || calls_left.fetch_sub(1) != 1) return;
    death = 0;
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
};

// --- the daemon ------------------------------------------------------------------------------------------------------

// The channel to the VMM: one message at a time, as vhost-user's has no numbers to tell answers apart.
class ShmemChannel {
 public:
  ShmemChannel(int socket, Board& board) : socket_(socket), board_(board) {}
  int Send(std::span<const std::byte, ShmemMessage::kBytes> message, int fd) {
    const std::lock_guard lock(mutex_);
    board_.Die(DeathAt::kAfterIntent);
    if (const int error = SendMessage(socket_, message, std::span<const int>(&fd, fd >= 0 ? 1 : 0)); error != 0) {
      return error;
    }
    board_.Die(DeathAt::kAfterSend);
    std::array<std::byte, ShmemMessage::kHeaderBytes + 8> reply{};
    if (ReceiveMessage(socket_, reply) != reply.size()) return -EPIPE;
    board_.Die(DeathAt::kBeforeResult);
    const auto error = LoadLittleEndian<std::uint64_t>(std::span<const std::byte>(reply).last<8>());
    return -static_cast<int>(error);
  }

 private:
  int socket_;
  Board& board_;
  std::mutex mutex_;
};
struct SendToVmm {
  ShmemChannel* channel;
  int operator()(std::span<const std::byte, ShmemMessage::kBytes> message, int fd) const {
    return channel->Send(message, fd);
  }
};
using BesideAllocator = MappingAllocator<LinuxPolicy<HashIndex>, ShmemBackend<SendToVmm>>;

struct BesideOptions {
  AllocatorOptions allocator = {};
  int daemon_threads = 4;
  bool log_events = false;
};

// A daemon's life, from its start to the end of its socket. Its exit status.
inline int RunDaemon(const Share& share, const BesideOptions& with, Board& board, Journal journal, int fuse,
                     int shmem) {
  struct Log {
    Board& board;
    FileTable* files = nullptr;
  } log{board};
  ShmemChannel channel(shmem, board);
  AllocatorOptions options = with.allocator;
  options.journal = &journal;
  options.map_count.budget = 1 << 20;  // the VMM's
  if (with.log_events) {
    options.event_context = &log;
    options.on_event = [](void* context, const Event& event) {
      Log& to = *static_cast<Log*>(context);
      const std::uint32_t at = to.board.events.load();
      if (at == Board::kEvents) return;
      to.board.log[at] = {event.kind, event.write, ToIndex(event.slot), to.files->identity(event.range.file)[0],
                          event.range.index};
      to.board.events = at + 1;
    };
  }
  auto allocator = BesideAllocator::Create(options, {}, ShmemBackend(SendToVmm{&channel}));
  if (!allocator.ok()) {
    std::fprintf(stderr, "daemon: %s\n", allocator.status().ToString().c_str());
    return 1;
  }
  log.files = &(*allocator)->files();
  Daemon<BesideAllocator> daemon(**allocator, share);
  // Files that were removed just when the last daemon died cannot be opened any more, and nobody asks for them.
  const absl::Status status =
      (*allocator)->Recover(journal, true, [&](const FileIdentity& file, bool writable, bool* to_close) {
        return daemon.files().Open(file, writable, to_close);
      });
  if (!status.ok() && status.code() != absl::StatusCode::kUnavailable) {
    std::fprintf(stderr, "daemon: %s\n", status.ToString().c_str());
    return 1;
  }
  board.recovered = static_cast<std::uint32_t>((*allocator)->Mappings().size());
  const auto serve = [&] {
    std::vector<std::byte> request(1 << 16);
    std::array<std::byte, FuseOutHeader::kBytes> reply;
    while (const std::size_t length = ReceiveMessage(fuse, request)) {
      board.Die(DeathAt::kBeforeIntent);
      const std::ptrdiff_t bytes = daemon.Handle(std::span(request).first(length), reply);
      board.Die(DeathAt::kBeforeReply);
      if (bytes > 0) (void)SendMessage(fuse, std::span(reply).first(static_cast<std::size_t>(bytes)));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < with.daemon_threads; ++i) threads.emplace_back(serve);
  for (std::thread& thread : threads) thread.join();
  const absl::Status invariants = (*allocator)->CheckInvariants();
  if (!invariants.ok()) std::fprintf(stderr, "daemon: %s\n", invariants.ToString().c_str());
  return invariants.ok() && !testing::Test::HasFailure() ? 0 : 1;
}

// --- the VMM ---------------------------------------------------------------------------------------------------------

// A load or store that finds nothing mapped waits until something is: an upgrade over vhost-user takes the mapping away
// before it puts the new one there, and the daemon may die in between. A VMM does the same by entering the guest again.
class GapHandler {
 public:
  GapHandler(const std::byte* base, std::uint64_t bytes) {
    base_ = base;
    bytes_ = bytes;
    gaps_ = 0;
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  GapHandler(const GapHandler&) = delete;
  GapHandler& operator=(const GapHandler&) = delete;
  ~GapHandler() { sigaction(SIGSEGV, &before_, nullptr); }
  static std::uint64_t gaps() { return gaps_.load(); }

 private:
  static void OnFault(int number, siginfo_t* info, void*) {
    static thread_local const void* last = nullptr;
    static thread_local int tries = 0;
    const auto* const at = static_cast<const std::byte*>(info->si_addr);
    tries = last == at ? tries + 1 : 0;
    last = at;
    gaps_.fetch_add(1);
    if (at < base_.load() || at >= base_.load() + bytes_.load() || tries > 100'000) {
      signal(number, SIG_DFL);  // and the access ends the test
      return;
    }
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  static inline std::atomic<const std::byte*> base_{nullptr};
  static inline std::atomic<std::uint64_t> bytes_{0};
  static inline std::atomic<std::uint64_t> gaps_{0};
  struct sigaction before_ {};
};

class BesideVmm final : public Link {
 public:
  // Before there are threads.
  BesideVmm(const Share& share, const BesideOptions& options)
      : options_(options),
        bytes_(options.allocator.window.bytes()),
        base_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        handler_(base_, bytes_) {
    EXPECT_NE(static_cast<void*>(base_), MAP_FAILED);
    const JournalGeometry geometry{.slots = static_cast<std::uint32_t>(bytes_ / kRange), .extents = 256};
    board_bytes_ = sizeof(Board) + Journal::Bytes(geometry);
    memory_ = memfd_create("journal", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(memory_, static_cast<off_t>(board_bytes_)), 0);
    void* const memory = mmap(nullptr, board_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
    EXPECT_NE(memory, MAP_FAILED);
    board_ = new (memory) Board;
    const std::span journal(static_cast<std::byte*>(memory) + sizeof(Board), Journal::Bytes(geometry));
    EXPECT_TRUE(Journal::Create(journal, geometry).ok());
    const SocketPair control;
    supervisor_ = fork();
    if (supervisor_ == 0) {
      dup2(control.ends[1], 3);
      TempFolder::CloseFrom(4);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Supervise(share, geometry, journal);
    }
    close(control.ends[1]);
    control_ = control.ends[0];
    StartDaemon();
    receiver_ = std::thread([this] { Receive(); });
    mapper_ = std::thread([this] { ServeMaps(); });
  }
  BesideVmm(const BesideVmm&) = delete;
  BesideVmm& operator=(const BesideVmm&) = delete;
  ~BesideVmm() {
    if (!stopped_) (void)Stop();
    munmap(board_, board_bytes_);
    munmap(base_, bytes_);
    close(memory_);
  }

  // Closes the daemon's socket, and waits for it and all. True: it ended well.
  bool Stop() {
    stopped_ = true;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      shutdown(fuse_, SHUT_WR);
    }
    receiver_.join();
    mapper_.join();
    close(fuse_);
    close(control_);
    int status = 0;
    while (waitpid(supervisor_, &status, 0) < 0 && errno == EINTR) {
    }
    return last_status_ == 0 && status == 0;
  }

  int Call(std::uint64_t unique, std::span<const std::byte> request) override {
    Request waiting{.bytes = {request.begin(), request.end()}};
    std::unique_lock lock(mutex_);
    waiting_[unique] = &waiting;
    (void)SendMessage(fuse_, request);  // if the daemon is dead, the next one gets it
    answered_.wait(lock, [&] { return waiting.answered; });
    return waiting.error;
  }
  void Post(std::span<const std::byte> request) override {
    const std::lock_guard lock(mutex_);
    if (SendMessage(fuse_, request) != 0) posts_.emplace_back(request.begin(), request.end());
  }

  // The daemon dies at the `calls`-th time that it comes to this place; or at once, wherever it is.
  void Kill(DeathAt at, std::int32_t calls) {
    board_->calls_left = calls;
    board_->death = static_cast<std::uint32_t>(at);
  }
  void KillNow() { Command('K'); }
  // Waits until so many daemons have been started. False: that takes too long.
  bool WaitForStarts(std::uint64_t starts) {
    std::unique_lock lock(mutex_);
    return answered_.wait_for(lock, std::chrono::seconds(60), [&] { return starts_ >= starts; });
  }

  std::byte* base() const { return base_; }
  Board& board() { return *board_; }
  pid_t daemon() const { return daemon_.load(); }
  std::uint64_t starts() {
    const std::lock_guard lock(mutex_);
    return starts_;
  }
  std::uint64_t resent() {
    const std::lock_guard lock(mutex_);
    return resent_;
  }
  std::size_t mappings() {
    const std::lock_guard lock(maps_mutex_);
    return maps_.size();
  }
  // What the VMM answers to one message in so many, without doing it.
  void FailOneIn(std::uint32_t one_in, std::vector<int> errors) {
    const std::lock_guard lock(maps_mutex_);
    fail_one_in_ = one_in;
    fail_with_ = std::move(errors);
  }
  std::uint64_t failed() {
    const std::lock_guard lock(maps_mutex_);
    return failed_;
  }
  // Messages that were none, or not allowed: maps over maps, unmaps that are not exact.
  std::uint64_t refused() {
    const std::lock_guard lock(maps_mutex_);
    return refused_;
  }

 private:
  struct Request {
    std::vector<std::byte> bytes;
    bool answered = false;
    int error = 0;
  };

  // --- the supervisor: a process without threads ---------------------------------------------------------------------

  [[noreturn]] void Supervise(const Share& share, const JournalGeometry& geometry, std::span<std::byte> journal) {
    pid_t daemon = -1;
    for (;;) {
      std::array<std::byte, 1> command;
      std::vector<int> fds;
      if (ReceiveMessage(3, command, &fds) == 0) {
        if (daemon > 0) kill(daemon, SIGKILL), waitpid(daemon, nullptr, 0);
        _exit(0);
      }
      int answer = 0;
      switch (static_cast<char>(command[0])) {
        case 'S':
          daemon = fork();
          if (daemon == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            signal(SIGSEGV, SIG_DFL);
            dup2(fds[0], 10);  // 3 is the supervisor's
            dup2(fds[1], 11);
            dup2(10, 3);
            dup2(11, 4);
            TempFolder::CloseFrom(5);
            auto left = Journal::Open(journal, geometry);
            if (!left.ok()) _exit(2);
            _exit(RunDaemon(share, options_, *board_, *left, 3, 4));
          }
          for (const int fd : fds) close(fd);
          answer = daemon;
          break;
        case 'K':
          if (daemon > 0) kill(daemon, SIGKILL);
          continue;
        default:
          if (daemon > 0) waitpid(daemon, &answer, 0);
          daemon = -1;
      }
      (void)SendMessage(3, std::as_bytes(std::span(&answer, 1)));
    }
  }
  int Command(char what, std::span<const int> fds = {}) {
    const std::lock_guard lock(control_mutex_);
    const std::byte command{static_cast<unsigned char>(what)};
    EXPECT_EQ(SendMessage(control_, {&command, 1}, fds), 0);
    if (what == 'K') return 0;
    int answer = -1;
    EXPECT_EQ(ReceiveMessage(control_, std::as_writable_bytes(std::span(&answer, 1))), sizeof answer);
    return answer;
  }

  // --- FUSE ----------------------------------------------------------------------------------------------------------

  // With sockets of its own: nothing of the last one's is left in them.
  void StartDaemon() {
    const SocketPair fuse;
    const SocketPair shmem;
    const int fds[] = {fuse.ends[1], shmem.ends[1]};
    {
      const std::lock_guard lock(maps_mutex_);
      shmem_ = shmem.ends[0];
    }
    shmem_changed_.notify_all();
    daemon_ = Command('S', fds);
    EXPECT_GT(daemon_.load(), 0);
    for (const int fd : fds) close(fd);
    const std::lock_guard lock(mutex_);
    if (fuse_ >= 0) close(fuse_);
    fuse_ = fuse.ends[0];
    ++starts_;
    for (const auto& [unique, request] : waiting_) {
      ++resent_;
      (void)SendMessage(fuse_, request->bytes);
    }
    for (const auto& post : posts_) (void)SendMessage(fuse_, post);
    posts_.clear();
    if (stopping_) shutdown(fuse_, SHUT_WR);
    answered_.notify_all();
  }

  void Receive() {
    for (;;) {
      std::array<std::byte, 1 << 10> reply;
      const std::size_t length = ReceiveMessage(fuse_, reply);
      if (length == 0) {
        last_status_ = Command('W');
        // The VMM does, or does not do, what the dead one has asked for, before it talks to another.
        std::unique_lock maps(maps_mutex_);
        shmem_changed_.wait(maps, [this] { return shmem_ < 0; });
        maps.unlock();
        {
          const std::lock_guard lock(mutex_);
          if (stopping_ && waiting_.empty()) break;
        }
        StartDaemon();
        continue;
      }
      EXPECT_EQ(length, FuseOutHeader::kBytes);
      const auto header = Decode<FuseOutHeader>(std::span<const std::byte>(reply).first<FuseOutHeader::kBytes>());
      const std::lock_guard lock(mutex_);
      const auto at = waiting_.find(header.unique);
      EXPECT_NE(at, waiting_.end());
      if (at == waiting_.end()) continue;
      at->second->error = header.error;
      at->second->answered = true;
      waiting_.erase(at);
      answered_.notify_all();
    }
    {
      const std::lock_guard lock(maps_mutex_);
      over_ = true;
    }
    shmem_changed_.notify_all();
  }

  // --- SHMEM ---------------------------------------------------------------------------------------------------------

  void ServeMaps() {
    std::mt19937 random(7);
    for (;;) {
      int socket = -1;
      {
        std::unique_lock lock(maps_mutex_);
        shmem_changed_.wait(lock, [this] { return shmem_ >= 0 || over_; });
        if (over_) return;
        socket = shmem_;
      }
      for (;;) {
        std::array<std::byte, 256> bytes;
        std::vector<int> fds;
        const std::size_t length = ReceiveMessage(socket, bytes, &fds);
        if (length == 0) break;
        // A daemon that hangs up: what it asked for last may still be done, or not.
        pollfd hang_up{.fd = socket, .events = 0, .revents = 0};
        const bool gone = poll(&hang_up, 1, 0) == 1 && random() % 2 == 0;
        const int error = gone ? 0 : DoMap(std::span(bytes).first(length), fds, random);
        for (const int fd : fds) close(fd);
        std::array<std::byte, ShmemMessage::kHeaderBytes + 8> reply{};
        std::memcpy(reply.data(), bytes.data(), 4);
        StoreLittleEndian<std::uint32_t>(ShmemMessage::kVersion | 1 << 2, std::span(reply).subspan<4, 4>());
        StoreLittleEndian<std::uint32_t>(8, std::span(reply).subspan<8, 4>());
        StoreLittleEndian<std::uint64_t>(static_cast<std::uint64_t>(-error), std::span(reply).last<8>());
        (void)SendMessage(socket, reply);
      }
      close(socket);
      {
        const std::lock_guard lock(maps_mutex_);
        shmem_ = -1;
      }
      shmem_changed_.notify_all();
    }
  }

  int DoMap(std::span<const std::byte> bytes, std::span<const int> fds, std::mt19937& random) {
    const std::lock_guard lock(maps_mutex_);
    const auto refuse = [&](int error) {
      ++refused_;
      return error;
    };
    ShmemMessage message;
    if (ShmemMessage::Decode(bytes, &message) != 0) return refuse(-EPROTO);
    if (message.shm_offset > bytes_ || message.length > bytes_ - message.shm_offset) return refuse(-ERANGE);
    const bool map = message.request == static_cast<std::uint32_t>(ShmemOp::kMap);
    if (map != (fds.size() == 1)) return refuse(-EPROTO);
    if (fail_one_in_ > 0 && random() % fail_one_in_ == 0) {
      ++failed_;
      return -fail_with_[random() % fail_with_.size()];
    }
    std::byte* const at = base_ + message.shm_offset;
    if (!map) {
      const auto held = maps_.find(message.shm_offset);
      if (held == maps_.end() || held->second != message.length) return refuse(-ENOENT);
      if (mmap(at, message.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
          MAP_FAILED) {
        return -errno;
      }
      maps_.erase(held);
      return 0;
    }
    const auto after = maps_.lower_bound(message.shm_offset);
    if (after != maps_.end() && after->first < message.shm_offset + message.length) return refuse(-EEXIST);
    if (after != maps_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second > message.shm_offset) return refuse(-EEXIST);
    }
    if (mmap(at, message.length, PROT_READ | (message.writable ? PROT_WRITE : 0), MAP_SHARED | MAP_FIXED, fds[0],
             static_cast<off_t>(message.fd_offset)) == MAP_FAILED) {
      return -errno;
    }
    maps_[message.shm_offset] = message.length;
    return 0;
  }

  const BesideOptions options_;
  std::uint64_t bytes_;
  std::byte* base_;
  GapHandler handler_;
  int memory_ = -1;
  std::size_t board_bytes_ = 0;
  Board* board_ = nullptr;
  pid_t supervisor_ = -1;
  std::mutex control_mutex_;
  int control_ = -1;
  std::atomic<pid_t> daemon_{-1};
  bool stopped_ = false;
  int last_status_ = 0;

  std::mutex mutex_;
  std::condition_variable answered_;
  int fuse_ = -1;  // changed by the receiver alone
  std::map<std::uint64_t, Request*> waiting_;
  std::vector<std::vector<std::byte>> posts_;
  std::uint64_t starts_ = 0;
  std::uint64_t resent_ = 0;
  bool stopping_ = false;

  std::mutex maps_mutex_;
  std::condition_variable shmem_changed_;
  int shmem_ = -1;
  bool over_ = false;
  std::map<std::uint64_t, std::uint64_t> maps_;  // offset → length
  std::uint32_t fail_one_in_ = 0;
  std::vector<int> fail_with_;
  std::uint64_t failed_ = 0;
  std::uint64_t refused_ = 0;
  std::thread receiver_;
  std::thread mapper_;
};

}  // namespace daxcache::testing_
