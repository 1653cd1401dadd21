// The adapter between FUSE messages and the allocator, with an allocator and a caller that only write down what they
// are asked. What daemons are known to get wrong is among the tests by name.
#include "daxcache/fuse.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daxcache/mapping_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kRange = std::uint64_t{2} << 20;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

bool IsOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

int NewDescriptor() {
  return ::memfd_create("fuse_test", MFD_CLOEXEC);
}

// The shape of MappingAllocator.
class FakeAllocator {
 public:
  int SetUp(const SetUpRequest& request) {
    EXPECT_TRUE(IsOpen(request.fd)) << "a descriptor that is closed already";
    set_up.push_back(request);
    return answer;
  }
  int Remove(std::span<const Extent> extents) {
    ++remove_calls;
    int first = 0;
    for (const Extent& extent : extents) {
      removed.emplace_back(extent.offset, extent.length);
      const auto error = errors.find(extent.offset);
      if (first == 0 && error != errors.end()) first = error->second;
    }
    return first;
  }
  int RemoveAll() {
    ++removed_all;
    return answer;
  }
  int Evict(FileId file) {
    evicted.push_back(file);
    return answer;
  }
  FileTable& files() { return files_; }

  bool idle() const { return set_up.empty() && removed.empty() && removed_all == 0 && evicted.empty(); }

  int answer = 0;
  std::map<std::uint64_t, int> errors;  // of removals, by offset
  std::vector<SetUpRequest> set_up;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> removed;
  std::vector<FileId> evicted;
  int remove_calls = 0;
  int removed_all = 0;

 private:
  FileTable files_;
};

class FakeCaller {
 public:
  FakeCaller() : borrowed_(NewDescriptor()) {}
  FakeCaller(const FakeCaller&) = delete;
  FakeCaller& operator=(const FakeCaller&) = delete;
  ~FakeCaller() { ::close(borrowed_); }

  Resolved Resolve(std::uint64_t nodeid, bool writable) {
    resolved.emplace_back(nodeid, writable);
    Resolved result = answer;
    if (give_descriptor) result.fd = given = result.owned ? NewDescriptor() : borrowed_;
    result.identity = {nodeid, 1, 2};
    return result;
  }
  void Forget(std::uint64_t nodeid, std::uint64_t count) { forgotten.emplace_back(nodeid, count); }

  bool idle() const { return resolved.empty() && forgotten.empty(); }

  Resolved answer{.size = 12345, .writable_allowed = true};
  bool give_descriptor = true;
  int given = -1;
  std::vector<std::pair<std::uint64_t, bool>> resolved;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> forgotten;

 private:
  const int borrowed_;
};

class FuseTest : public testing::Test {
 protected:
  using Adapter = FuseAdapter<FakeAllocator, FakeCaller>;

  // Carries out a request that is answered, and returns the error in the reply.
  int Ask(std::span<const std::byte> request, std::int64_t time_ns = 0) {
    std::array<std::byte, 64> reply;
    reply.fill(std::byte{0xa5});
    const std::ptrdiff_t bytes = adapter_.Handle(request, reply, time_ns);
    EXPECT_EQ(bytes, 16);
    EXPECT_EQ(reply[16], std::byte{0xa5}) << "written behind the reply";
    const auto header = Decode<FuseOutHeader>(std::span(reply).first<16>());
    EXPECT_EQ(header.len, 16u);
    EXPECT_EQ(header.unique, kUnique);
    return header.error;
  }
  std::ptrdiff_t Send(std::span<const std::byte> request) { return adapter_.Handle(request, {}); }
  int SendSetUp(const FuseSetupMapping& body) { return Ask(SetupMappingRequest(kUnique, kNode, body)); }
  int SendRemove(const std::vector<FuseRemoveMappingEntry>& entries) {
    return Ask(RemoveMappingRequest(kUnique, kNode, entries));
  }
  static void SetCount(std::vector<std::byte>& request, std::uint32_t count) {
    StoreLittleEndian<std::uint32_t>(count, std::span(request).subspan<FuseInHeader::kBytes, 4>());
  }
  static void SetLen(std::vector<std::byte>& request, std::size_t len) {
    StoreLittleEndian<std::uint32_t>(static_cast<std::uint32_t>(len), std::span(request).first<4>());
  }
  void ExpectIdle() {
    EXPECT_TRUE(allocator_.idle());
    EXPECT_TRUE(caller_.idle());
  }

