// See daxcache/sim/validate_command.h.
#include "daxcache/sim/validate_command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/cache_modes.h"
#include "daxcache/sim/find_trace.h"
#include "daxcache/sim/flags.h"
#include "daxcache/sim/kernel_build.h"
#include "daxcache/sim/profile.h"
#include "daxcache/sim/progress.h"
#include "daxcache/sim/text.h"
#include "daxcache/sim/validate.h"
#include "daxcache/sim/vhost_scsi.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/units.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExitData = 1;
constexpr int kExitUsage = 2;

struct Settings {
  std::string data;
  std::string jobs;
  std::string profile = "goyal-2020";
  std::vector<std::uint32_t> train = {1, 4, 16, 64};
  std::vector<std::uint32_t> windows;  // empty: all
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> tables;  // empty: all
  bool build = false;               // fit: to the kernel build
  bool modes = false;               // … to the cache modes
  bool vhost = false;               // … to vhost-scsi
  std::string build_data;
  std::string modes_data;
  std::string trace = "kbuild-defconfig.dxt";
  std::string format = "table";
  std::string output;
};

int Fail(const absl::Status& status, int code) {
  std::cerr << "daxsim: " << status.message() << "\n";
  return code;
}

int Print(const std::string& text, const std::string& path) {
  if (path.empty()) {
    const absl::Status written = WriteOut(text);
    return written.ok() ? 0 : Fail(written, kExitData);
  }
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (out) return 0;
  return Fail(absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno))), kExitData);
}

std::function<absl::Status(std::string_view)> SetWindows(std::vector<std::uint32_t>* windows) {
  return [windows](std::string_view text) -> absl::Status {
    windows->clear();
    for (;;) {
      const std::size_t comma = text.find(',');
      const std::string_view item = text.substr(0, comma);
      std::uint32_t window = 0;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), window);
      if (error != std::errc() || end != item.data() + item.size() || window == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected windows in GiB such as 1,4,16, got \"", AbslView(item), "\""));
      }
      windows->push_back(window);
      if (comma == std::string_view::npos) return absl::OkStatus();
      text.remove_prefix(comma + 1);
    }
  };
}

constexpr std::string_view kTables[] = {"window", "modes", "kata", "vhost", "build"};

std::function<absl::Status(std::string_view)> SetTables(std::vector<std::string>* tables) {
  return [tables](std::string_view text) -> absl::Status {
    tables->clear();
    for (;;) {
      const std::size_t comma = text.find(',');
      const std::string_view item = text.substr(0, comma);
      if (std::find(std::begin(kTables), std::end(kTables), item) == std::end(kTables)) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected some of window, modes, kata, vhost, build, got \"", AbslView(item), "\""));
      }
      tables->emplace_back(item);
      if (comma == std::string_view::npos) return absl::OkStatus();
      text.remove_prefix(comma + 1);
    }
  };
}

