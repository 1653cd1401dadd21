// See daxcache/sim/profile.h.
#include "daxcache/sim/profile.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/suggest.h"
#include "daxcache/units.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Fault(const std::string& path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", AbslView(what)));
}

// An object of nothing but the parameters of `Costs`, all of them.
template <class Costs>
absl::Status ReadCosts(const Json& json, const std::string& name, const std::string& path, Costs& costs) {
  if (!json.is_object()) return Fault(path, absl::StrCat(name, ": expected an object of parameters"));
  std::vector<std::string_view> names;
  for (const auto& field : Costs::Fields()) {
    names.push_back(field.name);
    const std::string key(field.name);
    if (!json.contains(key)) return Fault(path, absl::StrCat(name, ": expected the parameter ", key, ", got none"));
    const double value = json[key].is_number() ? json[key].template get<double>() : -1;
    if (!(value >= 0 && value <= 1e12)) {
      return Fault(path, absl::StrCat(name, ": ", key, ": expected a number of nanoseconds from 0 to 10^12, got ",
                                      json[key].dump()));
    }
    costs.*field.value = value;
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      return Fault(path, absl::StrCat(name, ": unknown parameter \"", key, "\"", Suggest(key, names)));
    }
  }
  return absl::OkStatus();
}

template <class Costs>
Json CostsJson(const Costs& costs) {
  Json json;
  for (const auto& field : Costs::Fields()) json[std::string(field.name)] = std::llround(costs.*field.value);
  return json;
}

}  // namespace

std::vector<std::string> DataFolders(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> folders = {"sim/" + folder};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) {
    folders.push_back((program.parent_path() / "../../../sim" / folder).lexically_normal().string());
    folders.push_back((program.parent_path() / "../share/daxcache" / folder).lexically_normal().string());
  }
  return folders;
}

absl::Status Profile::RequireDax() const {
  if (has_dax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a profile that says what a window costs, got ", name, ", which has no \"dax\""));
}

namespace {

absl::StatusOr<Profile> Load(const std::string& name, bool may_be_like);

absl::StatusOr<Profile> Parse(const std::string& text, const std::string& path, bool may_be_like) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return Fault(path, "expected a JSON object");
  Profile profile;
  if (json.contains("like")) {
    if (!json["like"].is_string() || !may_be_like) {
      return Fault(path, "like: expected the name of a profile, which is itself like no other");
    }
    auto other = Load(json["like"].get<std::string>(), false);
    if (!other.ok()) return Fault(path, absl::StrCat("like: ", other.status().message()));
    profile = *std::move(other);
  }
  const std::pair<const char*, std::string*> texts[] = {
      {"name", &profile.name}, {"summary", &profile.summary}, {"source", &profile.source}};
  for (const auto& [key, value] : texts) {
    if (!json.contains(key) || !json[key].is_string()) return Fault(path, absl::StrCat(key, ": expected a string"));
    *value = json[key].get<std::string>();
  }
  if (json.contains("jiffy_ns")) {
    if (!json["jiffy_ns"].is_number_integer() || json["jiffy_ns"].get<std::int64_t>() <= 0) {
      return Fault(path, "jiffy_ns: expected a whole number above 0");
    }
    profile.jiffy_ns = json["jiffy_ns"].get<std::int64_t>();
  }
  const auto group = [&](const char* name, bool& has, auto& costs) -> absl::Status {
    if (!json.contains(name)) return absl::OkStatus();
    has = true;
    return ReadCosts(json[name], name, path, costs);
  };
  CostModel& costs = profile.costs;
  for (const absl::Status& status :
       {group("dax", profile.has_dax, costs), group("direct", profile.has_direct, costs.direct),
        group("9p", profile.has_nine_p, costs.nine_p), group("vhost-scsi", profile.has_vhost_scsi, costs.vhost_scsi)}) {
    if (!status.ok()) return status;
  }
  if (!profile.has_dax && !profile.has_vhost_scsi) {
    return Fault(path, "expected an object of parameters \"dax\", got none");
  }
  if (json.contains("daemon_threads")) {
    if (!json["daemon_threads"].is_number_unsigned() || json["daemon_threads"].get<std::uint64_t>() > 1024) {
      return Fault(path, "daemon_threads: expected a whole number from 0 to 1024");
    }
    profile.daemon_threads = json["daemon_threads"].get<std::uint32_t>();
  }
  if (json.contains("xattr")) {
    if (!json["xattr"].is_boolean()) return Fault(path, "xattr: expected true or false");
    profile.xattr = json["xattr"].get<bool>();
  }
  if (json.contains("pool")) {
    profile.has_pool = true;
    const Json& pool = json["pool"];
    const auto number = [&](const char* key) {
      return pool.is_object() && pool.contains(key) && pool[key].is_number() ? pool[key].get<double>() : -1;
    };
    profile.cpu_factor = number("cpu_factor");
    const double retouch = number("retouch");
    if (!(profile.cpu_factor > 0 && profile.cpu_factor <= 1e6)) {
      return Fault(path, "pool: cpu_factor: expected a number above 0");
    }
    if (!(retouch >= 0 && retouch <= 65536 && retouch == std::floor(retouch))) {
      return Fault(path, "pool: retouch: expected a whole number from 0 to 65536");
    }
    profile.retouch = static_cast<std::uint32_t>(retouch);
  }
  return profile;
}

absl::StatusOr<Profile> Load(const std::string& name, bool may_be_like) {
  std::vector<std::string> candidates = {name};
  for (const std::string& folder : DataFolders("profiles")) candidates.push_back(folder + "/" + name + ".json");
  std::error_code ignored;
  for (const std::string& path : candidates) {
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    if (!in || !(text << in.rdbuf())) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
    return Parse(text.str(), path, may_be_like);
  }
  std::set<std::string> known;
  for (const std::string& folder : DataFolders("profiles")) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".json") known.insert(entry.path().stem().string());
    }
  }
  std::string list;
  for (const std::string& one : known) absl::StrAppend(&list, list.empty() ? "" : ", ", one);
  return absl::NotFoundError(absl::StrCat("expected a profile's file or name (", list, "), got \"", name, "\""));
}

}  // namespace

absl::StatusOr<Profile> ParseProfile(const std::string& text, const std::string& path) {
  return Parse(text, path, true);
}

absl::StatusOr<Profile> LoadProfile(const std::string& name) {
  return Load(name, true);
}

std::string ProfileText(const Profile& profile) {
  Json json;
  json["name"] = profile.name;
  json["summary"] = profile.summary;
  json["source"] = profile.source;
  json["jiffy_ns"] = profile.jiffy_ns;
  if (profile.has_dax) json["dax"] = CostsJson(profile.costs);
  if (profile.has_direct) json["direct"] = CostsJson(profile.costs.direct);
  if (profile.has_nine_p) json["9p"] = CostsJson(profile.costs.nine_p);
  if (profile.has_vhost_scsi) json["vhost-scsi"] = CostsJson(profile.costs.vhost_scsi);
  if (profile.daemon_threads > 0) json["daemon_threads"] = profile.daemon_threads;
  if (profile.xattr) json["xattr"] = true;
  if (profile.has_pool) json["pool"] = {{"cpu_factor", profile.cpu_factor}, {"retouch", profile.retouch}};
  return json.dump(2) + "\n";
}

}  // namespace v0
}  // namespace daxcache
