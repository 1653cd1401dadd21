// The live journal of an allocator, in memory that the caller supplies and that outlives the process (a shared file or
// a memfd that a supervisor holds): what is mapped where, and what was about to be changed when the process died.
//
//   std::vector<std::byte>, or mmap(MAP_SHARED), of Journal::Bytes(slots, extents)
//   absl::StatusOr<Journal> journal = Journal::Create(memory, geometry);       // empty
//   absl::StatusOr<Journal> journal = Journal::Open(memory, geometry);         // what another process left
//
// A slot has two records and a word that says which of them holds, and whether the other is intended to: so a change is
// one store, before the backend's call (intent) and one after (result), and there is no moment at which the journal
// cannot be read. A slot whose intent has no result is undecided: the host may have either. The irregular mappings are
// two lists of which one holds, and while one is changed the area is noted as undecided.
//
// Written under the allocator's mutex. 96 bytes a slot, 56 an extent.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/file_table.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

struct JournalGeometry {
  std::uint32_t slots = 0;
  std::uint32_t extents = 0;  // how many there is room for
  std::uint32_t range_shift = 21;
};

// What a journal says is mapped at a place, or is intended to be.
struct JournalMapping {
  static constexpr std::uint64_t kMapped = 1;
  static constexpr std::uint64_t kWritable = 2;
  static constexpr std::uint64_t kKept = 4;    // the guest has given it back
  static constexpr std::uint64_t kGuests = 8;  // the guest has chosen the place

  FileIdentity file{};
  std::uint64_t file_offset = 0;
  std::uint64_t flags = 0;
};

class Journal {
 public:
  static std::size_t Bytes(const JournalGeometry& g) {
    return sizeof(Header) + g.slots * sizeof(Slot) + 2 * std::size_t{g.extents} * sizeof(ExtentEntry);
  }
  // `memory` is aligned to 64 bytes, and stays where it is.
  [[nodiscard]] static absl::StatusOr<Journal> Create(std::span<std::byte> memory, const JournalGeometry& g) {
    if (absl::Status status = CheckMemory(memory, g); !status.ok()) return status;
    std::memset(memory.data(), 0, Bytes(g));
    Journal journal(memory, g);
    Header& header = journal.header();
    header.version = kVersion;
    header.slots = g.slots;
    header.extents = g.extents;
    header.range_shift = g.range_shift;
    header.checksum = Checksum(header);
    header.magic.store(kMagic, std::memory_order_release);
    return journal;
  }
  // Refuses what is no journal, or one of another geometry.
  [[nodiscard]] static absl::StatusOr<Journal> Open(std::span<std::byte> memory, const JournalGeometry& g) {
    if (absl::Status status = CheckMemory(memory, g); !status.ok()) return status;
    Journal journal(memory, g);
    const Header& header = journal.header();
    if (header.magic.load(std::memory_order_acquire) != kMagic) return absl::DataLossError("expected a journal");
    if (header.version != kVersion) {
      return absl::DataLossError(absl::StrCat("expected a journal of version ", kVersion, ", got ", header.version));
    }
    if (header.slots != g.slots || header.extents != g.extents || header.range_shift != g.range_shift ||
        header.checksum != Checksum(header)) {
      return absl::DataLossError("expected a journal of a window of this size");
    }
    if (header.list.load(std::memory_order_acquire) >> 1 > g.extents) {
      return absl::DataLossError("expected a journal of no more extents than there is room for");
    }
    return journal;
  }

  const JournalGeometry& geometry() const { return geometry_; }

  // --- slots --------------------------------------------------------------------------------------------------------

  // Intent: `next` is about to take the slot's place.
  void Begin(std::uint32_t slot, const JournalMapping& next) {
    Slot& s = slots()[slot];
    const std::uint64_t word = s.word.load(std::memory_order_relaxed);
    s.records[(word & kSecond) ? 0 : 1] = next;
    s.word.store(word | kUndecided, std::memory_order_release);
  }
  // Result: it has, or it has not.
  void End(std::uint32_t slot, bool done) {
    Slot& s = slots()[slot];
    const std::uint64_t word = s.word.load(std::memory_order_relaxed) & ~kUndecided;
    s.word.store(done ? word ^ kSecond : word, std::memory_order_release);
  }
  // Both at once, where no call is needed.
  void Set(std::uint32_t slot, const JournalMapping& mapping) {
    Slot& s = slots()[slot];
    const std::uint64_t word = s.word.load(std::memory_order_relaxed);
    s.records[(word & kSecond) ? 0 : 1] = mapping;
    s.word.store((word ^ kSecond) & ~kUndecided, std::memory_order_release);
  }
  JournalMapping At(std::uint32_t slot, bool* undecided) const {
    const Slot& s = slots()[slot];
    const std::uint64_t word = s.word.load(std::memory_order_acquire);
    *undecided = word & kUndecided;
    return s.records[(word & kSecond) ? 1 : 0];
  }

