// The allocator's life and death: saved and restored, killed at every step and recovered from its journal; what it
// tells of itself; what it takes of memory.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "allocations.h"
#include "daxcache/allocator.h"
#include "daxcache/faulty_backend.h"
#include "daxcache/journal.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/snapshot.h"
#include "daxcache/virtual_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing::HasSubstr;
using testing_::MarkedFile;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRange = 2 << 20;
constexpr std::uint64_t kSlots = 8;

using Linux = LinuxPolicy<HashIndex>;

AllocatorOptions Options() {
  AllocatorOptions options;
  options.window = ByteSize(kSlots * kRange);
  options.map_count.budget = 10'000;
  return options;
}

template <class Allocator>
int MapAt(Allocator& allocator, std::uint64_t file, int fd, std::uint64_t index, std::uint64_t window, bool writable,
          std::uint64_t length = kRange) {
  return allocator.SetUp({.file = allocator.files().Intern({file, 0, 0}),
                          .fd = fd,
                          .file_offset = index * kRange,
                          .length = length,
                          .window_offset = window,
                          .writable = writable});
}

TEST(Snapshot, RestoresWhatWasSaved) {
  using Allocator = MappingAllocator<Linux, MmapBackend>;
  MarkedFile a(4 * kRange, 1);
  MarkedFile b(4 * kRange, 2);
  const auto open = [&](const FileIdentity& file, bool, bool*) { return file[0] == 1 ? a.fd() : b.fd(); };
  std::vector<std::byte> snapshot;
  AllocatorOptions options = Options();
  options.lazy.enabled = true;
  {
    const auto saved = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
    ASSERT_EQ(MapAt(*saved, 1, a.fd(), 1, 0, true), 0);
    ASSERT_EQ(MapAt(*saved, 2, b.fd(), 2, 3 * kRange, false), 0);
    ASSERT_EQ(MapAt(*saved, 2, b.fd(), 0, 5 * kRange + kPage, false, 3 * kPage), 0);
    ASSERT_EQ(MapAt(*saved, 2, b.fd(), 0, 7 * kRange, false), 0);
    const Extent gone{7 * kRange, kRange};
    ASSERT_EQ(saved->Remove({&gone, 1}), 0);  // kept: not saved
    snapshot = saved->Save();
  }
  const auto restored = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
  ASSERT_EQ(restored->Restore(snapshot, open), absl::OkStatus());
  EXPECT_EQ(restored->Save(), snapshot);
  EXPECT_EQ(restored->Mappings().size(), 3u);
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<std::byte*>(restored->backend().address()) + 5 * kRange + 2 * kPage, sizeof word);
  EXPECT_EQ(word, b.WordAt(kPage));
  EXPECT_EQ(restored->CheckInvariants(), absl::OkStatus());
  EXPECT_EQ(restored->Restore(snapshot, open).code(), absl::StatusCode::kFailedPrecondition);

  // Torn, foreign, of another window: refused, and nothing is mapped.
  const auto empty = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
  for (std::size_t cut = 0; cut < snapshot.size(); ++cut) {
    EXPECT_EQ(empty->Restore(std::span(snapshot).first(cut), open).code(), absl::StatusCode::kDataLoss);
  }
  for (std::size_t i = 0; i < snapshot.size(); ++i) {
    std::vector<std::byte> changed = snapshot;
    changed[i] ^= std::byte{1};
    EXPECT_EQ(empty->Restore(changed, open).code(), absl::StatusCode::kDataLoss);
  }
  const auto refuse = [&](const FileIdentity& file, bool, bool*) { return file[0] == 1 ? a.fd() : -ENOENT; };
  EXPECT_EQ(empty->Restore(snapshot, refuse).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(empty->Mappings().empty());
  EXPECT_EQ(testing_::HostMaps(empty->backend().address(), kSlots * kRange).size(), 1u);
}

// A backend that dies: from a certain call on, before or after it was carried out, nothing reaches the host any more.
class Mortal {
 public:
  static constexpr bool kMapsOver = false;
  struct Host {
    VirtualBackend<false> window;
    int calls_left = 1 << 30;
    bool last_is_done = false;
    std::vector<std::byte> journal_at_death;
    std::span<const std::byte> journal;
  };
  explicit Mortal(Host& host) : host_(&host) {}
  int Map(const MapRequest& request) {
    return Call([&] { return host_->window.Map(request); });
  }
  int Unmap(std::span<const Extent> extents) {
    return Call([&] { return host_->window.Unmap(extents); });
  }
  void* address() const { return nullptr; }

