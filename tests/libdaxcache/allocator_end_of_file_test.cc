// What an access past the end of a file shows: the file's bytes, or zeros, and never a signal that kills.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "daxcache/allocator.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::MarkedFile;
using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, MmapBackend>;

constexpr std::uint64_t kRange = 2 << 20;
constexpr std::uint64_t kPage = 4096;

void (*after_looking)() = nullptr;
std::atomic<Allocator*> repairing{nullptr};
std::atomic<int> faults{0};

// As a VMM does it: repaired, or the old way.
void OnBusError(int signal_number, siginfo_t* info, void*) {
  faults.fetch_add(1);
  Allocator* const allocator = repairing.load();
  if (allocator == nullptr || allocator->RepairFault(info->si_addr) != 0) signal(signal_number, SIG_DFL);
}

class AllocatorEndOfFileTest : public testing::Test {
 protected:
  void Start(AllocatorOptions options = {}) {
    options.window = ByteSize(4 * kRange);
    allocator_ = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
    repairing = allocator_.get();
    faults = 0;
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGBUS, &action, &before_), 0);
  }
  void TearDown() override {
    if (allocator_ == nullptr) return;
    EXPECT_EQ(allocator_->CheckInvariants(), absl::OkStatus());
    sigaction(SIGBUS, &before_, nullptr);
    repairing = nullptr;
  }
  using testing::Test::SetUp;
  int SetUp(std::uint64_t window, const MarkedFile& file, std::uint64_t offset, bool writable = false,
            std::uint64_t length = kRange) {
    return allocator_->SetUp({.file = FileId{1},
                              .fd = file.fd(),
                              .file_offset = offset,
                              .length = length,
                              .window_offset = window,
                              .writable = writable,
                              .file_size = static_cast<std::int64_t>(file.size())});
  }
  std::uint64_t Word(std::uint64_t offset) {
    return __atomic_load_n(
        reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(allocator_->backend().address()) + offset),
        __ATOMIC_RELAXED);
  }

  struct sigaction before_ {};
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(AllocatorEndOfFileTest, ZerosPastTheEndAndBytesAfterItHasGrown) {
  Start();
  MarkedFile file(10 * kPage + 100, 1);
  ASSERT_EQ(SetUp(kRange, file, 0, true), 0);
  EXPECT_EQ(Word(kRange + 10 * kPage), file.WordAt(10 * kPage));
  EXPECT_EQ(faults, 0);
  EXPECT_EQ(Word(kRange + 11 * kPage), 0u);
  EXPECT_EQ(Word(2 * kRange - kPage), 0u);
  EXPECT_EQ(faults, 1);  // the rest went with it
  EXPECT_EQ(allocator_->statistics().shorts, 1u);
  EXPECT_EQ(allocator_->Mappings()[0].zero_from, 11 * kPage);
  file.Resize(100 * kPage);
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, file.size()), 0);  // without a descriptor
  EXPECT_EQ(Word(kRange + 50 * kPage), file.WordAt(50 * kPage));
  EXPECT_EQ(allocator_->statistics().shorts, 0u);
  EXPECT_EQ(Word(kRange + 100 * kPage), 0u);
  file.Resize(200 * kPage);
  ASSERT_EQ(SetUp(kRange, file, 0, true), 0);  // the same set-up again maps the file again
  EXPECT_EQ(Word(kRange + 150 * kPage), file.WordAt(150 * kPage));
  EXPECT_EQ(faults, 2);
}

TEST_F(AllocatorEndOfFileTest, AFileThatLiesBeforeTheRangeAltogether) {
  Start();
  MarkedFile file(kPage, 1);
  ASSERT_EQ(SetUp(0, file, kRange), 0);
  EXPECT_EQ(Word(0), 0u);
  file.Resize(kRange + 2 * kPage);
  EXPECT_NE(allocator_->OnSizeChanged(FileId{1}, file.size()), 0);  // nothing of it is mapped
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, file.size(), file.fd()), 0);
  EXPECT_EQ(Word(kPage), file.WordAt(kRange + kPage));
}

