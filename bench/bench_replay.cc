// How fast replay is: 50 million accesses, zipf(1.0) over a million ranges, read from a .dxt, beside what it costs
// merely to stream the file's words through memory. One core. The file is made on the first run (a minute, 600 MB) and
// kept.
//
//   build/release/bin/bench_replay [--data=FILE] [--accesses=N] [Google Benchmark's flags]
//
// Columns: M/s, millions of accesses a second; of_streaming, the time as a multiple of streaming's; misses;
// RssAnon_MiB, the anonymous memory of the process while it runs (the file's pages are not anonymous).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "daxcache/sim/replay.h"
#include "daxcache/sim/stats.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/generators.h"

namespace {

using namespace daxcache;

constexpr std::uint32_t kRanges = 1'000'000;

struct Input {
  Trace trace;
  std::shared_ptr<const RangeStream> stream;
};
std::optional<Input> input;

double RssAnonMiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::strtod(line.c_str() + 8, nullptr) / 1024;
  }
  return 0;
}

std::uint64_t StreamWords() {
  const auto words = input->stream->words();
  return std::accumulate(words.begin(), words.end(), std::uint64_t{0});
}

double Seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Stream(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(StreamWords());
  state.counters["M/s"] = benchmark::Counter(static_cast<double>(input->stream->touches()) / 1e6,
                                             benchmark::Counter::kIsIterationInvariantRate);
}

template <Policy P>
void ReplayOf(benchmark::State& state, const ReclaimOptions& mechanics) {
  const auto slots = static_cast<std::uint32_t>(state.range(0));
  double misses = 0;
  double rss = 0;
  double ratio = 0;
  for (auto _ : state) {
    const double streaming = Seconds([] { benchmark::DoNotOptimize(StreamWords()); });
    const double replaying = Seconds([&] {
      StatsSink sink(input->trace.files().size(), input->stream->ranges(), slots);
      Replay<P, StatsSink> replay({input->trace, *input->stream}, {.slots = slots}, {}, {.mechanics = mechanics}, sink);
      replay.Run(0, input->stream->size());
      misses = static_cast<double>(sink.counts().misses);
      rss = RssAnonMiB();
    });
    state.SetIterationTime(replaying);
    ratio = replaying / streaming;
  }
  state.counters["M/s"] = benchmark::Counter(static_cast<double>(input->stream->touches()) / 1e6,
                                             benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_streaming"] = ratio;
  state.counters["misses"] = misses;
  state.counters["RssAnon_MiB"] = rss;
}

absl::Status Open(const std::string& path, std::uint64_t accesses) {
  if (!std::filesystem::exists(path)) {
    std::cerr << "making " << path << "\n";
    const auto made =
        ZipfTrace({.theta = 1.0, .ranges = kRanges, .accesses = accesses, .seed = 1, .range_size = RangeSize()});
    if (!made.ok()) return made.status();
    if (const absl::Status written = WriteTrace(*made, path); !written.ok()) return written;
  }
  // What a replay needs is in the stream; the columns stay unread.
  auto trace = ReadTrace(path, {.progress = {}, .check_records = false});
  if (!trace.ok()) return trace.status();
  auto stream = RangeStream::Build(*trace, {});
  if (!stream.ok()) return stream.status();
  input.emplace(Input{*std::move(trace), *std::move(stream)});
  benchmark::DoNotOptimize(StreamWords());  // the file's pages are in memory from here on
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t accesses = 50'000'000;
  std::string path;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--data=")) {
      path = argument.substr(7);
    } else if (argument.starts_with("--accesses=")) {
      accesses = std::strtoull(argv[i] + 11, nullptr, 10);
    } else {
      rest.push_back(argv[i]);
    }
  }
  if (path.empty()) {
    path = (std::filesystem::temp_directory_path() / ("daxcache-zipf-" + std::to_string(accesses) + ".dxt")).string();
  }
  if (const absl::Status opened = Open(path, accesses); !opened.ok()) {
    std::cerr << "bench_replay: " << opened.message() << "\n";
    return 1;
  }
  benchmark::RegisterBenchmark("stream", Stream)->Unit(benchmark::kMillisecond);
  BuiltinPolicies<DenseIndex>::Any([]<class P>() {
    if constexpr (!NeedsNextUse<P> && P::kRepeats != Repeats::kEach) {
      const ReclaimOptions mechanics = P::kName == "linux" ? ReclaimOptions::Linux() : ReclaimOptions::Demand();
      benchmark::RegisterBenchmark(std::string(P::kName).c_str(),
                                   [mechanics](benchmark::State& state) { ReplayOf<P>(state, mechanics); })
          ->Arg(2048)
          ->Arg(65536)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
    return false;
  });
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