 private:
  int Call(const auto& call) {
    if (host_->calls_left > 0) {
      --host_->calls_left;
      return call();
    }
    if (host_->journal_at_death.empty()) {
      if (host_->last_is_done) (void)call();
      host_->journal_at_death.assign(host_->journal.begin(), host_->journal.end());
    }
    return -EIO;
  }
  Host* host_;
};

TEST(Journal, AKillAtAnyStepLeavesTheGuestsMappings) {
  using Allocator = MappingAllocator<Linux, Mortal>;
  const JournalGeometry geometry{.slots = kSlots, .extents = 64};
  struct Cell {
    std::uint64_t file = 0;
    std::uint64_t index = 0;
    bool writable = false;
  };
  int recovered = 0;
  for (int death = 0; death < 60; ++death) {
    for (const bool done : {false, true}) {
      for (const bool lazy : {false, true}) {
        alignas(64) static std::byte memory[1 << 16];
        ASSERT_LE(Journal::Bytes(geometry), sizeof memory);
        Journal journal = Journal::Create(memory, geometry).value();
        Mortal::Host host;
        host.calls_left = death;
        host.last_is_done = done;
        host.journal = memory;
        AllocatorOptions options = Options();
        options.journal = &journal;
        options.lazy.enabled = lazy;
        auto allocator = Allocator::Create(options, {}, Mortal(host)).value();
        // The guest's belief, until its first request that fails because of the death: that one is never answered.
        std::vector<Cell> guest(kSlots);
        std::mt19937 random(3);
        std::uint64_t unanswered = kSlots;
        for (int i = 0; i < 200 && unanswered == kSlots; ++i) {
          const std::uint64_t slot = random() % kSlots;
          const Cell cell{1 + random() % 3, random() % 4, random() % 2 == 0};
          if (random() % 3 == 0) {
            const Extent entry{slot * kRange, kRange};
            if (allocator->Remove({&entry, 1}) != 0) unanswered = slot;
            guest[slot] = {};
          } else if (MapAt(*allocator, cell.file, static_cast<int>(cell.file), cell.index, slot * kRange,
                           cell.writable) != 0) {
            unanswered = slot;
          } else {
            guest[slot] = cell;
          }
        }
        ASSERT_NE(unanswered, kSlots);
        ASSERT_FALSE(host.journal_at_death.empty());
        host.calls_left = 0;
        allocator.reset();  // what it does from now on does not reach the host
        host.calls_left = 1 << 30;
        std::memcpy(memory, host.journal_at_death.data(), sizeof memory);

        Journal left = Journal::Open(memory, geometry).value();
        options.journal = &left;
        const auto next = Allocator::Create(options, {}, Mortal(host)).value();
        const auto open = [](const FileIdentity& file, bool, bool*) { return static_cast<int>(file[0]); };
        ASSERT_EQ(next->Recover(left, true, open), absl::OkStatus());
        ASSERT_EQ(next->CheckInvariants(), absl::OkStatus());
        // All but the slot that was never answered for is as the guest believes, on the host and in the account.
        std::vector<Cell> there(kSlots);
        for (const VirtualMapping& m : host.window.Mappings()) {
          there[m.window.offset / kRange] = {static_cast<std::uint64_t>(m.fd), m.file_offset / kRange, m.writable};
        }
        for (std::uint64_t slot = 0; slot < kSlots; ++slot) {
          if (slot == unanswered) continue;
          EXPECT_EQ(there[slot].file, guest[slot].file) << death << " slot " << slot;
          EXPECT_EQ(there[slot].index, guest[slot].index);
          EXPECT_EQ(there[slot].writable, guest[slot].writable);
        }
        std::size_t mapped = 0;
        for (const HeldMapping& held : next->Mappings()) {
          const Cell& cell = there[held.window.offset / kRange];
          EXPECT_EQ(next->files().identity(held.file)[0], cell.file);
          EXPECT_EQ(held.writable, cell.writable);
          ++mapped;
        }
        EXPECT_EQ(mapped, host.window.Mappings().size());
        EXPECT_EQ(MapAt(*next, 1, 1, 0, unanswered * kRange, true), 0);  // sent again
        for (std::uint32_t i = 0; i < kSlots; ++i) {
          bool undecided = true;
          (void)left.At(i, &undecided);
          EXPECT_FALSE(undecided);
        }
        ++recovered;
      }
    }
  }
  EXPECT_EQ(recovered, 240);
}

