// The C interface, called through libdaxcache.so: what it refuses, and that what it is told arrives. That a C compiler
// takes the header is shown by tests/install.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daxcache/daxcache.h"
#include "daxcache/fuse_wire.h"
#include "daxcache/shmem_backend.h"
#include "daxcache/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::uint64_t kRange = std::uint64_t{2} << 20;
constexpr std::uint64_t kWindow = 8 * kRange;

// A file of four ranges whose every page begins with its number.
class File {
 public:
  File() : fd_(::memfd_create("daxcache_c_test", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd_, 4 * kRange), 0);
    for (std::uint64_t page = 0; page < 4 * kRange / 4096; ++page) {
      EXPECT_EQ(::pwrite(fd_, &page, sizeof page, static_cast<off_t>(page * 4096)), ssize_t{sizeof page});
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The functions that a program gives to the library.
struct Recorder {
  static int Map(void* context, const daxcache_extent* window, int fd, std::uint64_t file_offset, int writable) {
    auto* const self = static_cast<Recorder*>(context);
    self->calls.push_back("map " + std::to_string(window->offset / kRange) + " of " +
                          std::to_string(file_offset / kRange) + (writable ? " rw" : " r"));
    EXPECT_GE(fd, 0);
    EXPECT_EQ(window->length, kRange);
    return self->answer;
  }
  static int Unmap(void* context, const daxcache_extent* extents, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<Recorder*>(context)->calls.push_back("unmap " + std::to_string(extents[i].offset / kRange));
    }
    return 0;
  }
  static int Send(void* context, const void* message, std::size_t bytes, int fd) {
    ShmemMessage decoded;
    EXPECT_EQ(ShmemMessage::Decode(std::span(static_cast<const std::byte*>(message), bytes), &decoded), 0);
    EXPECT_EQ(decoded.shmid, 3);
    const bool maps = decoded.request == static_cast<std::uint32_t>(ShmemOp::kMap);
    EXPECT_EQ(fd >= 0, maps);
    static_cast<Recorder*>(context)->calls.push_back((maps ? "map " : "unmap ") +
                                                     std::to_string(decoded.shm_offset / kRange));
    return 0;
  }

  std::vector<std::string> calls;
  int answer = 0;
};

class CInterfaceTest : public testing::Test {
 protected:
  CInterfaceTest() {
    daxcache_options_init(&options_);
    options_.window_bytes = kWindow;
  }
  ~CInterfaceTest() override { daxcache_destroy(window_); }

  int Create() {
    why_.fill('x');
    return daxcache_create(&options_, &window_, why_.data(), why_.size());
  }
  daxcache_setup_request Request(std::uint64_t range, std::uint64_t slot, std::uint32_t access = DAXCACHE_READ) {
    daxcache_setup_request request;
    daxcache_setup_request_init(&request);
    EXPECT_EQ(daxcache_identify(file_.fd(), &request.identity, &request.file_size), 0);
    request.fd = file_.fd();
    request.access = access;
    request.file_offset = range * kRange;
    request.length = kRange;
    request.window_offset = slot * kRange;
    return request;
  }
  std::uint64_t PageAt(std::uint64_t offset) const {
    std::uint64_t page = 0;
    std::memcpy(&page, static_cast<const std::byte*>(daxcache_address(window_)) + offset, sizeof page);
    return page;
  }
  daxcache_statistics Statistics() const {
    daxcache_statistics statistics;
    daxcache_statistics_init(&statistics);
    EXPECT_EQ(daxcache_get_statistics(window_, &statistics), 0);
    return statistics;
  }