  static constexpr std::uint64_t kUnique = 0x1122334455667788;
  static constexpr std::uint64_t kNode = 42;
  static constexpr FuseSetupMapping kRead{.foffset = 3 * kRange, .len = kRange, .flags = 2, .moffset = 5 * kRange};
  static constexpr FuseSetupMapping kWrite{.foffset = 3 * kRange, .len = kRange, .flags = 3, .moffset = 5 * kRange};

  FakeAllocator allocator_;
  FakeCaller caller_;
  Adapter adapter_{allocator_, caller_};
};

// Every message that the adapter takes.
std::vector<std::vector<std::byte>> AllMessages() {
  const std::vector<FuseRemoveMappingEntry> removals{{.moffset = kRange, .len = kRange}, {.moffset = 0, .len = kAll}};
  const std::vector<FuseForgetEntry> forgets{{.nodeid = 4, .nlookup = 1}, {.nodeid = 5, .nlookup = 9}};
  return {SetupMappingRequest(1, 2, {.foffset = kRange, .len = kRange, .flags = 1, .moffset = 0}),
          RemoveMappingRequest(1, 2, removals), ForgetRequest(1, 2, 3), BatchForgetRequest(1, forgets),
          DestroyRequest(1)};
}

// --- set-up ----------------------------------------------------------------------------------------------------------

TEST_F(FuseTest, SetsUp) {
  EXPECT_EQ(Ask(SetupMappingRequest(kUnique, kNode, kRead), 77), 0);
  EXPECT_THAT(caller_.resolved, ElementsAre(std::pair(kNode, false)));
  ASSERT_THAT(allocator_.set_up, SizeIs(1));
  const SetUpRequest& request = allocator_.set_up[0];
  EXPECT_EQ(request.file, allocator_.files().Find({kNode, 1, 2}));
  EXPECT_EQ(request.fd, caller_.given);
  EXPECT_EQ(request.file_offset, 3 * kRange);
  EXPECT_EQ(request.length, kRange);
  EXPECT_EQ(request.window_offset, 5 * kRange);
  EXPECT_FALSE(request.writable);
  EXPECT_EQ(request.file_size, 12345);
  EXPECT_EQ(request.time_ns, 77);
}

TEST_F(FuseTest, TheFileHandleIsIgnored) {
  FuseSetupMapping body = kRead;
  for (const std::uint64_t fh : {std::uint64_t{0}, std::uint64_t{42}, kAll}) {
    body.fh = fh;
    EXPECT_EQ(SendSetUp(body), 0);
  }
  EXPECT_THAT(allocator_.set_up, SizeIs(3));
}

TEST_F(FuseTest, FlagsSayWhatIsAskedFor) {
  FuseSetupMapping body = kRead;
  for (const auto& [flags, writable] : {std::pair(0u, false), {1u, true}, {2u, false}, {3u, true}}) {
    body.flags = flags;
    EXPECT_EQ(SendSetUp(body), 0);
    EXPECT_EQ(allocator_.set_up.back().writable, writable) << flags;
    EXPECT_EQ(caller_.resolved.back().second, writable) << flags;
  }
}

TEST_F(FuseTest, UnknownFlagsAreRefused) {
  FuseSetupMapping body = kRead;
  for (const std::uint64_t flag : {std::uint64_t{4}, std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
    body.flags = flag | 2;
    EXPECT_EQ(SendSetUp(body), -EINVAL);
  }
  ExpectIdle();
}

TEST_F(FuseTest, AWriteThatTheFileDoesNotAllowIsEacces) {
  caller_.answer.writable_allowed = false;
  EXPECT_EQ(SendSetUp(kWrite), -EACCES);
  EXPECT_TRUE(allocator_.idle());
  EXPECT_EQ(SendSetUp(kRead), 0);
}

TEST_F(FuseTest, AWriteOnAReadOnlyShareIsErofs) {
  Adapter read_only(allocator_, caller_, {.read_only = true});
  EXPECT_EQ(read_only.SetUp(kNode, kWrite), -EROFS);
  ExpectIdle();
  EXPECT_EQ(read_only.SetUp(kNode, kRead), 0);
}

TEST_F(FuseTest, WhatTheCallerRefusesIsTheAnswer) {
  for (const int error : {-ENOENT, -EMFILE, -ESTALE, -EACCES}) {
    caller_.answer.error = error;
    EXPECT_EQ(SendSetUp(kRead), error);
  }
  EXPECT_TRUE(allocator_.idle());
}

TEST_F(FuseTest, WhatTheAllocatorRefusesIsTheAnswer) {
  for (const int error : {-ENOMEM, -EINVAL, -ENXIO, -EAGAIN}) {
    allocator_.answer = error;
    EXPECT_EQ(SendSetUp(kRead), error);
  }
}

// Linux takes a reply with such an error for broken, and aborts the request with EINVAL or worse.
TEST_F(FuseTest, ErrorsThatAreNoneOfLinuxBecomeEio) {
  for (const int error : {1, ENOMEM, -512, -4096, INT_MIN, INT_MAX}) {
    caller_.answer.error = 0;
    allocator_.answer = error;
    EXPECT_EQ(SendSetUp(kRead), -EIO) << error;
    caller_.answer.error = error;
    EXPECT_EQ(SendSetUp(kRead), -EIO) << error;
  }
}

// A sum that wraps, offsets of no page, a length of 0 or of more than the window: the allocator knows the window, and
// gets what the guest sent, bit by bit.
TEST_F(FuseTest, OffsetsArePassedOnUnchanged) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, kAll, kAll - 4095}) {
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, kRange, std::uint64_t{1} << 63, kAll}) {
      allocator_.answer = -EINVAL;
      EXPECT_EQ(SendSetUp({.foffset = offset, .len = length, .flags = 2, .moffset = kAll - offset}), -EINVAL);
      EXPECT_EQ(allocator_.set_up.back().file_offset, offset);
      EXPECT_EQ(allocator_.set_up.back().length, length);
      EXPECT_EQ(allocator_.set_up.back().window_offset, kAll - offset);
    }
  }
}

