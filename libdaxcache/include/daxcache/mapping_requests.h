// What is asked of an allocator: the set-up of a range where a guest chose its place, and the access of whoever lets
// the allocator choose. In a header of their own for those who call one without knowing which, as the FUSE adapter.
#pragma once

#include <cstdint>

#include "daxcache/access.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

struct SetUpRequest {
  FileId file = kNoFile;
  int fd = -1;  // borrowed for the call
  std::uint64_t file_offset = 0;
  std::uint64_t length = 0;
  std::uint64_t window_offset = 0;
  bool writable = false;
  std::int64_t file_size = -1;  // bytes, if known
  std::int64_t time_ns = 0;     // if the caller has a clock
};

// An access by whoever shares this address space: the allocator finds the range, or a place for it.
struct MapFileRequest {
  FileId file = kNoFile;
  int fd = -1;                    // borrowed for the call
  std::uint64_t file_offset = 0;  // of the access: its range is mapped whole
  Op op = Op::kRead;
  std::int64_t file_size = -1;
  std::int64_t time_ns = 0;
};

// A range that stays where it is until it is unpinned.
struct Pinned {
  SlotId slot = kNoSlot;
  std::uint64_t window_offset = 0;  // of the range
  void* address = nullptr;          // … in this address space, if the backend has one
};

}  // namespace v0
}  // namespace daxcache
