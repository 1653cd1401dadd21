// Predictions beside published measurements: the window sweep of December 2020 (V. Goyal), 30 fio jobs on windows of 1
// to 64 GiB, and the fit of the cost model to some of its windows. What a cell of the table is, and the jobs behind it,
// are data: sim/profiles/published and sim/profiles/goyal-2020.fio.
//
//   absl::StatusOr<std::vector<PublishedCell>> cells = ReadWindowSweep(path);
//   absl::StatusOr<std::vector<Prediction>> predictions = PredictCells(*cells, *jobs, spec, {1, 4, 16, 64}, 2);
//   ErrorSummary held_out = Summarize(*predictions, [](const Prediction& p) { return p.held_out; });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/timed.h"

namespace daxcache {
inline namespace v0 {

// A row of the table.
struct PublishedCell {
  std::uint32_t window_gib = 0;
  std::string pattern;   // randread, randrw, randwrite, seqread, seqwrite
  std::string ioengine;  // libaio, mmap, psync
  std::uint32_t jobs = 0;
  double iops = 0;  // reads and writes together

  // The name of its job in the job file.
  std::string JobName() const { return pattern + "-" + ioengine + (jobs > 1 ? "-multi" : ""); }
};

struct Prediction {
  PublishedCell cell;
  double predicted_iops = 0;
  // What three numbers a job give: the cost of a hit from its cell at 64 GiB, of a miss from those at 1 and 4 GiB, and
  // a share of hits of 0.8 · window / data. 0 where it says nothing.
  double closed_form_iops = 0;
  bool held_out = false;  // its window was not fitted to
  bool starved = false;   // random, and 0.8 · window is less than the data

  double Error() const;  // |predicted / published - 1|
};

struct ErrorSummary {
  std::size_t cells = 0;
  double median = 0;
  double p90 = 0;
};

ErrorSummary SummaryOf(std::vector<double> errors);

// NotFound, or InvalidArgument as "path:line: expected …, got …".
[[nodiscard]] absl::StatusOr<std::vector<PublishedCell>> ReadWindowSweep(const std::string& path);

// Runs the jobs on every window of the table, `threads` at a time, `spec` saying everything but the window.
[[nodiscard]] absl::StatusOr<std::vector<Prediction>> PredictCells(
    const std::vector<PublishedCell>& cells, const FioJobFile& jobs, const TimedSpec& spec,
    const std::vector<std::uint32_t>& fitted_windows, int threads,
    const std::function<void(double)>& progress = nullptr);

ErrorSummary Summarize(const std::vector<Prediction>& predictions, const std::function<bool(const Prediction&)>& of);
// Of the closed form, over the cells for which it says something.
ErrorSummary SummarizeClosedForm(const std::vector<Prediction>& predictions,
                                 const std::function<bool(const Prediction&)>& of);

struct FitOptions {
  std::vector<std::uint32_t> windows = {1, 4, 16, 64};
  int threads = 1;
  int most_iterations = 12;
  // Errors (natural logarithms of predicted / published) beyond this count in proportion, not squared: single runs have
  // outliers, and the measure is the median.
  double huber = 0.03;
  // One line after each step; false: stop.
  std::function<bool(const std::string&)> report;
};

struct FittedParameter {
  std::string name;
  double value = 0;           // ns
  double standard_error = 0;  // ns
};

struct FitResult {
  CostModel costs;
  std::vector<FittedParameter> parameters;
  std::vector<Prediction> residuals;  // of the cells fitted to
  int evaluations = 0;
};

// Levenberg and Marquardt on the logarithms of the parameters, from `spec.costs` on. The random numbers of a run are
// the same whatever the parameters, so that differences are the parameters'.
[[nodiscard]] absl::StatusOr<FitResult> FitCosts(const std::vector<PublishedCell>& cells, const FioJobFile& jobs,
                                                 const TimedSpec& spec, const FitOptions& options);

}  // namespace v0
}  // namespace daxcache
