// The allocator where the guest chooses: each promise by itself, on a window of a few ranges.
#include "daxcache/allocator.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "daxcache/faulty_backend.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "daxcache/virtual_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing_::HostMaps;
using testing_::MarkedFile;

constexpr std::uint64_t kRange = 2 << 20;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kToEnd = ~0ull;

using Linux = LinuxPolicy<HashIndex>;

template <class B>
using Owner = std::unique_ptr<MappingAllocator<Linux, B>>;

template <class B>
Owner<B> Make(const AllocatorOptions& options, B backend) {
  auto made = MappingAllocator<Linux, B>::Create(options, {}, std::move(backend));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

// A window of eight ranges in this process.
class AllocatorTest : public testing::Test {
 protected:
  using Backend = FaultyBackend<MmapBackend>;

  void Start(AllocatorOptions options = {}) {
    options.window = ByteSize(8 * kRange);
    options.map_count.one_descriptor_per_file = true;
    allocator_ = Make(options, Backend(MmapBackend::Create(options.window).value(), {}));
  }
  void TearDown() override {
    if (allocator_ == nullptr) return;
    EXPECT_EQ(allocator_->CheckInvariants(), absl::OkStatus());
    EXPECT_EQ(Vmas(), allocator_->statistics().vmas);
    EXPECT_EQ(allocator_->RemoveAll(), 0);
    EXPECT_EQ(Vmas(), 1u);
    EXPECT_THAT(allocator_->Mappings(), IsEmpty());
  }

  int SetUp(std::uint64_t window, const MarkedFile& file, std::uint64_t offset, bool writable = false,
            std::uint64_t length = kRange) {
    return allocator_->SetUp({.file = Id(file),
                              .fd = file.fd(),
                              .file_offset = offset,
                              .length = length,
                              .window_offset = window,
                              .writable = writable});
  }
  using testing::Test::SetUp;
  FileId Id(const MarkedFile& file) { return allocator_->files().Intern({file.inode(), 0, 0}); }
  int Remove(std::uint64_t offset, std::uint64_t length = kRange) {
    const Extent entry{offset, length};
    return allocator_->Remove({&entry, 1});
  }
  std::uint64_t Vmas() { return HostMaps(allocator_->backend().address(), 8 * kRange).size(); }
  std::uint64_t Word(std::uint64_t offset) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(allocator_->backend().address()) + offset, sizeof word);
    return word;
  }
  bool Mapped(std::uint64_t offset, bool writable = false) {
    for (const auto& vma : HostMaps(allocator_->backend().address(), 8 * kRange)) {
      if (vma.offset <= offset && offset - vma.offset < vma.length) return vma.readable && (!writable || vma.writable);
    }
    return false;
  }
  Backend& backend() { return allocator_->backend(); }
  std::uint64_t calls() {
    const AllocatorStatistics s = allocator_->statistics();
    return s.map_calls + s.unmap_calls;
  }

  MarkedFile a_{4 * kRange, 1};
  MarkedFile b_{4 * kRange, 2};
  Owner<Backend> allocator_;
};

TEST_F(AllocatorTest, SetsUpRemovesAndReplaces) {
  Start();
  EXPECT_EQ(SetUp(0, a_, kRange), 0);
  EXPECT_EQ(Word(kPage), a_.WordAt(kRange + kPage));
  EXPECT_EQ(SetUp(0, b_, 0), 0);  // over the other
  EXPECT_EQ(Word(0), b_.WordAt(0));
  EXPECT_FALSE(Mapped(0, true));
  EXPECT_EQ(SetUp(0, b_, 0, true), 0);
  EXPECT_TRUE(Mapped(0, true));
  EXPECT_EQ(allocator_->statistics().upgrades, 1u);
  EXPECT_EQ(SetUp(0, b_, 0, false), 0);
  EXPECT_FALSE(Mapped(0, true));
  EXPECT_EQ(SetUp(3 * kRange, b_, 0), 0);  // one range at two offsets
  EXPECT_EQ(Word(3 * kRange), b_.WordAt(0));
  EXPECT_EQ(Remove(0), 0);
  EXPECT_FALSE(Mapped(0));
  EXPECT_EQ(Word(3 * kRange), b_.WordAt(0));
  EXPECT_EQ(Remove(5 * kRange), 0);  // unknown
}