// A VMM that refuses to map, but for what `refuses` lets through.
class Refusing {
 public:
  static constexpr bool kMapsOver = false;
  struct Host {
    VirtualBackend<false> window;
    std::function<int(const MapRequest&)> refuses;
  };
  explicit Refusing(Host& host) : host_(&host) {}
  int Map(const MapRequest& request) {
    const int error = host_->refuses ? host_->refuses(request) : 0;
    return error != 0 ? error : host_->window.Map(request);
  }
  int Unmap(std::span<const Extent> extents) { return host_->window.Unmap(extents); }
  void* address() const { return nullptr; }

 private:
  Host* host_;
};

// Where an upgrade takes the mapping away first, a refusal gives it back: the guest, or whoever has it pinned next,
// goes on reading there. What cannot be given back is not accounted for as if it could.
TEST(Journal, ARefusedUpgradeLeavesWhatWasThere) {
  using Allocator = MappingAllocator<Linux, Refusing>;
  const JournalGeometry geometry{.slots = kSlots, .extents = 4};
  for (const int error : {-ENOMEM, -EMFILE, -EACCES, -EAGAIN}) {
    for (const int refusals : {0, 1, 5, 1000}) {  // of the read-only mapping
      for (const bool guest_chooses : {true, false}) {
        alignas(64) static std::byte memory[1 << 14];
        Journal journal = Journal::Create(memory, geometry).value();
        Refusing::Host host;
        AllocatorOptions options = Options();
        options.journal = &journal;
        const auto allocator = Allocator::Create(options, {}, Refusing(host)).value();
        const auto set_up = [&](bool writable) {
          if (guest_chooses) return MapAt(*allocator, 1, 7, 0, 0, writable);
          Pinned pinned;
          const int result = allocator->Map(
              {.file = allocator->files().Intern({1, 0, 0}), .fd = 7, .op = writable ? Op::kWrite : Op::kRead},
              &pinned);
          if (result == 0) allocator->Unpin(pinned);
          return result;
        };
        ASSERT_EQ(set_up(false), 0);
        int left = refusals;
        host.refuses = [&](const MapRequest& request) {
          if (request.writable) return error;
          return left-- > 0 ? error : 0;
        };
        EXPECT_EQ(set_up(true), error);
        const bool there = refusals < 1000;
        EXPECT_EQ(host.window.Mappings().size(), there ? 1u : 0u);
        EXPECT_EQ(allocator->Mappings().size(), there ? 1u : 0u);
        bool undecided = true;
        EXPECT_EQ(journal.At(0, &undecided).flags & JournalMapping::kMapped, there ? JournalMapping::kMapped : 0);
        EXPECT_FALSE(undecided);
        if (there) {
          EXPECT_FALSE(host.window.Mappings()[0].writable);
          EXPECT_FALSE(allocator->Mappings()[0].writable);
        }
        EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
        host.refuses = nullptr;
        EXPECT_EQ(set_up(false), 0);
        EXPECT_EQ(set_up(true), 0);
        EXPECT_TRUE(host.window.Mappings()[0].writable);
        EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
      }
    }
  }
}

TEST(Journal, AWindowIsBuiltAgainWithItsExtents) {
  using Allocator = MappingAllocator<Linux, MmapBackend>;
  const JournalGeometry geometry{.slots = kSlots, .extents = 16};
  alignas(64) static std::byte memory[1 << 14];
  Journal journal = Journal::Create(memory, geometry).value();
  MarkedFile a(4 * kRange, 1);
  const auto open = [&](const FileIdentity&, bool, bool*) { return a.fd(); };
  AllocatorOptions options = Options();
  options.journal = &journal;
  std::vector<std::byte> at_death(sizeof memory);
  std::vector<std::byte> saved;
  {
    const auto first = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
    ASSERT_EQ(MapAt(*first, 1, a.fd(), 1, 0, true), 0);
    ASSERT_EQ(MapAt(*first, 1, a.fd(), 0, kRange, false), 0);
    ASSERT_EQ(MapAt(*first, 1, a.fd(), 0, kRange + 4 * kPage, true, 2 * kPage), 0);
    saved = first->Save();
    std::memcpy(at_death.data(), memory, sizeof memory);
    int error = 0;
    for (std::uint64_t i = 0; i < 20 && error == 0; ++i) {
      error = MapAt(*first, 1, a.fd(), 0, 4 * kRange + 2 * i * kPage, false, kPage);
    }
    EXPECT_EQ(error, -ENOSPC);  // no room in the journal
  }
  std::memcpy(memory, at_death.data(), sizeof memory);
  Journal left = Journal::Open(memory, geometry).value();
  options.journal = &left;
  const auto second = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
  ASSERT_EQ(second->Recover(left, false, open), absl::OkStatus());
  EXPECT_EQ(second->Save(), saved);
  EXPECT_EQ(second->CheckInvariants(), absl::OkStatus());
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<std::byte*>(second->backend().address()) + kRange + 7 * kPage, sizeof word);
  EXPECT_EQ(word, a.WordAt(7 * kPage));
}

