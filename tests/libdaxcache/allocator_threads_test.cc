// The allocator under several threads: no byte of another file, the account as true as with one, and a log of events
// that a checker can replay.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/faulty_backend.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/arc.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/virtual_backend.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::MarkedFile;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRange = 16 * kPage;

#ifdef DAXCACHE_SANITIZED
constexpr int kRounds = 3'000;
#else
constexpr int kRounds = 20'000;
#endif
constexpr int kThreads = 4;

AllocatorOptions Options(std::uint64_t ranges) {
  AllocatorOptions options;
  options.window = ByteSize(ranges * kRange);
  options.range = RangeSize::Create(ByteSize(kRange)).value();
  options.map_count.budget = 10'000;
  return options;
}

class Files {
 public:
  explicit Files(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) files_.push_back(std::make_unique<MarkedFile>(16 * kRange, i + 1));
  }
  const MarkedFile& operator[](std::uint64_t i) const { return *files_[i]; }

 private:
  std::vector<std::unique_ptr<MarkedFile>> files_;
};

void InThreads(const auto& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

// Each thread has slots of its own, as a guest's driver hands them out, and all have some together.
TEST(AllocatorThreads, SetUpsAndRemovalsOfAGuest) {
  for (const bool lazy : {false, true}) {
    using Backend = FaultyBackend<MmapBackend>;
    using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, Backend>;
    AllocatorOptions options = Options(32);
    options.lazy = {.enabled = lazy, .max_kept = 12};
    const auto allocator = Allocator::Create(options, {},
                                             Backend(MmapBackend::Create(options.window).value(),
                                                     {.one_in = 50, .errors = {ENOMEM, EINTR}}))
                               .value();
    const Files files(6);
    std::atomic<int> wrong{0};
    InThreads([&](int me) {
      std::mt19937 random(static_cast<unsigned>(me));
      const std::byte* const base = static_cast<const std::byte*>(allocator->backend().address());
      for (int i = 0; i < kRounds; ++i) {
        const bool own = random() % 4 != 0;
        const std::uint64_t slot = own ? static_cast<std::uint64_t>(me) * 6 + random() % 6 : 24 + random() % 8;
        const std::uint64_t file = random() % 6;
        const std::uint64_t index = random() % 4;
        const std::uint64_t offset = slot * kRange;
        switch (random() % 16) {
          case 0: (void)allocator->Evict(FileId{static_cast<std::uint32_t>(5)}); break;
          case 1:
            if (!own) {
              (void)allocator->SetUp({.file = FileId{static_cast<std::uint32_t>(file)},
                                      .fd = files[file].fd(),
                                      .length = kRange + 3 * kPage,
                                      .window_offset = 25 * kRange + (random() % 60) * kPage});
            }
            break;
          case 2: {
            const Extent part{24 * kRange + random() % 100 * kPage, (1 + random() % 20) * kPage};
            (void)allocator->Remove({&part, 1});
            break;
          }
          case 3: (void)allocator->Tick(i); break;
          default: {
            const int error = allocator->SetUp({.file = FileId{static_cast<std::uint32_t>(file)},
                                                .fd = files[file].fd(),
                                                .file_offset = index * kRange,
                                                .length = kRange,
                                                .window_offset = offset,
                                                .writable = random() % 2 == 0});
            if (own && error == 0 && file != 5) {
              std::uint64_t word = 0;
              std::memcpy(&word, base + offset + 3 * kPage, sizeof word);
              if (word != files[file].WordAt(index * kRange + 3 * kPage)) wrong.fetch_add(1);
            }
            const Extent gone{offset, kRange};
            if (random() % 4 != 0) (void)allocator->Remove({&gone, 1});
          }
        }
      }
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
    // Descriptors are not the same for all, but here they are; so the kernel has fewer VMAs than are counted.
    const auto vmas = testing_::HostMaps(allocator->backend().address(), options.window.bytes());
    EXPECT_LE(vmas.size(), allocator->statistics().vmas);
    std::map<std::uint64_t, std::uint64_t> mapped;  // by page: the file's inode and page
    for (const auto& vma : vmas) {
      for (std::uint64_t at = 0; vma.inode != 0 && at < vma.length; at += kPage) {
        mapped[vma.offset + at] = vma.inode * 1000 + (vma.file_offset + at) / kPage;
      }
    }
    std::map<std::uint64_t, std::uint64_t> account;
    for (const HeldMapping& held : allocator->Mappings()) {
      for (std::uint64_t at = 0; at < held.window.length; at += kPage) {
        account[held.window.offset + at] = files[ToIndex(held.file)].inode() * 1000 + (held.file_offset + at) / kPage;
      }
    }
    EXPECT_EQ(mapped, account);
    allocator->backend().SetOneIn(0);
    EXPECT_EQ(allocator->RemoveAll(), 0);
    EXPECT_EQ(testing_::HostMaps(allocator->backend().address(), options.window.bytes()).size(), 1u);
  }
}

struct Log {
  std::vector<Event> events;
  static void Add(void* log, const Event& event) { static_cast<Log*>(log)->events.push_back(event); }
};

// Replays a log: what may happen to a slot depends on what it holds. A hit may be told of after its range is gone, but
// it was there once.
void CheckLog(const std::vector<Event>& events, std::uint32_t slots) {
  std::vector<FileRange> held(slots, FileRange{});
  std::map<FileRange, std::uint64_t> ever;
  for (const Event& event : events) {
    switch (event.kind) {
      case EventKind::kSetup:
        for (std::uint32_t i = 0; i < slots; ++i) ASSERT_NE(held[i], event.range) << "mapped twice";
        ASSERT_EQ(held[ToIndex(event.slot)].file, kNoFile) << "a set-up over what is held";
        held[ToIndex(event.slot)] = event.range;
        ++ever[event.range];
        break;
      case EventKind::kUpgrade: ASSERT_EQ(held[ToIndex(event.slot)], event.range); break;
      case EventKind::kRemove: ASSERT_EQ(held[ToIndex(event.slot)], event.range); break;
      case EventKind::kReclaim:
        ASSERT_EQ(held[ToIndex(event.slot)], event.range);
        held[ToIndex(event.slot)] = {};
        break;
      case EventKind::kHit: ASSERT_GT(ever[event.range], 0u); break;
      case EventKind::kMiss:
      case EventKind::kBypass: break;
    }
  }
}

// A backend whose unmaps can be held up, and then fail.
class HeldUp {
 public:
  static constexpr bool kMapsOver = true;
  struct Host {
    VirtualBackend<true> window;
    std::atomic<bool> hold{false};
    std::atomic<bool> held{false};
    std::atomic<int> failures{0};
  };
  explicit HeldUp(Host& host) : host_(&host) {}
  int Map(const MapRequest& request) { return host_->window.Map(request); }
  int Unmap(std::span<const Extent> extents) {
    if (host_->hold) {
      host_->held = true;
      while (host_->hold) std::this_thread::yield();
    }
    return host_->failures.fetch_sub(1) > 0 ? -ENOMEM : host_->window.Unmap(extents);
  }
  void* address() const { return nullptr; }

 private:
  Host* host_;
};

// A file is evicted while ranges of it are being unmapped, which then fails: they are kept, but not to be found for
// another file that gets the number.
TEST(AllocatorThreads, AnUnmapFailsThatAnEvictionWaitsFor) {
  enum class By { kRemove, kTick, kMost };
  for (const By by : {By::kRemove, By::kTick, By::kMost}) {
    for (const int failures : {1, 2, 3}) {
      using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, HeldUp>;
      HeldUp::Host host;
      AllocatorOptions options = Options(4);
      if (by != By::kRemove) options.lazy = {.enabled = true, .max_kept = by == By::kMost ? 0u : 4u};
      options.lazy.idle = absl::Nanoseconds(1);
      const auto allocator = Allocator::Create(options, {}, HeldUp(host)).value();
      const auto set_up = [&](std::uint64_t node) {
        return allocator->SetUp(
            {.file = allocator->files().Intern({node, 0, 0}), .fd = static_cast<int>(node), .length = kRange});
      };
      ASSERT_EQ(set_up(7), 0);
      const FileId file = allocator->files().Find({7, 0, 0});
      const Extent extent{0, kRange};
      if (by == By::kTick) {
        ASSERT_EQ(allocator->Remove({&extent, 1}), 0);
      }
      host.failures = failures;
      host.hold = true;
      std::thread unmapping([&] {
        if (by == By::kTick) {
          (void)allocator->Tick(1'000'000);
        } else {
          (void)allocator->Remove({&extent, 1});
        }
      });
      while (!host.held) std::this_thread::yield();
      int evicted = 0;
      std::thread evicting([&] { evicted = allocator->Evict(file); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it waits, or will
      host.hold = false;
      unmapping.join();
      evicting.join();
      EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
      EXPECT_EQ(allocator->Mappings().size(), host.window.Mappings().size());
      if (evicted == 0) {
        EXPECT_TRUE(allocator->Mappings().empty());
      }
      // Whatever became of it: the number goes to another file.
      allocator->files().Release(file);
      ASSERT_EQ(set_up(8), 0);
      ASSERT_EQ(allocator->files().Find({8, 0, 0}), file);
      ASSERT_EQ(host.window.Mappings().size(), 1u);
      EXPECT_EQ(host.window.Mappings()[0].fd, 8);
    }
  }
}

template <class P>
class AllocatorReaders : public testing::Test {};
using Policies = testing::Types<LinuxPolicy<HashIndex>, LruPolicy<HashIndex>, ArcPolicy<HashIndex>>;
TYPED_TEST_SUITE(AllocatorReaders, Policies);

// Threads find, pin, read and unpin; what is pinned shows its file's bytes.
TYPED_TEST(AllocatorReaders, PinnedRangesStay) {
  using Allocator = MappingAllocator<TypeParam, MmapBackend>;
  AllocatorOptions options = Options(24);
  options.reclaim.chunk = 4;
  Log log;
  options.on_event = Log::Add;
  options.event_context = &log;
  const auto allocator = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
  const Files files(5);
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> accesses{0};
  InThreads([&](int me) {
    typename Allocator::Reader reader(*allocator);
    ASSERT_TRUE(reader.ok());
    std::mt19937 random(static_cast<unsigned>(me) + 100);
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t file = random() % 5;
      const std::uint64_t index = std::min(random() % 16, random() % 16);
      const FileRange range{FileId{static_cast<std::uint32_t>(file)}, index};
      const Op op = random() % 4 == 0 ? Op::kWrite : Op::kRead;
      Pinned pinned;
      if (!reader.Pin(range, {.file = range.file, .op = op, .time_ns = i}, &pinned)) {
        const int error = allocator->Map(
            {.file = range.file, .fd = files[file].fd(), .file_offset = index * kRange + 5, .op = op, .time_ns = i},
            &pinned);
        if (error != 0) {
          wrong.fetch_add(1);
          continue;
        }
      }
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<std::byte*>(pinned.address) + 7 * kPage, sizeof word);
      if (word != files[file].WordAt(index * kRange + 7 * kPage)) wrong.fetch_add(1);
      accesses.fetch_add(1);
      reader.Unpin(pinned);
      if (me == 0 && i % 64 == 0) (void)allocator->Tick(i);
      {
        const typename Allocator::Reader::Epoch epoch(reader);
        const SlotId slot = reader.Find(range);
        if (slot != kNoSlot) {
          std::memcpy(&word, static_cast<std::byte*>(allocator->backend().address()) + ToIndex(slot) * kRange + kPage,
                      sizeof word);
          if (word != files[file].WordAt(index * kRange + kPage)) wrong.fetch_add(1);
        }
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
  const AllocatorStatistics s = allocator->statistics();
  EXPECT_LE(s.hits + s.misses + s.upgrades, accesses + s.upgrades);
  EXPECT_GT(s.hits, accesses / 4);
  CheckLog(log.events, 24);
}

// Files go away and the window changes its size while ranges are pinned: they stay until they are unpinned.
TYPED_TEST(AllocatorReaders, EvictionsAndSizes) {
  using Allocator = MappingAllocator<TypeParam, MmapBackend>;
  AllocatorOptions options = Options(16);
  options.max_window = ByteSize(32 * kRange);
  const auto allocator = Allocator::Create(options, {}, MmapBackend::Create(options.max_window).value()).value();
  const Files files(5);
  std::atomic<int> wrong{0};
  InThreads([&](int me) {
    typename Allocator::Reader reader(*allocator);
    std::mt19937 random(static_cast<unsigned>(me) + 200);
    std::uint32_t grown = 0;
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t file = random() % 5;
      const std::uint64_t index = random() % 8;
      const FileRange range{FileId{static_cast<std::uint32_t>(file)}, index};
      Pinned pinned;
      if (!reader.Pin(range, {.file = range.file, .op = Op::kRead}, &pinned)) {
        const int error =
            allocator->Map({.file = range.file, .fd = files[file].fd(), .file_offset = index * kRange}, &pinned);
        if (error == -ESTALE) continue;
        if (error != 0) {
          wrong.fetch_add(1);
          continue;
        }
      }
      if (random() % 16 == 0) (void)allocator->Evict(range.file);
      if (me == 0 && random() % 64 == 0) {
        const std::uint32_t by = 1 + random() % 4;
        if (grown >= by && random() % 2 == 0) {
          (void)allocator->Shrink(by);
          grown -= by;
        } else if (allocator->Grow(by).ok()) {
          grown += by;
        }
      }
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<std::byte*>(pinned.address) + 2 * kPage, sizeof word);
      if (word != files[file].WordAt(index * kRange + 2 * kPage)) wrong.fetch_add(1);
      reader.Unpin(pinned);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
  for (std::uint32_t file = 0; file < 5; ++file) EXPECT_EQ(allocator->Evict(FileId{file}), 0);
  EXPECT_TRUE(allocator->Mappings().empty());
}

}  // namespace
}  // namespace daxcache