TEST_F(AllocatorTest, ChecksBySubtraction) {
  Start();
  EXPECT_EQ(SetUp(1, a_, 0), -EINVAL);
  EXPECT_EQ(SetUp(0, a_, 1), -EINVAL);
  EXPECT_EQ(SetUp(0, a_, 0, false, 0), -EINVAL);
  EXPECT_EQ(SetUp(0, a_, 0, false, kRange + 1), -EINVAL);
  EXPECT_EQ(SetUp(8 * kRange, a_, 0), -ERANGE);
  EXPECT_EQ(SetUp(7 * kRange + kPage, a_, 0), -ERANGE);
  EXPECT_EQ(SetUp(~0ull << 12, a_, 0, false, 2 * kPage), -ERANGE);
  EXPECT_EQ(SetUp(0, a_, 0, false, 9 * kRange), -ERANGE);
  EXPECT_EQ(SetUp(0, a_, ~0ull << 12), -EOVERFLOW);
  EXPECT_EQ(SetUp(0, a_, 1ull << 63), -EOVERFLOW);
  EXPECT_EQ(SetUp(0, a_, (1ull << 63) - kRange), -EOVERFLOW);
  EXPECT_EQ(allocator_->SetUp({.file = Id(a_), .length = kRange}), -EBADF);
  EXPECT_EQ(allocator_->SetUp({.fd = a_.fd(), .length = kRange}), -EBADF);
  EXPECT_EQ(Remove(0, 0), -EINVAL);
  EXPECT_EQ(Remove(1), -EINVAL);
  EXPECT_EQ(Remove(0, kRange + 5), -EINVAL);
  EXPECT_EQ(Remove(8 * kRange), -ERANGE);
  EXPECT_EQ(Remove(~0ull << 12, 2 * kPage), -ERANGE);
  EXPECT_EQ(Remove(8 * kRange, kToEnd), -ERANGE);
  EXPECT_EQ(Vmas(), 1u);
  EXPECT_EQ(calls(), 0u);
}

TEST_F(AllocatorTest, ABatchTriesEveryEntryAndNamesTheFirstError) {
  Start();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(SetUp(i * kRange, a_, i * kRange), 0);
  const Extent entries[] = {{0, kRange}, {1, kRange}, {9 * kRange, kRange}, {2 * kRange, kRange}};
  EXPECT_EQ(allocator_->Remove(entries), -EINVAL);
  EXPECT_FALSE(Mapped(0));
  EXPECT_TRUE(Mapped(kRange));
  EXPECT_FALSE(Mapped(2 * kRange));
  EXPECT_TRUE(Mapped(3 * kRange));
}

TEST_F(AllocatorTest, UnmapAllStartsWhereItSays) {
  Start();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(SetUp(2 * i * kRange, a_, i * kRange), 0);
  ASSERT_EQ(SetUp(kRange + kPage, b_, 0, false, kPage), 0);
  EXPECT_EQ(Remove(kRange, kToEnd), 0);
  EXPECT_TRUE(Mapped(0));
  EXPECT_THAT(allocator_->Mappings(), SizeIs(1));
}

TEST_F(AllocatorTest, OddExtentsUnbindSlotsAndLeaveTheRest) {
  Start();
  ASSERT_EQ(SetUp(kRange, a_, 0), 0);
  ASSERT_EQ(SetUp(kRange + 4 * kPage, b_, 7 * kPage, true, 2 * kPage), 0);
  EXPECT_EQ(Word(kRange), a_.WordAt(0));
  EXPECT_EQ(Word(kRange + 4 * kPage), b_.WordAt(7 * kPage));
  EXPECT_EQ(Word(kRange + 6 * kPage), a_.WordAt(6 * kPage));
  EXPECT_EQ(allocator_->statistics().mapped, 0u);
  EXPECT_EQ(allocator_->statistics().extents, 3u);
  EXPECT_EQ(Remove(kRange + 5 * kPage, 2 * kPage), 0);
  EXPECT_TRUE(Mapped(kRange + 4 * kPage));
  EXPECT_FALSE(Mapped(kRange + 5 * kPage));
  EXPECT_FALSE(Mapped(kRange + 6 * kPage));
  EXPECT_EQ(Word(kRange + 7 * kPage), a_.WordAt(7 * kPage));
  ASSERT_EQ(SetUp(kRange, b_, kRange), 0);  // a whole range over the pieces
  EXPECT_EQ(allocator_->statistics().extents, 0u);
  EXPECT_EQ(Word(kRange + 5 * kPage), b_.WordAt(kRange + 5 * kPage));
  EXPECT_EQ(Remove(kRange + kPage, kPage), 0);  // a part
  EXPECT_TRUE(Mapped(kRange));
  EXPECT_FALSE(Mapped(kRange + kPage));
  ASSERT_EQ(SetUp(0, a_, 0, false, 4 * kRange), 0);  // several ranges at once
  EXPECT_EQ(Word(3 * kRange), a_.WordAt(3 * kRange));
  EXPECT_EQ(allocator_->Evict(Id(a_)), 0);
  EXPECT_THAT(allocator_->Mappings(), IsEmpty());
}

