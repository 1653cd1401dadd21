// One access of a guest task to a file, as traces record it and drivers replay it; and what of it reaches the window
// and its policy.
#pragma once

#include <cstdint>
#include <limits>

#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

enum class Op : std::uint8_t {
  kRead,         // read(2) and its kin
  kWrite,        // write(2) and its kin
  kMappedRead,   // loads through mmap(2): the first faults of a task in a range
  kMappedWrite,  // stores through a shared writable mapping
  kOpen,         // offset: bit 0 for writing, bit 1 truncated; length: the file's size at open, bytes
  kClose,        // offset and length 0
  kTruncate,     // offset 0; length: the new size, bytes
  kUnlink,       // the last name was removed; offset 0; length: the size, bytes
};
inline constexpr int kNumOps = 8;

// True for the operations that touch the bytes of a file.
constexpr bool TouchesData(Op op) {
  return op <= Op::kMappedWrite;
}
constexpr bool IsWrite(Op op) {
  return op == Op::kWrite || op == Op::kMappedWrite;
}
constexpr bool IsMapped(Op op) {
  return op == Op::kMappedRead || op == Op::kMappedWrite;
}

// One record of a trace.
struct Access {
  std::int64_t time_ns = 0;
  TaskId task = kNoTask;
  FileId file = kNoFile;
  Op op = Op::kRead;
  std::uint64_t offset = 0;  // bytes; offset + length <= 2^63
  std::uint64_t length = 0;  // bytes
  friend constexpr bool operator==(const Access&, const Access&) = default;
};

// Never again, in `Touch::next_use`.
inline constexpr std::uint64_t kNeverUsed = std::numeric_limits<std::uint64_t>::max();

// One access to one range, as the window and its policy see it. A policy has no clock and no oracle but these.
struct Touch {
  FileId file = kNoFile;
  Op op = Op::kRead;                    // one of the four that touch data
  std::int64_t time_ns = 0;             // 0 where the driver has no clock
  std::uint64_t next_use = kNeverUsed;  // position of the next touch of this range; only in replay, only if asked for
};

}  // namespace v0
}  // namespace daxcache
