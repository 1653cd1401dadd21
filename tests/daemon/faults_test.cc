// What goes wrong around a daemon: calls that fail, a full map count, files that vanish, and messages that are none. No
// byte is wrong for it, and the account stays as the kernel has it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "daemon/beside_vmm.h"
#include "daemon/guest_vm.h"
#include "daemon/in_vmm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "daxcache/fuse_wire.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::BesideOptions;
using testing_::BesideVmm;
using testing_::Crew;
using testing_::Full;
using testing_::GapHandler;
using testing_::GuestVm;
using testing_::GuestVmOptions;
using testing_::HostMaps;
using testing_::InVmm;
using testing_::kPage;
using testing_::kRange;
using testing_::Link;
using testing_::MarkAt;
using testing_::Share;
using testing_::TempFolder;

constexpr std::uint32_t kSlots = 32;
constexpr int kThreads = 8;
const std::vector<int> kErrors = {ENOMEM, EMFILE, EINTR, EAGAIN};

std::uint64_t Setups() {
#ifdef DAXCACHE_SANITIZED
  return Full() ? 50'000 : 2'000;
#else
  return Full() ? 200'000 : 4'000;
#endif
}

AllocatorOptions Options(std::uint32_t slots, bool lazy) {
  AllocatorOptions options;
  options.window = ByteSize(slots * kRange);
  options.lazy = {.enabled = lazy, .max_kept = slots / 4};
  options.map_count.budget = 10'000;
  return options;
}
GuestVmOptions GuestOptions(bool past_the_end) {
  return {.slots = kSlots, .files = 24, .most_ranges = 10, .past_the_end = past_the_end};
}

TEST(DaemonFaults, CallsThatFailInTheVmm) {
  for (const bool lazy : {false, true}) {
    const TempFolder folder;
    const Share share(folder.path());
    Crew crew(kThreads);
    InVmm vmm(share, Options(kSlots, lazy), {.one_in = 12, .errors = kErrors});
    std::atomic<std::uint32_t> resolved{0};
    vmm.daemon().files().on_resolve = [&](std::uint64_t) { return resolved.fetch_add(1) % 20 == 0 ? -EMFILE : 0; };
    GuestVm guest(share, vmm, vmm.base(), GuestOptions(true));
    guest.CreateAll();
    crew.Do([&](int me) { guest.LoadUntil(me, Setups()); });
    EXPECT_EQ(guest.wrong(), 0u);
    EXPECT_GT(guest.errors(), 10u);
    EXPECT_GT(vmm.allocator().backend().faults(), 10u);
    EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
    // All that the guest believes is there; what could not be removed is, besides.
    std::vector<GuestVm::Belief> account;
    for (const HeldMapping& held : vmm.allocator().Mappings()) {
      account.push_back({static_cast<std::uint32_t>(held.window.offset / kRange),
                         vmm.allocator().files().identity(held.file)[0], held.file_offset / kRange, held.writable});
    }
    for (const GuestVm::Belief& belief : guest.Beliefs()) {
      EXPECT_NE(std::find(account.begin(), account.end(), belief), account.end()) << belief;
    }
    vmm.allocator().backend().SetOneIn(0);
    guest.RemoveAll();
    while (vmm.allocator().Tick(1)) {
    }
    EXPECT_EQ(vmm.allocator().RemoveAll(), 0);
    EXPECT_EQ(HostMaps(vmm.base(), kSlots * kRange).size(), 1u);
    EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
  }
}

