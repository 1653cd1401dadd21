// What `daxsim --fio` prints: timed runs as a table for people, and as CSV or JSON for programs. The keys of the latter
// are stable; docs/daxsim.md lists them.
#pragma once

#include <string>
#include <vector>

#include "daxcache/sim/timed.h"

namespace daxcache {
inline namespace v0 {

// `title`: the job file, and the profile.
std::string TimedTableReport(const std::string& title, const std::vector<TimedResult>& runs);
std::string TimedCsvReport(const std::vector<TimedResult>& runs);
std::string TimedJsonReport(const std::string& profile, const std::vector<TimedResult>& runs);

}  // namespace v0
}  // namespace daxcache
