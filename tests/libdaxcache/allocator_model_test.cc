// The allocator against a naive model that knows what each page should show, and against the kernel's maps, on long
// random streams of requests with errors between.
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/faulty_backend.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/virtual_backend.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::HostMaps;
using testing_::HostVma;
using testing_::MarkedFile;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRange = 8 * kPage;
constexpr std::uint64_t kSlots = 10;
constexpr std::uint64_t kPages = kSlots * 8 + 3;  // with a tail
constexpr std::uint64_t kFiles = 4;

#ifdef DAXCACHE_SANITIZED
constexpr int kRequests = 2'000;
#else
constexpr int kRequests = 12'000;
#endif

// What one page of the window shows: `file` counts from 1.
struct Page {
  std::uint64_t file = 0;
  std::uint64_t index = 0;
  bool writable = false;
  friend bool operator==(const Page&, const Page&) = default;
};
using Pages = std::vector<Page>;

AllocatorOptions Options(bool lazy) {
  AllocatorOptions options;
  options.window = ByteSize(kPages * kPage);
  options.range = RangeSize::Create(ByteSize(kRange)).value();
  options.lazy = {.enabled = lazy, .max_kept = 5};
  options.map_count = {.budget = 10'000, .one_descriptor_per_file = true};
  return options;
}

template <class Allocator>
Pages PagesOf(const Allocator& allocator, bool with_kept) {
  Pages pages(kPages);
  for (const HeldMapping& held : allocator.Mappings()) {
    if (held.kept && !with_kept) continue;
    for (std::uint64_t at = 0; at < held.window.length; at += kPage) {
      Page& page = pages[(held.window.offset + at) / kPage];
      EXPECT_EQ(page.file, 0u) << "two mappings of one page";
      page = {ToIndex(held.file) + 1, (held.file_offset + at) / kPage, held.writable};
    }
  }
  return pages;
}

// A request, drawn at random, given to the allocator and to the model.
template <class Allocator>
class Stream {
 public:
  Stream(Allocator& allocator, std::vector<int> fds, std::uint64_t seed)
      : allocator_(allocator), fds_(std::move(fds)), random_(seed), pages_(kPages) {}

  // Exact: the backend maps only over nothing, so only whole mappings are asked for.
  void Step(bool regular_only) {
    const std::uint64_t kind = Below(20);
    if (kind < 11) {
      SetUp(regular_only || Below(3) > 0);
    } else if (kind < 18) {
      Remove(regular_only || Below(3) > 0);
    } else if (kind == 18) {
      const std::uint64_t file = Below(kFiles);
      last_ = "evict " + std::to_string(file);
      (void)allocator_.Evict(FileId{static_cast<std::uint32_t>(file)});
      for (Page& page : pages_) {
        if (page.file == file + 1) page = {};
      }
    } else if (Below(8) == 0) {
      last_ = "remove all";
      (void)allocator_.RemoveAll();
      pages_.assign(kPages, {});
    }
  }
  const Pages& pages() const { return pages_; }
  const std::string& last() const { return last_; }

 private:
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  void SetUp(bool regular) {
    const std::uint64_t file = Below(kFiles);
    std::uint64_t at = Below(kSlots) * 8;
    std::uint64_t index = Below(4) * 8;
    std::uint64_t length = 8;
    if (!regular) {
      at = Below(kPages + 2);
      index = Below(40);
      length = 1 + Below(Below(2) == 0 ? 4 : 30);
    }
    const bool writable = Below(2) == 0;
    const int error = allocator_.SetUp({.file = FileId{static_cast<std::uint32_t>(file)},
                                        .fd = fds_[file],
                                        .file_offset = index * kPage,
                                        .length = length * kPage,
                                        .window_offset = at * kPage,
                                        .writable = writable});
    last_ = "set-up " + std::to_string(at) + "+" + std::to_string(length) + " file " + std::to_string(file) + " " +
            std::to_string(index) + (writable ? " w" : " r") + " = " + std::to_string(error);
    if (at + length > kPages) {
      EXPECT_EQ(error, -ERANGE);
    }
    if (error != 0) return;
    for (std::uint64_t i = 0; i < length; ++i) pages_[at + i] = {file + 1, index + i, writable};
  }
  void Remove(bool regular) {
    std::vector<Extent> entries(1 + Below(3));
    last_ = "remove";
    for (Extent& entry : entries) {
      std::uint64_t at = Below(kSlots) * 8;
      std::uint64_t length = 8;
      if (!regular) {
        at = Below(kPages + 1);
        length = Below(12) == 0 ? 0 : 1 + Below(Below(2) == 0 ? 4 : 30);
      }
      entry = {at * kPage, length * kPage};
      last_ += " " + std::to_string(at) + "+" + std::to_string(length);
      if (length == 0 || at + length > kPages) continue;
      for (std::uint64_t i = 0; i < length; ++i) pages_[at + i] = {};
    }
    last_ += " = " + std::to_string(allocator_.Remove(entries));
  }

  Allocator& allocator_;
  std::vector<int> fds_;
  std::mt19937_64 random_;
  Pages pages_;
  std::string last_;
};

class AllocatorModelTest : public testing::TestWithParam<std::tuple<bool, std::uint32_t>> {};

TEST_P(AllocatorModelTest, IsTrueToTheKernelsMaps) {
  const auto [lazy, one_in] = GetParam();
  using Backend = FaultyBackend<MmapBackend>;
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, Backend>;
  std::vector<std::unique_ptr<MarkedFile>> files;
  std::vector<int> fds;
  std::map<std::uint64_t, std::uint64_t> file_of_inode;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(std::make_unique<MarkedFile>(80 * kPage, i + 1));
    fds.push_back(files.back()->fd());
    file_of_inode[files.back()->inode()] = i + 1;
  }
  const AllocatorOptions options = Options(lazy);
  const auto made =
      Allocator::Create(options, {},
                        Backend(MmapBackend::Create(options.window).value(),
                                {.one_in = one_in, .errors = {ENOMEM, EINTR, EAGAIN, ENOMEM}, .seed = 7}));
  ASSERT_TRUE(made.ok()) << made.status();
  Allocator& allocator = **made;
  Stream stream(allocator, fds, 11 + one_in);
  for (int i = 0; i < kRequests; ++i) {
    stream.Step(false);
    ASSERT_EQ(allocator.CheckInvariants(), absl::OkStatus()) << i << ": " << stream.last();
    ASSERT_EQ(PagesOf(allocator, false), stream.pages()) << i << ": " << stream.last();
    const std::vector<HostVma> vmas = HostMaps(allocator.backend().address(), kPages * kPage);
    ASSERT_EQ(vmas.size(), allocator.statistics().vmas) << i << ": " << stream.last();
    Pages host(kPages);
    for (const HostVma& vma : vmas) {
      for (std::uint64_t at = 0; vma.inode != 0 && at < vma.length; at += kPage) {
        host[(vma.offset + at) / kPage] = {file_of_inode[vma.inode], (vma.file_offset + at) / kPage, vma.writable};
      }
    }
    const Pages account = PagesOf(allocator, true);
    for (std::uint64_t page = 0; page < kPages; ++page) {
      ASSERT_TRUE(account[page] == host[page])
          << i << ": " << stream.last() << "; page " << page << " shows file " << host[page].file << " from "
          << host[page].index << ", expected " << account[page].file << " from " << account[page].index;
    }
  }
  allocator.backend().SetOneIn(0);
  EXPECT_EQ(allocator.RemoveAll(), 0);
  EXPECT_EQ(HostMaps(allocator.backend().address(), kPages * kPage).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(LazyOrNotWithErrors, AllocatorModelTest,
                         testing::Combine(testing::Bool(), testing::Values(0u, 4u, 30u)));

// A backend that maps only over nothing: it holds exactly what the account says, mapping by mapping.
TEST(AllocatorModelExact, HoldsExactlyWhatTheAccountSays) {
  for (const std::uint32_t one_in : {0u, 5u}) {
    using Backend = FaultyBackend<VirtualBackend<false>>;
    using Allocator = MappingAllocator<LruPolicy<HashIndex>, Backend>;
    AllocatorOptions options = Options(one_in == 0);
    options.map_count.one_descriptor_per_file = false;
    const auto made =
        Allocator::Create(options, {}, Backend(VirtualBackend<false>(), {.one_in = one_in, .errors = {ENOMEM, EIO}}));
    ASSERT_TRUE(made.ok()) << made.status();
    Allocator& allocator = **made;
    Stream stream(allocator, {0, 1, 2, 3}, 5 + one_in);
    for (int i = 0; i < kRequests; ++i) {
      stream.Step(i % 4 != 0);
      ASSERT_EQ(allocator.CheckInvariants(), absl::OkStatus()) << i << ": " << stream.last();
      std::vector<VirtualMapping> account;
      for (const HeldMapping& held : allocator.Mappings()) {
        account.push_back({held.window, static_cast<int>(ToIndex(held.file)), held.file_offset, held.writable});
      }
      std::vector<VirtualMapping> host = allocator.backend().inner().Mappings();
      ASSERT_EQ(account.size(), host.size()) << i << ": " << stream.last();
      for (std::size_t j = 0; j < host.size(); ++j) {
        ASSERT_EQ(account[j], host[j]) << i << ": " << stream.last();
      }
    }
  }
}

}  // namespace
}  // namespace daxcache
