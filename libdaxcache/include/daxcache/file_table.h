// Names of files: what the caller knows a file by (device, inode, generation, or any token of 24 bytes) and the dense
// number that window and policy know it by. A number is given back when its file is evicted, and given to another one
// later, so the numbers stay as few as the files in use.
//
//   FileTable files;
//   const FileId file = files.Intern({device, inode, generation});
//   …
//   allocator.Evict(file);  files.Release(file);
//
// Cost: one lock and one hash a call; 80 bytes a file, about. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "daxcache/ids.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

using FileIdentity = std::array<std::uint64_t, 3>;

class FileTable {
 public:
  // `seed`: of the hashes; a random number where a guest may choose the identities.
  explicit FileTable(std::uint64_t seed = 0) : numbers_(0, Hash{seed}) {}

  // The number of a file, a new one if it has none. kNoFile only if 2^32 - 1 files have one.
  FileId Intern(const FileIdentity& identity) {
    const std::lock_guard lock(mutex_);
    const auto [at, added] = numbers_.try_emplace(identity, kNoFile);
    if (!added) return at->second;
    if (!free_.empty()) {
      at->second = free_.back();
      free_.pop_back();
      identities_[ToIndex(at->second)] = identity;
    } else if (identities_.size() < ToIndex(kNoFile)) {
      at->second = FileId{static_cast<std::uint32_t>(identities_.size())};
      identities_.push_back(identity);
    } else {
      numbers_.erase(at);
      return kNoFile;
    }
    return at->second;
  }
  FileId Find(const FileIdentity& identity) const {
    const std::lock_guard lock(mutex_);
    const auto at = numbers_.find(identity);
    return at == numbers_.end() ? kNoFile : at->second;
  }
  // Of a number that is in use.
  FileIdentity identity(FileId file) const {
    const std::lock_guard lock(mutex_);
    return ToIndex(file) < identities_.size() ? identities_[ToIndex(file)] : FileIdentity{};
  }
  // The file is evicted, and its number free for another. False: it has none.
  bool Release(FileId file) {
    const std::lock_guard lock(mutex_);
    if (ToIndex(file) >= identities_.size()) return false;
    const auto at = numbers_.find(identities_[ToIndex(file)]);
    if (at == numbers_.end() || at->second != file) return false;
    numbers_.erase(at);
    free_.push_back(file);
    return true;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return numbers_.size();
  }

 private:
  struct Hash {
    std::uint64_t seed = 0;
    std::size_t operator()(const FileIdentity& identity) const {
      std::uint64_t hash = seed;
      for (const std::uint64_t part : identity) hash = internal::Mix(hash + part + 0x9e3779b97f4a7c15u);
      return hash;
    }
  };

  mutable std::mutex mutex_;
  std::unordered_map<FileIdentity, FileId, Hash> numbers_;
  std::vector<FileIdentity> identities_;  // by number
  std::vector<FileId> free_;
};

}  // namespace v0
}  // namespace daxcache
