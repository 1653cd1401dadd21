// The rules of `check_access.h`, with their messages.
#include "check_access.h"

#include "absl/strings/str_cat.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {
namespace internal {
namespace {

template <class... Parts>
absl::Status Expected(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", parts...));
}

}  // namespace

absl::Status CheckAccess(const Access& access, const AccessBounds& bounds) {
  if (access.time_ns < 0) return Expected("a time of at least 0 ns, got ", access.time_ns);
  if (access.time_ns < bounds.not_before_ns) {
    return Expected("a time of at least ", bounds.not_before_ns, " ns (records are sorted by time), got ",
                    access.time_ns);
  }
  if (ToIndex(access.task) >= bounds.tasks) {
    return Expected("a task that was declared before, got task ", ToIndex(access.task));
  }
  if (ToIndex(access.file) >= bounds.files) {
    return Expected("a file that was declared before, got file ", ToIndex(access.file));
  }
  if (access.length > kMaxExtent || (TouchesData(access.op) && access.offset > kMaxExtent - access.length)) {
    return Expected("offset + length of at most 2^63, got ", access.offset, " + ", access.length);
  }
  switch (access.op) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kMappedRead:
    case Op::kMappedWrite: return absl::OkStatus();
    case Op::kOpen:
      if (access.offset > 3) return Expected("open flags from 0 to 3, got ", access.offset);
      return absl::OkStatus();
    case Op::kClose:
      if (access.length != 0) return Expected("length 0 of a close, got ", access.length);
      [[fallthrough]];
    case Op::kTruncate:
    case Op::kUnlink:
      if (access.offset != 0) return Expected("offset 0 of an operation on a whole file, got ", access.offset);
      return absl::OkStatus();
  }
  return Expected("an operation from 0 to ", kNumOps - 1, ", got ", static_cast<int>(access.op));
}

}  // namespace internal
}  // namespace v0
}  // namespace daxcache
