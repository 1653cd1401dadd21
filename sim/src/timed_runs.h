// What timed runs of fio jobs and of recorded jobs have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/file_rules.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/sim/policy_needs.h"
#include "daxcache/sim/timed.h"
#include "daxcache/sim/timed_engine.h"

namespace daxcache {
inline namespace v0 {

// Whether `spec` can run on files of these sizes, bytes.
absl::Status ValidateTimedSpec(const std::vector<std::uint64_t>& sizes, const TimedSpec& spec);

// The processes of one job together.
TimedJob Sum(std::span<const ProcessResult> results);

template <class Engine>
Engine MakeEngine(const std::vector<std::uint64_t>& sizes, std::span<const FileFacts> files, const TimedSpec& spec,
                  typename Engine::PolicyOptions policy) {
  if constexpr (requires { policy.files; }) policy.files = files;
  const auto slots = static_cast<std::uint32_t>(spec.window.bytes() >> spec.range_size.shift());
  return Engine(sizes, spec.range_size, {.slots = slots, .max_slots = slots}, policy, spec.mechanics, spec.costs,
                spec.engine);
}

// What a run is besides its jobs.
template <class Engine>
void Finish(const Engine& engine, TimedResult& result) {
  result.ranges = engine.window().size();
  result.time_ns = engine.now_ns();
  result.daemon_requests = engine.daemon().requests();
  result.host_mappings = engine.host_mappings();
  result.page_cache_bytes = engine.page_cache().present() * PageCache::kPageBytes;
  if (result.time_ns > 0) {
    result.daemon_utilization = std::min(1.0, static_cast<double>(engine.daemon().busy_ns()) /
                                                  static_cast<double>(result.time_ns) / engine.daemon().threads());
  }
}

// Calls run with the policy that `spec` names, which has been validated.
template <class F>
absl::StatusOr<TimedResult> WithPolicy(const TimedSpec& spec, F run) {
  absl::StatusOr<TimedResult> result = absl::InternalError("no such policy");
  const absl::Status status = Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options& options) {
    if constexpr (!NeedsNextUse<P>) {
      result = run.template operator()<P>(options);
    } else {
      (void)options;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace v0
}  // namespace daxcache