// Daemons that answer an overlap with EEXIST break the upgrade from read-only to writable.
TEST_F(FuseTest, AnUpgradeIsASecondSetUpOverTheFirst) {
  EXPECT_EQ(SendSetUp(kRead), 0);
  EXPECT_EQ(SendSetUp(kWrite), 0);
  ASSERT_THAT(allocator_.set_up, SizeIs(2));
  EXPECT_EQ(allocator_.set_up[0].file, allocator_.set_up[1].file);
  EXPECT_EQ(allocator_.set_up[0].window_offset, allocator_.set_up[1].window_offset);
  EXPECT_TRUE(allocator_.set_up[1].writable);
  EXPECT_TRUE(allocator_.removed.empty());
}

TEST_F(FuseTest, TwoSharesAreNotMixedUp) {
  FakeAllocator other_allocator;
  FakeCaller other_caller;
  Adapter other(other_allocator, other_caller);
  EXPECT_EQ(SendSetUp(kRead), 0);
  EXPECT_EQ(other.SetUp(7, kWrite), 0);
  EXPECT_THAT(caller_.resolved, ElementsAre(std::pair(kNode, false)));
  EXPECT_THAT(other_caller.resolved, ElementsAre(std::pair(std::uint64_t{7}, true)));
  EXPECT_THAT(allocator_.set_up, SizeIs(1));
  EXPECT_THAT(other_allocator.set_up, SizeIs(1));
}

// --- descriptors -----------------------------------------------------------------------------------------------------

