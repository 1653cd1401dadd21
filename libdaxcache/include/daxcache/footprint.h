// What a window costs in memory, in the guest and on the host, as a function of its size and of the pages touched in
// it.
//
//   Footprint footprint{};                               // x86-64 Linux 6.1
//   footprint.GuestBytes(ByteSize(4ull << 30), range);   // 67,338,240: 1.57 % of 4 GiB
//
// Guest: `struct page` for the whole window, allocated when the device is probed, and one `struct fuse_dax_mapping` a
// range (fs/fuse/dax.c). Host: one VMA a mapped range at worst (neighbours of one file share one), and for each page
// touched an entry in the VMM's page tables and one in the second-level tables (EPT, NPT). The files' own pages are the
// host's page cache, shared by all guests, and not counted.
#pragma once

#include <bit>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/range.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

struct Footprint {
  std::uint64_t page_bytes = 4096;       // the guest's page size
  std::uint64_t struct_page_bytes = 64;  // sizeof(struct page)
  std::uint64_t mapping_bytes = 112;     // sizeof(struct fuse_dax_mapping)
  std::uint64_t host_page_bytes = 4096;  // the host's page size
  std::uint64_t vma_bytes = 200;         // sizeof(struct vm_area_struct) and its share of the tree, about
  std::uint64_t table_entry_bytes = 8;   // a page table entry, on either level

  [[nodiscard]] absl::Status Validate() const {
    for (const std::uint64_t bytes : {page_bytes, host_page_bytes}) {
      if (bytes < 4096 || bytes > (1u << 20) || !std::has_single_bit(bytes)) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected a page size that is a power of two from 4K to 1M, got ", bytes));
      }
    }
    for (const std::uint64_t bytes : {struct_page_bytes, mapping_bytes, vma_bytes, table_entry_bytes}) {
      if (bytes == 0 || bytes > 4096) {
        return absl::InvalidArgumentError(absl::StrCat("expected a structure of 1 to 4096 bytes, got ", bytes));
      }
    }
    return absl::OkStatus();
  }

  // Guest memory that one range of the window takes, bytes, used or not.
  std::uint64_t GuestBytesPerRange(RangeSize range) const {
    return range.bytes() / page_bytes * struct_page_bytes + mapping_bytes;
  }
  // Guest memory that a window takes, bytes. Struct pages stand for a tail shorter than a range too.
  std::uint64_t GuestBytes(ByteSize window, RangeSize range) const {
    return window.bytes() / page_bytes * struct_page_bytes + (window.bytes() >> range.shift()) * mapping_bytes;
  }
  // Host memory for `mapped_ranges` mappings of which `touched_bytes` were touched by the guest, bytes: VMAs at worst,
  // and page tables twice (the VMM's, and the second level's), counting leaf entries.
  std::uint64_t HostBytes(std::uint64_t mapped_ranges, std::uint64_t touched_bytes) const {
    return mapped_ranges * vma_bytes + touched_bytes / host_page_bytes * table_entry_bytes * 2;
  }
  // Below this size, a file costs the guest more through the window (its range's share) than in its page cache, bytes.
  std::uint64_t BreakEvenFileSize(RangeSize range) const { return GuestBytesPerRange(range); }
};

}  // namespace v0
}  // namespace daxcache
