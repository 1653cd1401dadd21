// A daemon beside the VMM: under load, with answers that are errors, and killed at every step, while the VMM and its
// guest live on. DAXCACHE_FULL=1 kills it a hundred times, and runs a million set-ups.
#include "daemon/beside_vmm.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "daemon/guest_vm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "gtest/gtest.h"
#include "libdaxcache/host_maps.h"

namespace daxcache {
namespace {

using testing_::BesideOptions;
using testing_::BesideVmm;
using testing_::Crew;
using testing_::DeathAt;
using testing_::Full;
using testing_::GapHandler;
using testing_::GuestVm;
using testing_::HostMaps;
using testing_::kRange;
using testing_::LoadOptions;
using testing_::Share;
using testing_::TempFolder;

#ifdef DAXCACHE_SANITIZED
constexpr std::uint64_t kSetups = 1'500;
#else
constexpr std::uint64_t kSetups = 10'000;
#endif
constexpr int kThreads = 8;

BesideOptions Options(std::uint32_t slots, bool lazy) {
  BesideOptions options;
  options.allocator.window = ByteSize(slots * kRange);
  options.allocator.lazy = {.enabled = lazy, .max_kept = slots / 4};
  return options;
}

void RunLoad(std::uint32_t slots, bool lazy, std::uint64_t setups) {
  SCOPED_TRACE(testing::Message() << slots << " ranges" << (lazy ? ", lazy" : ""));
  const TempFolder folder(slots > 32);
  const Share share(folder.path());
  BesideVmm vmm(share, Options(slots, lazy));
  Crew crew(kThreads);
  GuestVm guest(share, vmm, vmm.base(), LoadOptions(slots));
  const auto round = [&](std::uint64_t until) {
    guest.CreateAll();
    crew.Do([&](int me) { guest.LoadUntil(me, until); });
    guest.RemoveAll();
    const std::uint64_t unique = guest.NextUnique();
    EXPECT_EQ(vmm.Call(unique, DestroyRequest(unique)), 0);
  };
  round(setups / 8);  // what is allocated once
  const std::uint64_t descriptors = testing_::OpenDescriptors(getpid());
  const std::uint64_t daemons_descriptors = testing_::OpenDescriptors(vmm.daemon());
  [[maybe_unused]] const std::uint64_t vmas = testing_::Vmas(getpid());
  [[maybe_unused]] const std::uint64_t daemons_vmas = testing_::Vmas(vmm.daemon());
  [[maybe_unused]] const std::uint64_t resident = testing_::ResidentBytes();
  round(setups);
  EXPECT_EQ(guest.wrong(), 0u);
  EXPECT_EQ(guest.errors(), 0u);
  EXPECT_EQ(vmm.refused(), 0u);
  EXPECT_EQ(vmm.mappings(), 0u);
  EXPECT_EQ(HostMaps(vmm.base(), slots * kRange).size(), 1u);
  EXPECT_EQ(testing_::OpenDescriptors(getpid()), descriptors);
  EXPECT_EQ(testing_::OpenDescriptors(vmm.daemon()), daemons_descriptors);
#ifndef DAXCACHE_SANITIZED  // sanitizers have memory of their own
  EXPECT_EQ(testing_::Vmas(getpid()), vmas);
  EXPECT_EQ(testing_::Vmas(vmm.daemon()), daemons_vmas);
  EXPECT_LE(testing_::ResidentBytes(), resident + (1 << 20));
#endif
  EXPECT_TRUE(vmm.Stop());
}

TEST(BesideVmm, NoWrongByteUnderLoad) {
  if (Full()) {
    for (const std::uint32_t slots : {32u, 256u, 4096u}) {
      for (const bool lazy : {false, true}) RunLoad(slots, lazy, 1'000'000 / 6);
    }
    return;
  }
  RunLoad(32, true, kSetups);
  RunLoad(512, false, kSetups);
}

TEST(BesideVmm, TheDaemonIsKilledAtEveryStep) {
  constexpr std::uint32_t kSlots = 32;
  const int kills = Full() ? 200 : 18;
  for (const bool lazy : {false, true}) {
    const TempFolder folder;
    const Share share(folder.path());
    BesideVmm vmm(share, Options(kSlots, lazy));
    Crew crew(kThreads);
    GuestVm guest(share, vmm, vmm.base(), LoadOptions(kSlots));
    guest.CreateAll();
    std::atomic<bool> running{true};
    std::thread load([&] { crew.Do([&](int me) { guest.LoadWhile(me, running); }); });
    std::mt19937 random(11);
    std::uint32_t recovered = 0;
    for (int i = 0; i < kills; ++i) {
      const std::uint64_t starts = vmm.starts();
      if (const std::uint32_t at = static_cast<std::uint32_t>(i) % testing_::kDeaths; at == 0) {
        usleep(static_cast<useconds_t>(random() % 20'000));
        vmm.KillNow();
      } else {
        vmm.Kill(DeathAt{at}, 1 + static_cast<std::int32_t>(random() % (i % 2 == 0 ? 20 : 500)));
      }
      const bool again = vmm.WaitForStarts(starts + 1);
      EXPECT_TRUE(again) << "kill " << i;
      if (!again) break;
      recovered = std::max(recovered, vmm.board().recovered.load());
    }
    usleep(50'000);  // the last one has to live, too
    running = false;
    load.join();
    guest.RemoveAll();
    const std::uint64_t unique = guest.NextUnique();
    EXPECT_EQ(vmm.Call(unique, DestroyRequest(unique)), 0);
    EXPECT_EQ(guest.wrong(), 0u);
    EXPECT_EQ(guest.errors(), 0u);
    EXPECT_GT(guest.checked(), 1000u);
    EXPECT_EQ(vmm.starts(), static_cast<std::uint64_t>(kills) + 1);
    EXPECT_GT(vmm.resent(), 0u);
    EXPECT_GT(recovered, kSlots / 4);
    EXPECT_EQ(vmm.mappings(), 0u);
    EXPECT_EQ(HostMaps(vmm.base(), kSlots * kRange).size(), 1u);
    EXPECT_TRUE(vmm.Stop());
  }
}

}  // namespace
}  // namespace daxcache