std::vector<Flag> Flags(Settings& settings, bool fit) {
  std::vector<Flag> flags = {
      {.name = "data",
       .value = "FILE",
       .help = "the published table, as sim/profiles/published/dax_window_sweep.csv, which is the default",
       .set = SetText(&settings.data)},
      {.name = "jobs",
       .value = "FILE",
       .help = "the fio jobs behind it, in the order in which they ran; default sim/profiles/goyal-2020.fio",
       .set = SetText(&settings.jobs)},
      {.name = "train",
       .value = "GIB,…",
       .help = "the windows that are fitted to, GiB; the others are held out; default 1,4,16,64",
       .set = SetWindows(&settings.train)},
      {.name = "build-data",
       .value = "FILE",
       .help = "the published kernel build; default sim/profiles/published/kernel_build.csv",
       .set = SetText(&settings.build_data)},
      {.name = "modes-data",
       .value = "FILE",
       .help = "the published cache modes; default sim/profiles/published/cache_modes.csv",
       .set = SetText(&settings.modes_data)},
      {.name = "trace",
       .value = "FILE",
       .help = "the recorded kernel build behind it; default kbuild-defconfig.dxt, which comes with the project",
       .set = SetText(&settings.trace)},
      {.name = "profile",
       .value = "NAME|FILE",
       .help = fit ? "where the fit begins; default start-2020; with --modes and --build goyal-2020"
                   : "what things cost; default goyal-2020; the kernel build has its own, xu-2021",
       .set = SetText(&settings.profile)},
      {.name = "threads",
       .value = "N",
       .help = "runs at a time; default: the number of processors. Results do not depend on it",
       .set = SetNumber(&settings.threads, 1, 1024)},
      {.name = "output",
       .value = "FILE",
       .help = "write there instead of to standard output",
       .set = SetText(&settings.output),
       .letter = 'o'},
  };
  if (fit) {
    flags.push_back({.name = "build",
                     .value = "",
                     .help =
                         "fits the profile of the kernel build, from goyal-2020: what a request costs, the machine's "
                         "speed, and how many ranges a task uses again in a time slice",
                     .set = SetTrue(&settings.build)});
    flags.push_back(
        {.name = "modes",
         .value = "",
         .help = "fits what virtiofs without DAX and 9p cost to the cache modes with one process, and keeps what "
                 "the profile says of DAX",
         .set = SetTrue(&settings.modes)});
    flags.push_back({.name = "vhost",
                     .value = "",
                     .help = "fits the profile of vhost-scsi, from bellinger-2012",
                     .set = SetTrue(&settings.vhost)});
  } else {
    flags.push_back({.name = "tables",
                     .value = "NAME,…",
                     .help = "only these of window, modes (nine systems, with and without DAX), kata (9p and virtiofs "
                             "in a Kata guest), vhost (block devices by vhost-scsi) and build (the kernel build); "
                             "default: all",
                     .set = SetTables(&settings.tables)});
    flags.push_back({.name = "windows",
                     .value = "GIB,…",
                     .help = "only these windows of the table of windows, and no other table; default: all",
                     .set = SetWindows(&settings.windows)});
    flags.push_back(
        {.name = "format",
         .value = "table|json",
         .help = "table for people, json for programs",
         .set = SetWord({"table", "json"}, [&](std::size_t at) { settings.format = at == 0 ? "table" : "json"; })});
  }
  return flags;
}

std::string Found(const std::string& given, const std::string& name) {
  if (!given.empty()) return given;
  std::error_code ignored;
  for (const std::string& folder : DataFolders("profiles")) {
    if (std::filesystem::exists(folder + "/" + name, ignored)) return folder + "/" + name;
  }
  return DataFolders("profiles").front() + "/" + name;
}

Json SummaryJson(const ErrorSummary& summary) {
  return {{"cells", summary.cells}, {"median", summary.median}, {"p90", summary.p90}};
}

struct Summaries {
  explicit Summaries(const std::vector<Prediction>& all)
      : held_out(Summarize(all, [](const Prediction& p) { return p.held_out; })),
        starved(Summarize(all, [](const Prediction& p) { return p.held_out && p.starved; })),
        baseline(Summarize(all, [](const Prediction& p) { return p.held_out && !p.starved; })),
        fitted(Summarize(all, [](const Prediction& p) { return !p.held_out; })),
        closed_form(SummarizeClosedForm(all, [](const Prediction& p) { return p.held_out && p.starved; })) {}
  ErrorSummary held_out;
  ErrorSummary starved;
  ErrorSummary baseline;
  ErrorSummary fitted;
  ErrorSummary closed_form;
};

struct VhostPrediction {
  VhostCell cell;
  double predicted_iops = 0;
  double twice_the_jobs_iops = 0;
};

