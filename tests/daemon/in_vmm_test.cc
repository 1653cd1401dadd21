// A daemon in the VMM under load: threads of a guest, real files that come, go and change their size, and at the end
// everything as it was. DAXCACHE_FULL=1 runs a million set-ups.
#include "daemon/in_vmm.h"

#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/guest_vm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "daxcache/allocator.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::Crew;
using testing_::Full;
using testing_::GuestVm;
using testing_::GuestVmOptions;
using testing_::HostMaps;
using testing_::InVmm;
using testing_::kRange;
using testing_::LoadOptions;
using testing_::Share;
using testing_::TempFolder;

#ifdef DAXCACHE_SANITIZED
constexpr std::uint64_t kSetups = 3'000;
#else
constexpr std::uint64_t kSetups = 20'000;
#endif
constexpr int kThreads = 8;

AllocatorOptions Options(std::uint32_t slots) {
  AllocatorOptions options;
  options.window = ByteSize(slots * kRange);
  options.map_count.budget = 20'000;
  return options;
}

// What the guest believes, what the account says and what the kernel has are the same.
void ExpectTrue(InVmm& vmm, GuestVm& guest, const Share& share, std::uint32_t slots) {
  guest.WaitForWorker();
  EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
  std::vector<GuestVm::Belief> account;
  std::uint64_t kept = 0;
  for (const HeldMapping& held : vmm.allocator().Mappings()) {
    if (held.kept) {
      ++kept;
      continue;
    }
    account.push_back({static_cast<std::uint32_t>(held.window.offset / kRange),
                       vmm.allocator().files().identity(held.file)[0], held.file_offset / kRange, held.writable});
  }
  const std::vector<GuestVm::Belief> beliefs = guest.Beliefs();
  ASSERT_EQ(account.size(), beliefs.size());
  for (std::size_t i = 0; i < account.size(); ++i) EXPECT_EQ(account[i], beliefs[i]);
  std::map<std::uint64_t, std::uint64_t> inodes;  // by range: what the kernel has at its first page
  for (const auto& vma : HostMaps(vmm.base(), slots * kRange)) {
    if (vma.inode == 0) continue;
    for (std::uint64_t at = vma.offset; at < vma.offset + vma.length; ++at) {
      if (at % kRange == 0) inodes[at / kRange] = vma.inode;
      at = at / kRange * kRange + kRange - 1;
    }
  }
  EXPECT_LE(inodes.size(), account.size() + kept);
  for (const GuestVm::Belief& belief : account) {
    struct stat status {};
    ASSERT_EQ(stat(share.Handle(belief.nodeid).c_str(), &status), 0);
    const auto at = inodes.find(belief.slot);
    if (at == inodes.end()) continue;  // zero pages
    EXPECT_EQ(at->second, status.st_ino) << "slot " << belief.slot;
  }
}

void RunLoad(std::uint32_t slots, bool lazy, std::uint64_t setups) {
  SCOPED_TRACE(testing::Message() << slots << " ranges" << (lazy ? ", lazy" : ""));
  mallopt(M_ARENA_MAX, 1);  // what threads have freed goes back to one heap
  const TempFolder folder(slots > 32);
  const Share share(folder.path());
  Crew crew(kThreads);
  AllocatorOptions options = Options(slots);
  options.lazy = {.enabled = lazy, .max_kept = slots / 4};
  InVmm vmm(share, options);
  GuestVmOptions load = LoadOptions(slots);
  load.past_the_end = true;
  GuestVm guest(share, vmm, vmm.base(), load);
  const auto round = [&](std::uint64_t until) {
    guest.CreateAll();
    crew.Do([&](int me) { guest.LoadUntil(me, until); });
    ExpectTrue(vmm, guest, share, slots);
    guest.RemoveAll();
    EXPECT_EQ(vmm.allocator().RemoveAll(), 0);
  };
  round(setups / 8);  // what is allocated once
  const std::uint64_t vmas = testing_::Vmas(getpid());
  const std::uint64_t descriptors = testing_::OpenDescriptors(getpid());
  const std::uint64_t resident = testing_::ResidentBytes();
  round(setups);
  EXPECT_EQ(guest.wrong(), 0u);
  EXPECT_EQ(guest.errors(), 0u);
  EXPECT_GT(guest.checked(), setups);
  EXPECT_GT(guest.changes(), setups / 100);
  EXPECT_GT(testing_::FaultHandler::faults(), 0u);
  EXPECT_EQ(vmm.daemon().failed_evictions(), 0u);
  EXPECT_TRUE(vmm.allocator().Mappings().empty());
  EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
  EXPECT_EQ(HostMaps(vmm.base(), slots * kRange).size(), 1u);
  EXPECT_EQ(testing_::OpenDescriptors(getpid()), descriptors);
#ifndef DAXCACHE_SANITIZED  // sanitizers have memory of their own
  EXPECT_EQ(testing_::Vmas(getpid()), vmas);
  EXPECT_LE(testing_::ResidentBytes(), resident + (1 << 20));
#else
  (void)vmas;
  (void)resident;
#endif
}

TEST(InVmm, NoWrongByteUnderLoad) {
  if (Full()) {
    for (const std::uint32_t slots : {32u, 128u, 512u, 4096u}) {
      for (const bool lazy : {false, true}) RunLoad(slots, lazy, 1'000'000 / 8);
    }
    return;
  }
  RunLoad(32, false, kSetups);
  RunLoad(256, true, kSetups);
  RunLoad(4096, false, kSetups);
}

}  // namespace
}  // namespace daxcache
