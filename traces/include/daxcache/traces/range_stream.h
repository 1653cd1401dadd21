// A trace cut into touches of ranges: what replay runs over. Ranges are numbered densely, sorted by (file, index), so
// that a table indexed by the number needs no hashing and the ranges of one file stand together; consecutive touches of
// one range in the same way are folded into one word with a count.
//
// Made once for a trace and a range size (`RangeStream::Build`), or mapped from a `.dxt` that was written with it.
// Immutable; one stream serves any number of replays and threads.
//
// Which writes extend their file (and so bypass the window in Linux) depends on the order of accesses alone, not on the
// window, so it is decided here: a write whose end lies beyond the file's size at that moment. The size is that of the
// last open, truncation or extending write; before the first of these, the file's declared size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/range.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

class RangeStream {
 public:
  // The low three bits of a word say what it is; the rest is a range number, or a file id for the last two kinds.
  // The first four equal `Op`. kTruncate stands for a truncation and for an open that truncates.
  enum Kind : std::uint32_t {
    kRead = 0,
    kWrite = 1,
    kMappedRead = 2,
    kMappedWrite = 3,
    kExtendingWrite = 4,
    kUnlink = 5,
    kTruncate = 6,
  };
  static constexpr int kKindBits = 3;
  static constexpr std::uint32_t kMaxRanges = 1u << (32 - kKindBits);
  static constexpr std::uint32_t kMaxRepeats = 255;

  static constexpr Kind KindOf(std::uint32_t word) { return static_cast<Kind>(word & 7u); }
  static constexpr std::uint32_t NumberOf(std::uint32_t word) { return word >> kKindBits; }

  struct Options {
    RangeSize range_size = {};
    bool fold = true;  // false: one word a touch, for policies to which each repeated hit counts
    // A word takes 9 bytes of memory; one record of a hostile trace could ask for 2^42 of them. Whatever is set here,
    // no more than 2^24 and 512 a record.
    std::uint64_t max_words = std::uint64_t{1} << 30;
  };

  // OutOfRange for more than 2^29 distinct ranges, 2^32 - 1 records or 2^40 touches; ResourceExhausted for more than
  // `max_words`; the error of `Trace::CheckRecords` for a damaged `.dxt`. Returns the trace's stored stream where that
  // was made with the same range size and folding.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const RangeStream>> Build(const Trace& trace,
                                                                                const Options& options);

  struct Parts {
    RangeSize range_size = {};
    bool folded = true;
    std::span<const std::uint32_t> words;
    std::span<const std::uint8_t> repeats;       // touches a word stands for, 1 to 255; 1 for file events
    std::span<const std::uint32_t> records;      // the trace record of a word's first touch
    std::span<const std::uint32_t> range_files;  // by range number
    std::span<const std::uint64_t> range_indexes;
    std::span<const std::uint32_t> first_range;  // by file id: its first range number; one more entry than files
    std::uint64_t accesses = 0;                  // records that touch data and have a length
    std::uint64_t touches = 0;                   // sum of repeats over the kinds that touch data
    std::uint64_t extending_accesses = 0;
    std::uint64_t extending_touches = 0;
    std::vector<std::shared_ptr<const void>> storage;
  };
  explicit RangeStream(Parts parts) : parts_(std::move(parts)) {}

  RangeSize range_size() const { return parts_.range_size; }
  bool folded() const { return parts_.folded; }
  std::uint64_t size() const { return parts_.words.size(); }
  std::span<const std::uint32_t> words() const { return parts_.words; }
  std::span<const std::uint8_t> repeats() const { return parts_.repeats; }
  // Where the trace was read without checking its records: only after `Trace::CheckRecords`.
  std::span<const std::uint32_t> records() const { return parts_.records; }
  std::uint32_t ranges() const { return static_cast<std::uint32_t>(parts_.range_files.size()); }
  FileRange range(std::uint32_t number) const {
    return {FileId{parts_.range_files[number]}, parts_.range_indexes[number]};
  }
  // Ranges of a file are the numbers [FirstRange(file), EndRange(file)).
  std::uint32_t FirstRange(FileId file) const { return parts_.first_range[ToIndex(file)]; }
  std::uint32_t EndRange(FileId file) const { return parts_.first_range[ToIndex(file) + 1]; }
  std::uint64_t accesses() const { return parts_.accesses; }
  std::uint64_t touches() const { return parts_.touches; }
  std::uint64_t extending_accesses() const { return parts_.extending_accesses; }
  std::uint64_t extending_touches() const { return parts_.extending_touches; }
  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

}  // namespace v0
}  // namespace daxcache
