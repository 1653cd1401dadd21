// The second table of December 2020 (V. Goyal): the same 30 fio jobs on nine systems, virtiofs with and without DAX and
// virtio-9p, each in its cache modes; predicted beside published, and the fit of what things cost without DAX.
//
//   absl::StatusOr<std::vector<ModeCell>> cells = ReadCacheModes(path);
//   absl::StatusOr<std::vector<ModePrediction>> predictions = PredictModes(*cells, *jobs, spec, 2);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/profile.h"
#include "daxcache/sim/timed.h"
#include "daxcache/sim/validate.h"

namespace daxcache {
inline namespace v0 {

inline constexpr std::uint32_t kModesWindowGib = 16;  // of the rows with DAX

// A row of the table.
struct ModeCell {
  FileSystem filesystem = FileSystem::kVirtiofs;
  CacheMode cache = CacheMode::kNone;
  bool dax = false;
  PublishedCell job;  // 0 IOPS: the system does not support it

  EngineOptions Options() const;
  bool Fitted() const { return job.jobs == 1; }
};

struct ModePrediction {
  ModeCell cell;
  double predicted_iops = 0;

  double Error() const;  // |predicted / published - 1|; of what is not supported, 0 if that is predicted, else 1
};

// NotFound, or InvalidArgument as "path:line: expected …, got …".
[[nodiscard]] absl::StatusOr<std::vector<ModeCell>> ReadCacheModes(const std::string& path);

// Runs the jobs on every system of the table, `threads` at a time, `spec` saying what things cost.
[[nodiscard]] absl::StatusOr<std::vector<ModePrediction>> PredictModes(
    const std::vector<ModeCell>& cells, const FioJobFile& jobs, const TimedSpec& spec, int threads,
    const std::function<void(double)>& progress = nullptr);

// Over the cells that are supported.
ErrorSummary SummarizeModes(const std::vector<ModePrediction>& predictions, bool fitted);

// Fits what virtiofs costs without DAX (CostModel::direct; not what only recorded jobs pay) and then what 9p does
// (CostModel::nine_p) to the cells of one process, from `spec.costs` on. The parameters of the DAX path stay.
[[nodiscard]] absl::StatusOr<FitResult> FitModes(const std::vector<ModeCell>& cells, const FioJobFile& jobs,
                                                 const TimedSpec& spec, const FitOptions& options);

// The Kata guest of September 2020: one job on 9p and on virtiofs without DAX. Nothing is fitted to it.
struct KataPrediction {
  double published_9p_iops = 0;
  double published_virtiofs_iops = 0;
  double predicted_9p_iops = 0;
  double predicted_virtiofs_iops = 0;

  double PublishedRatio() const { return published_9p_iops / published_virtiofs_iops; }
  double PredictedRatio() const { return predicted_9p_iops / predicted_virtiofs_iops; }
  // 9p is the faster, by as much as published, to within a quarter.
  bool Explained() const;
};
// `path`: the published table; errors as ReadCacheModes'. `jobs`: one. `profile`: of that guest.
[[nodiscard]] absl::StatusOr<KataPrediction> PredictKata(const std::string& path, const FioJobFile& jobs,
                                                         const Profile& profile, int threads);

}  // namespace v0
}  // namespace daxcache