std::string JsonText(const std::vector<Prediction>& all, const std::vector<ModePrediction>& modes,
                     const std::optional<KataPrediction>& kata, const std::vector<VhostPrediction>& vhost,
                     const std::vector<BuildPrediction>& builds) {
  Json json;
  if (!all.empty()) {
    const Summaries summaries(all);
    json["summary"]["window_held_out"] = SummaryJson(summaries.held_out);
    json["summary"]["window_starved"] = SummaryJson(summaries.starved);
    json["summary"]["window_baseline"] = SummaryJson(summaries.baseline);
    json["summary"]["window_fitted"] = SummaryJson(summaries.fitted);
    json["summary"]["window_starved_closed_form"] = SummaryJson(summaries.closed_form);
  }
  if (!modes.empty()) {
    json["summary"]["modes_fitted"] = SummaryJson(SummarizeModes(modes, true));
    json["summary"]["modes_held_out"] = SummaryJson(SummarizeModes(modes, false));
  }
  if (kata) {
    json["summary"]["kata"] = {{"ratio", kata->PredictedRatio()},
                               {"ratio_published", kata->PublishedRatio()},
                               {"explained", kata->Explained()}};
  }
  for (const BuildPrediction& build : builds) {
    if (build.row.window_mib == 0) continue;
    const std::string key = absl::StrCat(build.row.window_mib);
    json["summary"]["kernel_build"][key] = build.ratio;
    json["summary"]["kernel_build_published"][key] = build.published_ratio;
    json["summary"]["kernel_build_half_k"][key] = build.ratio_half_k;
    json["summary"]["kernel_build_double_k"][key] = build.ratio_double_k;
  }
  json["cells"] = Json::array();
  for (const Prediction& p : all) {
    json["cells"].push_back({{"table", "dax_window_sweep"},
                             {"window_gib", p.cell.window_gib},
                             {"pattern", p.cell.pattern},
                             {"ioengine", p.cell.ioengine},
                             {"jobs", p.cell.jobs},
                             {"held_out", p.held_out},
                             {"starved", p.starved},
                             {"published_iops", p.cell.iops},
                             {"predicted_iops", p.predicted_iops},
                             {"error", p.Error()}});
  }
  for (const ModePrediction& p : modes) {
    json["cells"].push_back({{"table", "cache_modes"},
                             {"system", p.cell.Options().System()},
                             {"window_gib", p.cell.job.window_gib},
                             {"pattern", p.cell.job.pattern},
                             {"ioengine", p.cell.job.ioengine},
                             {"jobs", p.cell.job.jobs},
                             {"held_out", !p.cell.Fitted()},
                             {"published_iops", p.cell.job.iops},
                             {"predicted_iops", p.predicted_iops},
                             {"error", p.Error()}});
  }
  for (const VhostPrediction& p : vhost) {
    json["cells"].push_back({{"table", "vhost_scsi_scaling"},
                             {"luns", p.cell.luns},
                             {"jobs", p.cell.jobs},
                             {"write_percent", p.cell.write_percent},
                             {"held_out", !p.cell.Fitted()},
                             {"published_iops", p.cell.iops},
                             {"predicted_iops", p.predicted_iops},
                             {"twice_the_jobs_iops", p.twice_the_jobs_iops}});
  }
  return json.dump(2) + "\n";
}

std::string Signed(double error) {
  const double percent = error * 100;
  return absl::StrCat(percent < 0 ? "−" : "+", Percent(std::abs(error)));
}

std::string Iops(double value) {
  return Grouped(static_cast<std::uint64_t>(std::llround(value)));
}

std::string TableText(const std::vector<Prediction>& all) {
  if (all.empty()) return "";
  TextTable table({"window", "pattern", "engine", "jobs", "published", "predicted", "error", ""},
                  {false, true, true, false, false, false, false, true});
  for (const Prediction& p : all) {
    table.Add({absl::StrCat(p.cell.window_gib, " GiB"), p.cell.pattern, p.cell.ioengine, absl::StrCat(p.cell.jobs),
               Iops(p.cell.iops), Iops(p.predicted_iops), Signed(p.predicted_iops / p.cell.iops - 1),
               p.held_out ? p.starved ? "held out, starved" : "held out" : "fitted"});
  }
  const Summaries summaries(all);
  TextTable summary({"errors", "cells", "median", "90th percentile"}, {true, false, false, false});
  const auto add = [&](const char* name, const ErrorSummary& of) {
    if (of.cells > 0) summary.Add({name, Grouped(of.cells), Percent(of.median), Percent(of.p90)});
  };
  add("held out", summaries.held_out);
  add("  of those, starved", summaries.starved);
  add("    a closed form with three numbers a job", summaries.closed_form);
  add("  of those, not starved", summaries.baseline);
  add("fitted", summaries.fitted);
  return table.ToString("") + "\n" + summary.ToString("");
}

std::string ModesText(const std::vector<ModePrediction>& all) {
  if (all.empty()) return "";
  TextTable table({"system", "pattern", "engine", "jobs", "published", "predicted", "error", ""},
                  {true, true, true, false, false, false, false, true});
  for (const ModePrediction& p : all) {
    const PublishedCell& job = p.cell.job;
    const auto figure = [](double iops) { return iops > 0 ? Iops(iops) : "not supported"; };
    table.Add({p.cell.Options().System(), job.pattern, job.ioengine, absl::StrCat(job.jobs), figure(job.iops),
               figure(p.predicted_iops), job.iops > 0 ? Signed(p.predicted_iops / job.iops - 1) : "",
               p.cell.Fitted() ? p.cell.dax ? "one process" : "fitted" : "held out"});
  }
  TextTable summary({"errors", "cells", "median", "90th percentile"}, {true, false, false, false});
  for (const bool fitted : {true, false}) {
    const ErrorSummary of = SummarizeModes(all, fitted);
    if (of.cells == 0) continue;
    summary.Add({fitted ? "cache modes, one process" : "cache modes, four", Grouped(of.cells), Percent(of.median),
                 Percent(of.p90)});
  }
  return table.ToString("") + "\n" + summary.ToString("");
}