TEST_F(AllocatorTest, AfterAnErrorWhatWasThereIsStillThere) {
  Start();
  ASSERT_EQ(SetUp(0, a_, 0), 0);
  backend().FailNext(ENOMEM);
  EXPECT_EQ(SetUp(0, b_, 0), -ENOMEM);
  EXPECT_EQ(Word(0), a_.WordAt(0));
  backend().FailNext(ENOMEM);
  EXPECT_EQ(SetUp(0, a_, 0, true), -ENOMEM);
  EXPECT_FALSE(Mapped(0, true));
  backend().FailNext(EMFILE);
  EXPECT_EQ(SetUp(kRange, b_, 0), -EMFILE);
  EXPECT_EQ(allocator_->statistics().mapped, 1u);
  backend().FailNext(EINTR, 3);  // tried again
  EXPECT_EQ(SetUp(kRange, b_, 0), 0);
  backend().FailNext(ENOMEM);
  EXPECT_EQ(Remove(0), -ENOMEM);
  EXPECT_TRUE(Mapped(0));
  EXPECT_EQ(allocator_->statistics().kept, 1u);  // the guest has given it back all the same
  EXPECT_EQ(SetUp(0, b_, kRange), 0);
}

TEST_F(AllocatorTest, EvictionTakesAllOfAFile) {
  Start();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(SetUp(i * kRange, a_, i * kRange), 0);
  ASSERT_EQ(SetUp(3 * kRange, a_, 0), 0);  // the same range twice
  ASSERT_EQ(SetUp(4 * kRange, b_, 0), 0);
  ASSERT_EQ(SetUp(5 * kRange + kPage, a_, 0, false, kPage), 0);
  EXPECT_EQ(allocator_->Evict(Id(a_)), 0);
  EXPECT_THAT(allocator_->Mappings(), SizeIs(1));
  EXPECT_EQ(allocator_->Evict(kNoFile), 0);
  EXPECT_EQ(Word(4 * kRange), b_.WordAt(0));
}

TEST_F(AllocatorTest, EvictedFilesLeaveNothingFindableEvenAfterErrors) {
  Start();
  ASSERT_EQ(SetUp(0, a_, 0), 0);
  backend().FailNext(ENOMEM);
  EXPECT_EQ(allocator_->Evict(Id(a_)), -ENOMEM);
  EXPECT_TRUE(Mapped(0));
  const std::uint64_t before = calls();
  EXPECT_EQ(SetUp(0, a_, 0), 0);  // perhaps another file by now: it is mapped anew
  EXPECT_EQ(calls(), before + 1);
}

TEST_F(AllocatorTest, LazyUnmapSavesTheCalls) {
  Start({.lazy = {.enabled = true}});
  ASSERT_EQ(SetUp(0, a_, 0), 0);
  ASSERT_EQ(SetUp(kRange, a_, kRange, true), 0);
  EXPECT_EQ(Remove(0), 0);
  EXPECT_EQ(Remove(kRange), 0);
  EXPECT_EQ(calls(), 2u);
  EXPECT_EQ(allocator_->statistics().kept, 2u);
  EXPECT_EQ(SetUp(0, a_, 0), 0);  // still there
  EXPECT_EQ(calls(), 2u);
  EXPECT_EQ(SetUp(kRange, a_, kRange, false), 0);  // there, but writable
  EXPECT_EQ(calls(), 3u);
  EXPECT_FALSE(Mapped(kRange, true));
  EXPECT_EQ(Remove(0), 0);
  EXPECT_EQ(SetUp(0, b_, 0), 0);
  EXPECT_EQ(calls(), 4u);
  EXPECT_EQ(Remove(kRange), 0);
  EXPECT_EQ(allocator_->Evict(Id(a_)), 0);
  EXPECT_FALSE(Mapped(kRange));
  EXPECT_EQ(Remove(0), 0);
  EXPECT_EQ(SetUp(kPage, a_, 0, false, kPage), 0);  // an extent over a kept range
  EXPECT_FALSE(Mapped(0));
  EXPECT_TRUE(Mapped(kPage));
}

TEST_F(AllocatorTest, KeepsAsManyAsItMay) {
  Start({.lazy = {.enabled = true, .max_kept = 2}});
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(SetUp(2 * i * kRange, a_, i * kRange), 0);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(Remove(2 * i * kRange), 0);
  EXPECT_EQ(allocator_->statistics().kept, 2u);
  EXPECT_FALSE(Mapped(0));
  EXPECT_TRUE(Mapped(6 * kRange));
}

