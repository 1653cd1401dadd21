// The fit of the cost model; see daxcache/sim/validate.h. J. J. Moré, "The Levenberg-Marquardt algorithm:
// implementation and theory" (1978); weights after P. J. Huber, "Robust estimation of a location parameter" (1964).
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Dense"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/validate.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr double kStep = 0.04;       // of a parameter's logarithm, for differences: well above the noise of a run
constexpr double kMostChange = 0.7;  // of a parameter's logarithm, in one step
constexpr double kLeastGain = 2e-3;  // of the cost, for another step

class Fitter {
 public:
  Fitter(const std::vector<PublishedCell>& cells, const FioJobFile& jobs, const TimedSpec& spec,
         const FitOptions& options)
      : jobs_(jobs), spec_(spec), options_(options) {
    for (const PublishedCell& cell : cells) {
      if (std::find(options.windows.begin(), options.windows.end(), cell.window_gib) != options.windows.end()) {
        cells_.push_back(cell);
      }
    }
  }

  absl::StatusOr<FitResult> Run() {
    if (cells_.empty()) return absl::InvalidArgumentError("expected cells of the windows to fit to, got none");
    constexpr auto kFields = CostModel::Fields();
    const auto count = static_cast<Eigen::Index>(kFields.size());
    CostModel costs = spec_.costs;
    for (const CostModel::Field& field : kFields) {
      if (!(costs.*field.value > 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected parameters above 0 to begin with, got ", std::string(field.name), " = 0"));
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
        changed.*kFields[static_cast<std::size_t>(p)].value *= std::exp(kStep);
        const auto there = Errors(changed);
        if (!there.ok()) return there.status();
        jacobian.col(p) = (*there - *errors) / kStep;
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
          changed.*kFields[static_cast<std::size_t>(p)].value *=
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
      if (!better || gain < kLeastGain) break;
    }
    return Result(costs, normal, scale);
  }

 private:
  // ln(predicted / published), by cell.
  absl::StatusOr<Eigen::VectorXd> Errors(const CostModel& costs) {
    ++evaluations_;
    TimedSpec spec = spec_;
    spec.costs = costs;
    const auto predictions = PredictCells(cells_, jobs_, spec, options_.windows, options_.threads);
    if (!predictions.ok()) return predictions.status();
    Eigen::VectorXd errors(static_cast<Eigen::Index>(predictions->size()));
    for (std::size_t i = 0; i < predictions->size(); ++i) {
      errors[static_cast<Eigen::Index>(i)] = std::log((*predictions)[i].predicted_iops / (*predictions)[i].cell.iops);
    }
    return errors;
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

  absl::StatusOr<FitResult> Result(CostModel costs, const Eigen::MatrixXd& normal, double scale) {
    FitResult result;
    const Eigen::MatrixXd covariance = normal.completeOrthogonalDecomposition().pseudoInverse() * scale;
    Eigen::Index at = 0;
    for (const CostModel::Field& field : CostModel::Fields()) {
      double& value = costs.*field.value;
      value = std::round(value);
      result.parameters.push_back(
          {std::string(field.name), value, value * std::sqrt(std::max(0.0, covariance(at, at)))});
      ++at;
    }
    TimedSpec spec = spec_;
    spec.costs = costs;
    auto residuals = PredictCells(cells_, jobs_, spec, options_.windows, options_.threads);
    if (!residuals.ok()) return residuals.status();
    result.costs = costs;
    result.residuals = *std::move(residuals);
    result.evaluations = evaluations_;
    return result;
  }

  std::vector<PublishedCell> cells_;
  const FioJobFile& jobs_;
  const TimedSpec& spec_;
  const FitOptions& options_;
  int evaluations_ = 0;
};

}  // namespace

absl::StatusOr<FitResult> FitCosts(const std::vector<PublishedCell>& cells, const FioJobFile& jobs,
                                   const TimedSpec& spec, const FitOptions& options) {
  return Fitter(cells, jobs, spec, options).Run();
}

}  // namespace v0
}  // namespace daxcache
