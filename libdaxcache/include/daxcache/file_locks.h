// Keeps the numbers of files right while files come and go. A file's number (file_table.h) is given to another file
// once it is evicted; a set-up that has looked the number up just before would then map into the other file's name. So
// a set-up holds its file's lock shared from looking the number up until the allocator has answered, and an eviction
// holds it exclusively from evicting until the number is given back. A guest forgets a file on one queue while it looks
// the same file up again on another, so this does happen.
//
//   const auto lock = locks.Use(identity);      // std::shared_lock
//   allocator.SetUp({.file = files.Intern(identity), …});
//   …
//   EvictFile(allocator, locks, identity);
//
// Files share locks by hash: set-ups never wait for one another, and rarely for the eviction of another file. Cost:
// some 20 ns uncontended, 4 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "daxcache/file_table.h"
#include "daxcache/ids.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

class FileLocks {
 public:
  std::shared_lock<std::shared_mutex> Use(const FileIdentity& identity) {
    return std::shared_lock(locks_[Index(identity)].mutex);
  }
  std::unique_lock<std::shared_mutex> Evict(const FileIdentity& identity) {
    return std::unique_lock(locks_[Index(identity)].mutex);
  }

 private:
  static constexpr std::size_t kLocks = 64;
  struct alignas(64) Lock {
    std::shared_mutex mutex;
  };

  static std::size_t Index(const FileIdentity& identity) {
    std::uint64_t hash = 0;
    for (const std::uint64_t part : identity) hash = internal::Mix(hash + part);
    return hash % kLocks;
  }

  std::array<Lock, kLocks> locks_;
};

// Unmaps what a file still has mapped, and gives its number back. A file without a number has nothing mapped. After an
// error (negative errno) the allocator keeps what it could not unmap, under the same number.
template <class Allocator>
[[nodiscard]] int EvictFile(Allocator& allocator, FileLocks& locks, const FileIdentity& identity) {
  const auto lock = locks.Evict(identity);
  const FileId file = allocator.files().Find(identity);
  if (file == kNoFile) return 0;
  if (const int error = allocator.Evict(file); error != 0) return error;
  allocator.files().Release(file);
  return 0;
}

}  // namespace v0
}  // namespace daxcache
