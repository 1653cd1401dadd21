// What the processes of a timed run do: an I/O, and of a recorded trace what its task computes before; and the ranges
// that a recorded process keeps using after it has faulted them in, which no recording shows.
#pragma once

#include <cstdint>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

struct TimedIo {
  Op op = Op::kRead;         // kRead or kWrite
  std::uint32_t file = 0;    // of the process's files
  std::uint64_t offset = 0;  // bytes
  std::uint64_t length = 0;  // bytes; above 0

  // Of recorded jobs: `op` is one of the four that touch data, kOpen (`length` is the file's size), kClose or kUnlink;
  // `file` one of the engine's, or kNoFile with kClose, where the task only computes.
  bool extends = false;            // a write beyond the end of its file
  bool new_job = false;            // the first of its job: whoever ran before in its place has ended
  std::uint32_t process = 0;       // of its job, from 0: each has a page table of its own
  std::int64_t cpu_ns = 0;         // the process computes so long before
  std::int64_t not_before_ns = 0;  // since the beginning of the run
};

// Where a process gets its I/Os.
class IoSource {
 public:
  virtual bool Next(TimedIo& io) = 0;  // false: it has done all; `io` is as it was

 protected:
  IoSource() = default;
  IoSource(const IoSource&) = default;
  IoSource& operator=(const IoSource&) = default;
  ~IoSource() = default;
};

// The last ranges that a process faulted in, and what is left of its time slice; in each it uses them again.
class RangesInUse {
 public:
  struct Entry {
    std::uint32_t range = 0;
    bool write = false;
    SlotId slot = kNoSlot;
    std::uint32_t generation = 0;  // of the slot, when it was mapped
  };

  // The oldest is forgotten when there are `most`.
  void Add(const Entry& entry, std::uint32_t most) {
    if (most == 0) return;
    if (entries_.size() < most) {
      entries_.push_back(entry);
      return;
    }
    entries_[oldest_] = entry;
    oldest_ = oldest_ + 1 < most ? oldest_ + 1 : 0;
  }
  Entry& operator[](std::uint32_t i) { return entries_[i]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }

  std::int64_t slice_ns = 0;  // to go of the time slice

 private:
  std::vector<Entry> entries_;
  std::uint32_t oldest_ = 0;
};

}  // namespace v0
}  // namespace daxcache
