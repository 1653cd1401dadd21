// The fits of the cost model; see daxcache/sim/validate.h and cache_modes.h. J. J. Moré, "The Levenberg-Marquardt
// algorithm: implementation and theory" (1978); weights after P. J. Huber, "Robust estimation of a location parameter"
// (1964).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Dense"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/cache_modes.h"
#include "daxcache/sim/validate.h"
#include "daxcache/sim/vhost_scsi.h"

namespace daxcache {
inline namespace v0 {
namespace {

// For differences: well above the noise of a run, so more of a parameter that is small.
constexpr double kStep = 0.04;       // of its logarithm, at least …
constexpr double kMostStep = 0.4;    // … and at most …
constexpr double kStepNs = 400;      // … for so much of it
constexpr double kMostChange = 0.7;  // of a parameter's logarithm, in one step
constexpr double kLeastGain = 2e-3;  // of the cost, for another step

// A parameter that is fitted.
struct Fitted {
  std::string name;
  std::function<double&(CostModel&)> of;
};
template <class Costs>
std::vector<Fitted> FieldsOf(const std::function<Costs&(CostModel&)>& group) {
  std::vector<Fitted> fields;
  for (const CostField<Costs>& field : Costs::Fields()) {
    fields.push_back({std::string(field.name),
                      [group, value = field.value](CostModel& costs) -> double& { return group(costs).*value; }});
  }
  return fields;
}

// ln(predicted / published), by cell.
using ErrorsOf = std::function<absl::StatusOr<std::vector<double>>(const CostModel&)>;

// Levenberg and Marquardt's steps on the logarithms of the parameters.
class Fitter {
 public:
  Fitter(std::vector<Fitted> parameters, ErrorsOf errors, const FitOptions& options)
      : parameters_(std::move(parameters)), errors_(std::move(errors)), options_(options) {}

  // From `costs` on. The result has no residuals yet.
  absl::StatusOr<FitResult> Run(CostModel costs) {
    const auto count = static_cast<Eigen::Index>(parameters_.size());
    for (const Fitted& parameter : parameters_) {
      if (!(parameter.of(costs) > 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected parameters above 0 to begin with, got ", parameter.name, " = 0"));
      }
    }
    auto errors = Errors(costs);
    if (!errors.ok()) return errors.status();
    double lambda = 0.01;
    Eigen::MatrixXd normal;
    double scale = 0;
    for (int iteration = 0; iteration < options_.most_iterations; ++iteration) {
      Eigen::MatrixXd jacobian(errors->size(), count);
      for (Eigen::Index p = 0; p < count; ++p) {
        CostModel changed = costs;
        double& value = parameters_[static_cast<std::size_t>(p)].of(changed);
        const double step = std::clamp(kStepNs / value, kStep, kMostStep);
        value *= std::exp(step);
        const auto there = Errors(changed);
        if (!there.ok()) return there.status();
        jacobian.col(p) = (*there - *errors) / step;
      }
      const Eigen::VectorXd weights = errors->unaryExpr([&](double e) { return Weight(e); });
      normal = jacobian.transpose() * weights.asDiagonal() * jacobian;
      const Eigen::VectorXd gradient = jacobian.transpose() * weights.asDiagonal() * *errors;
      scale = (weights.array() * errors->array().square()).sum() /
              std::max(1.0, static_cast<double>(errors->size() - count));
      bool better = false;
      double gain = 0;
      for (int attempt = 0; attempt < 5 && !better; ++attempt, lambda *= 5) {
        Eigen::MatrixXd damped = normal;
        damped.diagonal() += lambda * (normal.diagonal().array() + 1e-6).matrix();
        const Eigen::VectorXd step = -damped.ldlt().solve(gradient);
        CostModel changed = costs;
        for (Eigen::Index p = 0; p < count; ++p) {
          parameters_[static_cast<std::size_t>(p)].of(changed) *=
              std::exp(std::clamp(step[p], -kMostChange, kMostChange));
        }
        auto there = Errors(changed);
        if (!there.ok()) return there.status();
        gain = Cost(*errors) - Cost(*there);
        if (gain > 0) {
          better = true;
          costs = changed;
          errors = *std::move(there);
          lambda /= 20;  // and times 5 at the loop's end
        }
      }
      if (options_.report &&
          !options_.report(absl::StrCat("step ", iteration + 1, ": cost ", Cost(*errors), ", median error ",
                                        Median(*errors), ", ", evaluations_, " evaluations"))) {
        return absl::CancelledError("stopped");
      }
      if (!better || gain < kLeastGain * Cost(*errors)) break;
    }
    return Result(costs, normal, scale);
  }

 private:
  absl::StatusOr<Eigen::VectorXd> Errors(const CostModel& costs) {
    ++evaluations_;
    const auto errors = errors_(costs);
    if (!errors.ok()) return errors.status();
    return Eigen::Map<const Eigen::VectorXd>(errors->data(), static_cast<Eigen::Index>(errors->size()));
  }
  double Weight(double error) const { return std::abs(error) <= options_.huber ? 1 : options_.huber / std::abs(error); }
  double Cost(const Eigen::VectorXd& errors) const {
    double cost = 0;
    for (const double error : errors) {
      const double size = std::abs(error);
      cost += size <= options_.huber ? size * size / 2 : options_.huber * (size - options_.huber / 2);
    }
    return cost;
  }
  static double Median(const Eigen::VectorXd& errors) {
    std::vector<double> sizes;
    for (const double error : errors) sizes.push_back(std::abs(std::exp(error) - 1));
    std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
    return sizes[sizes.size() / 2];
  }

  FitResult Result(CostModel costs, const Eigen::MatrixXd& normal, double scale) const {
    FitResult result;
    const Eigen::MatrixXd covariance = normal.completeOrthogonalDecomposition().pseudoInverse() * scale;
    Eigen::Index at = 0;
    for (const Fitted& parameter : parameters_) {
      double& value = parameter.of(costs);
      value = std::round(value);
      result.parameters.push_back({parameter.name, value, value * std::sqrt(std::max(0.0, covariance(at, at)))});
      ++at;
    }
    result.costs = costs;
    result.evaluations = evaluations_;
    return result;
  }

  std::vector<Fitted> parameters_;
  ErrorsOf errors_;
  const FitOptions& options_;
  int evaluations_ = 0;
};

TimedSpec With(TimedSpec spec, const CostModel& costs) {
  spec.costs = costs;
  return spec;
}

}  // namespace

absl::StatusOr<FitResult> FitCosts(const std::vector<PublishedCell>& all, const FioJobFile& jobs, const TimedSpec& spec,
                                   const FitOptions& options) {
  std::vector<PublishedCell> cells;
  for (const PublishedCell& cell : all) {
    const auto& windows = options.windows;
    if (std::find(windows.begin(), windows.end(), cell.window_gib) != windows.end()) cells.push_back(cell);
  }
  if (cells.empty()) return absl::InvalidArgumentError("expected cells of the windows to fit to, got none");
  const auto predict = [&](const CostModel& costs) {
    return PredictCells(cells, jobs, With(spec, costs), options.windows, options.threads);
  };
  const auto errors = [&](const CostModel& costs) -> absl::StatusOr<std::vector<double>> {
    const auto predictions = predict(costs);
    if (!predictions.ok()) return predictions.status();
    std::vector<double> all_errors;
    for (const Prediction& p : *predictions) all_errors.push_back(std::log(p.predicted_iops / p.cell.iops));
    return all_errors;
  };
  auto result = Fitter(FieldsOf<CostModel>([](CostModel& costs) -> CostModel& { return costs; }), errors, options)
                    .Run(spec.costs);
  if (!result.ok()) return result;
  auto residuals = predict(result->costs);
  if (!residuals.ok()) return residuals.status();
  result->residuals = *std::move(residuals);
  return result;
}

absl::StatusOr<FitResult> FitModes(const std::vector<ModeCell>& all, const FioJobFile& jobs, const TimedSpec& spec,
                                   const FitOptions& options) {
  FioJobFile single;
  for (const FioJob& job : jobs.jobs) {
    if (job.numjobs == 1) single.jobs.push_back(job);
  }
  const auto fit = [&](FileSystem filesystem, std::vector<Fitted> parameters,
                       const CostModel& costs) -> absl::StatusOr<FitResult> {
    std::vector<ModeCell> cells;
    for (const ModeCell& cell : all) {
      if (cell.filesystem == filesystem && !cell.dax && cell.Fitted() && cell.job.iops > 0) cells.push_back(cell);
    }
    if (cells.empty()) return absl::InvalidArgumentError("expected cells of one process without DAX, got none");
    const auto errors = [&](const CostModel& there) -> absl::StatusOr<std::vector<double>> {
      const auto predictions = PredictModes(cells, single, With(spec, there), options.threads);
      if (!predictions.ok()) return predictions.status();
      std::vector<double> all_errors;
      for (const ModePrediction& p : *predictions) {
        if (!(p.predicted_iops > 0)) {
          return absl::InvalidArgumentError(absl::StrCat("expected 0 published for ", p.cell.job.JobName(), " on ",
                                                         p.cell.Options().System(), ", which does not support it"));
        }
        all_errors.push_back(std::log(p.predicted_iops / p.cell.job.iops));
      }
      return all_errors;
    };
    return Fitter(std::move(parameters), errors, options).Run(costs);
  };
  std::vector<Fitted> direct = FieldsOf<DirectCosts>([](CostModel& costs) -> DirectCosts& { return costs.direct; });
  // These only recorded jobs pay, or they are too little to tell.
  std::erase_if(direct, [](const Fitted& one) { return one.name == "fault_ns" || one.name == "flush_ns"; });
  auto result = fit(FileSystem::kVirtiofs, std::move(direct), spec.costs);
  if (!result.ok()) return result;
  std::vector<Fitted> of_9p = FieldsOf<NinePCosts>([](CostModel& costs) -> NinePCosts& { return costs.nine_p; });
  // With one process it is not told from worker_ns.
  std::erase_if(of_9p, [](const Fitted& one) { return one.name == "request_ns"; });
  auto nine_p = fit(FileSystem::kNineP, std::move(of_9p), result->costs);
  if (!nine_p.ok()) return nine_p;
  for (FittedParameter& parameter : nine_p->parameters) parameter.name.insert(0, "9p ");
  nine_p->parameters.insert(nine_p->parameters.begin(), result->parameters.begin(), result->parameters.end());
  nine_p->evaluations += result->evaluations;
  return nine_p;
}

absl::StatusOr<FitResult> FitVhost(const std::vector<VhostCell>& cells, const CostModel& start,
                                   const FitOptions& options) {
  const auto errors = [&](const CostModel& costs) -> absl::StatusOr<std::vector<double>> {
    std::vector<double> all_errors;
    for (const VhostCell& cell : cells) {
      if (cell.Fitted()) all_errors.push_back(std::log(PredictVhost(cell, costs.vhost_scsi) / cell.iops));
    }
    if (all_errors.empty()) return absl::InvalidArgumentError("expected rows of at most 16 LUNs, got none");
    return all_errors;
  };
  auto parameters = FieldsOf<VhostScsiCosts>([](CostModel& costs) -> VhostScsiCosts& { return costs.vhost_scsi; });
  // Known from the disks without a guest.
  std::erase_if(parameters, [](const Fitted& one) { return one.name == "job_ns"; });
  return Fitter(std::move(parameters), errors, options).Run(start);
}

}  // namespace v0
}  // namespace daxcache
