// Lists of sizes on the command line, with spans: "64M,1G..16G".
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// "64M,1G..16G": sizes, and spans that double from the first to at most the second. InvalidArgument says which item.
[[nodiscard]] absl::StatusOr<std::vector<ByteSize>> ParseSizes(std::string_view text);

}  // namespace v0
}  // namespace daxcache
