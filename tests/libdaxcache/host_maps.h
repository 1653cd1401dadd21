// What the kernel has mapped in a window, from /proc/self/maps; and files of known bytes to map. For tests of backends
// and allocators.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace daxcache::testing_ {

// A VMA, or a part of one, by offset in the window.
struct HostVma {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t inode = 0;  // 0: anonymous
  std::uint64_t file_offset = 0;
  bool readable = false;
  bool writable = false;
};

inline std::vector<HostVma> HostMaps(const void* window, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(window);
  const std::uintptr_t end = begin + bytes;
  std::vector<HostVma> found;
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return found;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, maps) > 0) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    char access[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64, &from, &to, access, &offset,
                    &inode) != 5 ||
        to <= begin || from >= end) {
      continue;
    }
    HostVma vma{.inode = inode, .readable = access[0] == 'r', .writable = access[1] == 'w'};
    const std::uint64_t first = from < begin ? begin : from;
    vma.offset = first - begin;
    vma.length = (to > end ? end : to) - first;
    vma.file_offset = inode == 0 ? 0 : offset + (first - from);
    found.push_back(vma);
  }
  std::free(line);
  std::fclose(maps);
  return found;
}

// A file in memory, each of whose pages begins with `mark` and the page's number.
class MarkedFile {
 public:
  MarkedFile(std::uint64_t bytes, std::uint64_t mark) : fd_(memfd_create("marked", MFD_CLOEXEC)), mark_(mark) {
    EXPECT_GE(fd_, 0);
    Resize(bytes);
  }
  MarkedFile(const MarkedFile&) = delete;
  MarkedFile& operator=(const MarkedFile&) = delete;
  ~MarkedFile() { close(fd_); }

  void Resize(std::uint64_t bytes) {
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    for (std::uint64_t at = size_ / 4096 * 4096; at < bytes; at += 4096) {
      const std::uint64_t word = WordAt(at);
      EXPECT_EQ(pwrite(fd_, &word, sizeof word, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof word));
    }
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    size_ = bytes;
  }
  // The first word of the page at `offset`.
  std::uint64_t WordAt(std::uint64_t offset) const { return mark_ << 40 | (offset / 4096 + 1); }
  std::uint64_t size() const { return size_; }
  int fd() const { return fd_; }
  std::uint64_t inode() const {
    struct stat facts {};
    EXPECT_EQ(fstat(fd_, &facts), 0);
    return facts.st_ino;
  }

 private:
  int fd_;
  std::uint64_t mark_;
  std::uint64_t size_ = 0;
};

}  // namespace daxcache::testing_
