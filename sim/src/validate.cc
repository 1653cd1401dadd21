// See daxcache/sim/validate.h.
#include "daxcache/sim/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "csv.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kHeader = "window_gib,pattern,ioengine,jobs,read_kib_s,write_kib_s,read_iops,write_iops";
constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 30;
constexpr double kMostMapped = 0.8;  // of a window: the worker keeps 20 % free

double DataGib(const PublishedCell& cell) {
  return static_cast<double>(cell.jobs * kFileBytes) / static_cast<double>(std::uint64_t{1} << 30);
}

bool Starved(const PublishedCell& cell) {
  return cell.pattern.starts_with("rand") && kMostMapped * cell.window_gib < DataGib(cell);
}

// 1 / IOPS = (1 - h) miss + h hit, from a job's cells at 1, 4 and 64 GiB.
double ClosedForm(const PublishedCell& cell, const std::map<std::string, std::map<std::uint32_t, double>>& iops) {
  const auto& of = iops.at(cell.JobName());
  if (!Starved(cell) || !of.contains(1) || !of.contains(4) || !of.contains(64)) return 0;
  const double hit = 1 / of.at(64);
  const auto share = [&](std::uint32_t window) { return std::min(1.0, kMostMapped * window / DataGib(cell)); };
  const auto miss = [&](std::uint32_t window) {
    return (1 / of.at(window) - share(window) * hit) / (1 - share(window));
  };
  const double mean_miss = std::sqrt(miss(1) * miss(4));
  return 1 / ((1 - share(cell.window_gib)) * mean_miss + share(cell.window_gib) * hit);
}

}  // namespace

ErrorSummary SummaryOf(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double share) {
    const double at = share * static_cast<double>(errors.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, errors.size() - 1);
    return errors[low] + (at - static_cast<double>(low)) * (errors[high] - errors[low]);
  };
  return {errors.size(), quantile(0.5), quantile(0.9)};
}

double Prediction::Error() const {
  return std::abs(predicted_iops / cell.iops - 1);
}

absl::StatusOr<std::vector<PublishedCell>> ReadWindowSweep(const std::string& path) {
  std::vector<PublishedCell> cells;
  const absl::Status read =
      ReadCsv(path, kHeader, "window, pattern, ioengine, jobs and four figures", [&](const auto& fields) {
        PublishedCell cell;
        double reads = 0;
        double writes = 0;
        if (fields.size() != 8 || !ParseAll(fields[0], cell.window_gib) || !ParseAll(fields[3], cell.jobs) ||
            !ParseAll(fields[6], reads) || !ParseAll(fields[7], writes) || cell.window_gib == 0 || cell.jobs == 0 ||
            !(reads + writes > 0)) {
          return false;
        }
        cell.pattern = std::string(fields[1]);
        cell.ioengine = std::string(fields[2]);
        cell.iops = reads + writes;
        cells.push_back(std::move(cell));
        return true;
      });
  if (!read.ok()) return read;
  return cells;
}

absl::StatusOr<std::vector<Prediction>> PredictCells(const std::vector<PublishedCell>& cells, const FioJobFile& jobs,
                                                     const TimedSpec& spec,
                                                     const std::vector<std::uint32_t>& fitted_windows, int threads,
                                                     const std::function<void(double)>& progress) {
  // The smallest window takes longest, so it comes first.
  std::set<std::uint32_t> windows;
  for (const PublishedCell& cell : cells) windows.insert(cell.window_gib);
  std::vector<TimedSpec> specs;
  for (const std::uint32_t window : windows) {
    specs.push_back(spec);
    specs.back().window = ByteSize(std::uint64_t{window} << 30);
  }
  const auto results = RunTimedSweep(Runs(jobs), specs, threads, progress);
  if (!results.ok()) return results.status();
  std::map<std::pair<std::uint32_t, std::string>, double> predicted;
  std::size_t at = 0;
  for (const std::uint32_t window : windows) {
    for (const TimedJob& job : (*results)[at++].jobs) predicted[{window, job.name}] = job.Iops();
  }
  std::map<std::string, std::map<std::uint32_t, double>> published;
  for (const PublishedCell& cell : cells) published[cell.JobName()][cell.window_gib] = cell.iops;
  std::vector<Prediction> predictions;
  for (const PublishedCell& cell : cells) {
    const auto found = predicted.find({cell.window_gib, cell.JobName()});
    if (found == predicted.end()) {
      return absl::NotFoundError(absl::StrCat("expected a job called ", cell.JobName(), " in the job file"));
    }
    Prediction prediction{.cell = cell, .predicted_iops = found->second, .starved = Starved(cell)};
    prediction.held_out =
        std::find(fitted_windows.begin(), fitted_windows.end(), cell.window_gib) == fitted_windows.end();
    prediction.closed_form_iops = ClosedForm(cell, published);
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

ErrorSummary Summarize(const std::vector<Prediction>& predictions, const std::function<bool(const Prediction&)>& of) {
  std::vector<double> errors;
  for (const Prediction& prediction : predictions) {
    if (of(prediction)) errors.push_back(prediction.Error());
  }
  return SummaryOf(std::move(errors));
}

ErrorSummary SummarizeClosedForm(const std::vector<Prediction>& predictions,
                                 const std::function<bool(const Prediction&)>& of) {
  std::vector<double> errors;
  for (const Prediction& prediction : predictions) {
    if (of(prediction) && prediction.closed_form_iops > 0) {
      errors.push_back(std::abs(prediction.closed_form_iops / prediction.cell.iops - 1));
    }
  }
  return SummaryOf(std::move(errors));
}

}  // namespace v0
}  // namespace daxcache
