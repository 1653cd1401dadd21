// A `.dxt` changed on purpose, for tests of readers that must not believe what they read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "../../traces/src/crc32c.h"

namespace daxcache {
inline namespace v0 {

// Sets a number in the header or the table, or in a section's bytes, and makes the checksums right again: what someone
// could write on purpose.
struct Forged {
  explicit Forged(std::string original) : bytes(std::move(original)) {}
  template <class T>
  T Get(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  void Set(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  std::size_t Entry(std::size_t section) const { return 64 + 48 * section; }
  std::size_t SectionOffset(std::size_t section) const { return Get<std::uint64_t>(Entry(section) + 8); }
  const std::string& Sealed() {
    const std::uint32_t sections = Get<std::uint32_t>(12);
    for (std::size_t i = 0; i < sections; ++i) {
      const std::uint64_t offset = SectionOffset(i);
      const std::uint64_t size = Get<std::uint64_t>(Entry(i) + 16);
      if (offset > bytes.size() || size > bytes.size() - offset) continue;
      Set(Entry(i) + 4, internal::Crc32c(std::as_bytes(std::span(bytes)).subspan(offset, size)));
    }
    Set(36, std::uint32_t{0});
    Set(36, internal::Crc32c(std::as_bytes(std::span(bytes)).first(64 + 48 * sections)));
    return bytes;
  }
  std::string bytes;
};
enum {
  kTimes,
  kTaskIds,
  kFileIds,
  kOps,
  kOffsets,
  kLengths,
  kFiles,
  kPaths,
  kTasks,
  kTaskNames,
  kSkipped,
  kReasons,
  kStream,
  kWords,
  kRepeats,
  kRangeFiles,
  kRangeIndexes,
  kFirstRange,
  kRecords
};

}  // namespace v0
}  // namespace daxcache
