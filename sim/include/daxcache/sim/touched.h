// How much of each range a trace ever used: distinct pages read, written or faulted in, whatever the window did. A
// mapping of 2 MiB of which one page is used costs the same as one used whole; this is how much of the window is worth
// its cost.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// Pages of 4 KiB touched, by range number of `stream`. Writes that extend their file count only if
// `map_extending_writes`. One pass over the trace; 1 bit a page of the ranges named in it, at most 4 GiB
// (ResourceExhausted). DataLoss if the records touch ranges that the stream does not have (a stored stream that belongs
// to other records).
[[nodiscard]] absl::StatusOr<std::vector<std::uint32_t>> TouchedPages(const Trace& trace, const RangeStream& stream,
                                                                      bool map_extending_writes);

}  // namespace v0
}  // namespace daxcache