TEST(Journal, RefusesWhatIsNone) {
  alignas(64) static std::byte memory[1 << 14];
  const JournalGeometry geometry{.slots = kSlots, .extents = 4};
  EXPECT_FALSE(Journal::Open(memory, geometry).ok());
  EXPECT_FALSE(Journal::Create(std::span(memory).first(100), geometry).ok());
  EXPECT_FALSE(Journal::Create(std::span(memory).subspan(8), geometry).ok());
  ASSERT_TRUE(Journal::Create(memory, geometry).ok());
  EXPECT_TRUE(Journal::Open(memory, geometry).ok());
  EXPECT_FALSE(Journal::Open(memory, {.slots = kSlots, .extents = 5}).ok());
  memory[9] ^= std::byte{1};
  EXPECT_FALSE(Journal::Open(memory, geometry).ok());
}

TEST(AllocatorDumps, SayWhatThereIs) {
  using Allocator = MappingAllocator<Linux, VirtualBackend<true>>;
  const auto allocator = Allocator::Create(Options(), {}, VirtualBackend<true>()).value();
  ASSERT_EQ(MapAt(*allocator, 1, 3, 1, 2 * kRange, true), 0);
  std::string text;
  allocator->DumpText(&text);
  EXPECT_THAT(text, HasSubstr("setups 1 "));
  EXPECT_THAT(text, HasSubstr("4194304+2097152 file 0 offset 2097152 rw\n"));
  std::string json;
  allocator->DumpJson(&json);
  EXPECT_THAT(json, HasSubstr("{\"setups\":1,"));
  EXPECT_THAT(json, HasSubstr("\"mappings\":[{\"offset\":4194304,\"length\":2097152,\"file\":0,\"file_offset\":2097152,"
                              "\"writable\":true,\"kept\":false}]}"));
  std::string prometheus;
  allocator->DumpPrometheus(&prometheus, "share=\"root\"");
  EXPECT_THAT(prometheus, HasSubstr("# TYPE daxcache_setups_total counter\ndaxcache_setups_total{share=\"root\"} 1\n"));
  EXPECT_THAT(prometheus, HasSubstr("# TYPE daxcache_mapped gauge\ndaxcache_mapped{share=\"root\"} 1\n"));
}

TEST(AllocatorSizes, GrowsShrinksAndReclaimsInTheBackground) {
  using Allocator = MappingAllocator<LruPolicy<HashIndex>, VirtualBackend<true>>;
  AllocatorOptions options = Options();
  options.max_window = ByteSize(2 * kSlots * kRange);
  options.reclaim = ReclaimOptions::Linux();
  options.reclaim.threshold_percent = 25;
  options.reclaim.chunk = 2;
  options.reclaim.idle = absl::Nanoseconds(100);
  const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
  const auto map = [&](std::uint64_t index, std::int64_t now) {
    Pinned pinned;
    const int error =
        allocator->Map({.file = FileId{0}, .fd = 3, .file_offset = index * kRange, .time_ns = now}, &pinned);
    if (error == 0) allocator->Unpin(pinned);
    return error;
  };
  for (std::uint64_t i = 0; i < kSlots; ++i) EXPECT_EQ(map(i, 1), 0);
  EXPECT_EQ(allocator->backend().Mappings().size(), kSlots);
  EXPECT_TRUE(allocator->Tick(2));  // a quarter is free again
  EXPECT_EQ(allocator->statistics().mapped, 6u);
  EXPECT_FALSE(allocator->Tick(3));
  ASSERT_EQ(allocator->Grow(4), absl::OkStatus());
  EXPECT_FALSE(allocator->Grow(100).ok());
  for (std::uint64_t i = 0; i < 9; ++i) EXPECT_EQ(map(i, 50), 0);
  EXPECT_EQ(allocator->statistics().ranges, 12u);
  ASSERT_EQ(allocator->Shrink(8), absl::OkStatus());
  EXPECT_FALSE(allocator->Shrink(4).ok());
  EXPECT_LE(allocator->statistics().mapped, 4u);
  for (const VirtualMapping& m : allocator->backend().Mappings()) EXPECT_LT(m.window.offset, 4 * kRange);
  EXPECT_EQ(allocator->SetUp({.file = FileId{0}, .fd = 3, .length = kRange, .window_offset = 4 * kRange}), -ERANGE);
  while (allocator->Tick(1000)) {
  }
  EXPECT_EQ(allocator->statistics().mapped, 0u);  // nobody has used them for long
  EXPECT_TRUE(allocator->backend().Mappings().empty());
  // What a guest has set up is the guest's.
  EXPECT_EQ(allocator->SetUp({.file = FileId{0}, .fd = 3, .length = kRange, .window_offset = 0}), 0);
  while (allocator->Tick(5000)) {
  }
  for (std::uint64_t i = 1; i < 9; ++i) EXPECT_EQ(map(i, 6000), 0);
  EXPECT_EQ(allocator->backend().Mappings()[0], (VirtualMapping{{0, kRange}, 3, 0, false}));
  EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
}