std::string KataText(const std::optional<KataPrediction>& kata) {
  if (!kata) return "";
  TextTable table({"Kata guest", "published", "predicted", "error"}, {true, false, false, false});
  const auto row = [&](const char* name, double published, double predicted) {
    table.Add({name, Iops(published), Iops(predicted), Signed(predicted / published - 1)});
  };
  row("virtio-9p", kata->published_9p_iops, kata->predicted_9p_iops);
  row("virtiofs", kata->published_virtiofs_iops, kata->predicted_virtiofs_iops);
  char ratios[96];
  std::snprintf(ratios, sizeof ratios, "9p ÷ virtiofs: published %.2f, predicted %.2f: %s\n", kata->PublishedRatio(),
                kata->PredictedRatio(), kata->Explained() ? "explained" : "not explained");
  return table.ToString("") + ratios;
}

std::string VhostText(const std::vector<VhostPrediction>& vhost) {
  if (vhost.empty()) return "";
  TextTable table({"vhost-scsi LUNs", "jobs", "writes", "published", "predicted", "error", "", "twice the jobs"},
                  {false, false, false, false, false, false, true, false});
  for (const VhostPrediction& p : vhost) {
    table.Add({absl::StrCat(p.cell.luns), absl::StrCat(p.cell.jobs), absl::StrCat(p.cell.write_percent, " %"),
               Iops(p.cell.iops), Iops(p.predicted_iops), Signed(p.predicted_iops / p.cell.iops - 1),
               p.cell.Fitted() ? "fitted" : "held out", Iops(p.twice_the_jobs_iops)});
  }
  return table.ToString("");
}

std::string BuildText(const std::vector<BuildPrediction>& builds, std::uint32_t k) {
  if (builds.empty()) return "";
  TextTable table({"kernel build", "published", "predicted", "÷ no DAX, published", "predicted", "error",
                   absl::StrCat("k = ", k / 2), absl::StrCat("k = ", k * 2)},
                  {true, false, false, false, false, false, false, false});
  const auto fixed = [](double value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return std::string(text);
  };
  for (const BuildPrediction& build : builds) {
    const bool dax = build.row.window_mib > 0;
    table.Add({dax ? ByteSize(std::uint64_t{build.row.window_mib} << 20).ToString() : "no DAX",
               fixed(build.row.seconds, 1) + " s", fixed(build.seconds, 1) + " s",
               dax ? fixed(build.published_ratio, 3) : "", dax ? fixed(build.ratio, 3) : "",
               dax ? Signed(build.ratio / build.published_ratio - 1) : "", dax ? fixed(build.ratio_half_k, 3) : "",
               dax ? fixed(build.ratio_double_k, 3) : ""});
  }
  return table.ToString("");
}

// The recorded build, the published times, and the profile of that machine.
struct Build {
  std::vector<BuildRow> rows;
  JobPool pool;
};
absl::StatusOr<Build> ReadBuild(const Settings& settings) {
  auto rows = ReadKernelBuild(Found(settings.build_data, "published/kernel_build.csv"));
  if (!rows.ok()) return rows.status();
  const auto path = FindTrace(settings.trace);
  if (!path.ok()) return path.status();
  const auto trace = ReadTrace(*path);
  if (!trace.ok()) return trace.status();
  auto pool = JobPool::Create(*trace, {});
  if (!pool.ok()) return absl::Status(pool.status().code(), absl::StrCat(*path, ": ", pool.status().message()));
  return Build{*std::move(rows), *std::move(pool)};
}

std::function<bool(const std::string&)> ToStandardError() {
  return [](const std::string& text) {
    std::cerr << text << "\n";
    return true;
  };
}

void PrintParameters(const FitResult& result) {
  TextTable parameters({"parameter", "ns", "standard error"}, {true, false, false});
  for (const FittedParameter& parameter : result.parameters) {
    parameters.Add({parameter.name, Grouped(static_cast<std::uint64_t>(parameter.value)),
                    Grouped(static_cast<std::uint64_t>(std::llround(parameter.standard_error)))});
  }
  std::cerr << "\n" << parameters.ToString("");
}

