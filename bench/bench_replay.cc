// How fast replay is: 50 million accesses, zipf(1.0) over a million ranges, read from a .dxt, beside what it costs
// merely to stream the file's words through memory. One core. The file is made on the first run (a minute, 600 MB) and
// kept.
//
//   build/release/bin/bench_replay [--data FILE] [--accesses N] [Google Benchmark's flags]
//
// Columns: M/s, millions of accesses a second; of_streaming, the time as a multiple of streaming's; misses;
// RssAnon_MiB, the anonymous memory of the process while it runs (the file's pages are not anonymous). Policies that
// look ahead or see every touch need tables beside the file, which are made, untimed, when the first of them runs, and
// are in RssAnon_MiB from then on; such policies run once.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daxcache/policies/builtin.h"
#include "daxcache/sim/flags.h"
#include "daxcache/sim/replay.h"
#include "daxcache/sim/stats.h"
#include "daxcache/sim/study.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/generators.h"
#include "daxcache/version.h"

namespace {

using namespace daxcache;

constexpr std::uint32_t kRanges = 1'000'000;

// Of the wrappers one: they differ by what they wrap.
using Policies = decltype(BasePolicies<DenseIndex>::Join(PolicyList<PerFilePolicy<LruPolicy<DenseIndex>>>{}));

std::optional<Study> study;
std::shared_ptr<const RangeStream> stored;  // the file's own stream, folded

double RssAnonMiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::strtod(line.c_str() + 8, nullptr) / 1024;
  }
  return 0;
}

std::uint64_t StreamWords() {
  const auto words = stored->words();
  return std::accumulate(words.begin(), words.end(), std::uint64_t{0});
}

double Seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Stream(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(StreamWords());
  state.counters["M/s"] =
      benchmark::Counter(static_cast<double>(stored->touches()) / 1e6, benchmark::Counter::kIsIterationInvariantRate);
}

// What the policy replays over, as daxsim gives it; made when it is first asked for.
template <Policy P>
absl::StatusOr<ReplayView> ViewFor() {
  constexpr bool kFolded = P::kRepeats != Repeats::kEach;
  const auto stream = study->Stream(RangeSize(), kFolded);
  if (!stream.ok()) return stream.status();
  ReplayView view{study->trace(), **stream};
  if constexpr (NeedsNextUse<P>) {
    const auto next_use = study->NextUse(RangeSize(), kFolded, false);
    if (!next_use.ok()) return next_use.status();
    view.next_use = *next_use;
  }
  return view;
}

template <Policy P>
void ReplayOf(benchmark::State& state, const ReclaimOptions& mechanics) {
  const auto slots = static_cast<std::uint32_t>(state.range(0));
  double misses = 0;
  double rss = 0;
  double ratio = 0;
  const absl::StatusOr<ReplayView> view = ViewFor<P>();
  if (!view.ok()) {
    state.SkipWithError(std::string(view.status().message()).c_str());
    return;
  }
  typename P::Options policy;
  if constexpr (SeesFiles<P>) policy.files = study->files();
  for (auto _ : state) {
    const double streaming = Seconds([] { benchmark::DoNotOptimize(StreamWords()); });
    const double replaying = Seconds([&] {
      StatsSink sink(view->trace.files().size(), view->stream.ranges(), slots);
      Replay<P, StatsSink> replay(*view, {.slots = slots}, policy, {.mechanics = mechanics}, sink);
      replay.Run(0, view->stream.size());
      misses = static_cast<double>(sink.counts().misses);
      rss = RssAnonMiB();
    });
    state.SetIterationTime(replaying);
    ratio = replaying / streaming;
  }
  state.counters["M/s"] = benchmark::Counter(static_cast<double>(view->stream.touches()) / 1e6,
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
  study.emplace(*std::move(trace));
  auto stream = study->Stream(RangeSize(), true);
  if (!stream.ok()) return stream.status();
  stored = *std::move(stream);
  benchmark::DoNotOptimize(StreamWords());  // the file's pages are in memory from here on
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t accesses = 50'000'000;
  std::string path;
  CommandLine line(
      "bench_replay [--data FILE] [--accesses N] [--benchmark_…]",
      "How fast replay is, policy by policy, beside streaming the same file through memory.",
      {{.name = "data",
        .value = "FILE",
        .help = "the .dxt to replay; made if it is not there; default: one in the folder for temporary files",
        .set = SetText(&path)},
       {.name = "accesses",
        .value = "N",
        .help = "of the file if it is made; default 50000000",
        .set = SetNumber(&accesses, 1, std::numeric_limits<std::uint32_t>::max() - 1)}},
      "Google Benchmark's flags, such as --benchmark_filter=REGEX, are passed on to it.\n");
  std::vector<std::string> ours;
  std::vector<char*> benchmarks = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--benchmark_")) {
      benchmarks.push_back(argv[i]);
    } else {
      ours.emplace_back(argv[i]);
    }
  }
  const auto rest = line.Parse(ours);
  if (!rest.ok() || !rest->empty()) {
    std::cerr << "bench_replay: "
              << (rest.ok() ? "unexpected argument \"" + rest->front() + "\"" : std::string(rest.status().message()))
              << "\nTry \"bench_replay --help\".\n";
    return 2;
  }
  if (line.help_wanted()) {
    std::cout << line.Help();
    return 0;
  }
  if (line.version_wanted()) {
    std::cout << "bench_replay " DAXCACHE_VERSION "\n";
    return 0;
  }
  int count = static_cast<int>(benchmarks.size());
  benchmark::Initialize(&count, benchmarks.data());
  if (benchmark::ReportUnrecognizedArguments(count, benchmarks.data())) return 2;
  if (path.empty()) {
    path = (std::filesystem::temp_directory_path() / ("daxcache-zipf-" + std::to_string(accesses) + ".dxt")).string();
  }
  if (const absl::Status opened = Open(path, accesses); !opened.ok()) {
    std::cerr << "bench_replay: " << opened.message() << "\n";
    return 1;
  }
  benchmark::RegisterBenchmark("stream", Stream)->Unit(benchmark::kMillisecond);
  Policies::Any([]<class P>() {
    const ReclaimOptions mechanics = P::kName == "linux" ? ReclaimOptions::Linux() : ReclaimOptions::Demand();
    auto* const bench = benchmark::RegisterBenchmark(
        std::string(P::kName).c_str(), [mechanics](benchmark::State& state) { ReplayOf<P>(state, mechanics); });
    bench->Arg(2048)->Arg(65536)->UseManualTime()->Unit(benchmark::kMillisecond);
    if (NeedsNextUse<P> || P::kRepeats == Repeats::kEach) bench->Iterations(1);
    return false;
  });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
