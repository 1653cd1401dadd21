// See daxcache/sim/timed_report.h.
#include "daxcache/sim/timed_report.h"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daxcache/sim/text.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

using Json = nlohmann::ordered_json;

struct SpentName {
  std::string_view key;
  std::string_view text;
};
// By Spent.
constexpr SpentName kSpentNames[kNumSpent] = {
    {"use", "access"},           {"touch", "first touch"}, {"setup", "set-up"},
    {"upgrade", "upgrade"},      {"reclaim", "reclaim"},   {"queue", "daemon queue"},
    {"range", "no free range"},  {"lock", "inode locked"}, {"direct", "past the window"},
    {"pause", "pause"},          {"compute", "computing"}, {"cpu", "no free CPU"},
    {"lost", "CPU interrupted"}, {"open", "open, close"}};

double SpentShare(const TimedJob& job, std::size_t what) {
  return job.time_ns > 0 ? static_cast<double>(job.total.spent_ns[what]) / static_cast<double>(job.time_ns) : 0;
}

std::string Count(double value) {
  return Grouped(static_cast<std::uint64_t>(std::llround(value)));
}

std::string Share(double share) {
  return share == 0 ? "" : Percent(share);
}

std::string Bandwidth(const TimedJob& job) {
  const double bytes = job.Seconds() > 0 ? static_cast<double>(job.total.bytes) / job.Seconds() : 0;
  return HumanBytes(static_cast<std::uint64_t>(std::llround(bytes))) + "/s";
}

constexpr double kQuantiles[] = {0.5, 0.9, 0.99, 0.999};
constexpr std::string_view kQuantileKeys[] = {"p50", "p90", "p99", "p99_9"};

}  // namespace

std::string TimedTableReport(const std::string& title, const std::vector<TimedResult>& runs) {
  std::string out = title + "\n";
  for (const TimedResult& run : runs) {
    const std::string window =
        absl::StrCat("window ", run.spec.window.ToString(), " (", Grouped(run.ranges), " ranges of ",
                     ByteSize(run.spec.range_size.bytes()).ToString(), "), policy ", run.spec.policy.text());
    absl::StrAppend(&out, "\n", run.spec.engine.dax ? window : run.spec.engine.System() + ", no DAX",
                    "; the daemon handles ", Grouped(run.daemon_requests), " requests and is busy ",
                    Percent(run.daemon_utilization), " of ", HumanTime(run.time_ns), "\n");
    TextTable table(
        {"job", "", "engine", "processes", "IOPS", "bandwidth", "p50", "p99", "hits", "set-ups", "upgrades", "time"},
        {true, true, true, false, false, false, false, false, false, false, false, false});
    for (const TimedJob& job : run.jobs) {
      table.Add({Printable(job.name), std::string(job.pattern), job.engine, Grouped(job.processes),
                 job.supported ? Count(job.Iops()) : "not supported", Bandwidth(job),
                 HumanTime(job.total.latency.Quantile(0.5)), HumanTime(job.total.latency.Quantile(0.99)),
                 Percent(job.HitRatio()), Grouped(job.total.misses), Grouped(job.total.upgrades),
                 HumanTime(job.total.end_ns - job.total.begin_ns)});
    }
    out += table.ToString("  ");
    out += "where the processes' time went\n";
    std::vector<std::string> header = {"job"};
    std::vector<bool> left = {true};
    std::vector<std::size_t> columns;
    for (std::size_t what = 0; what < kNumSpent; ++what) {
      bool any = false;
      for (const TimedJob& job : run.jobs) any = any || job.total.spent_ns[what] > 0;
      if (!any) continue;
      columns.push_back(what);
      header.emplace_back(kSpentNames[what].text);
      left.push_back(false);
    }
    TextTable spent(header, left);
    for (const TimedJob& job : run.jobs) {
      std::vector<std::string> row = {Printable(job.name)};
      for (const std::size_t what : columns) row.push_back(Share(SpentShare(job, what)));
      spent.Add(std::move(row));
    }
    out += spent.ToString("  ");
  }
  return out;
}