  File file_;
  Recorder recorder_;
  daxcache_options options_;
  daxcache_window* window_ = nullptr;
  std::array<char, 256> why_;
};

TEST_F(CInterfaceTest, SaysItsVersion) {
  EXPECT_STREQ(daxcache_version(), DAXCACHE_VERSION);
}

TEST_F(CInterfaceTest, MapsInThisProcess) {
  ASSERT_EQ(Create(), 0) << why_.data();
  EXPECT_STREQ(why_.data(), "");
  const daxcache_setup_request request = Request(3, 5);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_EQ(PageAt(5 * kRange), 3 * kRange / 4096);
  EXPECT_EQ(PageAt(5 * kRange + 4096), 3 * kRange / 4096 + 1);
  EXPECT_EQ(Statistics().mapped, 1u);
  const daxcache_extent extent{5 * kRange, kRange};
  EXPECT_EQ(daxcache_remove(window_, &extent, 1), 0);
  EXPECT_EQ(Statistics().mapped, 0u);
}

TEST_F(CInterfaceTest, MapsWhereItIsTold) {
  options_.address = ::mmap(nullptr, kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(options_.address, MAP_FAILED);
  ASSERT_EQ(Create(), 0) << why_.data();
  EXPECT_EQ(daxcache_address(window_), options_.address);
  daxcache_setup_request request = Request(1, 0, DAXCACHE_READ | DAXCACHE_WRITE);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  std::memcpy(options_.address, "written", 7);
  std::array<char, 8> read{};
  EXPECT_EQ(::pread(file_.fd(), read.data(), 7, kRange), 7);
  EXPECT_STREQ(read.data(), "written");
  daxcache_destroy(std::exchange(window_, nullptr));
  EXPECT_EQ(::munmap(options_.address, kWindow), 0);
}

TEST_F(CInterfaceTest, RemovesAllAndEvicts) {
  ASSERT_EQ(Create(), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const daxcache_setup_request request = Request(i, i);
    ASSERT_EQ(daxcache_setup(window_, &request), 0);
  }
  const daxcache_extent tail{3 * kRange, UINT64_MAX};
  EXPECT_EQ(daxcache_remove(window_, &tail, 1), 0);
  EXPECT_EQ(Statistics().mapped, 3u);
  const daxcache_setup_request request = Request(0, 0);
  EXPECT_EQ(daxcache_evict(window_, &request.identity), 0);
  EXPECT_EQ(Statistics().mapped, 0u);
  EXPECT_EQ(daxcache_evict(window_, &request.identity), 0) << "there is nothing any more";
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_EQ(daxcache_remove_all(window_), 0);
  EXPECT_EQ(Statistics().mapped, 0u);
}

TEST_F(CInterfaceTest, RefusesOptionsWithAReason) {
  const auto refused = [&](int error, const char* reason) {
    EXPECT_EQ(Create(), error) << why_.data();
    EXPECT_EQ(window_, nullptr);
    EXPECT_THAT(why_.data(), HasSubstr(reason));
    daxcache_options_init(&options_);
    options_.window_bytes = kWindow;
  };
  options_.window_bytes = 0;
  refused(-EINVAL, "window");
  options_.window_bytes = kWindow + 1;
  refused(-EINVAL, "multiple of a page");
  options_.range_bytes = 12345;
  refused(-EINVAL, "power of two");
  options_.policy = "lur";
  refused(-EINVAL, "did you mean \"lru\"");
  options_.policy = "belady";
  refused(-EINVAL, "future");
  options_.policy = "per-file:base=belady";
  refused(-EINVAL, "future");
  options_.policy = "per-file:base=lru,min=x";
  refused(-EINVAL, "min");
  options_.flags = std::uint64_t{1} << 40;
  refused(-EINVAL, "flags");
  options_.backend = 17;
  refused(-EINVAL, "backend");
  options_.backend = DAXCACHE_BACKEND_SHMEM;
  refused(-EINVAL, "shmem_send");
  options_.backend = DAXCACHE_BACKEND_CALLBACKS;
  refused(-EINVAL, "map");
  options_.idle_ns = -1;
  refused(-EINVAL, "idle_ns");
  options_.map_budget = 70;
  refused(-ENOSPC, "map count");
  options_.size = 0;
  refused(-EINVAL, "daxcache_options_init");
}

TEST_F(CInterfaceTest, AReasonIsCutToItsRoom) {
  options_.policy = "lur";
  std::array<char, 8> why;
  why.fill('x');
  EXPECT_EQ(daxcache_create(&options_, &window_, why.data(), 4), -EINVAL);
  EXPECT_EQ(why[3], '\0');
  EXPECT_EQ(why[4], 'x');
  EXPECT_EQ(daxcache_create(&options_, &window_, nullptr, 0), -EINVAL);
  EXPECT_EQ(daxcache_create(&options_, nullptr, nullptr, 0), -EINVAL);
  EXPECT_EQ(daxcache_create(nullptr, &window_, nullptr, 0), -EINVAL);
}

// A program that was compiled for another version.
TEST_F(CInterfaceTest, StructsMayBeOlderOrNewer) {
  struct Newer {
    daxcache_options options;
    std::uint64_t more;
  } newer{options_, 0};
  newer.options.size = sizeof newer;
  ASSERT_EQ(daxcache_create(&newer.options, &window_, nullptr, 0), 0);
  daxcache_destroy(std::exchange(window_, nullptr));
  newer.more = 1;
  EXPECT_EQ(daxcache_create(&newer.options, &window_, why_.data(), why_.size()), -E2BIG);
  EXPECT_THAT(why_.data(), HasSubstr("version"));
  // Before there was anything behind window_bytes.
  daxcache_options older;
  std::memset(static_cast<void*>(&older), 0xff, sizeof older);
  older.size = offsetof(daxcache_options, max_window_bytes);
  older.flags = 0;
  older.window_bytes = kWindow;
  ASSERT_EQ(daxcache_create(&older, &window_, nullptr, 0), 0);

  daxcache_statistics statistics;
  statistics.size = offsetof(daxcache_statistics, upgrades);
  statistics.upgrades = 77;
  EXPECT_EQ(daxcache_get_statistics(window_, &statistics), 0);
  EXPECT_EQ(statistics.setups, 0u);
  EXPECT_EQ(statistics.upgrades, 77u);
}

TEST_F(CInterfaceTest, RefusesRequests) {
  ASSERT_EQ(Create(), 0);
  const auto refused = [&](int error, auto change) {
    daxcache_setup_request request = Request(0, 0);
    change(request);
    EXPECT_EQ(daxcache_setup(window_, &request), error);
  };
  refused(-EINVAL, [](auto& r) { r.access = 4; });
  refused(-EINVAL, [](auto& r) { r.length = 0; });
  refused(-EINVAL, [](auto& r) { r.window_offset = 1; });
  refused(-ERANGE, [](auto& r) { r.window_offset = kWindow; });
  refused(-ERANGE, [](auto& r) { r.window_offset = 0 - kRange; });
  refused(-EBADF, [](auto& r) { r.fd = -1; });
  refused(-EOVERFLOW, [](auto& r) { r.file_offset = 0 - kRange; });
  EXPECT_EQ(daxcache_setup(window_, nullptr), -EINVAL);
  EXPECT_EQ(daxcache_remove(window_, nullptr, 1), -EINVAL);
  EXPECT_EQ(daxcache_remove(window_, nullptr, 0), 0);
  EXPECT_EQ(daxcache_evict(window_, nullptr), -EINVAL);
  EXPECT_EQ(daxcache_identify(file_.fd(), nullptr, nullptr), -EINVAL);
  daxcache_identity identity;
  EXPECT_EQ(daxcache_identify(-1, &identity, nullptr), -EBADF);
  EXPECT_EQ(Statistics().mapped, 0u);
}

// --- the library chooses ---------------------------------------------------------------------------------------------

TEST_F(CInterfaceTest, FindsOrMapsAndPins) {
  options_.window_bytes = 2 * kRange;
  options_.policy = "lru";
  ASSERT_EQ(Create(), 0) << why_.data();
  daxcache_identity identity;
  std::int64_t size = 0;
  ASSERT_EQ(daxcache_identify(file_.fd(), &identity, &size), 0);
  EXPECT_EQ(size, std::int64_t{4 * kRange});
  std::uint32_t file = UINT32_MAX;
  ASSERT_EQ(daxcache_file_number(window_, &identity, &file), 0);

  daxcache_map_request request;
  daxcache_map_request_init(&request);
  request.file = file;
  request.fd = file_.fd();
  request.access = DAXCACHE_READ;
  const auto map = [&](std::uint64_t offset, daxcache_pin* pin) {
    request.file_offset = offset;
    return daxcache_map(window_, &request, pin);
  };
  std::array<daxcache_pin, 3> pins;
  ASSERT_EQ(map(kRange + 5, &pins[0]), 0);
  EXPECT_EQ(PageAt(pins[0].window_offset), kRange / 4096);
  EXPECT_EQ(pins[0].address, static_cast<std::byte*>(daxcache_address(window_)) + pins[0].window_offset);
  ASSERT_EQ(map(2 * kRange, &pins[1]), 0);
  EXPECT_EQ(map(3 * kRange, &pins[2]), -EBUSY) << "both ranges are pinned";

  daxcache_reader* reader = nullptr;
  ASSERT_EQ(daxcache_reader_create(window_, &reader), 0);
  daxcache_pin found;
  EXPECT_EQ(daxcache_reader_pin(reader, file, kRange, DAXCACHE_READ, 0, &found), 1);
  EXPECT_EQ(found.slot, pins[0].slot);
  daxcache_unpin(window_, &found);
  EXPECT_EQ(daxcache_reader_pin(reader, file, kRange, DAXCACHE_WRITE, 0, &found), 0) << "it is read-only";
  EXPECT_EQ(daxcache_reader_pin(reader, file, 0, DAXCACHE_READ, 0, &found), 0) << "it is not mapped";
  EXPECT_EQ(daxcache_reader_pin(reader, file, 0, 4, 0, &found), -EINVAL);
  EXPECT_EQ(daxcache_reader_pin(reader, file, 0, DAXCACHE_READ, 0, nullptr), -EINVAL);
  daxcache_reader_destroy(reader);

  daxcache_unpin(window_, &pins[1]);
  EXPECT_EQ(map(3 * kRange, &pins[1]), 0);
  EXPECT_EQ(PageAt(pins[1].window_offset), 3 * kRange / 4096);
  for (const int i : {0, 1}) daxcache_unpin(window_, &pins[static_cast<std::size_t>(i)]);
  request.access = 4;
  EXPECT_EQ(map(0, &pins[2]), -EINVAL);
  request.access = DAXCACHE_READ;
  EXPECT_EQ(map(0, nullptr), -EINVAL);
}

TEST_F(CInterfaceTest, ReadersAreLimited) {
  options_.max_readers = 1;
  ASSERT_EQ(Create(), 0) << why_.data();
  daxcache_reader* reader = nullptr;
  ASSERT_EQ(daxcache_reader_create(window_, &reader), 0);
  daxcache_reader* second = nullptr;
  EXPECT_EQ(daxcache_reader_create(window_, &second), -EAGAIN);
  EXPECT_EQ(second, nullptr);
  daxcache_reader_destroy(reader);
}

TEST_F(CInterfaceTest, RepairsPastTheEndOfAFile) {
  ASSERT_EQ(Create(), 0);
  const daxcache_setup_request request = Request(3, 0);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  ASSERT_EQ(::ftruncate(file_.fd(), 3 * kRange + 4096), 0);
  auto* const address = static_cast<std::byte*>(daxcache_address(window_));
  EXPECT_EQ(daxcache_repair_fault(window_, address + 8192), 0);
  EXPECT_EQ(PageAt(8192), 0u);
  EXPECT_EQ(PageAt(0), 3 * kRange / 4096);
  EXPECT_EQ(daxcache_repair_fault(window_, address + kRange), -EFAULT);
  ASSERT_EQ(::ftruncate(file_.fd(), 4 * kRange), 0);
  const std::uint64_t page = 77;
  ASSERT_EQ(::pwrite(file_.fd(), &page, sizeof page, 3 * kRange + 8192), ssize_t{sizeof page});
  EXPECT_EQ(daxcache_size_changed(window_, &request.identity, 4 * kRange, file_.fd()), 0);
  EXPECT_EQ(PageAt(8192), 77u);
  EXPECT_EQ(daxcache_size_changed(window_, nullptr, 0, -1), -EINVAL);
}

TEST_F(CInterfaceTest, GrowsAndShrinks) {
  options_.max_window_bytes = 2 * kWindow;
  ASSERT_EQ(Create(), 0) << why_.data();
  const daxcache_setup_request request = Request(1, 9);
  EXPECT_EQ(daxcache_setup(window_, &request), -ERANGE);
  EXPECT_EQ(daxcache_grow(window_, 8), 0);
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_EQ(daxcache_grow(window_, 1), -EINVAL);
  EXPECT_EQ(daxcache_shrink(window_, 7), 0);
  EXPECT_EQ(Statistics().mapped, 0u);
  EXPECT_EQ(daxcache_tick(window_, 1), 0);
}

TEST_F(CInterfaceTest, SaysWhichFilesUseTheWindow) {
  options_.policy = "per-file:base=random,seed=7,min=32K";
  ASSERT_EQ(Create(), 0) << why_.data();
  const daxcache_identity small{{1, 1, 0}};
  const daxcache_identity large{{1, 2, 0}};
  EXPECT_EQ(daxcache_uses_dax(window_, &small, "/a", 100), 0);
  EXPECT_EQ(daxcache_uses_dax(window_, &large, "/b", 1 << 20), 1);
  EXPECT_EQ(daxcache_uses_dax(window_, &small, "/a", 1 << 20), 0) << "until it is evicted";
  EXPECT_EQ(daxcache_evict(window_, &small), 0);
  EXPECT_EQ(daxcache_uses_dax(window_, &small, "/a", 1 << 20), 1);
  EXPECT_EQ(daxcache_uses_dax(window_, nullptr, "/a", 1), -EINVAL);
  EXPECT_EQ(daxcache_uses_dax(window_, &small, nullptr, 1), -EINVAL);
}

TEST_F(CInterfaceTest, TellsOfEvents) {
  std::vector<daxcache_event> events;
  options_.event_context = &events;
  options_.on_event = [](void* context, const daxcache_event* event) {
    static_cast<std::vector<daxcache_event>*>(context)->push_back(*event);
  };
  ASSERT_EQ(Create(), 0);
  const daxcache_setup_request request = Request(3, 5, DAXCACHE_WRITE);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  ASSERT_FALSE(events.empty());
  const daxcache_event event = events.back();
  EXPECT_EQ(event.kind, std::uint32_t{DAXCACHE_EVENT_SETUP});
  EXPECT_EQ(event.write, 1u);
  EXPECT_EQ(event.slot, 5u);
  EXPECT_EQ(event.index, 3u);
  daxcache_destroy(std::exchange(window_, nullptr));  // before the events are
}

// --- life and death --------------------------------------------------------------------------------------------------

int OpenAgain(void* context, const daxcache_identity*, int, int* close_it) {
  const int fd = *static_cast<const int*>(context);
  if (fd < 0) return -ENOENT;
  *close_it = 1;
  return ::dup(fd);
}

TEST_F(CInterfaceTest, SavesAndRestores) {
  ASSERT_EQ(Create(), 0);
  const daxcache_setup_request request = Request(3, 5);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  const ssize_t bytes = daxcache_save(window_, nullptr, 0);
  ASSERT_GT(bytes, 0);
  std::vector<std::byte> saved(std::max<std::size_t>(1, static_cast<std::uint32_t>(bytes)));
  EXPECT_EQ(daxcache_save(window_, saved.data(), saved.size()), bytes);
  int fd = file_.fd();
  EXPECT_EQ(daxcache_restore(window_, saved.data(), saved.size(), &OpenAgain, &fd), -EBUSY);
  daxcache_destroy(std::exchange(window_, nullptr));

  ASSERT_EQ(Create(), 0);
  EXPECT_EQ(daxcache_restore(window_, saved.data(), saved.size() - 1, &OpenAgain, &fd), -EBADMSG);
  int none = -1;
  EXPECT_EQ(daxcache_restore(window_, saved.data(), saved.size(), &OpenAgain, &none), -EIO);
  EXPECT_EQ(Statistics().mapped, 0u);
  EXPECT_EQ(daxcache_restore(window_, saved.data(), saved.size(), nullptr, nullptr), -EINVAL);
  ASSERT_EQ(daxcache_restore(window_, saved.data(), saved.size(), &OpenAgain, &fd), 0);
  EXPECT_EQ(PageAt(5 * kRange), 3 * kRange / 4096);
}

TEST_F(CInterfaceTest, RecoversFromItsJournal) {
  options_.journal_bytes = daxcache_journal_bytes(&options_);
  ASSERT_GT(options_.journal_bytes, 0u);
  options_.journal =
      ::mmap(nullptr, options_.journal_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(options_.journal, MAP_FAILED);
  ASSERT_EQ(Create(), 0) << why_.data();
  const daxcache_setup_request request = Request(3, 5);
  ASSERT_EQ(daxcache_setup(window_, &request), 0);
  int fd = file_.fd();
  EXPECT_EQ(daxcache_recover(window_, 0, &OpenAgain, &fd), -EINVAL) << "nothing was left";
  // As it is when the process dies.
  const auto* const journal = static_cast<const std::byte*>(options_.journal);
  const std::vector<std::byte> left(journal, journal + options_.journal_bytes);
  daxcache_destroy(std::exchange(window_, nullptr));
  std::memcpy(options_.journal, left.data(), left.size());

  options_.flags |= DAXCACHE_JOURNAL_LEFT;
  ASSERT_EQ(Create(), 0) << why_.data();
  ASSERT_EQ(daxcache_recover(window_, 0, &OpenAgain, &fd), 0);
  EXPECT_EQ(PageAt(5 * kRange), 3 * kRange / 4096);
  daxcache_destroy(std::exchange(window_, nullptr));

  static_cast<std::byte*>(options_.journal)[0] ^= std::byte{1};
  EXPECT_EQ(Create(), -EINVAL);
  EXPECT_THAT(why_.data(), HasSubstr("journal"));
  --options_.journal_bytes;
  EXPECT_EQ(Create(), -EINVAL);
  EXPECT_EQ(::munmap(options_.journal, options_.journal_bytes + 1), 0);
  options_.window_bytes = 1;
  EXPECT_EQ(daxcache_journal_bytes(&options_), 0u);
}

TEST_F(CInterfaceTest, DumpsLikeSnprintf) {
  ASSERT_EQ(Create(), 0);
  for (const std::uint32_t format : {DAXCACHE_TEXT, DAXCACHE_JSON, DAXCACHE_PROMETHEUS}) {
    const ssize_t length = daxcache_dump(window_, format, "share=\"root\"", nullptr, 0);
    ASSERT_GT(length, 20);
    std::string whole(static_cast<std::size_t>(length) + 1, 'x');
    EXPECT_EQ(daxcache_dump(window_, format, "share=\"root\"", whole.data(), whole.size()), length);
    EXPECT_EQ(std::strlen(whole.data()), static_cast<std::size_t>(length));
    std::string part(10, 'x');
    EXPECT_EQ(daxcache_dump(window_, format, "share=\"root\"", part.data(), part.size()), length);
    EXPECT_EQ(part.substr(0, 9), whole.substr(0, 9));
    EXPECT_EQ(part[9], '\0');
    if (format == DAXCACHE_PROMETHEUS) {
      EXPECT_THAT(whole, HasSubstr("share=\"root\""));
    }
  }
  EXPECT_EQ(daxcache_dump(window_, 3, nullptr, nullptr, 0), -EINVAL);
}

// --- other backends --------------------------------------------------------------------------------------------------

TEST_F(CInterfaceTest, CallsBackToMap) {
  options_.backend = DAXCACHE_BACKEND_CALLBACKS;
  options_.context = &recorder_;
  options_.map = &Recorder::Map;
  options_.unmap = &Recorder::Unmap;
  options_.flags = DAXCACHE_MAPS_OVER;
  ASSERT_EQ(Create(), 0) << why_.data();
  EXPECT_EQ(daxcache_address(window_), nullptr);
  daxcache_setup_request request = Request(2, 1);
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  request.access |= DAXCACHE_WRITE;
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_EQ(daxcache_remove_all(window_), 0);
  EXPECT_THAT(recorder_.calls, ElementsAre("map 1 of 2 r", "map 1 of 2 rw", "unmap 1"));
  recorder_.answer = -ENOMEM;
  EXPECT_EQ(daxcache_setup(window_, &request), -ENOMEM);
  recorder_.answer = 5;
  EXPECT_EQ(daxcache_setup(window_, &request), -EIO) << "no errno";
}

TEST_F(CInterfaceTest, UnmapsFirstWhereItCannotMapOver) {
  options_.backend = DAXCACHE_BACKEND_CALLBACKS;
  options_.context = &recorder_;
  options_.map = &Recorder::Map;
  options_.unmap = &Recorder::Unmap;
  ASSERT_EQ(Create(), 0) << why_.data();
  daxcache_setup_request request = Request(2, 1);
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  request.access |= DAXCACHE_WRITE;
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_THAT(recorder_.calls, ElementsAre("map 1 of 2 r", "unmap 1", "map 1 of 2 rw"));
}

TEST_F(CInterfaceTest, SendsMessages) {
  options_.backend = DAXCACHE_BACKEND_SHMEM;
  options_.context = &recorder_;
  options_.shmem_send = &Recorder::Send;
  options_.shmem_id = 3;
  ASSERT_EQ(Create(), 0) << why_.data();
  const daxcache_setup_request request = Request(2, 1);
  EXPECT_EQ(daxcache_setup(window_, &request), 0);
  EXPECT_EQ(daxcache_remove_all(window_), 0);
  EXPECT_THAT(recorder_.calls, ElementsAre("map 1", "unmap 1"));
}

TEST_F(CInterfaceTest, EveryPolicyOfADaemon) {
  for (const char* policy : {"linux", "fifo", "lru", "clock", "arc", "random:seed=7"}) {
    options_.policy = policy;
    ASSERT_EQ(Create(), 0) << why_.data();
    const daxcache_setup_request request = Request(1, 1);
    EXPECT_EQ(daxcache_setup(window_, &request), 0) << policy;
    daxcache_destroy(std::exchange(window_, nullptr));
  }
}

// --- FUSE messages ---------------------------------------------------------------------------------------------------

struct Daemon {
  static int Resolve(void* context, std::uint64_t nodeid, int writable, daxcache_resolved* resolved) {
    auto* const self = static_cast<Daemon*>(context);
    EXPECT_EQ(resolved->fd, -1);
    EXPECT_EQ(resolved->file_size, -1);
    self->resolved.emplace_back(nodeid, writable);
    if (nodeid != 42) return -ENOENT;
    resolved->fd = ::dup(self->fd);
    resolved->owned = 1;
    resolved->may_write = 1;
    resolved->identity = {{nodeid, 0, 0}};
    self->given = resolved->fd;
    return 0;
  }
  static void Forget(void* context, std::uint64_t nodeid, std::uint64_t count) {
    static_cast<Daemon*>(context)->forgotten.emplace_back(nodeid, count);
  }

  int fd = -1;
  int given = -1;
  std::vector<std::pair<std::uint64_t, int>> resolved;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> forgotten;
};

class CFuseTest : public CInterfaceTest {
 protected:
  CFuseTest() {
    daemon_.fd = file_.fd();
    daxcache_fuse_options_init(&fuse_options_);
    fuse_options_.context = &daemon_;
    fuse_options_.resolve = &Daemon::Resolve;
    fuse_options_.forget = &Daemon::Forget;
    EXPECT_EQ(Create(), 0);
  }
  ~CFuseTest() override { daxcache_fuse_destroy(fuse_); }

  // The reply's error.
  int Ask(const std::vector<std::byte>& request) {
    std::vector<std::byte> copy = request;
    const std::array pieces{iovec{copy.data(), 30}, iovec{copy.data() + 30, copy.size() - 30}};
    std::array<std::byte, DAXCACHE_FUSE_REPLY_BYTES> reply;
    EXPECT_EQ(daxcache_fuse_handle(fuse_, pieces.data(), pieces.size(), reply.data(), reply.size(), 0),
              DAXCACHE_FUSE_REPLY_BYTES);
    return Decode<FuseOutHeader>(reply).error;
  }

  Daemon daemon_;
  daxcache_fuse_options fuse_options_;
  daxcache_fuse* fuse_ = nullptr;
};

TEST_F(CFuseTest, CarriesOutMessages) {
  ASSERT_EQ(daxcache_fuse_create(window_, &fuse_options_, &fuse_), 0);
  EXPECT_EQ(Ask(SetupMappingRequest(1, 42, {.foffset = kRange, .len = kRange, .flags = 3, .moffset = 2 * kRange})), 0);
  EXPECT_EQ(PageAt(2 * kRange), kRange / 4096);
  EXPECT_LT(::fcntl(daemon_.given, F_GETFD), 0) << "an owned descriptor is closed";
  EXPECT_EQ(Ask(SetupMappingRequest(1, 43, {.foffset = 0, .len = kRange, .flags = 2})), -ENOENT);
  EXPECT_THAT(daemon_.resolved, ElementsAre(std::pair(42ull, 1), std::pair(43ull, 0)));
  const std::vector<FuseRemoveMappingEntry> entries{{.moffset = 2 * kRange, .len = kRange}};
  EXPECT_EQ(Ask(RemoveMappingRequest(1, 42, entries)), 0);
  EXPECT_EQ(Statistics().mapped, 0u);
  auto forget = ForgetRequest(1, 42, 2);
  const iovec piece{forget.data(), forget.size()};
  EXPECT_EQ(daxcache_fuse_handle(fuse_, &piece, 1, nullptr, 0, 0), 0);
  EXPECT_THAT(daemon_.forgotten, ElementsAre(std::pair(42ull, 2ull)));
  EXPECT_EQ(Ask(DestroyRequest(1)), 0);
}

TEST_F(CFuseTest, AReadOnlyShareRefusesToWrite) {
  fuse_options_.read_only = 1;
  ASSERT_EQ(daxcache_fuse_create(window_, &fuse_options_, &fuse_), 0);
  EXPECT_EQ(Ask(SetupMappingRequest(1, 42, {.len = kRange, .flags = 3})), -EROFS);
  EXPECT_EQ(Ask(SetupMappingRequest(1, 42, {.len = kRange, .flags = 2})), 0);
}

TEST_F(CFuseTest, RefusesWhatItCannotUse) {
  EXPECT_EQ(daxcache_fuse_create(window_, nullptr, &fuse_), -EINVAL);
  EXPECT_EQ(daxcache_fuse_create(window_, &fuse_options_, nullptr), -EINVAL);
  fuse_options_.resolve = nullptr;
  EXPECT_EQ(daxcache_fuse_create(window_, &fuse_options_, &fuse_), -EINVAL);
  EXPECT_EQ(fuse_, nullptr);
  fuse_options_.resolve = &Daemon::Resolve;
  fuse_options_.forget = nullptr;  // a daemon may not want to know
  ASSERT_EQ(daxcache_fuse_create(window_, &fuse_options_, &fuse_), 0);
  EXPECT_EQ(daxcache_fuse_handle(fuse_, nullptr, 1, nullptr, 0, 0), -EINVAL);
  EXPECT_EQ(daxcache_fuse_handle(fuse_, nullptr, 0, nullptr, 0, 0), -EINVAL);
  auto forget = ForgetRequest(1, 42, 2);
  const iovec piece{forget.data(), forget.size()};
  EXPECT_EQ(daxcache_fuse_handle(fuse_, &piece, 1, nullptr, 0, 0), 0);
  auto destroy = DestroyRequest(1);
  const iovec other{destroy.data(), destroy.size()};
  EXPECT_EQ(daxcache_fuse_handle(fuse_, &other, 1, nullptr, 0, 0), -EMSGSIZE);
  EXPECT_TRUE(daxcache_fuse_handles(48));
  EXPECT_FALSE(daxcache_fuse_handles(1));
}

TEST_F(CFuseTest, NegotiatesAndMarks) {
  const auto request = InitRequest(
      1, {.major = 7, .minor = 38, .flags = static_cast<std::uint32_t>(kFuseMapAlignment | kFuseInitExt), .flags2 = 2});
  std::vector<std::byte> reply(16 + 64);
  EXPECT_EQ(daxcache_fuse_negotiate(window_, request.data(), request.size(), reply.data(), reply.size(), 1), 0);
  EXPECT_EQ(reply[16 + 30], std::byte{21});
  EXPECT_EQ(reply[16 + 32], std::byte{2});
  EXPECT_EQ(daxcache_fuse_negotiate(window_, nullptr, 0, reply.data(), reply.size(), 1), -EINVAL);
  std::vector<std::byte> lookup(16 + 128);
  EXPECT_EQ(daxcache_fuse_set_dax(1, lookup.data(), lookup.size(), 1), 0);
  EXPECT_EQ(lookup[16 + 40 + 84], std::byte{2});
  EXPECT_EQ(daxcache_fuse_set_dax(1, nullptr, 0, 1), -EINVAL);
}

}  // namespace
}  // namespace daxcache
