// Any bytes as the snapshot of a window: refused whole, with a status of one line, or restored to just what it names.
// The first byte says which kind of backend there is and which files cannot be opened; the rest is the snapshot, once
// as it is and once with its checksum made right, so that mutations get past it.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/policies/linux.h"
#include "daxcache/snapshot.h"
#include "daxcache/virtual_backend.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace daxcache;
using daxcache::testing_::Require;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRange = 2 << 20;
constexpr std::uint64_t kWindow = 8 * kRange + 3 * kPage;  // its end is no whole range

// A descriptor that tells of the identity, so that the backend's table shows which file was mapped.
int DescriptorOf(const FileIdentity& file) {
  std::uint64_t hash = 0;
  for (const std::uint64_t part : file) hash = internal::Mix(hash + part + 1);
  return static_cast<int>(hash >> 34);
}

template <bool kMapsOver>
void Check(std::span<const std::byte> snapshot, std::uint8_t mood) {
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, VirtualBackend<kMapsOver>>;
  AllocatorOptions options;
  options.window = ByteSize(kWindow);
  options.map_count.budget = 1 << 20;
  const auto make = [&] { return Allocator::Create(options, {}, VirtualBackend<kMapsOver>()).value(); };
  const auto open = [&](const FileIdentity& file, bool, bool*) {
    const int fd = DescriptorOf(file);
    return (mood & 2) && fd % 4 == 0 ? -ENOENT : fd;
  };
  const auto allocator = make();
  const absl::Status status = allocator->Restore(snapshot, open);
  Require(allocator->CheckInvariants().ok(), "broken invariants");
  if (!status.ok()) {
    Require(status.message().size() < 1000 && status.message().find('\n') == absl::string_view::npos, "the message");
    Require(status.code() == absl::StatusCode::kDataLoss || status.code() == absl::StatusCode::kUnavailable,
            "a status that is not documented");
    Require(allocator->Mappings().empty() && allocator->backend().Mappings().empty(), "refused, and not whole");
    return;
  }
  const auto decoded = DecodeSnapshot(snapshot, {kWindow, kRange, kPage});
  Require(decoded.ok(), "restored what cannot be decoded");
  const std::vector<HeldMapping> held = allocator->Mappings();
  const std::vector<VirtualMapping> host = allocator->backend().Mappings();
  Require(held.size() == decoded->size() && host.size() == held.size(), "not as many mappings as named");
  for (std::size_t i = 0; i < held.size(); ++i) {
    const SavedMapping& saved = (*decoded)[i];
    Require(held[i].window == saved.window && held[i].file_offset == saved.file_offset &&
                held[i].writable == saved.writable && allocator->files().identity(held[i].file) == saved.file,
            "another mapping in the account");
    Require(host[i] == VirtualMapping{saved.window, DescriptorOf(saved.file), saved.file_offset, saved.writable},
            "another mapping on the host");
  }
  // Saved and restored once more it is the same.
  const std::vector<std::byte> again = allocator->Save();
  const auto other = make();
  Require(other->Restore(again, open).ok() && other->Save() == again, "what was restored cannot be saved");
  Require(allocator->RemoveAll() == 0 && allocator->backend().Mappings().empty(), "not all can be removed");
  Require(allocator->CheckInvariants().ok(), "broken invariants after removing all");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::uint8_t mood = data[0];
  std::vector<std::byte> snapshot(size - 1);
  if (size > 1) std::memcpy(snapshot.data(), data + 1, size - 1);
  const auto check = [&] { mood & 1 ? Check<true>(snapshot, mood) : Check<false>(snapshot, mood); };
  check();
  if (snapshot.size() % 8 != 0 || snapshot.size() < 16) return 0;
  std::vector<std::uint64_t> words(snapshot.size() / 8);
  std::memcpy(words.data(), snapshot.data(), snapshot.size());
  words.back() = internal::SnapshotChecksum(std::span(words).first(words.size() - 1));
  std::memcpy(snapshot.data(), words.data(), snapshot.size());
  check();
  return 0;
}
