// The rules that every record of a trace keeps, in one place: TraceBuilder asks when a record is added, the `.dxt`
// reader when stored records are checked.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daxcache/access.h"

namespace daxcache {
inline namespace v0 {
namespace internal {

inline constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 63;  // of offset + length, and of a file

// What the rules refer to.
struct AccessBounds {
  std::uint64_t files = 0;
  std::uint64_t tasks = 0;
  std::int64_t not_before_ns = 0;  // the time of the record before; 0 if any order will do
};

// The common case, quickly: true for a sound read or write of any kind; false means "ask CheckAccess".
inline bool IsSoundTouch(const Access& access, const AccessBounds& bounds) {
  return TouchesData(access.op) && access.time_ns >= bounds.not_before_ns && ToIndex(access.task) < bounds.tasks &&
         ToIndex(access.file) < bounds.files && access.length <= kMaxExtent &&
         access.offset <= kMaxExtent - access.length;
}

// OK, or InvalidArgument "expected …, got …" for the first field that breaks a rule.
absl::Status CheckAccess(const Access& access, const AccessBounds& bounds);

}  // namespace internal
}  // namespace v0
}  // namespace daxcache
