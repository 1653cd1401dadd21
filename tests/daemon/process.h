// What a process holds of the system, as /proc tells it: mappings, descriptors, memory. Threads that are there before
// and after, and a folder that goes with its test whatever becomes of that. For tests that end as they began.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace daxcache::testing_ {

// True: the long runs (scripts/test --full).
inline bool Full() {
  const char* const full = std::getenv("DAXCACHE_FULL");
  return full != nullptr && std::string(full) == "1";
}

inline std::uint64_t OpenDescriptors(pid_t pid) {
  DIR* const folder = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  if (folder == nullptr) return 0;
  std::uint64_t count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - (pid == getpid());  // the folder itself
}

inline std::uint64_t Vmas(pid_t pid) {
  std::FILE* const maps = std::fopen(("/proc/" + std::to_string(pid) + "/maps").c_str(), "re");
  if (maps == nullptr) return 0;
  std::uint64_t lines = 0;
  for (int c = std::fgetc(maps); c != EOF; c = std::fgetc(maps)) lines += c == '\n';
  std::fclose(maps);
  return lines;
}

// Resident bytes, after what is free has been given back.
inline std::uint64_t ResidentBytes() {
  malloc_trim(0);
  std::uint64_t pages = 0;
  if (std::FILE* const statm = std::fopen("/proc/self/statm", "re"); statm != nullptr) {
    if (std::fscanf(statm, "%*u %lu", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Threads that wait for work, so that they are there before and after it.
class Crew {
 public:
  explicit Crew(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Run(i); });
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  int size() const { return static_cast<int>(threads_.size()); }

  // Each thread does work(its number); returns when all are done.
  void Do(const std::function<void(int)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    working_ = size();
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void Run(int me) {
    std::uint64_t done = 0;
    for (;;) {
      const std::function<void(int)>* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return over_ || round_ != done; });
        if (over_) return;
        done = round_;
        work = work_;
      }
      (*work)(me);
      const std::lock_guard lock(mutex_);
      if (--working_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  int working_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

// A folder that is removed with this object, or by a process of its own if this one dies first. Made before there are
// threads.
class TempFolder {
 public:
  // `in_memory`: of a file system in memory, if there is one: a tenth of the time for large files full of holes.
  explicit TempFolder(bool in_memory = false) {
    const std::filesystem::path memory = "/dev/shm";
    const bool there = in_memory && access(memory.c_str(), W_OK | X_OK) == 0;
    std::string name = ((there ? memory : std::filesystem::temp_directory_path()) / "daxcache_daemon_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    remover_ = fork();
    if (remover_ == 0) {
      dup2(ends[0], 3);
      CloseFrom(4);
      setsid();  // an interrupt at the terminal is not for it
      char byte = 0;
      while (read(3, &byte, 1) < 0 && errno == EINTR) {
      }
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
      _exit(0);
    }
    close(ends[0]);
    held_ = ends[1];
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    close(held_);
    while (waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  const std::string& path() const { return path_; }

  // In a forked process: what is inherited and not needed would keep sockets and pipes open.
  static void CloseFrom(int first) { close_range(static_cast<unsigned>(first), ~0u, 0); }

 private:
  std::string path_;
  pid_t remover_ = -1;
  int held_ = -1;  // the end of a pipe that closes with this process
};

}  // namespace daxcache::testing_
