// See daxcache/sim/cache_modes.h.
#include "daxcache/sim/cache_modes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csv.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kHeader =
    "filesystem,cache,dax,pattern,ioengine,jobs,read_kib_s,write_kib_s,read_iops,write_iops";

bool ParseSystem(std::string_view filesystem, std::string_view cache, std::string_view dax, ModeCell& cell) {
  const auto* const name = std::find(kCacheModeNames.begin(), kCacheModeNames.end(), cache);
  if (name == kCacheModeNames.end() || (filesystem != "virtiofs" && filesystem != "virtio-9p") ||
      (dax != "0" && dax != "1")) {
    return false;
  }
  cell.filesystem = filesystem == "virtiofs" ? FileSystem::kVirtiofs : FileSystem::kNineP;
  cell.cache = static_cast<CacheMode>(name - kCacheModeNames.begin());
  cell.dax = dax == "1";
  return cell.Options().Validate().ok();
}

// With DAX all cache modes are the same here.
std::tuple<bool, FileSystem, CacheMode> RunOf(const ModeCell& cell) {
  return {cell.dax, cell.filesystem, cell.dax ? CacheMode::kAuto : cell.cache};
}

}  // namespace

EngineOptions ModeCell::Options() const {
  return {.dax = dax, .filesystem = filesystem, .cache = cache};
}

double ModePrediction::Error() const {
  if (cell.job.iops == 0) return predicted_iops == 0 ? 0 : 1;
  return std::abs(predicted_iops / cell.job.iops - 1);
}

absl::StatusOr<std::vector<ModeCell>> ReadCacheModes(const std::string& path) {
  std::vector<ModeCell> cells;
  const absl::Status read =
      ReadCsv(path, kHeader, "filesystem, cache mode, 0 or 1 for DAX, pattern, ioengine, jobs and four figures",
              [&](const auto& fields) {
                ModeCell cell;
                double reads = 0;
                double writes = 0;
                if (fields.size() != 10 || !ParseSystem(fields[0], fields[1], fields[2], cell) ||
                    !ParseAll(fields[5], cell.job.jobs) || cell.job.jobs == 0 || !ParseAll(fields[8], reads) ||
                    !ParseAll(fields[9], writes) || !(reads >= 0 && writes >= 0)) {
                  return false;
                }
                cell.job.window_gib = cell.dax ? kModesWindowGib : 0;
                cell.job.pattern = std::string(fields[3]);
                cell.job.ioengine = std::string(fields[4]);
                cell.job.iops = reads + writes;
                cells.push_back(std::move(cell));
                return true;
              });
  if (!read.ok()) return read;
  return cells;
}

absl::StatusOr<std::vector<ModePrediction>> PredictModes(const std::vector<ModeCell>& cells, const FioJobFile& jobs,
                                                         const TimedSpec& spec, int threads,
                                                         const std::function<void(double)>& progress) {
  std::map<std::tuple<bool, FileSystem, CacheMode>, std::size_t> runs;
  std::vector<TimedSpec> specs;
  for (const ModeCell& cell : cells) {
    if (!runs.try_emplace(RunOf(cell), specs.size()).second) continue;
    TimedSpec& one = specs.emplace_back(spec);
    one.window = ByteSize(std::uint64_t{kModesWindowGib} << 30);
    std::tie(one.engine.dax, one.engine.filesystem, one.engine.cache) = RunOf(cell);
  }
  const auto results = RunTimedSweep(Runs(jobs), specs, threads, progress);
  if (!results.ok()) return results.status();
  std::vector<ModePrediction> predictions;
  for (const ModeCell& cell : cells) {
    const std::vector<TimedJob>& done = (*results)[runs.at(RunOf(cell))].jobs;
    const auto job =
        std::find_if(done.begin(), done.end(), [&](const TimedJob& one) { return one.name == cell.job.JobName(); });
    if (job == done.end()) {
      return absl::NotFoundError(absl::StrCat("expected a job called ", cell.job.JobName(), " in the job file"));
    }
    predictions.push_back({.cell = cell, .predicted_iops = job->Iops()});
  }
  return predictions;
}

ErrorSummary SummarizeModes(const std::vector<ModePrediction>& predictions, bool fitted) {
  std::vector<double> errors;
  for (const ModePrediction& prediction : predictions) {
    if (prediction.cell.Fitted() == fitted && prediction.cell.job.iops > 0) errors.push_back(prediction.Error());
  }
  return SummaryOf(std::move(errors));
}

bool KataPrediction::Explained() const {
  return PredictedRatio() > 1 && std::abs(PredictedRatio() / PublishedRatio() - 1) <= 0.25;
}

absl::StatusOr<KataPrediction> PredictKata(const std::string& path, const FioJobFile& jobs, const Profile& profile,
                                           int threads) {
  KataPrediction kata;
  const absl::Status read =
      ReadCsv(path, "filesystem,read_mib_s,write_mib_s,read_mib,write_mib,run_ms",
              "filesystem and MiB/s read and written, of virtio-9p and of virtiofs", [&](const auto& fields) {
                double reads = 0;
                double writes = 0;
                if (fields.size() != 6 || !ParseAll(fields[1], reads) || !ParseAll(fields[2], writes) ||
                    !(reads + writes > 0)) {
                  return false;
                }
                constexpr double kPerMib = 256;  // I/Os of 4 KiB
                if (fields[0] == "virtio-9p") kata.published_9p_iops = (reads + writes) * kPerMib;
                if (fields[0] == "virtiofs") kata.published_virtiofs_iops = (reads + writes) * kPerMib;
                return fields[0] == "virtio-9p" || fields[0] == "virtiofs";
              });
  if (!read.ok()) return read;
  if (kata.published_9p_iops == 0 || kata.published_virtiofs_iops == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a row of virtio-9p and one of virtiofs"));
  }
  TimedSpec spec;
  spec.window = ByteSize(std::uint64_t{1} << 30);
  spec.costs = profile.costs;
  spec.engine.jiffy_ns = profile.jiffy_ns;
  spec.engine.daemon_threads = profile.daemon_threads;
  spec.engine.xattr = profile.xattr;
  spec.engine.dax = false;
  std::vector<TimedSpec> specs(2, spec);
  specs[0].engine.filesystem = FileSystem::kNineP;
  specs[0].engine.cache = CacheMode::kMmap;
  specs[1].engine.cache = CacheMode::kAuto;
  const auto results = RunTimedSweep(Runs(jobs), specs, threads);
  if (!results.ok()) return results.status();
  kata.predicted_9p_iops = (*results)[0].jobs[0].Iops();
  kata.predicted_virtiofs_iops = (*results)[1].jobs[0].Iops();
  return kata;
}

}  // namespace v0
}  // namespace daxcache
