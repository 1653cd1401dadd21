// virtio-scsi with vhost: what a guest gets that puts its data on block devices of the host instead. Disks (LUNs) stand
// behind adapters, each with a worker thread in the host; N. Bellinger's measurements of 2012 predicted beside
// published.
//
//   absl::StatusOr<std::vector<VhostCell>> cells = ReadVhostScsi(path);
//   double iops = PredictVhost(cells->front(), profile.costs.vhost_scsi);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/sim/cost_model.h"
#include "daxcache/sim/validate.h"

namespace daxcache {
inline namespace v0 {

// A row of the table: random I/Os of 4 KiB, many under way at once.
struct VhostCell {
  static constexpr std::uint32_t kLunsOfAdapter = 4;

  std::uint32_t luns = 0;
  std::uint32_t jobs = 0;
  std::uint32_t write_percent = 0;
  double iops = 0;  // 0: not published

  std::uint32_t Adapters() const { return (luns + kLunsOfAdapter - 1) / kLunsOfAdapter; }
  bool Fitted() const { return luns <= 16; }
};

// NotFound, or InvalidArgument as "path:line: expected …, got …".
[[nodiscard]] absl::StatusOr<std::vector<VhostCell>> ReadVhostScsi(const std::string& path);

// IOPS. As long as there is work for all adapters, each handles its requests one after another; and every request holds
// up all of them, the longer the more jobs there are. Docs: docs/timed.md.
double PredictVhost(const VhostCell& cell, const VhostScsiCosts& costs);

// Fits CostModel::vhost_scsi to the rows of at most 16 LUNs, from `start` on; but not job_ns.
[[nodiscard]] absl::StatusOr<FitResult> FitVhost(const std::vector<VhostCell>& cells, const CostModel& start,
                                                 const FitOptions& options);

}  // namespace v0
}  // namespace daxcache
