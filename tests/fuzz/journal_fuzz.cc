// The journal of an allocator, in two ways; the first byte says which, and what backend and host there are.
//
// Any bytes as the memory of a journal, once as they are and once with the header made right: refused with a status of
// one line and nothing done, or recovered to a state whose invariants hold, and which agrees with a host that had what
// the journal calls decided, and anything where it does not.
//
// Or bytes as requests, and the call of the backend, before or after it was carried out, at which the process dies: the
// next one finds all the guest's mappings, but for what the request that was never answered had asked for.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/journal.h"
#include "daxcache/policies/linux.h"
#include "daxcache/virtual_backend.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace daxcache;
using daxcache::testing_::FuzzInput;
using daxcache::testing_::Require;

constexpr std::uint64_t kRange = 2 << 20;
constexpr std::uint32_t kSlots = 4;
constexpr std::uint64_t kWindow = kSlots * kRange;
constexpr JournalGeometry kGeometry{.slots = kSlots, .extents = 8};
constexpr std::size_t kMemory = 2048;

struct Memory {
  alignas(64) std::array<std::byte, kMemory> bytes{};
};

// A descriptor that tells of the identity, so that the backend's table shows which file was mapped.
int DescriptorOf(const FileIdentity& file) {
  std::uint64_t hash = 0;
  for (const std::uint64_t part : file) hash = internal::Mix(hash + part + 1);
  return static_cast<int>(hash >> 34);
}

// A host, in which nothing happens any more once the process is dead.
template <bool kOver>
struct Host {
  VirtualBackend<kOver> window;
  int calls_left = 1 << 30;
  bool last_is_done = false;
  bool dead = false;
  const Memory* journal = nullptr;
  Memory at_death;
};

template <bool kOver>
class MortalBackend {
 public:
  static constexpr bool kMapsOver = kOver;
  explicit MortalBackend(Host<kOver>& host) : host_(&host) {}
  int Map(const MapRequest& request) {
    return Call([&] { return host_->window.Map(request); });
  }
  int Unmap(std::span<const Extent> extents) {
    return Call([&] { return host_->window.Unmap(extents); });
  }
  void* address() const { return nullptr; }

 private:
  int Call(const auto& call) {
    if (host_->dead) return -EIO;
    if (host_->calls_left-- > 0) return call();
    host_->dead = true;
    if (host_->last_is_done) (void)call();
    host_->at_death = *host_->journal;
    return -EIO;
  }
  Host<kOver>* host_;
};

template <bool kOver>
using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, MortalBackend<kOver>>;

AllocatorOptions Options(Journal* journal, bool lazy) {
  AllocatorOptions options;
  options.window = ByteSize(kWindow);
  options.map_count.budget = 1 << 20;
  options.lazy.enabled = lazy;
  options.journal = journal;
  return options;
}

// With neighbours that continue each other as one.
std::vector<VirtualMapping> Joined(const std::vector<VirtualMapping>& mappings) {
  std::vector<VirtualMapping> joined;
  for (const VirtualMapping& m : mappings) {
    if (!joined.empty()) {
      VirtualMapping& last = joined.back();
      if (last.window.offset + last.window.length == m.window.offset && last.fd == m.fd &&
          last.file_offset + last.window.length == m.file_offset && last.writable == m.writable) {
        last.window.length += m.window.length;
        continue;
      }
    }
    joined.push_back(m);
  }
  return joined;
}

template <bool kOver>
std::vector<VirtualMapping> Account(Allocator<kOver>& allocator) {
  std::vector<VirtualMapping> account;
  for (const HeldMapping& held : allocator.Mappings()) {
    account.push_back(
        {held.window, DescriptorOf(allocator.files().identity(held.file)), held.file_offset, held.writable});
  }
  return account;
}

// --- any memory -----------------------------------------------------------------------------------------------------