std::string TimedCsvReport(const std::vector<TimedResult>& runs) {
  std::string out =
      "policy,window_bytes,range_bytes,job,pattern,ioengine,processes,iops,read_iops,write_iops,bytes,seconds,"
      "hit_ratio,misses,upgrades,faults";
  for (const std::string_view key : kQuantileKeys) absl::StrAppend(&out, ",latency_", AbslView(key), "_ns");
  for (const SpentName& name : kSpentNames) absl::StrAppend(&out, ",share_", AbslView(name.key));
  out += "\n";
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string escaped = "\"";
    for (const char c : text) escaped.append(c == '"' ? 2 : 1, c);
    return escaped + "\"";
  };
  for (const TimedResult& run : runs) {
    for (const TimedJob& job : run.jobs) {
      absl::StrAppend(&out, quoted(run.spec.policy.text()), ",", run.spec.window.bytes(), ",",
                      run.spec.range_size.bytes(), ",", quoted(job.name), ",", AbslView(job.pattern), ",", job.engine,
                      ",", job.processes, ",", job.Iops(), ",", job.ReadIops(), ",", job.WriteIops(), ",",
                      job.total.bytes, ",", job.Seconds(), ",", job.HitRatio(), ",", job.total.misses, ",",
                      job.total.upgrades, ",", job.total.faults);
      for (const double share : kQuantiles) absl::StrAppend(&out, ",", job.total.latency.Quantile(share));
      for (std::size_t what = 0; what < kNumSpent; ++what) absl::StrAppend(&out, ",", SpentShare(job, what));
      out += "\n";
    }
  }
  return out;
}

std::string TimedJsonReport(const std::string& profile, const std::vector<TimedResult>& runs) {
  Json json;
  json["timed_runs"] = Json::array();
  for (const TimedResult& run : runs) {
    Json one;
    one["profile"] = profile;
    one["policy"] = run.spec.policy.text();
    one["window_bytes"] = run.spec.window.bytes();
    one["range_bytes"] = run.spec.range_size.bytes();
    one["ranges"] = run.ranges;
    one["seconds"] = static_cast<double>(run.time_ns) * 1e-9;
    one["daemon_requests"] = run.daemon_requests;
    one["daemon_utilization"] = run.daemon_utilization;
    one["host_mappings"] = run.host_mappings;
    one["system"] = run.spec.engine.System();
    one["page_cache_bytes"] = run.page_cache_bytes;
    one["jobs"] = Json::array();
    for (const TimedJob& job : run.jobs) {
      Json j;
      j["name"] = Printable(job.name);
      j["pattern"] = job.pattern;
      j["ioengine"] = job.engine;
      j["processes"] = job.processes;
      j["supported"] = job.supported;
      j["iops"] = job.Iops();
      j["read_iops"] = job.ReadIops();
      j["write_iops"] = job.WriteIops();
      j["bytes"] = job.total.bytes;
      j["seconds"] = job.Seconds();
      j["hit_ratio"] = job.HitRatio();
      j["misses"] = job.total.misses;
      j["upgrades"] = job.total.upgrades;
      j["faults"] = job.total.faults;
      j["past_window"] = job.total.past_window;
      j["share_under_20us"] = job.total.latency.ShareBelow(20'000);
      for (std::size_t i = 0; i < std::size(kQuantiles); ++i) {
        j["latency_ns"][std::string(kQuantileKeys[i])] = job.total.latency.Quantile(kQuantiles[i]);
      }
      for (std::size_t what = 0; what < kNumSpent; ++what) {
        j["time_shares"][std::string(kSpentNames[what].key)] = SpentShare(job, what);
      }
      one["jobs"].push_back(std::move(j));
    }
    json["timed_runs"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace v0
}  // namespace daxcache