// A VMM beside the daemon that answers with errors. After the unmap of an upgrade the map fails: the guest goes on with
// what it had.
TEST(DaemonFaults, CallsThatFailInTheVmmBeside) {
  for (const bool lazy : {false, true}) {
    const TempFolder folder;
    const Share share(folder.path());
    BesideOptions options{.allocator = Options(kSlots, lazy)};
    BesideVmm vmm(share, options);
    Crew crew(kThreads);
    GuestVm guest(share, vmm, vmm.base(), GuestOptions(false));
    guest.CreateAll();
    vmm.FailOneIn(12, kErrors);
    crew.Do([&](int me) { guest.LoadUntil(me, Setups()); });
    EXPECT_EQ(guest.wrong(), 0u);
    EXPECT_GT(guest.errors(), 10u);
    EXPECT_GT(vmm.failed(), 10u);
    vmm.FailOneIn(0, {});
    guest.RemoveAll();
    const std::uint64_t unique = guest.NextUnique();
    EXPECT_EQ(vmm.Call(unique, DestroyRequest(unique)), 0);
    EXPECT_EQ(vmm.mappings(), 0u);
    EXPECT_EQ(vmm.refused(), 0u);
    EXPECT_TRUE(vmm.Stop());
  }
}

// A budget that is smaller than the window: set-ups are refused, upgrades are not.
TEST(DaemonFaults, TheMapCountsBudgetIsUsedUp) {
  const TempFolder folder;
  const Share share(folder.path());
  Crew crew(kThreads);
  AllocatorOptions options = Options(kSlots, true);
  options.map_count = {.budget = 64 + 16, .warn_only = true};
  InVmm vmm(share, options);
  EXPECT_TRUE(vmm.allocator().may_exceed_map_count());
  GuestVm guest(share, vmm, vmm.base(), GuestOptions(true));
  guest.CreateAll();
  crew.Do([&](int me) { guest.LoadUntil(me, Setups()); });
  EXPECT_EQ(guest.wrong(), 0u);
  EXPECT_GT(vmm.allocator().statistics().refused, 0u);
  EXPECT_LE(HostMaps(vmm.base(), kSlots * kRange).size(), 64u + 16);
  EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
  guest.RemoveAll();
}

