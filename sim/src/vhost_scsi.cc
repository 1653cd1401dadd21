// See daxcache/sim/vhost_scsi.h.
#include "daxcache/sim/vhost_scsi.h"

#include <algorithm>

#include "absl/status/status.h"
#include "csv.h"

namespace daxcache {
inline namespace v0 {

absl::StatusOr<std::vector<VhostCell>> ReadVhostScsi(const std::string& path) {
  std::vector<VhostCell> cells;
  const absl::Status read = ReadCsv(
      path, "luns,jobs,write_pct,kiops", "LUNs, jobs, percent written, thousands of IOPS", [&](const auto& row) {
        VhostCell cell;
        double kiops = 0;
        if (row.size() != 4 || !ParseAll(row[0], cell.luns) || !ParseAll(row[1], cell.jobs) ||
            !ParseAll(row[2], cell.write_percent) || !ParseAll(row[3], kiops) || cell.luns == 0 || cell.jobs == 0 ||
            cell.write_percent > 100 || !(kiops > 0)) {
          return false;
        }
        cell.iops = kiops * 1000;
        cells.push_back(cell);
        return true;
      });
  if (!read.ok()) return read;
  return cells;
}

double PredictVhost(const VhostCell& cell, const VhostScsiCosts& costs) {
  const double writes = cell.write_percent / 100.0;
  const double jobs = cell.jobs;
  const double handled_ns = (writes * costs.write_ns + (1 - writes) * costs.read_ns) / cell.Adapters();
  return 1e9 / std::max(handled_ns + costs.share_ns * jobs, costs.job_ns / jobs);
}

}  // namespace v0
}  // namespace daxcache