int FitModesCommand(const Settings& settings, const FioJobFile& jobs, const TimedSpec& spec, Profile profile) {
  const auto cells = ReadCacheModes(Found(settings.modes_data, "published/cache_modes.csv"));
  if (!cells.ok()) return Fail(cells.status(), kExitData);
  const auto result = FitModes(
      *cells, jobs, spec, {.threads = static_cast<int>(settings.threads), .huber = 0.1, .report = ToStandardError()});
  if (!result.ok()) return Fail(result.status(), kExitData);
  PrintParameters(*result);
  profile.costs = result->costs;
  profile.has_direct = profile.has_nine_p = true;
  return Print(ProfileText(profile), settings.output);
}

int FitVhostCommand(const Settings& settings, Profile profile) {
  const auto cells = ReadVhostScsi(Found("", "published/vhost_scsi_scaling.csv"));
  if (!cells.ok()) return Fail(cells.status(), kExitData);
  const auto result = FitVhost(*cells, profile.costs, {.huber = 0.1, .report = ToStandardError()});
  if (!result.ok()) return Fail(result.status(), kExitData);
  PrintParameters(*result);
  profile.costs = result->costs;
  return Print(ProfileText(profile), settings.output);
}

int FitBuildCommand(const Settings& settings, const Profile& start) {
  const auto build = ReadBuild(settings);
  if (!build.ok()) return Fail(build.status(), kExitData);
  auto fitted = FitBuild(build->rows, build->pool, start, static_cast<int>(settings.threads),
                         [](const std::string& text) { std::cerr << text << "\n"; });
  if (!fitted.ok()) return Fail(fitted.status(), kExitData);
  fitted->name = "xu-2021";
  fitted->summary = "kernel build in a guest of 16 vCPUs: what a request takes there, relative to goyal-2020's";
  fitted->source = "J. Xu, \"[PATCH v4 0/8] fuse,virtiofs: support per-file DAX\", virtio-fs list, August 2021";
  return Print(ProfileText(*fitted), settings.output);
}

}  // namespace

