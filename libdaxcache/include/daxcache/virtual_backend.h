// A window that is a table: it remembers what is mapped where and makes no system call. For tests, and for simulations
// of a daemon.
//
//   VirtualBackend backend;                        // kMapsOver as `mmap` has it
//   VirtualBackend<false> exact;                   // or as vhost-user's SHMEM messages have it: errors if misused
//   for (const VirtualMapping& m : backend.Mappings()) …
//
// Cost: one lock and O(log n) a call, n the mappings held. `calls()` counts what mmap(2) would have been called.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "daxcache/mapping_backend.h"

namespace daxcache {
inline namespace v0 {

struct VirtualMapping {
  Extent window = {};
  int fd = -1;
  std::uint64_t file_offset = 0;
  bool writable = false;
  friend constexpr bool operator==(const VirtualMapping&, const VirtualMapping&) = default;
};

template <bool kMapsOverHeld = true>
class VirtualBackend {
 public:
  static constexpr bool kMapsOver = kMapsOverHeld;

  int Map(const MapRequest& request) {
    const std::lock_guard lock(state_->mutex);
    ++state_->maps;
    if constexpr (kMapsOver) {
      Carve(request.window);
    } else if (Overlaps(request.window)) {
      return -EEXIST;
    }
    state_->mappings[request.window.offset] = {request.window, request.fd, request.file_offset, request.writable};
    return 0;
  }

  int Unmap(std::span<const Extent> extents) {
    const std::lock_guard lock(state_->mutex);
    int first_error = 0;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const Extent& extent = extents[i];
      const bool follows = i > 0 && (extents[i - 1].offset + extents[i - 1].length == extent.offset ||
                                     extent.offset + extent.length == extents[i - 1].offset);
      if (!kMapsOver || !follows) ++state_->unmaps;
      if constexpr (kMapsOver) {
        Carve(extent);
      } else {
        const auto at = state_->mappings.find(extent.offset);
        if (at != state_->mappings.end() && at->second.window == extent) {
          state_->mappings.erase(at);
        } else if (first_error == 0) {
          first_error = -ENOENT;
        }
      }
    }
    return first_error;
  }

  void* address() const { return nullptr; }

  std::vector<VirtualMapping> Mappings() const {
    const std::lock_guard lock(state_->mutex);
    std::vector<VirtualMapping> mappings;
    for (const auto& [offset, mapping] : state_->mappings) mappings.push_back(mapping);
    return mappings;
  }
  std::uint64_t maps() const {
    const std::lock_guard lock(state_->mutex);
    return state_->maps;
  }
  std::uint64_t unmaps() const {
    const std::lock_guard lock(state_->mutex);
    return state_->unmaps;
  }
  std::uint64_t calls() const { return maps() + unmaps(); }

 private:
  struct State {
    std::mutex mutex;
    std::map<std::uint64_t, VirtualMapping> mappings;  // by offset; they do not overlap
    std::uint64_t maps = 0;
    std::uint64_t unmaps = 0;
  };

  bool Overlaps(const Extent& extent) const {
    const auto after = state_->mappings.lower_bound(extent.offset + extent.length);
    if (after == state_->mappings.begin()) return false;
    const Extent& last = std::prev(after)->second.window;
    return last.offset + last.length > extent.offset;
  }

  // Takes an extent out of whatever covers it.
  void Carve(const Extent& extent) {
    const std::uint64_t end = extent.offset + extent.length;
    auto at = state_->mappings.lower_bound(extent.offset);
    if (at != state_->mappings.begin()) {
      const VirtualMapping before = std::prev(at)->second;
      const std::uint64_t before_end = before.window.offset + before.window.length;
      if (before_end > extent.offset) {
        std::prev(at)->second.window.length = extent.offset - before.window.offset;
        if (before_end > end) Insert(before, end, before_end);
      }
    }
    while (at != state_->mappings.end() && at->first < end) {
      const VirtualMapping held = at->second;
      at = state_->mappings.erase(at);
      if (held.window.offset + held.window.length > end) Insert(held, end, held.window.offset + held.window.length);
    }
  }
  void Insert(VirtualMapping part, std::uint64_t begin, std::uint64_t end) {
    part.file_offset += begin - part.window.offset;
    part.window = {begin, end - begin};
    state_->mappings[begin] = part;
  }

  std::unique_ptr<State> state_ = std::make_unique<State>();  // so that it can be moved
};

}  // namespace v0
}  // namespace daxcache
