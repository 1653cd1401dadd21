// What is simulated is what happens: one access stream through replay, and through a guest, its messages and a daemon
// in the VMM or beside it, gives the same events.
#include "daxcache/sim/replay.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/beside_vmm.h"
#include "daemon/guest_vm.h"
#include "daemon/in_vmm.h"
#include "daemon/process.h"
#include "daemon/share.h"
#include "daxcache/policies/linux.h"
#include "gtest/gtest.h"
#include "sim/event_log.h"
#include "sim/kernel_build.h"

namespace daxcache {
namespace {

using testing_::BesideOptions;
using testing_::BesideVmm;
using testing_::DaemonEvent;
using testing_::EventLog;
using testing_::ExpectSameEvents;
using testing_::GuestVm;
using testing_::GuestVmOptions;
using testing_::HeadOfKernelBuild;
using testing_::InVmm;
using testing_::kRange;
using testing_::Link;
using testing_::Share;
using testing_::TempFolder;

constexpr std::uint64_t kRecords = 20'000;

// Files are made when they are first used, so large that the last range of the stream is in them.
void RunStream(const RangeStream& stream, GuestVm& guest) {
  std::vector<std::uint64_t> ranges;
  for (std::uint32_t number = 0; number < stream.ranges(); ++number) {
    const FileRange range = stream.range(number);
    ranges.resize(std::max<std::size_t>(ranges.size(), ToIndex(range.file) + 1));
    ranges[ToIndex(range.file)] = std::max(ranges[ToIndex(range.file)], range.index + 1);
  }
  GuestVm::Random random(5);
  for (std::uint64_t at = 0; at < stream.size(); ++at) {
    const std::uint32_t word = stream.words()[at];
    const std::uint32_t number = RangeStream::NumberOf(word);
    const RangeStream::Kind kind = RangeStream::KindOf(word);
    if (kind == RangeStream::kExtendingWrite || kind == RangeStream::kTruncate) continue;
    if (kind == RangeStream::kUnlink) {
      if (guest.has_file(number)) guest.RemoveFile(number);
      continue;
    }
    const FileRange range = stream.range(number);
    const std::uint32_t file = ToIndex(range.file);
    if (!guest.has_file(file)) guest.AddFile(file, file + 2, ranges[file] * kRange);
    for (int i = 0; i < stream.repeats()[at]; ++i) ASSERT_EQ(guest.Access(range, static_cast<Op>(kind), random), 0);
  }
}

// What a daemon sees of them: no hits, and no causes.
std::vector<DaemonEvent> SeenByDaemon(const std::vector<Event>& events) {
  std::vector<DaemonEvent> seen;
  for (const Event& event : events) {
    if (event.kind != EventKind::kSetup && event.kind != EventKind::kUpgrade && event.kind != EventKind::kRemove) {
      continue;
    }
    seen.push_back({event.kind, event.write, ToIndex(event.slot), ToIndex(event.range.file) + 2, event.range.index});
  }
  return seen;
}

class DaemonReplay : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    // The guest keeps each of its files open.
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit most = before_;
    most.rlim_cur = most.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &most), 0);
    Replay<LinuxPolicy<DenseIndex>, EventLog> replay({trace_, *stream_}, {.slots = GetParam(), .max_slots = 0}, {},
                                                     {.mechanics = ReclaimOptions::Linux()}, expected_);
    replay.Run(0, stream_->size());
    ASSERT_GT(expected_.events.size(), kRecords / 2);
  }
  void TearDown() override { setrlimit(RLIMIT_NOFILE, &before_); }

  GuestVmOptions Options() const {
    return {.slots = GetParam(), .files = static_cast<std::uint32_t>(trace_.files().size()), .as_replay = true};
  }

  rlimit before_{};
  const Trace trace_ = HeadOfKernelBuild(kRecords);
  const std::shared_ptr<const RangeStream> stream_ = RangeStream::Build(trace_, {}).value();
  const TempFolder folder_{true};
  const Share share_{folder_.path()};
  EventLog expected_;
};

TEST_P(DaemonReplay, InTheVmm) {
  struct Seen {
    InVmm* vmm = nullptr;
    std::vector<DaemonEvent> events;
  } seen;
  AllocatorOptions options;
  options.window = ByteSize(GetParam() * kRange);
  options.map_count.budget = 20'000;
  options.event_context = &seen;
  options.on_event = [](void* context, const Event& event) {
    Seen& to = *static_cast<Seen*>(context);
    to.events.push_back({event.kind, event.write, ToIndex(event.slot),
                         to.vmm->allocator().files().identity(event.range.file)[0], event.range.index});
  };
  InVmm vmm(share_, options);
  seen.vmm = &vmm;
  GuestVm guest(share_, vmm, vmm.base(), Options());
  RunStream(*stream_, guest);
  ExpectSameEvents(guest.log(), expected_.events);
  ExpectSameEvents(seen.events, SeenByDaemon(expected_.events));
  EXPECT_EQ(guest.wrong(), 0u);
}

TEST_P(DaemonReplay, BesideTheVmm) {
  BesideOptions options;
  options.allocator.window = ByteSize(GetParam() * kRange);
  options.daemon_threads = 1;
  options.log_events = true;
  BesideVmm vmm(share_, options);
  {
    GuestVm guest(share_, vmm, vmm.base(), Options());
    RunStream(*stream_, guest);
    ExpectSameEvents(guest.log(), expected_.events);
    const auto& board = vmm.board();
    const std::vector<DaemonEvent> seen(board.log.begin(), board.log.begin() + board.events.load());
    ExpectSameEvents(seen, SeenByDaemon(expected_.events));
    EXPECT_EQ(guest.wrong(), 0u);
  }
  EXPECT_TRUE(vmm.Stop());
}

INSTANTIATE_TEST_SUITE_P(Slots, DaemonReplay, testing::Values(24u, 100u));

}  // namespace
}  // namespace daxcache
