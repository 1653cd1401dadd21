// How fast timed runs are: simulated I/Os a second of one core, for a job that hits nearly always and one that misses
// nearly always.
//
//   build/release/bin/bench_timed [Google Benchmark's flags]
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/timed.h"

namespace {

using namespace daxcache;

void Jobs(benchmark::State& state, const std::string& options, std::uint64_t window_gib) {
  const auto jobs = ParseFioCommandLine(options);
  TimedSpec spec;
  spec.window = ByteSize(window_gib << 30);
  spec.costs = {.service_ns = 67'000,
                .mmap_ns = 58'000,
                .wake_ns = 27'000,
                .zap_ns = 15'000,
                .read_ns = 5'600,
                .write_ns = 7'800,
                .load_ns = 4'100};
  double ios = 0;
  for (auto _ : state) {
    const auto result = RunFioJobs(*jobs, spec);
    if (!result.ok()) {
      state.SkipWithError(std::string(result.status().message()).c_str());
      return;
    }
    for (const TimedJob& job : result->jobs) ios += static_cast<double>(job.total.reads + job.total.writes);
  }
  state.counters["M I/Os/s"] = benchmark::Counter(ios / 1e6, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(Jobs, hits_one_process, "--rw=randread --bs=4k --size=4g --ioengine=psync", 8)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Jobs, hits_four_processes, "--rw=randread --bs=4k --size=1g --numjobs=4 --ioengine=psync", 8)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Jobs, hits_mmap, "--rw=randread --bs=4k --size=4g --ioengine=mmap", 8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Jobs, misses_four_processes, "--rw=randread --bs=4k --size=4g --numjobs=4 --runtime=20", 1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