TEST(AllocatorSizes, NeighboursStandSideBySide) {
  using Allocator = MappingAllocator<LruPolicy<HashIndex>, VirtualBackend<true>>;
  const auto allocator = Allocator::Create(Options(), {}, VirtualBackend<true>()).value();
  for (const std::uint64_t index : {0, 9, 1, 2, 3}) {
    Pinned pinned;
    ASSERT_EQ(allocator->Map({.file = FileId{0}, .fd = 3, .file_offset = index * kRange}, &pinned), 0);
    allocator->Unpin(pinned);
    if (index == 1) {
      EXPECT_EQ(pinned.slot, SlotId{2});  // its neighbour's place was taken
    }
    if (index == 2) {
      EXPECT_EQ(pinned.slot, SlotId{3});
    }
  }
}

TEST(AllocatorRules, DecideFuseAttrDax) {
  using Allocator = MappingAllocator<Linux, VirtualBackend<true>>;
  AllocatorOptions options = Options();
  options.rules.min_size = ByteSize(32 << 10);
  const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
  EXPECT_FALSE(allocator->UsesDax(FileId{0}, "/small", 100));
  EXPECT_TRUE(allocator->UsesDax(FileId{1}, "/large", 1 << 20));
  EXPECT_FALSE(allocator->UsesDax(FileId{0}, "/small", 1 << 20));  // as long as the inode lives
  EXPECT_EQ(allocator->Evict(FileId{0}), 0);
  EXPECT_TRUE(allocator->UsesDax(FileId{0}, "/small", 1 << 20));
}

TEST(AllocatorMemory, AtMost128BytesARange) {
  using Allocator = MappingAllocator<Linux, VirtualBackend<true>>;
  AllocatorOptions options = Options();
  options.window = ByteSize(32768 * kRange);
  options.map_count.budget = 1 << 20;
  const std::size_t before = testing_::AllocationsSoFar().bytes;
  const auto allocator = Allocator::Create(options, {}, VirtualBackend<true>()).value();
  const double bytes = static_cast<double>(testing_::AllocationsSoFar().bytes - before) / 32768;
  EXPECT_LE(bytes, 128);
  EXPECT_GT(bytes, 60);
}

TEST(AllocatorMemory, RegularRequestsAllocateNothing) {
  using Allocator = MappingAllocator<Linux, MmapBackend>;
  MarkedFile file(4 * kRange, 1);
  AllocatorOptions options = Options();
  options.lazy = {.enabled = true, .max_kept = 3};
  const auto allocator = Allocator::Create(options, {}, MmapBackend::Create(options.window).value()).value();
  std::mt19937 random(1);
  const std::size_t before = testing_::AllocationsSoFar().count;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t slot = random() % kSlots;
    ASSERT_EQ(allocator->SetUp({.file = FileId{static_cast<std::uint32_t>(random() % 3)},
                                .fd = file.fd(),
                                .file_offset = random() % 4 * kRange,
                                .length = kRange,
                                .window_offset = slot * kRange,
                                .writable = random() % 2 == 0}),
              0);
    const Extent entry{random() % kSlots * kRange, kRange};
    ASSERT_EQ(allocator->Remove({&entry, 1}), 0);
    if (i % 100 == 0) {
      ASSERT_EQ(allocator->Evict(FileId{static_cast<std::uint32_t>(random() % 3)}), 0);
    }
    Pinned pinned;
    ASSERT_EQ(allocator->Map({.file = FileId{5}, .fd = file.fd(), .file_offset = random() % 4 * kRange}, &pinned), 0);
    allocator->Unpin(pinned);
  }
  EXPECT_EQ(testing_::AllocationsSoFar().count, before);
}

}  // namespace
}  // namespace daxcache
