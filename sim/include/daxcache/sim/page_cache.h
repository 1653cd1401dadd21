// The guest's page cache, for files that do not go through the window: which pages of them are there. What is missing
// is read in requests of up to 128 KiB; of a file that is read from its beginning or on from the last access, the pages
// that follow too. With a limit, CLOCK decides which pages go, as in Linux, nearly: there a page has to be used twice
// to be kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace daxcache {
inline namespace v0 {

class PageCache {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kRequestPages = 32;  // VM_READAHEAD_PAGES: 128 KiB

  // `sizes`: of the files, bytes. `limit`: pages; 0: none.
  PageCache(std::span<const std::uint64_t> sizes, std::uint64_t limit) : limit_(limit), first_{0} {
    for (const std::uint64_t size : sizes) first_.push_back(first_.back() + (size + kPageBytes - 1) / kPageBytes);
    states_.resize(first_.back());
  }

  struct Fetched {
    std::uint64_t requests = 0;
    std::uint64_t pages = 0;
  };
  // Reads the pages that overlap [offset, offset + length), length > 0: what has to be fetched for it. None lies beyond
  // the file's size. `ahead`: with read-ahead.
  Fetched Read(std::uint32_t file, std::uint64_t offset, std::uint64_t length, bool ahead) {
    Fetched fetched;
    const std::uint64_t end = first_[file] + (offset + length - 1) / kPageBytes;
    for (std::uint64_t page = first_[file] + offset / kPageBytes; page <= end; ++page) {
      if (states_[page] == kAbsent) {
        ++fetched.requests;
        const std::uint64_t last = std::min(page + kRequestPages, ahead ? first_[file + 1] : end + 1);
        for (std::uint64_t next = page; next < last && states_[next] == kAbsent; ++next) {
          Add(next);
          ++fetched.pages;
        }
      }
      states_[page] = kUsed;
    }
    return fetched;
  }
  // Writes them, through to the daemon; what was written is there then.
  void Write(std::uint32_t file, std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t end = first_[file] + (offset + length - 1) / kPageBytes;
    for (std::uint64_t page = first_[file] + offset / kPageBytes; page <= end; ++page) {
      if (states_[page] == kAbsent) Add(page);
      states_[page] = kUsed;
    }
  }
  // The file is gone.
  void Drop(std::uint32_t file) {
    for (std::uint64_t page = first_[file]; page < first_[file + 1]; ++page) {
      if (states_[page] == kAbsent) continue;
      states_[page] = kAbsent;
      --present_;
    }
  }

  std::uint64_t Bytes(std::uint32_t file) const { return (first_[file + 1] - first_[file]) * kPageBytes; }
  std::uint64_t present() const { return present_; }

 private:
  enum State : std::uint8_t { kAbsent, kPresent, kUsed };

  void Add(std::uint64_t page) {
    if (limit_ > 0 && present_ == limit_) Evict();
    states_[page] = kPresent;
    ++present_;
  }
  void Evict() {
    for (;; hand_ = hand_ + 1 < states_.size() ? hand_ + 1 : 0) {
      if (states_[hand_] == kPresent) break;
      if (states_[hand_] == kUsed) states_[hand_] = kPresent;
    }
    states_[hand_] = kAbsent;
    --present_;
  }

  std::uint64_t limit_;
  std::uint64_t present_ = 0;
  std::uint64_t hand_ = 0;
  std::vector<std::uint64_t> first_;  // by file: its first page's number
  std::vector<State> states_;         // by page number
};

}  // namespace v0
}  // namespace daxcache
