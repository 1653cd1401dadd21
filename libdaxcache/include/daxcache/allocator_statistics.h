// What an allocator tells of itself: what it has done, what it holds, and both as text, JSON, or for Prometheus.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/ids.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// What has happened since construction, and what there is now.
struct AllocatorStatistics {
  std::uint64_t setups = 0;
  std::uint64_t upgrades = 0;
  std::uint64_t removes = 0;
  std::uint64_t reclaims = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t bypasses = 0;
  std::uint64_t map_calls = 0;  // of the backend
  std::uint64_t unmap_calls = 0;
  std::uint64_t failed_calls = 0;  // … of both
  std::uint64_t found_kept = 0;    // set-ups that found their range still there
  std::uint64_t dropped_kept = 0;  // kept ranges unmapped after all
  std::uint64_t refused = 0;       // for the map count
  std::uint64_t repairs = 0;       // faults past the end of a file
  std::uint64_t evictions = 0;     // of files
  // Now:
  std::uint64_t ranges = 0;   // slots
  std::uint64_t mapped = 0;   // … bound, and not in flight
  std::uint64_t kept = 0;     // … that the guest has given back
  std::uint64_t extents = 0;  // mappings that fit no slot
  std::uint64_t shorts = 0;   // slots with zero pages at their end
  std::uint64_t vmas = 0;     // the window's, at most, without those of `shorts`
};

// One mapping as the allocator accounts for it.
struct HeldMapping {
  Extent window = {};
  FileId file = kNoFile;
  std::uint64_t file_offset = 0;
  bool writable = false;
  bool kept = false;                // the guest has given it back
  bool guests = false;              // … or has chosen the place
  std::uint64_t zero_from = ~0ull;  // offset in the mapping from which on there are zero pages
};

// Calls fn(name, what it is, value, whether it is a count since construction) for each of them.
template <class Fn>
void ForEachStatistic(const AllocatorStatistics& s, const Fn& fn) {
  fn("setups", "set-ups", s.setups, true);
  fn("upgrades", "set-ups that made a range writable", s.upgrades, true);
  fn("removes", "removals", s.removes, true);
  fn("reclaims", "ranges taken back by the allocator", s.reclaims, true);
  fn("hits", "accesses that found their range", s.hits, true);
  fn("misses", "accesses that did not", s.misses, true);
  fn("bypasses", "accesses that were not admitted", s.bypasses, true);
  fn("map_calls", "calls of the backend to map", s.map_calls, true);
  fn("unmap_calls", "calls of the backend to unmap", s.unmap_calls, true);
  fn("failed_calls", "calls of the backend that failed", s.failed_calls, true);
  fn("found_kept", "set-ups that found their range still mapped", s.found_kept, true);
  fn("dropped_kept", "kept ranges that were unmapped after all", s.dropped_kept, true);
  fn("refused", "set-ups refused for the map count", s.refused, true);
  fn("repairs", "faults past the end of a file", s.repairs, true);
  fn("evictions", "files evicted", s.evictions, true);
  fn("ranges", "ranges of the window", s.ranges, false);
  fn("mapped", "ranges mapped", s.mapped, false);
  fn("kept", "ranges kept after their removal", s.kept, false);
  fn("extents", "mappings that fit no range", s.extents, false);
  fn("shorts", "ranges with zero pages at their end", s.shorts, false);
  fn("vmas", "VMAs of the window, at most", s.vmas, false);
}

// For people.
inline void DumpText(const AllocatorStatistics& statistics, std::span<const HeldMapping> mappings, std::string* out) {
  ForEachStatistic(statistics, [&](const char* name, const char* what, std::uint64_t value, bool) {
    absl::StrAppend(out, name, " ", value, "  # ", what, "\n");
  });
  for (const HeldMapping& held : mappings) {
    absl::StrAppend(out, held.window.offset, "+", held.window.length, " file ", ToIndex(held.file), " offset ",
                    held.file_offset, held.writable ? " rw" : " ro", held.kept ? " kept" : "",
                    held.zero_from != ~0ull ? absl::StrCat(" zeros from ", held.zero_from) : "", "\n");
  }
}

inline void DumpJson(const AllocatorStatistics& statistics, std::span<const HeldMapping> mappings, std::string* out) {
  const char* comma = "{";
  ForEachStatistic(statistics, [&](const char* name, const char*, std::uint64_t value, bool) {
    absl::StrAppend(out, std::exchange(comma, ","), "\"", name, "\":", value);
  });
  absl::StrAppend(out, ",\"mappings\":[");
  comma = "";
  for (const HeldMapping& held : mappings) {
    absl::StrAppend(out, std::exchange(comma, ","), "{\"offset\":", held.window.offset,
                    ",\"length\":", held.window.length, ",\"file\":", ToIndex(held.file),
                    ",\"file_offset\":", held.file_offset, ",\"writable\":", held.writable ? "true" : "false",
                    ",\"kept\":", held.kept ? "true" : "false", "}");
  }
  absl::StrAppend(out, "]}\n");
}

// In the text format of Prometheus; `labels` go into the braces of each, as `share="root"`.
inline void DumpPrometheus(const AllocatorStatistics& statistics, std::string_view labels, std::string* out) {
  const std::string braces = labels.empty() ? "" : absl::StrCat("{", AbslView(labels), "}");
  ForEachStatistic(statistics, [&](const char* name, const char* what, std::uint64_t value, bool counts) {
    const std::string metric = absl::StrCat("daxcache_", name, counts ? "_total" : "");
    absl::StrAppend(out, "# HELP ", metric, " ", what, "\n# TYPE ", metric, counts ? " counter\n" : " gauge\n", metric,
                    braces, " ", value, "\n");
  });
}

}  // namespace v0
}  // namespace daxcache