TEST(AllocatorOptions, AreChecked) {
  using Allocator = MappingAllocator<Linux, VirtualBackend<true>>;
  const auto create = [](const AllocatorOptions& options) {
    return Allocator::Create(options, {}, VirtualBackend<true>()).status().code();
  };
  EXPECT_EQ(create({.window = ByteSize(kRange), .map_count = {.budget = 1000}}), absl::StatusCode::kOk);
  EXPECT_EQ(create({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.window = ByteSize(kRange + 1)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.window = ByteSize(4 * kRange), .max_window = ByteSize(kRange)}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.window = ByteSize(kRange), .page_bytes = 1000}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.window = ByteSize(kRange), .clamp = true}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.window = ByteSize(~0ull << 21)}), absl::StatusCode::kInvalidArgument);
}

TEST(AllocatorMapCount, AWindowThatCanExceedItIsRefusedOrWarnedOf) {
  using Allocator = MappingAllocator<Linux, VirtualBackend<true>>;
  AllocatorOptions options{.window = ByteSize(128ull << 30), .map_count = {.budget = 65530}};
  EXPECT_EQ(Allocator::Create(options, {}, VirtualBackend<true>()).status().code(),
            absl::StatusCode::kResourceExhausted);
  options.map_count.warn_only = true;
  const auto warned = Make(options, VirtualBackend<true>());
  EXPECT_TRUE(warned->may_exceed_map_count());
  options.window = ByteSize(65466ull * kRange);
  EXPECT_FALSE(Make(options, VirtualBackend<true>())->may_exceed_map_count());
}

TEST(AllocatorMapCount, RefusesWhatDoesNotFitAndKeepsRoomForUpgrades) {
  // 16 ranges of which each second one is mapped take 16 VMAs; 8 may be used.
  const auto allocator =
      Make({.window = ByteSize(16 * kRange), .map_count = {.budget = 12, .spare = 4, .warn_only = true}},
           VirtualBackend<true>());
  const auto set_up = [&](std::uint64_t slot, bool writable) {
    return allocator->SetUp(
        {.file = FileId{1}, .fd = 3, .length = kRange, .window_offset = slot * kRange, .writable = writable});
  };
  int refused = 0;
  for (std::uint64_t i = 0; i < 8; ++i) refused += set_up(2 * i, false) == -ENOMEM;
  EXPECT_EQ(refused, 4);
  EXPECT_LE(allocator->statistics().vmas, 8u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(set_up(2 * i, true), 0);
  EXPECT_EQ(allocator->statistics().refused, 4u);
  EXPECT_EQ(set_up(1, false), 0);  // fills a gap: no more VMAs than before
}

TEST(AllocatorExact, UnmapsExactlyAndUpgradesInTwoSteps) {
  using Backend = FaultyBackend<VirtualBackend<false>>;
  const auto allocator = Make({.window = ByteSize(8 * kRange)}, Backend(VirtualBackend<false>(), {}));
  const auto set_up = [&](std::uint64_t window, std::uint64_t length, bool writable) {
    return allocator->SetUp(
        {.file = FileId{1}, .fd = 3, .length = length, .window_offset = window, .writable = writable});
  };
  const auto remove = [&](std::uint64_t window, std::uint64_t length) {
    const Extent entry{window, length};
    return allocator->Remove({&entry, 1});
  };
  const auto mappings = [&] { return allocator->backend().inner().Mappings(); };
  EXPECT_EQ(set_up(0, kRange, false), 0);
  EXPECT_EQ(set_up(0, kRange, true), 0);
  EXPECT_THAT(mappings(), ElementsAre(VirtualMapping{{0, kRange}, 3, 0, true}));
  EXPECT_EQ(set_up(kPage, kPage, false), -EINVAL);  // a part
  EXPECT_EQ(remove(0, kPage), -EINVAL);
  EXPECT_EQ(set_up(kRange, 3 * kRange, false), 0);
  EXPECT_EQ(set_up(2 * kRange, kRange, false), -EINVAL);
  EXPECT_EQ(set_up(0, 4 * kRange, false), 0);  // over both, each unmapped as it was
  EXPECT_THAT(mappings(), SizeIs(1));
  EXPECT_EQ(remove(0, ~0ull), 0);
  EXPECT_THAT(mappings(), IsEmpty());
  EXPECT_EQ(set_up(0, kRange, false), 0);
  allocator->backend().FailNext(ENOMEM, 1);
  EXPECT_EQ(set_up(0, kRange, true), -ENOMEM);  // the unmapping failed: nothing changed
  EXPECT_THAT(mappings(), SizeIs(1));
  EXPECT_EQ(set_up(kRange, kPage, false), 0);
  EXPECT_EQ(set_up(kRange, kRange, false), 0);  // a slot over an extent that it covers
  EXPECT_EQ(allocator->CheckInvariants(), absl::OkStatus());
  EXPECT_THAT(mappings(), SizeIs(2));
}

}  // namespace
}  // namespace daxcache