// What the host has: all that is decided, and where something is not, whatever `moods` say.
template <bool kOver>
void FillHost(const Journal& journal, std::uint64_t moods, VirtualBackend<kOver>& window) {
  const auto map = [&](const Extent& extent, const JournalMapping& mapping) {
    if (extent.length == 0 || extent.offset >= kWindow || extent.length > kWindow - extent.offset) return;
    (void)window.Map({.window = extent,
                      .fd = DescriptorOf(mapping.file),
                      .file_offset = mapping.file_offset,
                      .writable = (mapping.flags & JournalMapping::kWritable) != 0});
  };
  // Where a slot and an extent overlap, the slot was written last.
  const auto map_extents = [&] {
    for (const Journal::ExtentEntry& entry : journal.Extents()) map(entry.window, entry.mapping);
  };
  if (kOver) map_extents();
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Extent slot{i * kRange, kRange};
    bool undecided = false;
    const JournalMapping mapping = journal.At(i, &undecided);
    if (!undecided) {
      if (mapping.flags & JournalMapping::kMapped) map(slot, mapping);
      continue;
    }
    const std::uint64_t mood = moods >> (8 * i) & 3;
    if (mood == 0) map(slot, mapping);
    if (mood == 1) map(slot, {.file = {7, 7, 7}});
    if (mood == 2) (void)window.Unmap({&slot, 1});
  }
  if (!kOver) map_extents();
  if constexpr (kOver) {
    for (const Extent& area : journal.Areas()) {
      if (moods >> 40 & 1) map(area, {.file = {8, 8, 8}});
    }
  }
}

template <bool kOver>
void CheckMemory(Memory memory, std::uint8_t mood, std::uint64_t moods) {
  const bool host_keeps = mood & 2;
  const absl::StatusOr<Journal> journal = Journal::Open(memory.bytes, kGeometry);
  const auto check_message = [](const absl::Status& status) {
    Require(status.message().size() < 1000 && status.message().find('\n') == absl::string_view::npos, "the message");
  };
  if (!journal.ok()) {
    Require(journal.status().code() == absl::StatusCode::kDataLoss, "a status that is not documented");
    return check_message(journal.status());
  }
  Host<kOver> host;
  if (host_keeps) FillHost<kOver>(*journal, moods, host.window);
  const std::vector<VirtualMapping> before = host.window.Mappings();
  Journal own = *journal;
  const auto allocator = Allocator<kOver>::Create(Options(&own, false), {}, MortalBackend<kOver>(host)).value();
  const auto open = [&](const FileIdentity& file, bool, bool*) {
    const int fd = DescriptorOf(file);
    return (mood & 4) && fd % 4 == 0 ? -ENOENT : fd;
  };
  const absl::Status status = allocator->Recover(*journal, host_keeps, open);
  Require(allocator->CheckInvariants().ok(), "broken invariants");
  if (!status.ok()) check_message(status);
  if (status.code() == absl::StatusCode::kDataLoss) {
    Require(allocator->Mappings().empty() && host.window.Mappings() == before, "refused, and not whole");
    return;
  }
  Require(status.ok() || status.code() == absl::StatusCode::kUnavailable, "a status that is not documented");
  Require(Joined(Account<kOver>(*allocator)) == Joined(host.window.Mappings()), "the host has something else");
  // The journal now tells of the same, and nothing is undecided.
  Require(own.Areas().empty(), "an area stays undecided");
  const auto next = Allocator<kOver>::Create(Options(nullptr, false), {}, MortalBackend<kOver>(host)).value();
  Require(next->Recover(own, true, open).ok(), "what was recovered cannot be recovered again");
  Require(Joined(Account<kOver>(*next)) == Joined(Account<kOver>(*allocator)), "recovered again it is another");
  host.dead = true;  // both would unmap
}

// --- requests and a death -------------------------------------------------------------------------------------------

constexpr std::uint64_t kCell = kRange / 8;
struct Cell {
  std::uint64_t file = 0;  // 0: nothing
  std::uint64_t file_offset = 0;
  bool writable = false;
  bool known = true;
};
using Cells = std::array<Cell, kWindow / kCell>;

