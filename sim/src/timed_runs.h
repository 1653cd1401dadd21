// What timed runs of fio jobs and of recorded jobs have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/file_rules.h"
#include "daxcache/sim/timed.h"
#include "daxcache/sim/timed_engine.h"

namespace daxcache {
inline namespace v0 {

// Whether `spec` can run on files of these sizes, bytes.
absl::Status ValidateTimedSpec(const std::vector<std::uint64_t>& sizes, const TimedSpec& spec);

// The processes of one job together.
TimedJob Sum(std::span<const ProcessResult> results);

// An engine for files of these sizes; `facts` (of the same files) are borrowed. `spec` is valid.
std::unique_ptr<TimedEngine> MakeEngine(const std::vector<std::uint64_t>& sizes, std::span<const FileFacts> facts,
                                        const TimedSpec& spec, bool recorded);

// What a run was besides its jobs, after what `result` has of it so far: on these devices together.
void Finish(std::span<const std::unique_ptr<TimedEngine>> engines, TimedResult& result);

}  // namespace v0
}  // namespace daxcache
