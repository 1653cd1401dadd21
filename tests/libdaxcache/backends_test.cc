// The backends, each against what it promises: what the kernel has mapped, which messages are sent, what is refused.
#include <cerrno>
#include <cstring>
#include <vector>

#include "daxcache/faulty_backend.h"
#include "daxcache/file_table.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/shmem_backend.h"
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
using testing_::HostVma;
using testing_::MarkedFile;

constexpr std::uint64_t kRange = 2 << 20;

static_assert(MappingBackend<MmapBackend>);
static_assert(MappingBackend<VirtualBackend<true>>);
static_assert(MappingBackend<VirtualBackend<false>>);
static_assert(MappingBackend<FaultyBackend<MmapBackend>>);
static_assert(MappingBackend<BackendRef<MmapBackend>>);
static_assert(MappingBackend<ShmemBackend<int (*)(std::span<const std::byte, ShmemMessage::kBytes>, int)>>);

std::uint64_t WordIn(const MmapBackend& backend, std::uint64_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(backend.address()) + offset, sizeof word);
  return word;
}

TEST(MmapBackend, MapsUnmapsAndReplacesInPlace) {
  MarkedFile a(2 * kRange, 1);
  MarkedFile b(kRange, 2);
  MmapBackend backend = MmapBackend::Create(ByteSize(4 * kRange)).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(backend.address()) % kRange, 0u);
  ASSERT_EQ(backend.Map({.window = {kRange, kRange}, .fd = a.fd(), .file_offset = kRange}), 0);
  EXPECT_EQ(WordIn(backend, kRange), a.WordAt(kRange));
  ASSERT_EQ(backend.Map({.window = {kRange, kRange}, .fd = b.fd(), .writable = true, .prefault = true}), 0);
  EXPECT_EQ(WordIn(backend, kRange + 4096), b.WordAt(4096));
  const std::vector<HostVma> maps = HostMaps(backend.address(), backend.size());
  ASSERT_THAT(maps, SizeIs(3));
  EXPECT_EQ(maps[1].inode, b.inode());
  EXPECT_TRUE(maps[1].writable);
  EXPECT_FALSE(maps[0].readable);

  const Extent removed[] = {{kRange, kRange}, {0, kRange}, {3 * kRange, kRange}};
  EXPECT_EQ(backend.Unmap(removed), 0);
  EXPECT_THAT(HostMaps(backend.address(), backend.size()), SizeIs(1));
}

TEST(MmapBackend, KeepsWhatIsThereAfterAnError) {
  MarkedFile a(kRange, 1);
  MmapBackend backend = MmapBackend::Create(ByteSize(2 * kRange)).value();
  ASSERT_EQ(backend.Map({.window = {0, kRange}, .fd = a.fd()}), 0);
  EXPECT_EQ(backend.Map({.window = {0, kRange}, .fd = -1}), -EBADF);
  EXPECT_EQ(WordIn(backend, 8192), a.WordAt(8192));
}