TEST_F(FuseTest, OwnedDescriptorsAreClosedWhateverHappens) {
  caller_.answer.owned = true;
  const std::size_t before = OpenDescriptors();
  EXPECT_EQ(SendSetUp(kRead), 0);
  EXPECT_FALSE(IsOpen(caller_.given));
  allocator_.answer = -ENOMEM;
  EXPECT_EQ(SendSetUp(kRead), -ENOMEM);
  EXPECT_FALSE(IsOpen(caller_.given));
  caller_.answer.writable_allowed = false;
  EXPECT_EQ(SendSetUp(kWrite), -EACCES);
  EXPECT_FALSE(IsOpen(caller_.given));
  caller_.answer.error = -EIO;
  EXPECT_EQ(SendSetUp(kRead), -EIO);
  EXPECT_FALSE(IsOpen(caller_.given));
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(FuseTest, BorrowedDescriptorsAreNeverClosed) {
  EXPECT_EQ(SendSetUp(kRead), 0);
  allocator_.answer = -ENOMEM;
  EXPECT_EQ(SendSetUp(kRead), -ENOMEM);
  caller_.answer.writable_allowed = false;
  EXPECT_EQ(SendSetUp(kWrite), -EACCES);
  caller_.answer.error = -EIO;
  EXPECT_EQ(SendSetUp(kRead), -EIO);
  EXPECT_TRUE(IsOpen(caller_.given));
}

TEST_F(FuseTest, NoDescriptorIsEbadf) {
  caller_.give_descriptor = false;
  for (const bool owned : {false, true}) {
    caller_.answer.owned = owned;
    EXPECT_EQ(SendSetUp(kRead), -EBADF);
  }
  EXPECT_TRUE(allocator_.idle());
}

// --- removal ---------------------------------------------------------------------------------------------------------

TEST_F(FuseTest, RemovesWhatIsNamedWithItsLength) {
  EXPECT_EQ(SendRemove({{.moffset = 4 * kRange, .len = kRange}, {.moffset = 4096, .len = 8192}}), 0);
  EXPECT_THAT(allocator_.removed, ElementsAre(std::pair(4 * kRange, kRange), std::pair(4096ull, 8192ull)));
}

TEST_F(FuseTest, UnmapAllMayBeginAnywhere) {
  EXPECT_EQ(SendRemove({{.moffset = 0, .len = kAll}}), 0);
  EXPECT_EQ(SendRemove({{.moffset = 7 * kRange, .len = kAll}}), 0);
  EXPECT_THAT(allocator_.removed, ElementsAre(std::pair(std::uint64_t{0}, kAll), std::pair(7 * kRange, kAll)));
}

TEST_F(FuseTest, ABatchIsTriedToItsEndAndAnsweredWithTheFirstError) {
  allocator_.errors = {{kRange, -EINVAL}, {300 * kRange, -ENOMEM}};
  std::vector<FuseRemoveMappingEntry> entries;
  for (std::uint64_t i = 0; i < 600; ++i) entries.push_back({.moffset = i * kRange, .len = kRange});
  EXPECT_EQ(SendRemove(entries), -EINVAL);
  ASSERT_THAT(allocator_.removed, SizeIs(600));
  EXPECT_EQ(allocator_.removed.back().first, 599 * kRange);
  allocator_.errors = {{300 * kRange, -ENOMEM}};
  EXPECT_EQ(SendRemove(entries), -ENOMEM);
  EXPECT_THAT(allocator_.removed, SizeIs(1200));
}

// Linux sends at most 256; 257 is what breaks a daemon with a table of that size.
TEST_F(FuseTest, AnyNumberOfEntries) {
  for (const std::size_t count : {1u, 2u, 255u, 256u, 257u, 512u, 513u, 5000u}) {
    allocator_.removed.clear();
    std::vector<FuseRemoveMappingEntry> entries;
    for (std::uint64_t i = 0; i < count; ++i) entries.push_back({.moffset = i * kRange, .len = kRange + i});
    EXPECT_EQ(SendRemove(entries), 0);
    ASSERT_THAT(allocator_.removed, SizeIs(count));
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(allocator_.removed[i], std::pair(i * kRange, kRange + i));
  }
}

TEST_F(FuseTest, ACountThatIsNotThatOfTheBodyDoesNothing) {
  for (const std::uint32_t count :
       {0u, 1u, 3u, 257u, 1u << 28, (1u << 28) + 2, 0x80000002u, 0xfffffffeu, 0xffffffffu}) {
    auto request = RemoveMappingRequest(kUnique, kNode, std::vector<FuseRemoveMappingEntry>(2));
    SetCount(request, count);
    EXPECT_EQ(Ask(request), -EINVAL) << count;
  }
  EXPECT_EQ(SendRemove({}), -EINVAL);
  ExpectIdle();
}

TEST_F(FuseTest, BytesBehindTheEntriesAreRefused) {
  for (std::size_t more = 1; more < 20; ++more) {
    auto request = RemoveMappingRequest(kUnique, kNode, std::vector<FuseRemoveMappingEntry>(2));
    request.resize(request.size() + more);
    SetLen(request, request.size());
    EXPECT_EQ(Ask(request), -EINVAL) << more;
  }
  ExpectIdle();
}

// --- the rest --------------------------------------------------------------------------------------------------------

TEST_F(FuseTest, ForgetsAreHandedOnWithoutReply) {
  EXPECT_EQ(Send(ForgetRequest(1, 9, kAll)), 0);
  const std::vector<FuseForgetEntry> entries{{.nodeid = 4, .nlookup = 1}, {.nodeid = 5, .nlookup = 2}};
  EXPECT_EQ(Send(BatchForgetRequest(1, entries)), 0);
  EXPECT_EQ(Send(BatchForgetRequest(1, {})), 0);
  EXPECT_THAT(caller_.forgotten, ElementsAre(std::pair(9ull, kAll), std::pair(4ull, 1ull), std::pair(5ull, 2ull)));
  EXPECT_TRUE(allocator_.idle());
}

TEST_F(FuseTest, MalformedForgetsAreDroppedWhole) {
  const std::vector<FuseForgetEntry> entries{{.nodeid = 4, .nlookup = 1}, {.nodeid = 5, .nlookup = 2}};
  for (const std::uint32_t count : {0u, 1u, 3u, 1u << 28, 0xffffffffu}) {
    auto request = BatchForgetRequest(1, entries);
    SetCount(request, count);
    EXPECT_EQ(Send(request), -EINVAL) << count;
  }
  ExpectIdle();
}

TEST_F(FuseTest, EvictsWhatWasMapped) {
  EXPECT_EQ(adapter_.Evict({kNode, 1, 2}), 0);
  EXPECT_THAT(allocator_.evicted, IsEmpty()) << "never mapped";
  EXPECT_EQ(SendSetUp(kRead), 0);
  EXPECT_EQ(adapter_.Evict({kNode, 1, 2}), 0);
  EXPECT_THAT(allocator_.evicted, ElementsAre(allocator_.set_up[0].file));
  EXPECT_EQ(allocator_.files().Find({kNode, 1, 2}), kNoFile) << "the number is free for another file";
}

TEST_F(FuseTest, AFileThatCannotBeEvictedKeepsItsNumber) {
  EXPECT_EQ(SendSetUp(kRead), 0);
  allocator_.answer = -ENOMEM;
  EXPECT_EQ(adapter_.Evict({kNode, 1, 2}), -ENOMEM);
  EXPECT_EQ(allocator_.files().Find({kNode, 1, 2}), allocator_.set_up[0].file);
}

// Files share few numbers, and come and go while they are set up: a number never changes its file under a set-up.
TEST(FuseThreads, AFileKeepsItsNumberWhileItIsSetUp) {
  struct Allocator {
    int SetUp(const SetUpRequest& request) {
      for (int i = 0; i < 3; ++i) {
        if (table.identity(request.file) != FileIdentity{request.file_offset, 0, 0}) wrong = true;
        std::this_thread::yield();
      }
      return table.Find({request.file_offset, 0, 0}) == request.file ? 0 : -ENOENT;
    }
    int Remove(std::span<const Extent>) { return 0; }
    int RemoveAll() { return 0; }
    int Evict(FileId) { return 0; }
    FileTable& files() { return table; }

    FileTable table;
    std::atomic<bool> wrong = false;
  };
  struct Caller {
    Resolved Resolve(std::uint64_t nodeid, bool) { return {.fd = 0, .identity = {nodeid, 0, 0}}; }
    void Forget(std::uint64_t, std::uint64_t) {}
  };
  Allocator allocator;
  Caller caller;
  FuseAdapter adapter(allocator, caller);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 3000; ++i) {
        const std::uint64_t node = (i + thread) % 3;
        EXPECT_EQ(adapter.SetUp(node, {.foffset = node, .len = kRange, .flags = 2}), 0);
        EXPECT_EQ(adapter.Evict({(i + 2 * thread) % 3, 0, 0}), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(allocator.wrong);
}

TEST_F(FuseTest, DestroyRemovesAll) {
  EXPECT_EQ(Ask(DestroyRequest(kUnique)), 0);
  EXPECT_EQ(allocator_.removed_all, 1);
  allocator_.answer = -EIO;
  EXPECT_EQ(Ask(DestroyRequest(kUnique)), -EIO);
}

TEST_F(FuseTest, OtherOpcodesAreEnosys) {
  for (const std::uint32_t opcode : {0u, 1u, 3u, 15u, 26u, 36u, 47u, 50u, 4096u, 0x30000000u, 0xffffffffu}) {
    auto request = DestroyRequest(kUnique);
    StoreLittleEndian<std::uint32_t>(opcode, std::span(request).subspan<4, 4>());
    EXPECT_FALSE(Adapter::Handles(opcode));
    EXPECT_EQ(Ask(request), -ENOSYS) << opcode;
  }
  ExpectIdle();
  for (const std::uint32_t opcode : {2u, 38u, 42u, 48u, 49u}) EXPECT_TRUE(Adapter::Handles(opcode));
}

TEST_F(FuseTest, AReplyWithoutRoomIsAnErrorBeforeAnythingIsDone) {
  std::array<std::byte, 15> reply{};
  for (const auto& request : AllMessages()) {
    const bool answered = request[4] != std::byte{2} && request[4] != std::byte{42};
    EXPECT_EQ(adapter_.Handle(request, std::span(reply).first(0)), answered ? -EMSGSIZE : 0);
    EXPECT_EQ(adapter_.Handle(request, reply), answered ? -EMSGSIZE : 0);
  }
  EXPECT_TRUE(allocator_.idle());
  EXPECT_THAT(caller_.resolved, IsEmpty());
  EXPECT_THAT(reply, testing::Each(std::byte{0}));
}

// --- lengths ---------------------------------------------------------------------------------------------------------

TEST_F(FuseTest, EveryTruncationOfEveryMessageDoesNothing) {
  std::array<std::byte, 16> reply;
  for (const auto& whole : AllMessages()) {
    const bool answered = whole[4] != std::byte{2} && whole[4] != std::byte{42};
    for (std::size_t length = 0; length < whole.size(); ++length) {
      SCOPED_TRACE(testing::Message() << "opcode " << std::to_integer<int>(whole[4]) << ", " << length << " bytes");
      std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const auto refused = [&](std::span<const std::byte> request) {
        const std::ptrdiff_t bytes = adapter_.Handle(request, reply);
        if (request.size() < 40 || !answered) {
          EXPECT_EQ(bytes, -EINVAL);
        } else {
          EXPECT_EQ(bytes, 16);
          EXPECT_EQ(Decode<FuseOutHeader>(reply).error, -EINVAL);
        }
      };
      refused(cut);  // the header promises more than there is
      if (length < 4) continue;
      SetLen(cut, length);
      refused(cut);  // the header is honest
      auto lying = whole;
      SetLen(lying, length);
      refused(lying);  // all is there, but not of this message
    }
  }
  ExpectIdle();
}

TEST_F(FuseTest, BytesBehindTheMessageAreNotOfIt) {
  auto request = SetupMappingRequest(kUnique, kNode, kRead);
  request.resize(4096, std::byte{0xee});
  EXPECT_EQ(Ask(request), 0);
  request = RemoveMappingRequest(kUnique, kNode, std::vector<FuseRemoveMappingEntry>(2));
  request.resize(4096, std::byte{0xee});
  EXPECT_EQ(Ask(request), 0);
  EXPECT_THAT(allocator_.set_up, SizeIs(1));
  EXPECT_THAT(allocator_.removed, SizeIs(2));
}

TEST_F(FuseTest, ALengthOfFourGigabytesIsRefused) {
  auto request = SetupMappingRequest(kUnique, kNode, kRead);
  SetLen(request, 0xffffffff);
  EXPECT_EQ(Ask(request), -EINVAL);
  ExpectIdle();
}

TEST_F(FuseTest, ExtensionsAreNotOfTheBody) {
  auto request = SetupMappingRequest(kUnique, kNode, kRead);
  const auto set_extensions = [&](std::uint16_t units) {
    StoreLittleEndian<std::uint16_t>(units, std::span(request).subspan<36, 2>());
  };
  set_extensions(1);
  EXPECT_EQ(Ask(request), -EINVAL) << "they would have to be the body's last eight bytes";
  request.resize(request.size() + 24);
  SetLen(request, request.size());
  set_extensions(3);
  EXPECT_EQ(Ask(request), 0);
  set_extensions(0xffff);
  EXPECT_EQ(Ask(request), -EINVAL);
  EXPECT_THAT(allocator_.set_up, SizeIs(1));
}

// --- requests in pieces ----------------------------------------------------------------------------------------------

TEST_F(FuseTest, ARequestMayBeCutAnywhere) {
  for (const auto& whole : AllMessages()) {
    FakeAllocator expected_allocator;
    FakeCaller expected_caller;
    std::array<std::byte, 16> expected{};
    const std::ptrdiff_t bytes = Adapter(expected_allocator, expected_caller).Handle(whole, expected);
    const auto same = [&](std::span<const iovec> pieces) {
      FakeAllocator allocator;
      FakeCaller caller;
      std::array<std::byte, 16> reply{};
      EXPECT_EQ(Adapter(allocator, caller).Handle(pieces, reply), bytes);
      EXPECT_EQ(reply, expected);
      EXPECT_EQ(caller.forgotten, expected_caller.forgotten);
      EXPECT_EQ(caller.resolved, expected_caller.resolved);
      EXPECT_EQ(allocator.removed, expected_allocator.removed);
      EXPECT_EQ(allocator.removed_all, expected_allocator.removed_all);
      ASSERT_EQ(allocator.set_up.size(), expected_allocator.set_up.size());
      for (std::size_t i = 0; i < allocator.set_up.size(); ++i) {
        EXPECT_EQ(allocator.set_up[i].window_offset, expected_allocator.set_up[i].window_offset);
        EXPECT_EQ(allocator.set_up[i].file_offset, expected_allocator.set_up[i].file_offset);
      }
    };
    auto* const data = const_cast<std::byte*>(whole.data());
    std::vector<iovec> singly;
    for (std::size_t cut = 0; cut < whole.size(); ++cut) {
      same(std::array{iovec{data, cut}, iovec{nullptr, 0}, iovec{data + cut, whole.size() - cut}});
      singly.push_back({data + cut, 1});
    }
    same(singly);
  }
}

TEST_F(FuseTest, PiecesThatAreTooShortTogetherAreRefused) {
  auto request = SetupMappingRequest(kUnique, kNode, kRead);
  std::array<std::byte, 16> reply;
  EXPECT_EQ(adapter_.Handle(std::span<const iovec>(), reply), -EINVAL);
  EXPECT_EQ(adapter_.Handle(std::array{iovec{request.data(), 20}, iovec{request.data() + 20, 19}}, reply), -EINVAL);
  EXPECT_EQ(adapter_.Handle(std::array{iovec{request.data(), 40}, iovec{request.data() + 40, 39}}, reply), 16);
  EXPECT_EQ(Decode<FuseOutHeader>(reply).error, -EINVAL);
  ExpectIdle();
}

// --- INIT and attributes ---------------------------------------------------------------------------------------------

FuseInitIn Offering(std::uint64_t flags) {
  return {.major = 7,
          .minor = 38,
          .flags = static_cast<std::uint32_t>(flags | kFuseInitExt),
          .flags2 = static_cast<std::uint32_t>(flags >> 32)};
}

TEST(FuseInit, SaysOnlyWhatTheGuestOffered) {
  FuseInitOut out{.flags = 1};
  NegotiateDax(Offering(0), {.per_file_dax = true}, out);
  EXPECT_EQ(out, FuseInitOut{.flags = 1});
  // A daemon that has said it all by itself is corrected.
  out = {.flags = static_cast<std::uint32_t>(kFuseMapAlignment | kFuseInitExt), .map_alignment = 12, .flags2 = 3};
  NegotiateDax(Offering(0), {.per_file_dax = true}, out);
  EXPECT_EQ(out, (FuseInitOut{.flags = static_cast<std::uint32_t>(kFuseInitExt), .flags2 = 1}));
}

TEST(FuseInit, TheAlignmentIsThatOfARangeAndNeverMoreThanLinuxTakes) {
  const auto alignment = [](const char* range) {
    FuseInitOut out;
    NegotiateDax(Offering(kFuseMapAlignment), {.range = RangeSize::Create(*ByteSize::Parse(range)).value()}, out);
    EXPECT_EQ(out.flags, kFuseMapAlignment);
    EXPECT_EQ(out.flags2, 0u);
    return out.map_alignment;
  };
  EXPECT_EQ(alignment("4K"), 12);
  EXPECT_EQ(alignment("2M"), 21);
  EXPECT_EQ(alignment("1G"), 21);
}

TEST(FuseInit, PerFileDecisionsNeedTheOptionAndTheOffer) {
  FuseInitOut out;
  NegotiateDax(Offering(kFuseHasInodeDax), {.per_file_dax = false}, out);
  EXPECT_EQ(out, FuseInitOut{});
  NegotiateDax({.flags2 = 2}, {.per_file_dax = true}, out);  // an offer without FUSE_INIT_EXT is none
  EXPECT_EQ(out, FuseInitOut{});
  out.flags2 = 0xff;  // not said to mean anything
  NegotiateDax(Offering(kFuseHasInodeDax), {.per_file_dax = true}, out);
  EXPECT_EQ(out, (FuseInitOut{.flags = static_cast<std::uint32_t>(kFuseInitExt), .flags2 = 2}));
  out.flags2 = 0xff;  // now it does
  NegotiateDax(Offering(kFuseHasInodeDax), {.per_file_dax = true}, out);
  EXPECT_EQ(out.flags2, 0xffu);
}

TEST(FuseInit, WorksOnBytes) {
  const auto request = InitRequest(5, Offering(kFuseMapAlignment | kFuseHasInodeDax));
  std::vector<std::byte> reply(FuseOutHeader::kBytes + FuseInitOut::kWireBytes);
  EXPECT_EQ(NegotiateDax(request, {.per_file_dax = true}, reply), 0);
  EXPECT_EQ(reply[16 + 15], std::byte{0x44});  // FUSE_MAP_ALIGNMENT and FUSE_INIT_EXT
  EXPECT_EQ(reply[16 + 30], std::byte{21});
  EXPECT_EQ(reply[16 + 32], std::byte{2});

  const auto whole = reply;
  std::vector<std::byte> short_reply(FuseOutHeader::kBytes + 24);
  EXPECT_EQ(NegotiateDax(request, {}, short_reply), -EMSGSIZE);
  for (std::size_t length = 0; length < 56; ++length) {
    EXPECT_EQ(NegotiateDax(std::span(request).first(length), {}, reply), -EINVAL);
  }
  EXPECT_EQ(NegotiateDax(request, {}, std::span(reply).first(15)), -EINVAL);
  EXPECT_EQ(NegotiateDax(DestroyRequest(5), {}, reply), -EINVAL);
  StoreLittleEndian<std::int32_t>(-EPROTO, std::span(reply).subspan<4, 4>());
  const auto refused = reply;
  EXPECT_EQ(NegotiateDax(request, {}, reply), 0);
  EXPECT_EQ(reply, refused) << "an error has no body";
  reply = whole;
  // Protocols before 7.36 end in front of flags2: what stands behind the message is not of it.
  auto old = request;
  StoreLittleEndian<std::uint32_t>(56, std::span(old).first<4>());
  EXPECT_EQ(NegotiateDax(old, {.per_file_dax = true}, reply), 0);
  EXPECT_EQ(reply[16 + 30], std::byte{21});
  EXPECT_EQ(reply[16 + 32], std::byte{0});
}

TEST(FuseAttr, IsSetInTheRepliesThatHaveAttributes) {
  for (const auto& [opcode, flags_at] : {std::pair(FuseOpcode::kLookup, 16 + 40 + 84),
                                         {FuseOpcode::kCreate, 16 + 40 + 84},
                                         {FuseOpcode::kMknod, 16 + 40 + 84},
                                         {FuseOpcode::kGetattr, 16 + 16 + 84},
                                         {FuseOpcode::kSetattr, 16 + 16 + 84}}) {
    std::vector<std::byte> reply(16 + 40 + 88 + 16);
    EXPECT_EQ(SetDaxAttr(opcode, reply, true), 0);
    std::vector<std::byte> expected(reply.size());
    expected[static_cast<std::size_t>(flags_at)] = std::byte{2};
    EXPECT_EQ(reply, expected);
    EXPECT_EQ(SetDaxAttr(opcode, reply, false), 0);
    EXPECT_EQ(reply, std::vector<std::byte>(reply.size()));
    EXPECT_EQ(SetDaxAttr(opcode, std::span(reply).first(static_cast<std::size_t>(flags_at) + 3), true), -EINVAL);
    EXPECT_EQ(SetDaxAttr(opcode, std::span(reply).first(15), true), -EINVAL);
    StoreLittleEndian<std::int32_t>(-ENOENT, std::span(reply).subspan<4, 4>());
    EXPECT_EQ(SetDaxAttr(opcode, std::span(reply).first(16), true), 0) << "an error has no attributes";
  }
  std::vector<std::byte> reply(256);
  EXPECT_EQ(SetDaxAttr(FuseOpcode::kInit, reply, true), -EINVAL);
  EXPECT_EQ(reply, std::vector<std::byte>(256));
}

// --- anything --------------------------------------------------------------------------------------------------------

TEST_F(FuseTest, RandomBytesAreAnsweredOrRefused) {
  std::mt19937_64 random(7);
  const auto messages = AllMessages();
  caller_.answer.owned = true;
  const std::size_t before = OpenDescriptors();
  for (int i = 0; i < 100'000; ++i) {
    std::vector<std::byte> request;
    if (random() % 4 == 0) {
      request.resize(random() % 200);
      for (std::byte& byte : request) byte = static_cast<std::byte>(random());
    } else {
      request = messages[random() % messages.size()];
      for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
        request[random() % request.size()] = static_cast<std::byte>(random() % 2 ? random() : random() % 4);
      }
      request.resize(random() % 4 == 0 ? random() % 200 : request.size());
    }
    std::array<std::byte, 32> reply;
    reply.fill(std::byte{0xa5});
    const std::size_t room = random() % 17;
    const std::ptrdiff_t bytes = adapter_.Handle(request, std::span(reply).first(room));
    ASSERT_TRUE(bytes == 0 || bytes == 16 || bytes == -EINVAL || bytes == -EMSGSIZE) << bytes;
    for (std::size_t at = bytes == 16 ? 16 : 0; at < reply.size(); ++at) ASSERT_EQ(reply[at], std::byte{0xa5});
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace daxcache