TEST_F(AllocatorEndOfFileTest, TruncatedWhileMapped) {
  Start();
  MarkedFile file(100 * kPage, 1);
  ASSERT_EQ(SetUp(0, file, 0), 0);
  EXPECT_EQ(Word(60 * kPage), file.WordAt(60 * kPage));
  ASSERT_EQ(ftruncate(file.fd(), 50 * kPage), 0);
  EXPECT_EQ(Word(60 * kPage), 0u);
  EXPECT_EQ(Word(49 * kPage), file.WordAt(49 * kPage));
  EXPECT_EQ(Word(50 * kPage), 0u);
  EXPECT_EQ(allocator_->Mappings()[0].zero_from, 50 * kPage);
}

TEST_F(AllocatorEndOfFileTest, ExtentsToo) {
  Start();
  MarkedFile file(10 * kPage, 1);
  ASSERT_EQ(SetUp(4 * kPage, file, 4 * kPage, false, 16 * kPage), 0);
  EXPECT_EQ(Word(9 * kPage), file.WordAt(9 * kPage));
  EXPECT_EQ(Word(12 * kPage), 0u);
  EXPECT_EQ(faults, 1);
  file.Resize(40 * kPage);
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, file.size()), 0);
  EXPECT_EQ(Word(12 * kPage), file.WordAt(12 * kPage));
}

TEST_F(AllocatorEndOfFileTest, WhatIsNotPastAnEndIsNotRepaired) {
  Start();
  MarkedFile file(kRange, 1);
  std::byte* const base = static_cast<std::byte*>(allocator_->backend().address());
  EXPECT_EQ(allocator_->RepairFault(base), -EFAULT);
  EXPECT_EQ(allocator_->RepairFault(base - 1), -EFAULT);
  EXPECT_EQ(allocator_->RepairFault(base + 4 * kRange), -EFAULT);
  EXPECT_EQ(allocator_->RepairFault(nullptr), -EFAULT);
  ASSERT_EQ(SetUp(0, file, 0), 0);
  EXPECT_EQ(allocator_->RepairFault(base + 5), 0);  // it is there: try again
  EXPECT_EQ(Word(0), file.WordAt(0));
  EXPECT_EQ(allocator_->statistics().repairs, 0u);
}

TEST_F(AllocatorEndOfFileTest, ClampedThereIsNoFaultAtAll) {
  Start({.clamp = true});
  MarkedFile file(10 * kPage, 1);
  ASSERT_EQ(SetUp(0, file, 0), 0);
  EXPECT_EQ(Word(10 * kPage), 0u);
  file.Resize(20 * kPage);
  EXPECT_EQ(Word(10 * kPage), 0u);
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, file.size()), 0);
  EXPECT_EQ(Word(19 * kPage), file.WordAt(19 * kPage));
  EXPECT_EQ(Word(20 * kPage), 0u);
  ASSERT_EQ(SetUp(0, file, 0, true), 0);  // an upgrade
  EXPECT_EQ(Word(20 * kPage), 0u);
  file.Resize(5 * kPage);
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, file.size()), 0);
  EXPECT_EQ(Word(5 * kPage), 0u);
  EXPECT_EQ(faults, 0);
}

TEST_F(AllocatorEndOfFileTest, TruncationDropsWhatWasKept) {
  Start({.lazy = {.enabled = true}});
  MarkedFile file(2 * kRange, 1);
  ASSERT_EQ(SetUp(0, file, 0), 0);
  ASSERT_EQ(SetUp(kRange, file, kRange), 0);
  const Extent both{0, 2 * kRange};
  ASSERT_EQ(allocator_->Remove({&both, 1}), 0);
  EXPECT_EQ(allocator_->statistics().kept, 2u);
  EXPECT_EQ(allocator_->OnSizeChanged(FileId{1}, kRange + kPage), 0);
  EXPECT_EQ(allocator_->statistics().kept, 1u);
  EXPECT_FALSE(allocator_->Tick(1));
  EXPECT_EQ(allocator_->statistics().kept, 1u);
}

