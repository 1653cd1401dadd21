// The window of a VMM in another process, reached by vhost-user messages (vhost-user.rst, QEMU 11.1 and later): the
// daemon sends SHMEM_MAP with the file's descriptor, and SHMEM_UNMAP, over its backend request channel, and the VMM
// maps. This is the messages' bytes; how they travel is the caller's.
//
//   ShmemBackend backend([&](std::span<const std::byte, ShmemMessage::kBytes> bytes, int fd) {
//     …sendmsg of the bytes and, if it is not -1, of fd; wait for the reply…
//     return reply;                                        // 0, or a negative errno
//   }, {.shmid = 0});
//
// There a map over an existing mapping fails, and an unmap names one whole mapping; so `kMapsOver` is false, and the
// allocator turns an upgrade into an unmap and a map. `Send` is called by many threads at once.
#pragma once

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "daxcache/mapping_backend.h"

namespace daxcache {
inline namespace v0 {

// VHOST_USER_BACKEND_SHMEM_MAP and _UNMAP.
enum class ShmemOp : std::uint32_t { kMap = 9, kUnmap = 10 };

// A message as it goes over the socket: header, then VhostUserMMap. Little endian, as the hosts that have it are.
struct ShmemMessage {
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint32_t kNeedReply = 1u << 3;

  // struct vhost_user_header
  std::uint32_t request = 0;
  std::uint32_t flags = 0;
  std::uint32_t size = 0;
  // VhostUserMMap
  std::uint8_t shmid = 0;
  std::uint64_t fd_offset = 0;
  std::uint64_t shm_offset = 0;
  std::uint64_t length = 0;
  bool writable = false;

  static constexpr std::size_t kHeaderBytes = 12;
  static constexpr std::size_t kPayloadBytes = 40;
  static constexpr std::size_t kBytes = kHeaderBytes + kPayloadBytes;

  void Encode(std::span<std::byte, kBytes> to) const {
    std::memset(to.data(), 0, kBytes);
    const auto put = [&](std::size_t at, auto value) { std::memcpy(to.data() + at, &value, sizeof value); };
    static_assert(std::endian::native == std::endian::little);
    put(0, request);
    put(4, flags);
    put(8, size);
    put(12, shmid);
    put(20, fd_offset);
    put(28, shm_offset);
    put(36, length);
    put(44, std::uint64_t{writable});
  }

  // 0, or -EPROTO for what is no such message. What a VMM does with one; tests do it here.
  static int Decode(std::span<const std::byte> from, ShmemMessage* message) {
    if (from.size() != kBytes) return -EPROTO;
    const auto get = [&](std::size_t at, auto* value) { std::memcpy(value, from.data() + at, sizeof *value); };
    std::uint64_t mapping_flags = 0;
    get(0, &message->request);
    get(4, &message->flags);
    get(8, &message->size);
    get(12, &message->shmid);
    get(20, &message->fd_offset);
    get(28, &message->shm_offset);
    get(36, &message->length);
    get(44, &mapping_flags);
    message->writable = mapping_flags & 1;
    const bool known = message->request == static_cast<std::uint32_t>(ShmemOp::kMap) ||
                       message->request == static_cast<std::uint32_t>(ShmemOp::kUnmap);
    const bool valid = known && message->size == kPayloadBytes && (message->flags & 3) == kVersion &&
                       mapping_flags <= 1 && message->length > 0;
    return valid ? 0 : -EPROTO;
  }
};

struct ShmemOptions {
  std::uint8_t shmid = 0;  // which of the device's shared memory regions
};

// `Send` is called as send(std::span<const std::byte, ShmemMessage::kBytes>, int fd) -> int: 0 once the VMM has
// answered that it is done, or a negative errno; fd is -1 for an unmap.
template <class Send>
class ShmemBackend {
 public:
  static constexpr bool kMapsOver = false;

  explicit ShmemBackend(Send send, const ShmemOptions& options = {}) : send_(std::move(send)), options_(options) {}

  int Map(const MapRequest& request) {
    return Post({.request = static_cast<std::uint32_t>(ShmemOp::kMap),
                 .fd_offset = request.file_offset,
                 .shm_offset = request.window.offset,
                 .length = request.window.length,
                 .writable = request.writable},
                request.fd);
  }
  int Unmap(std::span<const Extent> extents) {
    int first_error = 0;
    for (const Extent& extent : extents) {
      const int error = Post({.request = static_cast<std::uint32_t>(ShmemOp::kUnmap),
                              .shm_offset = extent.offset,
                              .length = extent.length},
                             -1);
      if (first_error == 0) first_error = error;
    }
    return first_error;
  }
  void* address() const { return nullptr; }

 private:
  int Post(ShmemMessage message, int fd) {
    message.flags = ShmemMessage::kVersion | ShmemMessage::kNeedReply;
    message.size = ShmemMessage::kPayloadBytes;
    message.shmid = options_.shmid;
    std::byte bytes[ShmemMessage::kBytes];
    message.Encode(bytes);
    return send_(std::span<const std::byte, ShmemMessage::kBytes>(bytes), fd);
  }

  Send send_;
  ShmemOptions options_;
};

}  // namespace v0
}  // namespace daxcache