#ifndef DAXCACHE_SANITIZED  // which need mappings of their own
// The kernel's own count is full, because of somebody else in the process: even replacing a range fails then. (So would
// zero pages past the end of a file: nothing is touched there.)
TEST(DaemonFaults, TheKernelsMapCountIsFull) {
  const TempFolder folder;
  const Share share(folder.path());
  Crew crew(4);
  InVmm vmm(share, Options(kSlots, true));
  GuestVm guest(share, vmm, vmm.base(), GuestOptions(false));
  guest.CreateAll();
  crew.Do([&](int me) { guest.Load(me, 500); });
  // Every second page of a region is of another kind: a VMA each.
  const std::uint64_t limit = internal::ReadNumber("/proc/sys/vm/max_map_count");
  const std::uint64_t bytes = (limit + 1000) * kPage;
  auto* const region =
      static_cast<std::byte*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(static_cast<void*>(region), MAP_FAILED);
  std::uint64_t at = kPage;
  while (at < bytes && mprotect(region + at, kPage, PROT_READ) == 0) at += 2 * kPage;
  EXPECT_LT(at, bytes);
  std::array<void*, 64> more{};  // the last ones, which no two can merge
  std::size_t count = 0;
  for (; count < more.size(); ++count) {
    const int access = count % 2 == 0 ? PROT_READ : PROT_NONE;
    more[count] = mmap(nullptr, kPage, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (more[count] == MAP_FAILED) break;
  }
  EXPECT_LT(count, more.size());
  const std::uint64_t failed = vmm.allocator().statistics().failed_calls;
  crew.Do([&](int me) { guest.Load(me, 2'000); });
  munmap(region, bytes);
  for (std::size_t i = 0; i < count; ++i) munmap(more[i], kPage);
  EXPECT_GT(vmm.allocator().statistics().failed_calls, failed);
  EXPECT_EQ(guest.wrong(), 0u);
  EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
  crew.Do([&](int me) { guest.Load(me, 500); });
  EXPECT_EQ(guest.wrong(), 0u);
  guest.RemoveAll();
  while (vmm.allocator().Tick(1)) {
  }
  EXPECT_EQ(vmm.allocator().RemoveAll(), 0);
  EXPECT_EQ(HostMaps(vmm.base(), kSlots * kRange).size(), 1u);
}
#endif

// --- messages, to both kinds of daemon -------------------------------------------------------------------------------

class Messages {
 public:
  Messages(const Share& share, Link& link, const std::byte* base) : share_(share), link_(link), base_(base) {}

  int SetUp(std::uint64_t nodeid, std::uint64_t index, std::uint64_t slot, bool writable = false) {
    ++unique_;
    return link_.Call(unique_, SetUpBytes(nodeid, index, slot, writable));
  }
  int Remove(std::span<const FuseRemoveMappingEntry> entries) {
    ++unique_;
    return link_.Call(unique_, RemoveMappingRequest(unique_, 1, entries));
  }
  std::uint64_t Word(std::uint64_t slot) const { return testing_::GuestLoad(base_ + slot * kRange); }

  void VanishedFiles() {
    const int fd = share_.Create(100, 2 * kRange);
    ASSERT_GE(fd, 0);
    close(fd);
    ASSERT_EQ(SetUp(100, 0, 0), 0);
    ASSERT_EQ(SetUp(100, 1, 1), 0);
    share_.Remove(100);
    EXPECT_EQ(SetUp(100, 1, 2), -ENOENT);
    EXPECT_EQ(SetUp(100, 0, 1), -ENOENT);        // over another range
    EXPECT_EQ(SetUp(100, 0, 0, true), -ENOENT);  // an upgrade
    EXPECT_EQ(Word(0), MarkAt(100, 0));          // what was there still is
    EXPECT_EQ(Word(1), MarkAt(100, kRange));
    link_.Post(ForgetRequest(++unique_, 100, 1));
    std::array<FuseRemoveMappingEntry, 1> all{{{.moffset = 0, .len = ~std::uint64_t{0}}}};
    EXPECT_EQ(Remove(all), 0);
  }

  void CutAndGarbledMessages() {
    const int fd = share_.Create(101, 4 * kRange);
    ASSERT_GE(fd, 0);
    close(fd);
    for (std::uint64_t slot = 0; slot < 4; ++slot) ASSERT_EQ(SetUp(101, slot, slot), 0);
    std::array<FuseRemoveMappingEntry, 3> entries{{{0, kRange}, {kRange, kRange}, {2 * kRange, kRange}}};
    const std::vector<std::vector<std::byte>> whole = {
        SetUpBytes(101, 3, 0, true), RemoveMappingRequest(0, 1, entries), ForgetRequest(0, 101, 1),
        BatchForgetRequest(0, std::array<FuseForgetEntry, 1>{{{101, 1}}})};
    for (const auto& message : whole) {
      for (std::size_t length = 1; length < message.size(); ++length) {
        std::vector<std::byte> cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length));
        Send(cut, -EINVAL);
        if (length < FuseInHeader::kBytes) continue;
        StoreLittleEndian<std::uint32_t>(static_cast<std::uint32_t>(length), std::span(cut).first<4>());
        Send(cut, -EINVAL);  // the header says so, too
      }
    }
    std::mt19937_64 random(9);
    for (int i = 0; i < 2'000; ++i) {
      std::vector<std::byte> message(FuseInHeader::kBytes + random() % 200);
      for (std::byte& byte : message) byte = static_cast<std::byte>(random());
      if (random() % 2 == 0) {
        StoreLittleEndian<std::uint32_t>(static_cast<std::uint32_t>(message.size()), std::span(message).first<4>());
        StoreLittleEndian<std::uint16_t>(0, std::span(message).subspan<36, 2>());
      }
      const std::uint32_t opcodes[] = {48, 49, 2, 42, static_cast<std::uint32_t>(random())};
      StoreLittleEndian<std::uint32_t>(opcodes[random() % 5], std::span(message).subspan<4, 4>());
      Send(message, 1);
    }
    for (std::uint64_t slot = 0; slot < 4; ++slot) EXPECT_EQ(Word(slot), MarkAt(101, slot * kRange));
    std::array<FuseRemoveMappingEntry, 1> all{{{.moffset = 0, .len = ~std::uint64_t{0}}}};
    EXPECT_EQ(Remove(all), 0);
  }

  // One more than Linux ever sends; some of them not there, one not allowed.
  void ManyEntries(std::uint64_t slots) {
    ASSERT_GE(slots, 257u);
    const int fd = share_.Create(102, slots * kRange);
    ASSERT_GE(fd, 0);
    close(fd);
    for (std::uint64_t slot = 0; slot < slots; ++slot) ASSERT_EQ(SetUp(102, slot, slot), 0);
    std::vector<FuseRemoveMappingEntry> entries;
    for (std::uint64_t i = 0; i < 257; ++i) entries.push_back({.moffset = (256 - i) * kRange, .len = kRange});
    EXPECT_EQ(Remove(entries), 0);
    for (std::uint64_t slot = 257; slot < slots; ++slot) EXPECT_EQ(Word(slot), MarkAt(102, slot * kRange));
    for (std::uint64_t slot = 0; slot < 257; ++slot) ASSERT_EQ(SetUp(102, slot, slot), 0);
    entries[100].moffset += 5;
    EXPECT_EQ(Remove(entries), -EINVAL);
    EXPECT_EQ(Word(256 - 100), MarkAt(102, (256 - 100) * kRange));  // that one alone has stayed
  }

 private:
  std::vector<std::byte> SetUpBytes(std::uint64_t nodeid, std::uint64_t index, std::uint64_t slot,
                                    bool writable) const {
    return SetupMappingRequest(unique_, nodeid,
                               {.foffset = index * kRange,
                                .len = kRange,
                                .flags = kSetupMappingRead | (writable ? kSetupMappingWrite : 0),
                                .moffset = slot * kRange});
  }
  // `expected`: 1 for any error.
  void Send(std::vector<std::byte>& message, int expected) {
    if (message.size() < FuseInHeader::kBytes) return link_.Post(message);
    StoreLittleEndian<std::uint64_t>(++unique_, std::span(message).subspan<8, 8>());
    const auto opcode = LoadLittleEndian<std::uint32_t>(std::span<const std::byte>(message).subspan<4, 4>());
    if (opcode == 2 || opcode == 42) return link_.Post(message);
    const int error = link_.Call(unique_, message);
    if (expected == 1) {
      EXPECT_LT(error, 0);
    } else {
      EXPECT_EQ(error, expected) << "opcode " << opcode << ", " << message.size() << " bytes";
    }
  }

  const Share& share_;
  Link& link_;
  const std::byte* base_;
  std::uint64_t unique_ = 1;
};

constexpr std::uint32_t kManySlots = 270;

TEST(DaemonFaults, MessagesInTheVmm) {
  const TempFolder folder(true);
  const Share share(folder.path());
  InVmm vmm(share, Options(kManySlots, false));
  Messages messages(share, vmm, vmm.base());
  messages.VanishedFiles();
  EXPECT_TRUE(vmm.allocator().Mappings().empty());
  messages.CutAndGarbledMessages();
  EXPECT_TRUE(vmm.allocator().Mappings().empty());
  messages.ManyEntries(kManySlots);
  EXPECT_EQ(vmm.allocator().Mappings().size(), kManySlots - 257u + 1);
  EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
}

TEST(DaemonFaults, MessagesToADaemonBeside) {
  const TempFolder folder(true);
  const Share share(folder.path());
  BesideVmm vmm(share, {.allocator = Options(kManySlots, false)});
  Messages messages(share, vmm, vmm.base());
  messages.VanishedFiles();
  EXPECT_EQ(vmm.mappings(), 0u);
  messages.CutAndGarbledMessages();
  EXPECT_EQ(vmm.mappings(), 0u);
  messages.ManyEntries(kManySlots);
  EXPECT_EQ(vmm.mappings(), kManySlots - 257u + 1);
  EXPECT_EQ(vmm.starts(), 1u);
  EXPECT_TRUE(vmm.Stop());
}

}  // namespace
}  // namespace daxcache