// Another process grows, shrinks and regrows the file, while this one reads it through the window.
TEST_F(AllocatorEndOfFileTest, AnotherProcessChangesTheFile) {
  Start();
  MarkedFile file(8 * kPage, 1);
  ASSERT_EQ(SetUp(0, file, 0), 0);
#ifdef DAXCACHE_SANITIZED
  constexpr int kChanges = 200;
#else
  constexpr int kChanges = 2000;
#endif
  int go[2];
  int done[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::uint64_t size = 0;
    while (read(go[0], &size, sizeof size) == sizeof size && size != 0) {
      bool ok = ftruncate(file.fd(), static_cast<off_t>(size)) == 0;
      for (std::uint64_t at = 0; ok && at < size; at += kPage) {
        const std::uint64_t word = file.WordAt(at);
        ok = pwrite(file.fd(), &word, sizeof word, static_cast<off_t>(at)) == sizeof word;
      }
      if (!ok || write(done[1], &size, sizeof size) != sizeof size) break;
    }
    _exit(0);
  }
  std::mt19937 random(3);
  std::uint64_t before = 8 * kPage;
  for (int i = 0; i < kChanges; ++i) {
    const std::uint64_t pages = 1 + random() % 16;
    std::uint64_t size = pages * kPage;
    ASSERT_EQ(write(go[1], &size, sizeof size), static_cast<ssize_t>(sizeof size));
    for (int j = 0; j < 4; ++j) {  // meanwhile: bytes or zeros
      const std::uint64_t page = random() % 20;
      const std::uint64_t word = Word(page * kPage);
      ASSERT_TRUE(word == 0 || word == file.WordAt(page * kPage)) << word;
    }
    ASSERT_EQ(read(done[0], &size, sizeof size), static_cast<ssize_t>(sizeof size));
    if (size > before || random() % 2 == 0) (void)allocator_->OnSizeChanged(FileId{1}, size, file.fd());
    before = size;
    for (std::uint64_t page = 0; page < 20; ++page) {
      ASSERT_EQ(Word(page * kPage), page < pages ? file.WordAt(page * kPage) : 0) << i << ": page " << page;
    }
  }
  const std::uint64_t end = 0;
  ASSERT_EQ(write(go[1], &end, sizeof end), static_cast<ssize_t>(sizeof end));
  waitpid(child, nullptr, 0);
  for (const int fd : {go[0], go[1], done[0], done[1]}) close(fd);
  EXPECT_GT(faults, kChanges / 10);
}

// A repair has looked at the file, and puts its zero pages only after the file has grown and the allocator was told of
// it, in either way.
TEST_F(AllocatorEndOfFileTest, AFileGrowsInTheMiddleOfARepair) {
  for (const bool set_up : {false, true}) {
    for (const std::uint64_t length : {kRange, 16 * kPage}) {
      Start();
      MarkedFile file(kPage, 1);
      ASSERT_EQ(SetUp(0, file, 0, false, length), 0);
      std::atomic<bool> told{false};
      std::thread teller;
      int error = 0;
      static std::function<void()> grow;
      grow = [&] {
        teller = std::thread([&] {
          file.Resize(2 * kPage);
          error = set_up ? SetUp(0, file, 0, false, length) : allocator_->OnSizeChanged(FileId{1}, file.size());
          told = true;
        });
        // It may have to wait for the repair, and so may not be waited for.
        for (int i = 0; i < 50 && !told; ++i) usleep(1000);
      };
      after_looking = [] { grow(); };
      (void)Word(kPage);
      teller.join();
      EXPECT_EQ(error, 0);
      EXPECT_EQ(Word(kPage), file.WordAt(kPage)) << set_up << " " << length;
      EXPECT_EQ(Word(2 * kPage), 0u);
      TearDown();
    }
  }
}

}  // namespace
}  // namespace daxcache

// In the place of the C library's: the same, and what a test wants to happen after a repair has found that there is
// nothing at an address.
extern "C" int madvise(void* address, std::size_t length, int advice) noexcept {
  const long result = syscall(SYS_madvise, address, length, advice);
  if (result != 0 && daxcache::after_looking != nullptr) {
    const int error = errno;
    std::exchange(daxcache::after_looking, nullptr)();
    errno = error;
  }
  return static_cast<int>(result);
}
