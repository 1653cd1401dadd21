// See daxcache/sim/timed.h; timed_fio.cc and timed_pool.cc have the runs.
#include "daxcache/sim/timed.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/policies/builtin.h"
#include "timed_runs.h"

namespace daxcache {
inline namespace v0 {
namespace {

void Add(const ProcessResult& from, ProcessResult& to) {
  to.reads += from.reads;
  to.writes += from.writes;
  to.bytes += from.bytes;
  to.hits += from.hits;
  to.misses += from.misses;
  to.upgrades += from.upgrades;
  to.faults += from.faults;
  to.past_window += from.past_window;
  to.begin_ns = std::min(to.begin_ns, from.begin_ns);
  to.end_ns = std::max(to.end_ns, from.end_ns);
  for (std::size_t i = 0; i < kNumSpent; ++i) to.spent_ns[i] += from.spent_ns[i];
  to.latency.Merge(from.latency);
}

}  // namespace

TimedJob Sum(std::span<const ProcessResult> results) {
  TimedJob job;
  job.processes = static_cast<std::uint32_t>(results.size());
  job.total = results[0];
  job.time_ns = results[0].end_ns - results[0].begin_ns;
  for (const ProcessResult& one : results.subspan(1)) {
    Add(one, job.total);
    job.time_ns += one.end_ns - one.begin_ns;
  }
  return job;
}

std::unique_ptr<TimedEngine> MakeEngine(const std::vector<std::uint64_t>& sizes, std::span<const FileFacts> facts,
                                        const TimedSpec& spec, bool recorded) {
  const auto slots = static_cast<std::uint32_t>(spec.window.bytes() / spec.devices >> spec.range_size.shift());
  EngineOptions options = spec.engine;
  options.recorded = recorded;
  const std::uint32_t first = options.grow_from > 0 ? std::min(slots, options.grow_from) : slots;
  return std::make_unique<TimedEngine>(sizes, spec.range_size, WindowOptions{.slots = first, .max_slots = slots},
                                       TimedEngine::PolicyType::Options{.spec = spec.policy, .files = facts},
                                       spec.mechanics, spec.costs, options);
}

void Finish(std::span<const std::unique_ptr<TimedEngine>> engines, TimedResult& result) {
  if (engines.empty()) return;
  double busy = result.daemon_utilization * static_cast<double>(result.time_ns) * static_cast<double>(engines.size());
  std::int64_t time_ns = 0;
  result.ranges = result.host_mappings = result.page_cache_bytes = 0;
  for (const auto& engine : engines) {
    result.ranges += engine->window().size();
    time_ns = std::max(time_ns, engine->now_ns());
    result.daemon_requests += engine->daemon().requests();
    result.host_mappings += engine->host_mappings();
    result.page_cache_bytes += engine->page_cache().present() * PageCache::kPageBytes;
    busy += static_cast<double>(engine->daemon().busy_ns()) / engine->daemon().threads();
  }
  result.time_ns += time_ns;
  if (result.time_ns > 0) {
    result.daemon_utilization =
        std::min(1.0, busy / static_cast<double>(engines.size()) / static_cast<double>(result.time_ns));
  }
}

absl::Status ValidateTimedSpec(const std::vector<std::uint64_t>& sizes, const TimedSpec& spec) {
  if (spec.devices == 0) return absl::InvalidArgumentError("expected at least one device, got 0");
  const std::uint64_t slots = spec.window.bytes() / spec.devices >> spec.range_size.shift();
  if (slots == 0 || slots > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat("expected a window of 1 to ", kMaxSlots, " ranges of ",
                                                   ByteSize(spec.range_size.bytes()).ToString(), ", got ",
                                                   spec.window.ToString()));
  }
  if (absl::Status status = spec.mechanics.Validate(); !status.ok()) return status;
  if (absl::Status status = spec.engine.Validate(); !status.ok()) return status;
  if (spec.engine.grow_from > 0 && spec.mechanics.threshold_percent == 0) {
    return absl::InvalidArgumentError("expected mechanics with a worker: a window grows when that would be woken");
  }
  if (spec.mechanics.chunk > slots && slots < 2) {
    return absl::InvalidArgumentError("expected a window of at least 2 ranges for a timed run");
  }
  std::uint64_t ranges = 0;
  for (const std::uint64_t size : sizes) {
    ranges += (size >> spec.range_size.shift()) + 1;
    if (ranges > (std::uint64_t{1} << 28)) {
      return absl::InvalidArgumentError("expected files of at most 2^28 ranges together; try a larger range size");
    }
  }
  return Dispatch<DenseIndex>(spec.policy, [&]<class P>(const typename P::Options&) -> absl::Status {
    if constexpr (NeedsNextUse<P>) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.policy.text(), " looks ahead in the recorded order, which a timed run does not keep to"));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TimedResult>> RunTimedSweep(const TimedRun& run, const std::vector<TimedSpec>& specs,
                                                       int threads, const std::function<void(double)>& progress) {
  std::vector<absl::StatusOr<TimedResult>> results(specs.size(), absl::UnknownError("not run"));
  std::vector<double> done(specs.size());
  std::mutex mutex;  // guards `done`, and the caller's progress
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < specs.size(); i = next++) {
      results[i] = run(specs[i], [&](double share) {
        const std::lock_guard lock(mutex);
        done[i] = share;
        if (progress) {
          progress(std::accumulate(done.begin(), done.end(), 0.0) / static_cast<double>(specs.size()));
        }
      });
    }
  };
  std::vector<std::thread> helpers;
  const auto wanted = static_cast<std::size_t>(std::max(1, threads));
  for (std::size_t i = 1; i < std::min(wanted, specs.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  std::vector<TimedResult> all;
  for (auto& result : results) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

}  // namespace v0
}  // namespace daxcache