TEST(MmapBackend, RenewsOverZeroPages) {
  MarkedFile a(kRange, 1);
  MmapBackend backend = MmapBackend::Create(ByteSize(2 * kRange)).value();
  ASSERT_EQ(backend.Map({.window = {kRange, kRange}, .fd = a.fd()}), 0);
  void* const end = static_cast<std::byte*>(backend.address()) + kRange + kRange / 2;
  ASSERT_NE(mmap(end, kRange / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
  EXPECT_EQ(WordIn(backend, kRange + kRange / 2), 0u);
  EXPECT_EQ(backend.Renew({kRange, kRange}), 0);
  EXPECT_EQ(WordIn(backend, kRange + kRange / 2), a.WordAt(kRange / 2));
  EXPECT_THAT(HostMaps(backend.address(), backend.size()), SizeIs(2));
}

TEST(MmapBackend, LeavesNothingBehindAndAdoptsWhatIsNotItsOwn) {
  MmapBackend first = MmapBackend::Create(ByteSize(2 * kRange)).value();
  void* const address = first.address();
  {
    MmapBackend second = MmapBackend::Adopt(address, ByteSize(2 * kRange));
    MmapBackend moved = std::move(second);
  }
  EXPECT_THAT(HostMaps(address, 2 * kRange), SizeIs(1));
  { const MmapBackend moved = std::move(first); }
  EXPECT_THAT(HostMaps(address, 2 * kRange), IsEmpty());
  EXPECT_FALSE(MmapBackend::Create(ByteSize(0)).ok());
  EXPECT_FALSE(MmapBackend::Create(ByteSize(4097)).ok());
  EXPECT_FALSE(MmapBackend::Create(ByteSize(~0ull << 12)).ok());
}

TEST(VirtualBackend, CarvesAndCounts) {
  VirtualBackend<true> backend;
  ASSERT_EQ(backend.Map({.window = {0, 4 * kRange}, .fd = 1, .file_offset = kRange}), 0);
  ASSERT_EQ(backend.Map({.window = {kRange, kRange}, .fd = 2, .writable = true}), 0);
  const Extent removed[] = {{2 * kRange, 4096}};
  ASSERT_EQ(backend.Unmap(removed), 0);
  EXPECT_THAT(backend.Mappings(),
              ElementsAre(VirtualMapping{{0, kRange}, 1, kRange, false}, VirtualMapping{{kRange, kRange}, 2, 0, true},
                          VirtualMapping{{2 * kRange + 4096, 2 * kRange - 4096}, 1, 3 * kRange + 4096, false}));
  EXPECT_EQ(backend.calls(), 3u);
}

TEST(VirtualBackend, ExactOneRefusesWhatAVmmRefuses) {
  VirtualBackend<false> backend;
  ASSERT_EQ(backend.Map({.window = {0, 2 * kRange}, .fd = 1}), 0);
  EXPECT_EQ(backend.Map({.window = {kRange, kRange}, .fd = 1}), -EEXIST);
  const Extent part[] = {{0, kRange}};
  EXPECT_EQ(backend.Unmap(part), -ENOENT);
  const Extent both[] = {{4 * kRange, kRange}, {0, 2 * kRange}};
  EXPECT_EQ(backend.Unmap(both), -ENOENT);  // tried every one
  EXPECT_THAT(backend.Mappings(), IsEmpty());
}

TEST(ShmemBackend, SendsTheSpecifiedBytes) {
  std::vector<std::vector<std::byte>> sent;
  std::vector<int> fds;
  int reply = 0;
  ShmemBackend backend(
      [&](std::span<const std::byte, ShmemMessage::kBytes> bytes, int fd) {
        sent.emplace_back(bytes.begin(), bytes.end());
        fds.push_back(fd);
        return reply;
      },
      {.shmid = 3});
  ASSERT_EQ(backend.Map({.window = {0x200000, 0x1000}, .fd = 7, .file_offset = 0x5000, .writable = true}), 0);
  reply = -ENOMEM;
  const Extent removed[] = {{0x200000, 0x1000}, {0, 0x2000}};
  EXPECT_EQ(backend.Unmap(removed), -ENOMEM);
  ASSERT_THAT(sent, SizeIs(3));
  EXPECT_THAT(fds, ElementsAre(7, -1, -1));
  const unsigned char expected[ShmemMessage::kBytes] = {
      9, 0,    0,    0, 9, 0, 0, 0, 40, 0, 0, 0,           // SHMEM_MAP, version 1 and need_reply, size
      3, 0,    0,    0, 0, 0, 0, 0,                        // shmid, padding
      0, 0x50, 0,    0, 0, 0, 0, 0,                        // fd_offset
      0, 0,    0x20, 0, 0, 0, 0, 0,                        // shm_offset
      0, 0x10, 0,    0, 0, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0,  // len, flags
  };
  EXPECT_EQ(std::memcmp(sent[0].data(), expected, sizeof expected), 0);
  ShmemMessage message;
  ASSERT_EQ(ShmemMessage::Decode(sent[2], &message), 0);
  EXPECT_EQ(message.request, 10u);
  EXPECT_EQ(message.length, 0x2000u);
  EXPECT_EQ(ShmemMessage::Decode(std::span(sent[0]).first(51), &message), -EPROTO);
  sent[0][44] = std::byte{2};
  EXPECT_EQ(ShmemMessage::Decode(sent[0], &message), -EPROTO);
}

TEST(FaultyBackend, FailsAndDoesNothing) {
  FaultyBackend faulty(VirtualBackend<true>(), {.one_in = 2, .errors = {ENOMEM, EINTR}, .seed = 3});
  int failed = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const int error = faulty.Map({.window = {i * kRange, kRange}, .fd = 1});
    EXPECT_TRUE(error == 0 || error == -ENOMEM || error == -EINTR);
    failed += error != 0;
  }
  EXPECT_GT(failed, 20);
  EXPECT_LT(failed, 80);
  EXPECT_EQ(faulty.faults(), static_cast<std::uint64_t>(failed));
  EXPECT_THAT(faulty.inner().Mappings(), SizeIs(static_cast<std::size_t>(100 - failed)));
  faulty.SetOneIn(0);
  faulty.FailNext(EAGAIN);
  const Extent removed[] = {{0, kRange}};
  EXPECT_EQ(faulty.Unmap(removed), -EAGAIN);
  EXPECT_EQ(faulty.Unmap(removed), 0);
}

TEST(FileTable, NumbersAreDenseAndComeBack) {
  FileTable files(42);
  const FileId a = files.Intern({1, 2, 3});
  const FileId b = files.Intern({1, 2, 4});
  EXPECT_EQ(files.Intern({1, 2, 3}), a);
  EXPECT_EQ(ToIndex(a), 0u);
  EXPECT_EQ(ToIndex(b), 1u);
  EXPECT_EQ(files.identity(b), (FileIdentity{1, 2, 4}));
  EXPECT_EQ(files.Find({9, 9, 9}), kNoFile);
  EXPECT_TRUE(files.Release(a));
  EXPECT_FALSE(files.Release(a));
  EXPECT_FALSE(files.Release(kNoFile));
  EXPECT_EQ(files.Find({1, 2, 3}), kNoFile);
  EXPECT_EQ(files.Intern({7, 7, 7}), a);
  EXPECT_EQ(files.size(), 2u);
}

}  // namespace
}  // namespace daxcache