  // --- extents ------------------------------------------------------------------------------------------------------

  struct ExtentEntry {
    Extent window = {};
    JournalMapping mapping = {};
  };
  static constexpr std::uint32_t kAreas = 16;

  // An area is about to be changed. False: as many are already as there is room for.
  bool BeginArea(const Extent& area) {
    for (auto& noted : header().areas) {
      if (noted.length.load(std::memory_order_relaxed) != 0) continue;
      noted.offset.store(area.offset, std::memory_order_relaxed);
      noted.length.store(area.length, std::memory_order_release);
      return true;
    }
    return false;
  }
  void EndArea(const Extent& area) {
    for (auto& noted : header().areas) {
      if (noted.offset.load(std::memory_order_relaxed) == area.offset) {
        noted.length.store(0, std::memory_order_release);
      }
    }
  }
  std::vector<Extent> Areas() const {
    std::vector<Extent> areas;
    for (const auto& noted : header().areas) {
      const std::uint64_t length = noted.length.load(std::memory_order_acquire);
      if (length != 0) areas.push_back({noted.offset.load(std::memory_order_relaxed), length});
    }
    return areas;
  }
  // The new list, whole: entry(i) of `count`, at most as many as there is room for.
  template <class Entry>
  void SetExtents(std::uint32_t count, const Entry& entry) {
    const std::uint64_t word = header().list.load(std::memory_order_relaxed);
    const std::uint64_t next = (word & 1) ^ 1;
    for (std::uint32_t i = 0; i < count; ++i) list(next)[i] = entry(i);
    header().list.store(std::uint64_t{count} << 1 | next, std::memory_order_release);
  }
  std::vector<ExtentEntry> Extents() const {
    const std::uint64_t word = header().list.load(std::memory_order_acquire);
    const std::uint64_t count = std::min<std::uint64_t>(word >> 1, geometry_.extents);
    const ExtentEntry* const from = list(word & 1);
    return {from, from + count};
  }

 private:
  static constexpr std::uint64_t kMagic = 0x314c4e4a58414421u;
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint64_t kUndecided = 1;
  static constexpr std::uint64_t kSecond = 2;  // the second record holds

  struct Area {
    std::atomic<std::uint64_t> offset{0};
    std::atomic<std::uint64_t> length{0};
  };
  struct alignas(64) Header {
    std::atomic<std::uint64_t> magic{0};
    std::uint32_t version = 0;
    std::uint32_t slots = 0;
    std::uint32_t extents = 0;
    std::uint32_t range_shift = 0;
    std::uint64_t checksum = 0;
    std::atomic<std::uint64_t> list{0};  // how many extents, and, in bit 0, in which list
    std::array<Area, kAreas> areas;
  };
  struct Slot {
    std::atomic<std::uint64_t> word{0};
    std::uint64_t unused = 0;
    JournalMapping records[2];
  };
  static_assert(sizeof(Slot) == 96 && sizeof(ExtentEntry) == 56);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  Journal(std::span<std::byte> memory, const JournalGeometry& g) : memory_(memory.data()), geometry_(g) {}

  static absl::Status CheckMemory(std::span<std::byte> memory, const JournalGeometry& g) {
    if (memory.size() < Bytes(g) || reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", Bytes(g), " bytes of memory, aligned to 64, for the journal, got ", memory.size()));
    }
    return absl::OkStatus();
  }
  static std::uint64_t Checksum(const Header& header) {
    std::uint64_t sum = header.version;
    for (const std::uint64_t part : {header.slots, header.extents, header.range_shift}) {
      sum = internal::Mix(sum + part + 1);
    }
    return sum;
  }
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }
  Slot* slots() const { return reinterpret_cast<Slot*>(memory_ + sizeof(Header)); }
  ExtentEntry* list(std::uint64_t which) const {
    return reinterpret_cast<ExtentEntry*>(memory_ + sizeof(Header) + geometry_.slots * sizeof(Slot)) +
           which * geometry_.extents;
  }

  std::byte* memory_;
  JournalGeometry geometry_;
};

}  // namespace v0
}  // namespace daxcache
