// A saved window as bytes: which part of which file is mapped where. Versioned and checksummed; one that is torn, of
// another kind or of another window is refused whole, before anything is done with it.
//
//   std::vector<std::byte> bytes = EncodeSnapshot(geometry, mappings);
//   absl::StatusOr<std::vector<SavedMapping>> mappings = DecodeSnapshot(bytes, geometry);
//
// Little endian, 64-bit words: magic, version, window length, range size, number of mappings; seven words a mapping
// (offset, length, file offset, flags, identity); a checksum of all before it.
#pragma once

#include <bit>
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

struct SavedMapping {
  Extent window = {};
  std::uint64_t file_offset = 0;
  FileIdentity file{};
  bool writable = false;
  bool guests = true;  // the guest has chosen the place, and not the allocator
};

struct SnapshotGeometry {
  std::uint64_t window_bytes = 0;
  std::uint64_t range_bytes = 0;
  std::uint64_t page_bytes = 4096;
};

namespace internal {

inline constexpr std::uint64_t kSnapshotMagic = 0x50414e5358414421u;
inline constexpr std::uint64_t kSnapshotVersion = 1;
inline constexpr std::size_t kSnapshotHeader = 5;
inline constexpr std::size_t kSnapshotMapping = 7;

inline std::uint64_t SnapshotChecksum(std::span<const std::uint64_t> words) {
  std::uint64_t sum = words.size();
  for (const std::uint64_t word : words) sum = Mix(sum ^ word) + 0x9e3779b97f4a7c15u;
  return sum;
}

}  // namespace internal

inline std::vector<std::byte> EncodeSnapshot(const SnapshotGeometry& geometry, std::span<const SavedMapping> mappings) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::uint64_t> words = {internal::kSnapshotMagic, internal::kSnapshotVersion, geometry.window_bytes,
                                      geometry.range_bytes, mappings.size()};
  for (const SavedMapping& m : mappings) {
    const std::uint64_t flags = (m.writable ? 1 : 0) | (m.guests ? 2 : 0);
    words.insert(words.end(),
                 {m.window.offset, m.window.length, m.file_offset, flags, m.file[0], m.file[1], m.file[2]});
  }
  words.push_back(internal::SnapshotChecksum(words));
  std::vector<std::byte> bytes(words.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// DataLoss, with what was expected, unless every mapping lies in the window, is aligned, and begins behind the one
// before it.
[[nodiscard]] inline absl::StatusOr<std::vector<SavedMapping>> DecodeSnapshot(std::span<const std::byte> bytes,
                                                                              const SnapshotGeometry& geometry) {
  constexpr std::size_t kHeader = internal::kSnapshotHeader;
  constexpr std::size_t kMapping = internal::kSnapshotMapping;
  if (bytes.size() % 8 != 0 || bytes.size() / 8 < kHeader + 1) {
    return absl::DataLossError(absl::StrCat("expected a snapshot, got ", bytes.size(), " bytes"));
  }
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  if (words[0] != internal::kSnapshotMagic) return absl::DataLossError("expected a snapshot of a window");
  if (words[1] != internal::kSnapshotVersion) {
    return absl::DataLossError(
        absl::StrCat("expected a snapshot of version ", internal::kSnapshotVersion, ", got ", words[1]));
  }
  const std::size_t room = words.size() - kHeader - 1;
  if (room % kMapping != 0 || words[4] != room / kMapping) {
    return absl::DataLossError(
        absl::StrCat("expected a snapshot of ", words[4], " mappings, got ", bytes.size(), " bytes"));
  }
  if (words.back() != internal::SnapshotChecksum(std::span(words).first(words.size() - 1))) {
    return absl::DataLossError("expected a snapshot with the right checksum");
  }
  if (words[2] != geometry.window_bytes || words[3] != geometry.range_bytes) {
    return absl::DataLossError(absl::StrCat("expected a snapshot of a window of ", geometry.window_bytes,
                                            " bytes in ranges of ", geometry.range_bytes, ", got ", words[2], " in ",
                                            words[3]));
  }
  std::vector<SavedMapping> mappings;
  std::uint64_t end = 0;
  for (std::size_t at = kHeader; at + 1 < words.size(); at += kMapping) {
    const std::uint64_t* const w = &words[at];
    const bool valid = w[0] >= end && w[0] <= geometry.window_bytes && w[1] > 0 &&
                       w[1] <= geometry.window_bytes - w[0] && (w[0] | w[1] | w[2]) % geometry.page_bytes == 0 &&
                       w[2] <= (std::uint64_t{1} << 63) - 1 - w[1] && w[3] < 4;
    if (!valid) return absl::DataLossError(absl::StrCat("expected mapping ", mappings.size(), " to lie in the window"));
    end = w[0] + w[1];
    mappings.push_back({.window = {w[0], w[1]},
                        .file_offset = w[2],
                        .file = {w[4], w[5], w[6]},
                        .writable = (w[3] & 1) != 0,
                        .guests = (w[3] & 2) != 0});
  }
  return mappings;
}

}  // namespace v0
}  // namespace daxcache