int ValidateCommand(const std::vector<std::string>& arguments) {
  const bool fit = arguments.front() == "fit";
  Settings settings;
  if (fit) settings.profile = "";
  CommandLine line(
      fit ? "daxsim fit [--train 1,4,16,64] [--output PROFILE]" : "daxsim validate [--format json]",
      fit ? "Fits the parameters of the cost model to some windows of the published table, and writes a profile; "
            "parameters with their standard errors, and residuals, go to standard error."
          : "Runs the jobs of the published table on each of its windows, and prints predicted beside published.",
      Flags(settings, fit), "Exit status: 0, 1 for data that cannot be used, 2 for a wrong command line.\n");
  const auto rest = line.Parse({arguments.begin() + 1, arguments.end()});
  if (!rest.ok()) return Fail(rest.status(), kExitUsage);
  if (line.help_wanted()) return Print(line.Help(), "");
  if (!rest->empty()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest->front(), "\"")), kExitUsage);
  }
  if (settings.build + settings.modes + settings.vhost > 1) {
    return Fail(absl::InvalidArgumentError("expected one of --build, --modes and --vhost, got several"), kExitUsage);
  }
  if (settings.profile.empty()) {
    settings.profile = settings.vhost                     ? "bellinger-2012"
                       : settings.build || settings.modes ? "goyal-2020"
                                                          : "start-2020";
  }
  auto profile = LoadProfile(settings.profile);
  if (!profile.ok()) return Fail(profile.status(), absl::IsNotFound(profile.status()) ? kExitUsage : kExitData);
  if (settings.vhost) return FitVhostCommand(settings, *profile);
  if (const absl::Status has = profile->RequireDax(); !has.ok()) return Fail(has, kExitUsage);
  if (settings.build) return FitBuildCommand(settings, *profile);
  auto cells = ReadWindowSweep(Found(settings.data, "published/dax_window_sweep.csv"));
  if (!cells.ok()) return Fail(cells.status(), kExitData);
  const auto jobs = ReadFioJobFile(Found(settings.jobs, "goyal-2020.fio"));
  if (!jobs.ok()) return Fail(jobs.status(), kExitData);
  if (!settings.windows.empty()) {
    std::erase_if(*cells, [&](const PublishedCell& cell) {
      return std::find(settings.windows.begin(), settings.windows.end(), cell.window_gib) == settings.windows.end();
    });
    if (cells->empty()) {
      return Fail(absl::InvalidArgumentError("--windows: expected some of the table's windows, got none"), kExitUsage);
    }
  }
  TimedSpec spec;
  spec.costs = profile->costs;
  spec.engine.jiffy_ns = profile->jiffy_ns;
  const int threads = static_cast<int>(settings.threads);
  if (settings.modes) return FitModesCommand(settings, *jobs, spec, *profile);
  if (!fit) {
    const auto wanted = [&](std::string_view table) {
      if (!settings.windows.empty()) return table == "window";
      return settings.tables.empty() ||
             std::find(settings.tables.begin(), settings.tables.end(), table) != settings.tables.end();
    };
    std::vector<Prediction> windows;
    if (wanted("window")) {
      Progress progress("predicting windows");
      auto predicted =
          PredictCells(*cells, *jobs, spec, settings.train, threads, [&](double share) { progress.Update(share); });
      if (!predicted.ok()) return Fail(predicted.status(), kExitData);
      windows = *std::move(predicted);
    }
    std::vector<ModePrediction> modes;
    if (wanted("modes")) {
      const auto systems = ReadCacheModes(Found(settings.modes_data, "published/cache_modes.csv"));
      if (!systems.ok()) return Fail(systems.status(), kExitData);
      Progress progress("predicting cache modes");
      auto predicted = PredictModes(*systems, *jobs, spec, threads, [&](double share) { progress.Update(share); });
      if (!predicted.ok()) return Fail(predicted.status(), kExitData);
      modes = *std::move(predicted);
    }
    std::optional<KataPrediction> kata;
    if (wanted("kata")) {
      const auto job = ReadFioJobFile(Found("", "kata-2020.fio"));
      if (!job.ok()) return Fail(job.status(), kExitData);
      const auto machine = LoadProfile("kata-2020");
      if (!machine.ok()) return Fail(machine.status(), kExitData);
      const auto predicted = PredictKata(Found("", "published/kata_randrw.csv"), *job, *machine, threads);
      if (!predicted.ok()) return Fail(predicted.status(), kExitData);
      kata = *predicted;
    }
    std::vector<VhostPrediction> vhost;
    if (wanted("vhost")) {
      const auto machine = LoadProfile("bellinger-2012");
      if (!machine.ok()) return Fail(machine.status(), kExitData);
      const auto rows = ReadVhostScsi(Found("", "published/vhost_scsi_scaling.csv"));
      if (!rows.ok()) return Fail(rows.status(), kExitData);
      for (const VhostCell& cell : *rows) {
        VhostCell more = cell;
        more.jobs *= 2;
        vhost.push_back({.cell = cell,
                         .predicted_iops = PredictVhost(cell, machine->costs.vhost_scsi),
                         .twice_the_jobs_iops = PredictVhost(more, machine->costs.vhost_scsi)});
      }
    }
    std::vector<BuildPrediction> builds;
    std::uint32_t k = 0;
    if (wanted("build")) {
      const auto machine = LoadProfile("xu-2021");
      if (!machine.ok()) return Fail(machine.status(), kExitData);
      const auto build = ReadBuild(settings);
      if (!build.ok()) return Fail(build.status(), kExitData);
      Progress progress("predicting the kernel build");
      auto predicted =
          PredictBuild(build->rows, build->pool, *machine, threads, [&](double share) { progress.Update(share); });
      if (!predicted.ok()) return Fail(predicted.status(), kExitData);
      builds = *std::move(predicted);
      k = machine->retouch;
    }
    if (settings.format == "json") return Print(JsonText(windows, modes, kata, vhost, builds), settings.output);
    std::string text;
    for (const std::string& part :
         {TableText(windows), ModesText(modes), KataText(kata), VhostText(vhost), BuildText(builds, k)}) {
      absl::StrAppend(&text, text.empty() || part.empty() ? "" : "\n", part);
    }
    return Print(text, settings.output);
  }
  FitOptions options;
  options.windows = settings.train;
  options.threads = threads;
  options.report = ToStandardError();
  const auto result = FitCosts(*cells, *jobs, spec, options);
  if (!result.ok()) return Fail(result.status(), kExitData);
  PrintParameters(*result);
  std::cerr << "\n" << TableText(result->residuals);
  Profile fitted = *profile;
  fitted.name = "goyal-2020";
  fitted.summary = "virtiofsd with one thread, guest of 32 vCPUs, Linux 5.10, files in the host's page cache";
  fitted.costs = result->costs;
  return Print(ProfileText(fitted), settings.output);
}

}  // namespace v0
}  // namespace daxcache
