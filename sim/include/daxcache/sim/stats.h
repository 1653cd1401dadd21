// What a replay counted: computed from its events, and from nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "daxcache/event.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

struct ReplayCounts {
  std::uint64_t misses = 0;       // touches that found their range not mapped
  std::uint64_t cold_misses = 0;  // … of these, first touches of the range
  std::uint64_t bypasses = 0;     // … of these, not admitted by the policy
  std::uint64_t setups = 0;       // FUSE_SETUPMAPPING of a free slot
  std::uint64_t upgrades = 0;     // … over a read-only mapping, for writing
  std::uint64_t removes = 0;      // ranges named in FUSE_REMOVEMAPPING
  std::uint64_t reclaims_background = 0;
  std::uint64_t reclaims_inline = 0;
  std::uint64_t evictions = 0;  // ranges given back because their file went away
};

// A sink for `Replay` that counts, and follows which ranges and files are in the window.
class StatsSink {
 public:
  static constexpr bool kWantsHits = false;

  StatsSink(std::size_t files, std::size_t ranges, std::size_t slots)
      : setups_(files), mapped_(files), files_of_slots_(slots), ever_mapped_(ranges) {}

  [[gnu::always_inline]] void operator()(const Event& event, std::uint32_t number) {
    switch (event.kind) {
      case EventKind::kHit: break;
      case EventKind::kMiss:
        ++counts_.misses;
        counts_.cold_misses += !event.repeated;
        break;
      case EventKind::kBypass: ++counts_.bypasses; break;
      case EventKind::kSetup: {
        ++counts_.setups;
        ever_mapped_[number] = true;
        const std::uint32_t file = ToIndex(event.range.file);
        files_of_slots_[ToIndex(event.slot)] = file;
        ++setups_[file];
        if (mapped_[file]++ == 0 && ++files_ > peak_files_) peak_files_ = files_;
        if (++ranges_ > peak_ranges_) peak_ranges_ = ranges_;
        break;
      }
      case EventKind::kUpgrade: ++counts_.upgrades; break;
      case EventKind::kRemove: ++counts_.removes; break;
      case EventKind::kReclaim:
        switch (event.cause) {
          case Cause::kBackground: ++counts_.reclaims_background; break;
          case Cause::kInline: ++counts_.reclaims_inline; break;
          default: ++counts_.evictions;
        }
        --ranges_;
        if (--mapped_[files_of_slots_[ToIndex(event.slot)]] == 0) --files_;
        break;
    }
  }

  const ReplayCounts& counts() const { return counts_; }
  const std::vector<std::uint64_t>& setups_by_file() const { return setups_; }
  const std::vector<bool>& ever_mapped() const { return ever_mapped_; }  // by range number
  std::uint64_t ranges() const { return ranges_; }                       // mapped now
  std::uint64_t files() const { return files_; }                         // with a range mapped now
  std::uint64_t peak_ranges() const { return peak_ranges_; }
  std::uint64_t peak_files() const { return peak_files_; }

 private:
  ReplayCounts counts_;
  std::vector<std::uint64_t> setups_;          // by file
  std::vector<std::uint32_t> mapped_;          // by file: ranges mapped now
  std::vector<std::uint32_t> files_of_slots_;  // nearer than the table of ranges
  std::vector<bool> ever_mapped_;
  std::uint64_t ranges_ = 0;
  std::uint64_t files_ = 0;
  std::uint64_t peak_ranges_ = 0;
  std::uint64_t peak_files_ = 0;
};

}  // namespace v0
}  // namespace daxcache