template <bool kOver>
void CheckDeath(FuzzInput& bytes, std::uint8_t mood) {
  const bool lazy = mood & 2;
  const bool host_keeps = mood & 4;
  Memory memory;
  Journal journal = Journal::Create(memory.bytes, kGeometry).value();
  Host<kOver> host;
  host.journal = &memory;
  host.calls_left = bytes.Next() % 64;
  host.last_is_done = mood & 8;
  auto allocator = Allocator<kOver>::Create(Options(&journal, lazy), {}, MortalBackend<kOver>(host)).value();
  Cells guest;
  while (!bytes.empty() && !host.dead) {
    const std::uint8_t what = bytes.Next();
    const std::uint8_t where = bytes.Next();
    const std::uint64_t file = 1 + (what >> 4 & 1);
    // Of regular ranges alone, where one cannot map over: what else there is, is refused there or not, by what it
    // meets.
    const bool regular = !kOver || (what & 4);
    const std::uint64_t first = regular ? where % kSlots * 8 : where % guest.size();
    const std::uint64_t cells = regular ? 8 : std::min<std::uint64_t>(1 + (where >> 5), guest.size() - first);
    const Extent extent{first * kCell, cells * kCell};
    if ((what & 3) == 0) {
      const int error = allocator->Remove({&extent, 1});
      Require(error == 0 || error == -ENOSPC || host.dead, "a removal failed");
      for (std::uint64_t i = first; i < first + cells; ++i) guest[i] = {.known = error == 0};
    } else if ((what & 3) == 1 && where % 4 == 0) {
      const int error = allocator->Evict(allocator->files().Intern({file, 0, 0}));
      Require(error == 0 || host.dead, "an eviction failed");
      for (Cell& cell : guest) {
        if (cell.file == file) cell = {.known = error == 0};
      }
    } else {
      const std::uint64_t file_offset = (what >> 5) * (regular ? kRange : kCell);
      const bool writable = what & 8;
      const int error = allocator->SetUp({.file = allocator->files().Intern({file, 0, 0}),
                                          .fd = DescriptorOf({file, 0, 0}),
                                          .file_offset = file_offset,
                                          .length = extent.length,
                                          .window_offset = extent.offset,
                                          .writable = writable});
      Require(error == 0 || error == -ENOSPC || host.dead, "a set-up failed");
      if (error == 0 || host.dead) {
        for (std::uint64_t i = 0; i < cells; ++i) {
          guest[first + i] = {file, file_offset + i * kCell, writable, !host.dead};
        }
      }
    }
  }
  if (!host.dead) {
    host.at_death = memory;
    host.dead = true;
  }
  allocator.reset();  // what it does from now on does not reach the host
  host.dead = false;
  host.calls_left = 1 << 30;
  if (!host_keeps) host.window = VirtualBackend<kOver>();
  memory = host.at_death;
  const absl::StatusOr<Journal> left = Journal::Open(memory.bytes, kGeometry);
  Require(left.ok(), "the journal cannot be opened");
  Journal own = *left;
  const auto next = Allocator<kOver>::Create(Options(&own, lazy), {}, MortalBackend<kOver>(host)).value();
  const absl::Status status =
      next->Recover(*left, host_keeps, [](const FileIdentity& file, bool, bool*) { return DescriptorOf(file); });
  if (!status.ok()) Require(false, status.ToString().c_str());
  Require(next->CheckInvariants().ok(), "broken invariants");
  Require(Joined(Account<kOver>(*next)) == Joined(host.window.Mappings()), "the host has something else");
  Cells there;
  for (const VirtualMapping& m : host.window.Mappings()) {
    for (std::uint64_t at = 0; at < m.window.length; at += kCell) {
      const std::uint64_t file = m.fd == DescriptorOf({1, 0, 0}) ? 1 : 2;
      there[(m.window.offset + at) / kCell] = {file, m.file_offset + at, m.writable, true};
    }
  }
  for (std::size_t i = 0; i < guest.size(); ++i) {
    if (!guest[i].known) continue;
    Require(there[i].file == guest[i].file, "another file than the guest believes, or none, or one too many");
    Require(there[i].file_offset == guest[i].file_offset && there[i].writable == guest[i].writable,
            "another part of the file than the guest believes");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  FuzzInput bytes({data, size});
  const std::uint8_t mood = bytes.Next();
  if (mood & 128) {
    mood & 1 ? CheckDeath<true>(bytes, mood) : CheckDeath<false>(bytes, mood);
    return 0;
  }
  std::uint64_t moods = 0;
  for (int i = 0; i < 6; ++i) moods = moods << 8 | bytes.Next();
  Memory memory;
  for (std::byte& byte : memory.bytes) byte = std::byte{bytes.Next()};
  const auto check = [&] {
    mood & 1 ? CheckMemory<true>(memory, mood, moods) : CheckMemory<false>(memory, mood, moods);
  };
  check();
  Memory right;
  (void)Journal::Create(right.bytes, kGeometry);
  std::memcpy(memory.bytes.data(), right.bytes.data(), 32);  // magic, version, geometry, checksum
  check();
  return 0;
}
