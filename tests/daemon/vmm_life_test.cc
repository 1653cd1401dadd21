// A VMM with its daemon inside that dies and is built again, as by snapshot and restore: what was saved is mapped
// again, and the guest, which does not repeat its set-ups, goes on. Also without a snapshot, from the journal alone.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "daemon/guest_vm.h"
#include "daemon/in_vmm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "daxcache/journal.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing_::Crew;
using testing_::Full;
using testing_::GuestVm;
using testing_::GuestVmOptions;
using testing_::InVmm;
using testing_::kRange;
using testing_::Share;
using testing_::TempFolder;

constexpr std::uint32_t kSlots = 48;
constexpr int kThreads = 4;

// Memory that outlives its processes.
template <class T>
class Shared {
 public:
  explicit Shared(std::size_t bytes = sizeof(T))
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(at_, MAP_FAILED);
    new (at_) T;
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { munmap(at_, bytes_); }
  T* operator->() { return static_cast<T*>(at_); }
  std::span<std::byte> bytes() { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  std::size_t bytes_;
  void* at_;
};

// Runs a VMM's life in a process of its own, which dies with this one. Its pid.
pid_t Fork(const std::function<void()>& life) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  life();
  _exit(testing::Test::HasFailure() ? 1 : 0);
}
int WaitFor(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

AllocatorOptions Options() {
  AllocatorOptions options;
  options.window = ByteSize(kSlots * kRange);
  options.map_count.budget = 10'000;
  return options;
}
GuestVmOptions GuestOptions(std::uint64_t seed) {
  return {.slots = kSlots, .files = 24, .most_ranges = 12, .seed = seed, .past_the_end = true};
}

TEST(VmmLife, SavesDiesAndIsBuiltAgain) {
  struct Saved {
    std::atomic<bool> saved{false};
    std::uint64_t bytes = 0;
    std::uint64_t beliefs = 0;
    std::array<std::byte, 1 << 16> snapshot;
    std::array<GuestVm::Belief, kSlots> believed;
    std::array<std::uint64_t, 24> nodes;
  };
  const int lives = Full() ? 30 : 4;
  const TempFolder folder;
  const Share share(folder.path());
  Shared<Saved> saved;
  for (int life = 0; life < lives; ++life) {
    const bool last = life == lives - 1;
    const pid_t vmm_process = Fork([&] {
      Crew crew(kThreads);
      InVmm vmm(share, Options());
      GuestVm guest(share, vmm, vmm.base(), GuestOptions(static_cast<std::uint64_t>(life)));
      if (life == 0) {
        guest.CreateAll();
      } else {
        ASSERT_TRUE(saved->saved);
        const absl::Status restored = vmm.allocator().Restore(
            std::span(saved->snapshot).first(saved->bytes), [&](const FileIdentity& file, bool writable, bool* close) {
              return vmm.daemon().files().Open(file, writable, close);
            });
        ASSERT_EQ(restored, absl::OkStatus());
        guest.Adopt(saved->nodes, std::span(saved->believed).first(saved->beliefs));
        EXPECT_EQ(vmm.allocator().Mappings().size(), saved->beliefs);
        guest.CheckAll();
      }
      crew.Do([&](int me) { guest.Load(me, 2'000); });
      EXPECT_EQ(guest.wrong(), 0u);
      EXPECT_EQ(guest.errors(), 0u);
      EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
      if (last) {
        guest.RemoveAll();
        EXPECT_TRUE(vmm.allocator().Mappings().empty());
        return;
      }
      const std::vector<GuestVm::Belief> beliefs = guest.Beliefs();
      const std::vector<std::byte> snapshot = vmm.allocator().Save();
      const std::vector<std::uint64_t> nodes = guest.Nodes();
      ASSERT_LE(snapshot.size(), saved->snapshot.size());
      std::copy(snapshot.begin(), snapshot.end(), saved->snapshot.begin());
      std::copy(beliefs.begin(), beliefs.end(), saved->believed.begin());
      std::copy(nodes.begin(), nodes.end(), saved->nodes.begin());
      saved->bytes = snapshot.size();
      saved->beliefs = beliefs.size();
      saved->saved = true;
      if (!testing::Test::HasFailure()) kill(getpid(), SIGKILL);
    });
    const int status = WaitFor(vmm_process);
    if (last) {
      EXPECT_EQ(status, 0);
    } else {
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    }
  }
}

// Killed at any time: what the journal has decided is mapped again as it was; then the guest is started anew, and sets
// up over what it does not know of.
TEST(VmmLife, IsKilledAndBuiltAgainFromItsJournal) {
  const JournalGeometry geometry{.slots = kSlots, .extents = 64};
  Shared<std::array<std::byte, 64>> memory(Journal::Bytes(geometry));
  ASSERT_TRUE(Journal::Create(memory.bytes(), geometry).ok());
  Shared<std::atomic<bool>> loaded;
  Shared<std::atomic<std::uint32_t>> recovered;
  Shared<std::atomic<std::uint64_t>> wrong;
  const int lives = Full() ? 60 : 6;
  for (const bool lazy : {false, true}) {
    const TempFolder folder;
    const Share share(folder.path());
    for (int life = 0; life < lives; ++life) {
      *loaded.operator->() = false;
      const pid_t vmm_process = Fork([&] {
        Crew crew(kThreads);
        Journal journal = Journal::Open(memory.bytes(), geometry).value();
        AllocatorOptions options = Options();
        options.journal = &journal;
        options.lazy.enabled = lazy;
        InVmm vmm(share, options);
        // Files of a removal that the kill interrupted are gone: what is left of them is lost.
        (void)vmm.allocator().Recover(journal, false, [&](const FileIdentity& file, bool writable, bool* close) {
          return vmm.daemon().files().Open(file, writable, close);
        });
        EXPECT_EQ(vmm.allocator().CheckInvariants(), absl::OkStatus());
        std::vector<GuestVm::Belief> beliefs;
        std::vector<std::uint64_t> nodes;
        for (const HeldMapping& held : vmm.allocator().Mappings()) {
          const std::uint64_t nodeid = vmm.allocator().files().identity(held.file)[0];
          beliefs.push_back({static_cast<std::uint32_t>(held.window.offset / kRange), nodeid, held.file_offset / kRange,
                             held.writable});
          if (std::find(nodes.begin(), nodes.end(), nodeid) == nodes.end()) nodes.push_back(nodeid);
        }
        recovered->fetch_add(static_cast<std::uint32_t>(beliefs.size()));
        {
          GuestVmOptions same = GuestOptions(1);
          same.files = kSlots;
          GuestVm witness(share, vmm, vmm.base(), same);
          witness.Adopt(nodes, beliefs);
          witness.CheckAll();
          EXPECT_EQ(witness.wrong(), 0u);
        }
        GuestVm guest(share, vmm, vmm.base(), GuestOptions(static_cast<std::uint64_t>(life)));
        guest.StartAt(static_cast<std::uint64_t>(life + 1) << 24);
        guest.CountWrongIn(wrong.operator->());
        guest.CreateAll();
        *loaded.operator->() = true;
        std::atomic<bool> running{true};
        if (life < lives - 1 && !testing::Test::HasFailure()) {
          crew.Do([&](int me) { guest.LoadWhile(me, running); });  // until it is killed
        }
        crew.Do([&](int me) { guest.Load(me, 1'000); });
        EXPECT_EQ(guest.wrong(), 0u);
      });
      while (!loaded->load() && kill(vmm_process, 0) == 0) {
        if (waitpid(vmm_process, nullptr, WNOHANG | WNOWAIT) == vmm_process) break;
        usleep(500);
      }
      usleep(static_cast<useconds_t>(5'000 + life * 7'919 % 40'000));
      if (life < lives - 1) kill(vmm_process, SIGKILL);
      const int status = WaitFor(vmm_process);
      if (life < lives - 1) {
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      } else {
        EXPECT_EQ(status, 0);
      }
    }
  }
  EXPECT_EQ(wrong->load(), 0u);
  EXPECT_GT(recovered->load(), static_cast<std::uint32_t>(lives));
}

}  // namespace
}  // namespace daxcache
