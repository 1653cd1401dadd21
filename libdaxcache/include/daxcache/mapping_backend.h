// Who maps: the seam between the allocator, which knows what should stand where in the window, and whatever puts it
// there: `mmap` in this process (mmap_backend.h), messages to a VMM (shmem_backend.h), or a table (virtual_backend.h).
//
//   MmapBackend backend = MmapBackend::Create(ByteSize(1ull << 30)).value();
//   backend.Map({.window = {.offset = 0, .length = 2 << 20}, .fd = fd, .writable = true});   // 0, or -errno
//
// A backend is thread-safe: it is called by many threads at once, for places of the window that do not overlap, and
// never under the allocator's mutex. It answers 0 or a negative errno.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

namespace daxcache {
inline namespace v0 {

// Bytes of the window.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

// Bytes [file_offset, file_offset + window.length) of an open file, to be seen at `window`. All are page-aligned, and
// the sums do not overflow: the allocator has checked them.
struct MapRequest {
  Extent window = {};
  int fd = -1;  // borrowed for the call
  std::uint64_t file_offset = 0;
  bool writable = false;
  bool prefault = false;  // fill the page tables at once, if that can be had
};

template <class B>
concept MappingBackend = requires(B backend, const B constant, const MapRequest& request,
                                  std::span<const Extent> extents) {
  // After an error, what was there before is still there.
  { backend.Map(request) } -> std::same_as<int>;
  // Tries every one, and returns the first error.
  { backend.Unmap(extents) } -> std::same_as<int>;
  // Map over what is mapped replaces it in one step, and Unmap takes any extents. If false, a mapping has to be
  // unmapped before another takes its place, and exactly as it was mapped.
  { B::kMapsOver } -> std::convertible_to<bool>;
  // Where the window begins in this address space, or nullptr if it is elsewhere.
  { constant.address() } -> std::same_as<void*>;
};

// A backend that lives elsewhere and outlives its users. What else it can do is passed on too.
template <MappingBackend B>
class BackendRef {
 public:
  static constexpr bool kMapsOver = B::kMapsOver;
  explicit BackendRef(B& backend) : backend_(&backend) {}

  int Map(const MapRequest& request) { return backend_->Map(request); }
  int Unmap(std::span<const Extent> extents) { return backend_->Unmap(extents); }
  void* address() const { return backend_->address(); }
  std::uint64_t size() const requires requires(const B& b) { b.size(); }
  { return backend_->size(); }
  int Renew(const Extent& extent) requires requires(B& b) { b.Renew(extent); }
  { return backend_->Renew(extent); }

 private:
  B* backend_;
};

}  // namespace v0
}  // namespace daxcache
