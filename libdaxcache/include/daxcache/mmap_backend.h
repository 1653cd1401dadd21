// The window in this process's own address space, as a VMM that serves virtiofs itself has it (libkrun, crosvm,
// dragonball). The whole is reserved once, without access and without commitment, so that no other mapping can land in
// it; ranges of files are mapped over the reserve and the reserve is put back over them, never a hole.
//
//   absl::StatusOr<MmapBackend> backend = MmapBackend::Create(ByteSize(8ull << 30));   // or Adopt(address, size)
//   KVM_SET_USER_MEMORY_REGION of backend->address(), backend->size()
//
// Cost: one mmap(2) a Map, one an Unmap of neighbours however many they are.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

class MmapBackend {
 public:
  static constexpr bool kMapsOver = true;

  // Reserves addresses for a window, at a multiple of 2 MiB if that can be had, so that the guest's and the host's
  // large pages agree.
  [[nodiscard]] static absl::StatusOr<MmapBackend> Create(ByteSize window) {
    constexpr std::uint64_t kAlignment = std::uint64_t{2} << 20;
    if (window.bytes() == 0 || window.bytes() % 4096 != 0 || window.bytes() > (std::uint64_t{1} << 46)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a window of 4K to 64T, a multiple of 4K, got ", window.ToString()));
    }
    const std::uint64_t length = window.bytes() + kAlignment;
    void* const whole = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("expected to reserve ", window.ToString(), " of addresses: ", std::strerror(errno)));
    }
    std::byte* const begin = static_cast<std::byte*>(whole);
    const std::uint64_t skip = (kAlignment - reinterpret_cast<std::uintptr_t>(whole) % kAlignment) % kAlignment;
    if (skip > 0) munmap(begin, skip);
    if (skip < kAlignment) munmap(begin + skip + window.bytes(), kAlignment - skip);
    return MmapBackend(begin + skip, window.bytes(), true);
  }
  // A window that somebody else has reserved, and will release. What is mapped there stays.
  static MmapBackend Adopt(void* address, ByteSize window) {
    return MmapBackend(static_cast<std::byte*>(address), window.bytes(), false);
  }

  MmapBackend(MmapBackend&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), size_(other.size_), owned_(other.owned_) {}
  MmapBackend& operator=(MmapBackend&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(size_, other.size_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~MmapBackend() {
    if (owned_ && begin_ != nullptr) munmap(begin_, size_);
  }

  int Map(const MapRequest& request) {
    void* const at = begin_ + request.window.offset;
    const int access = PROT_READ | (request.writable ? PROT_WRITE : 0);
    if (mmap(at, request.window.length, access, MAP_SHARED | MAP_FIXED, request.fd,
             static_cast<off_t>(request.file_offset)) == MAP_FAILED) {
      return -errno;
    }
    // A hint: it fails past the end of the file, and on kernels before 5.14.
    if (request.prefault) (void)madvise(at, request.window.length, kPopulateRead);
    return 0;
  }

  int Unmap(std::span<const Extent> extents) {
    int first_error = 0;
    for (std::size_t i = 0; i < extents.size();) {
      // Neighbours, in ascending or descending order, go in one call.
      Extent merged = extents[i];
      for (++i; i < extents.size(); ++i) {
        const Extent& next = extents[i];
        if (next.offset == merged.offset + merged.length) {
          merged.length += next.length;
        } else if (next.offset + next.length == merged.offset) {
          merged.offset = next.offset;
          merged.length += next.length;
        } else {
          break;
        }
      }
      if (mmap(begin_ + merged.offset, merged.length, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED &&
          first_error == 0) {
        first_error = -errno;
      }
    }
    return first_error;
  }

  // Maps the file whose pages begin `extent` over the whole of it again, in one step and without its descriptor: for
  // ranges whose end was covered with zero pages when the file was shorter.
  int Renew(const Extent& extent) {
    std::byte* const at = begin_ + extent.offset;
    // An old size of zero makes a second mapping of the same file (mremap(2)).
    void* const copy = mremap(at, 0, extent.length, MREMAP_MAYMOVE);
    if (copy == MAP_FAILED) return -errno;
    if (mremap(copy, extent.length, extent.length, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
      const int error = -errno;
      munmap(copy, extent.length);
      return error;
    }
    return 0;
  }

  void* address() const { return begin_; }
  std::uint64_t size() const { return size_; }

 private:
  static constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers lack

  MmapBackend(std::byte* begin, std::uint64_t size, bool owned) : begin_(begin), size_(size), owned_(owned) {}

  std::byte* begin_;
  std::uint64_t size_;
  bool owned_;
};

}  // namespace v0
}  // namespace daxcache
