// What `daxsim` prints: results of replays as tables for people, and as CSV or JSON for programs. The keys of the
// latter are stable; docs/daxsim.md lists them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daxcache/sim/study.h"

namespace daxcache {
inline namespace v0 {

// The runs over one trace.
struct TraceRuns {
  std::shared_ptr<const Study> study;
  std::vector<RunResult> runs;
};

// One run: everything about it. Several: a row each.
std::string TableReport(const std::vector<TraceRuns>& all);
std::string CsvReport(const std::vector<TraceRuns>& all);
std::string JsonReport(const std::vector<TraceRuns>& all);

}  // namespace v0
}  // namespace daxcache
