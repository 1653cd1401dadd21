// Profiles: the cost model's parameters of a machine that somebody measured, as data. One is a JSON file of the keys
// name, summary, source, jiffy_ns; dax, an object of CostModel's parameters; direct, one of DirectCosts'; 9p, one of
// NinePCosts'; vhost-scsi, one of VhostScsiCosts'; and pool, of what recorded jobs need (`cpu_factor`, `retouch`).
// Every parameter of an object is present. Objects may be missing, but not both dax and vhost-scsi. With `like`, the
// name of another profile (which is like no other), what is not said is as there. daemon_threads and xattr are
// EngineOptions'.
//
//   absl::StatusOr<Profile> profile = LoadProfile("goyal-2020");     // or a path
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/sim/cost_model.h"

namespace daxcache {
inline namespace v0 {

struct Profile {
  std::string name;
  std::string summary;
  std::string source;
  std::int64_t jiffy_ns = 1'000'000;
  CostModel costs;
  bool has_dax = false;
  bool has_direct = false;
  bool has_pool = false;
  bool has_nine_p = false;
  bool has_vhost_scsi = false;
  double cpu_factor = 1;      // of this machine's CPU times to those of the recorded kernel builds
  std::uint32_t retouch = 0;  // EngineOptions::retouch
  std::uint32_t daemon_threads = 0;
  bool xattr = false;

  // InvalidArgument if it says nothing of what a window costs.
  [[nodiscard]] absl::Status RequireDax() const;
};

// A profile by path, or by name from sim/profiles (of the build tree, or installed). NotFound, or InvalidArgument with
// the path, the key, and what was expected.
[[nodiscard]] absl::StatusOr<Profile> LoadProfile(const std::string& name);
[[nodiscard]] absl::StatusOr<Profile> ParseProfile(const std::string& json, const std::string& path);
// As it stands in a file: the same profile gives the same bytes.
std::string ProfileText(const Profile& profile);

// Where the files that come with the simulator are: folders to look in, the nearest first.
std::vector<std::string> DataFolders(const std::string& folder);

}  // namespace v0
}  // namespace daxcache
