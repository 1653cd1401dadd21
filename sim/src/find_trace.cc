// See daxcache/sim/find_trace.h.
#include "daxcache/sim/find_trace.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {

absl::StatusOr<std::string> FindTrace(const std::string& name) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders = {"", "traces/data"};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) {
    folders.push_back(program.parent_path() / "../../../traces/data");      // in the build tree
    folders.push_back(program.parent_path() / "../share/daxcache/traces");  // installed
  }
  for (const fs::path& folder : folders) {
    for (const char* suffix : {"", ".zst"}) {
      const std::string path = (folder / name).string() + suffix;
      if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) {
        return folder.empty() ? path : fs::path(path).lexically_normal().string();
      }
    }
    if (fs::path(name).is_absolute()) break;
  }
  std::error_code why;
  if (fs::is_directory(fs::status(name, why))) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected a trace, got a directory"));
  }
  if (why && why != std::errc::no_such_file_or_directory) {
    return absl::UnavailableError(absl::StrCat(name, ": cannot be opened: ", why.message()));
  }
  return absl::NotFoundError(absl::StrCat(name, ": no such trace, nor ", name, ".zst, here or in traces/data"));
}

}  // namespace v0
}  // namespace daxcache
