// A share: a folder of real files, as the daemon and the guest see it. The guest names a file by its nodeid, and the
// daemon opens it by that, as if by a file handle: so a daemon that was killed and started again finds it too, and a
// file that another one has taken the name of is still found. Each range of a file bears marks of which one can tell
// which file and offset they are of.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/file_table.h"
#include "daxcache/fuse.h"
#include "daxcache/fuse_wire.h"
#include "daxcache/range_index.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kRange = 2 << 20;

// Words that are a mark: of the file and the offset, with a count of writes in the lowest bits.
inline constexpr std::uint64_t kCountMask = 0xffff;
inline std::uint64_t MarkAt(std::uint64_t nodeid, std::uint64_t offset) {
  return (internal::Mix((nodeid << 44) + offset + 1) | 1ull << 63) & ~kCountMask;
}
// Where in each range the marks are: eight words at the beginning of these pages.
inline constexpr std::array<std::uint64_t, 3> kMarkedPages = {0, 1, 300};
inline constexpr std::uint64_t kMarkBytes = 64;

class Share {
 public:
  explicit Share(std::string folder) : folder_(std::move(folder)) {}

  std::string Handle(std::uint64_t nodeid) const { return folder_ + "/" + std::to_string(nodeid); }
  static FileIdentity Identity(std::uint64_t nodeid) { return {nodeid, 0, 0}; }

  // A new file with its marks, as a descriptor, or a negative errno.
  int Create(std::uint64_t nodeid, std::uint64_t bytes) const {
    const int fd = open(Handle(nodeid).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    Resize(nodeid, fd, 0, bytes);
    return fd;
  }
  // Makes a file shorter or longer, with marks where it grows.
  static void Resize(std::uint64_t nodeid, int fd, std::uint64_t before, std::uint64_t bytes) {
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    for (std::uint64_t range = before / kRange * kRange; range < bytes; range += kRange) {
      for (const std::uint64_t page : kMarkedPages) {
        const std::uint64_t at = range + page * kPage;
        if (at + kMarkBytes <= before || at + kMarkBytes > bytes) continue;
        std::array<std::uint64_t, kMarkBytes / 8> words;
        for (std::uint64_t i = 0; i < words.size(); ++i) words[i] = MarkAt(nodeid, at + i * 8);
        EXPECT_EQ(pwrite(fd, words.data(), kMarkBytes, static_cast<off_t>(at)), static_cast<ssize_t>(kMarkBytes));
      }
    }
  }
  void Remove(std::uint64_t nodeid) const { EXPECT_EQ(unlink(Handle(nodeid).c_str()), 0); }

 private:
  std::string folder_;
};

// What a guest sends when a file is to have another size, and the daemon's answer to it.
inline std::vector<std::byte> SetSizeRequest(std::uint64_t unique, std::uint64_t nodeid, std::uint64_t size) {
  auto bytes = internal::BeginRequest(FuseOpcode::kSetattr, unique, nodeid, sizeof(fuse_setattr_in));
  fuse_setattr_in body{};
  body.valid = FATTR_SIZE;
  body.size = size;
  bytes.resize(bytes.size() + sizeof body);
  std::memcpy(bytes.data() + bytes.size() - sizeof body, &body, sizeof body);
  return bytes;
}

// What the daemon in these tests does with nodeids, and with the messages that are not for the adapter. Any number of
// threads.
class Files {
 public:
  explicit Files(const Share& share) : share_(share) {}

  Resolved Resolve(std::uint64_t nodeid, bool writable) {
    if (on_resolve) {
      if (const int error = on_resolve(nodeid); error != 0) return {.error = error};
    }
    const int fd = open(share_.Handle(nodeid).c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) return {.error = -errno};
    struct stat status {};
    const int error = fstat(fd, &status) == 0 ? 0 : -errno;
    return {.error = error,
            .fd = fd,
            .owned = true,
            .identity = Share::Identity(nodeid),
            .size = status.st_size,
            .writable_allowed = true};
  }
  // The guests of these tests look a file up once.
  void Forget(std::uint64_t nodeid, std::uint64_t /*count*/) {
    if (on_forget) on_forget(nodeid);
  }
  // For `Recover` and `Restore`.
  int Open(const FileIdentity& identity, bool writable, bool* to_close) const {
    const int fd = open(share_.Handle(identity[0]).c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    *to_close = fd >= 0;
    return fd >= 0 ? fd : -errno;
  }

  std::function<int(std::uint64_t)> on_resolve;  // before anything else; an error is the answer
  std::function<void(std::uint64_t)> on_forget;  // no reference is left

 private:
  const Share& share_;
};

// A whole daemon over an allocator: what is for the adapter goes there, and SETATTR changes the size of a file.
template <class Allocator>
class Daemon {
 public:
  Daemon(Allocator& allocator, const Share& share) : files_(share), allocator_(allocator), adapter_(allocator, files_) {
    files_.on_forget = [this](std::uint64_t nodeid) {
      if (adapter_.Evict(Share::Identity(nodeid)) != 0) failed_evictions_.fetch_add(1);
    };
  }
  static constexpr std::size_t kReplyBytes = FuseOutHeader::kBytes;

  // As FuseAdapter::Handle.
  std::ptrdiff_t Handle(std::span<const std::byte> request, std::span<std::byte, kReplyBytes> reply) {
    if (request.size() >= FuseInHeader::kBytes + sizeof(fuse_setattr_in)) {
      const auto header = Decode<FuseInHeader>(request.first<FuseInHeader::kBytes>());
      if (header.opcode == static_cast<std::uint32_t>(FuseOpcode::kSetattr)) {
        fuse_setattr_in body{};
        std::memcpy(&body, request.data() + FuseInHeader::kBytes, sizeof body);
        Encode(FuseOutHeader{.len = kReplyBytes, .error = SetSize(header.nodeid, body.size), .unique = header.unique},
               reply);
        return kReplyBytes;
      }
    }
    return adapter_.Handle(request, reply);
  }

  Files& files() { return files_; }
  FuseAdapter<Allocator, Files>& adapter() { return adapter_; }
  std::uint64_t failed_evictions() const { return failed_evictions_.load(); }

 private:
  int SetSize(std::uint64_t nodeid, std::uint64_t size) {
    bool to_close = false;
    const int fd = files_.Open(Share::Identity(nodeid), true, &to_close);
    if (fd < 0) return fd;
    struct stat status {};
    int error = fstat(fd, &status) == 0 ? 0 : -errno;
    if (error == 0) {
      Share::Resize(nodeid, fd, static_cast<std::uint64_t>(status.st_size), size);
      const FileId file = allocator_.files().Find(Share::Identity(nodeid));
      // After an error a range may still show zeros where the file has bytes now: the guest sends this again.
      if (file != kNoFile) error = allocator_.OnSizeChanged(file, size, fd);
    }
    close(fd);
    return error;
  }

  Files files_;
  Allocator& allocator_;
  FuseAdapter<Allocator, Files> adapter_;
  std::atomic<std::uint64_t> failed_evictions_{0};
};

}  // namespace daxcache::testing_
