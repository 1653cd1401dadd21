// Where a trace named on a command line is: as given, compressed, or among those that come with the project.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace daxcache {
inline namespace v0 {

// `name`, or `name`.zst, as it is or in traces/data (of the working folder, of the build tree, installed). NotFound;
// InvalidArgument for a folder; Unavailable for what cannot be looked at.
[[nodiscard]] absl::StatusOr<std::string> FindTrace(const std::string& name);

}  // namespace v0
}  // namespace daxcache
