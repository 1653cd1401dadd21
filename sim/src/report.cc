// See daxcache/sim/report.h.
#include "daxcache/sim/report.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daxcache/sim/size_classes.h"
#include "daxcache/sim/text.h"
#include "daxcache/traces/text_trace.h"
#include "daxcache/version.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

using Json = nlohmann::ordered_json;

std::string_view InlineName(InlineReclaim reclaim) {
  switch (reclaim) {
    case InlineReclaim::kNever: return "never";
    case InlineReclaim::kOwnFile: return "own";
    case InlineReclaim::kAnyFile: return "any";
  }
  return "";
}

// What differs from Linux's or from demand is told, as in "a worker frees chunks of 10 below 20 % free, faults take any
// range".
std::string MechanicsText(const ReclaimOptions& mechanics) {
  std::string text;
  if (mechanics.threshold_percent > 0) {
    absl::StrAppend(&text, "a worker frees chunks of ", mechanics.chunk, " below ", mechanics.threshold_percent,
                    " % free");
  } else {
    text = "one victim when nothing is free";
  }
  const ReclaimOptions usual = mechanics.threshold_percent > 0 ? ReclaimOptions::Linux() : ReclaimOptions::Demand();
  const auto inlines = [&text](std::string_view who, InlineReclaim reclaim) {
    switch (reclaim) {
      case InlineReclaim::kNever: absl::StrAppend(&text, ", ", AbslView(who), " wait"); break;
      case InlineReclaim::kOwnFile: absl::StrAppend(&text, ", ", AbslView(who), " take ranges of their file"); break;
      case InlineReclaim::kAnyFile: absl::StrAppend(&text, ", ", AbslView(who), " take any range"); break;
    }
  };
  if (mechanics.calls != usual.calls) inlines("reads and writes", mechanics.calls);
  if (mechanics.faults != usual.faults) inlines("faults", mechanics.faults);
  if (!mechanics.send_remove) text += ", no REMOVEMAPPING";
  return text;
}

std::int64_t Span(const Trace& trace) {
  if (trace.size() == 0) return 0;
  return static_cast<std::int64_t>(trace.columns().time_ns[trace.size() - 1] - trace.columns().time_ns[0]);
}

std::string TraceLine(const Trace& trace) {
  std::string line = absl::StrCat(Printable(trace.source()), " (", trace.format(), "): ", Grouped(trace.size()),
                                  " records, ", Grouped(trace.files().size()), " files, ",
                                  Grouped(trace.tasks().size()), " tasks, ", HumanTime(Span(trace)), "; ");
  line.append(MappedText(trace.mapped_touches()));
  for (const ReadReport::Skipped& skipped : trace.report().skipped) {
    absl::StrAppend(&line, "\n  skipped: ", Grouped(skipped.count), " ", skipped.reason);
  }
  return line + "\n";
}

std::string Bar(std::uint64_t value, std::uint64_t most, std::size_t width) {
  std::string bar;
  const std::size_t length = most == 0 ? 0 : static_cast<std::size_t>((value * width + most - 1) / most);
  for (std::size_t i = 0; i < length; ++i) bar += "█";
  return bar;
}

std::string Detail(const Study& study, const RunResult& run) {
  const Trace& trace = study.trace();
  const RunSpec& spec = run.spec;
  const auto share = [](std::uint64_t part, std::uint64_t of) {
    return Percent(of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of));
  };
  std::string out = absl::StrCat("Window ", spec.window.ToString(), ": ", Grouped(run.ranges), " ranges of ",
                                 ByteSize(spec.range_size.bytes()).ToString(), "; policy ",
                                 Printable(spec.policy.text()), "; ", MechanicsText(spec.options.mechanics), "\n\n");

  TextTable counts({"", "", "", ""}, {true, false, false, true});
  counts.Add({"accesses", Grouped(run.accesses), "", ""});
  counts.Add({"range touches", Grouped(run.touches), "", ""});
  counts.Add({"  hits", Grouped(run.hits), share(run.hits, run.hits + run.counts.misses), ""});
  counts.Add({"  misses", Grouped(run.counts.misses), Percent(run.MissRatio()),
              absl::StrCat("of them cold: ", Grouped(run.counts.cold_misses))});
  if (run.counts.bypasses > 0) counts.Add({"    not admitted", Grouped(run.counts.bypasses), "", ""});
  if (run.non_dax_touches > 0) {
    counts.Add({"  without DAX", Grouped(run.non_dax_touches), share(run.non_dax_touches, run.touches),
                "files that the policy keeps out of the window"});
  }
  if (run.extending_write_touches > 0) {
    counts.Add(
        {"past the window", Grouped(run.extending_write_touches), "", "touches by writes that extend their file"});
  }
  counts.Add({"set-ups", Grouped(run.counts.setups), "", ""});
  counts.Add({"upgrades", Grouped(run.counts.upgrades), "", "read-only to writable"});
  counts.Add({"removes", Grouped(run.counts.removes), "", ""});
  counts.Add({"reclaims in the background", Grouped(run.counts.reclaims_background), "", ""});
  counts.Add({"reclaims inline", Grouped(run.counts.reclaims_inline), "", ""});
  counts.Add({"returned by deleted files", Grouped(run.counts.evictions), "", ""});
  std::string text = counts.ToString("  ");
  out += text.substr(text.find('\n') + 1);

  absl::StrAppend(&out, "\nHow much of what was mapped was ever touched: ", Percent(run.touched_share), " (",
                  HumanBytes(run.touched_bytes), " of ", Grouped(run.mapped_ranges_ever), " ranges)\n");
  TextTable classes({"file size", "files", "ranges", "touched"}, {true, false, false, false});
  for (std::size_t i = 0; i < run.touched_classes.size(); ++i) {
    const TouchedClass& of = run.touched_classes[i];
    if (of.ranges > 0) classes.Add({SizeClassName(i), Grouped(of.files), Grouped(of.ranges), Percent(of.share)});
  }
  out += classes.ToString("  ");

  absl::StrAppend(&out, "\nIn use over time (at most ", Grouped(run.peak_ranges), " ranges and ",
                  Grouped(run.peak_files), " files at once)\n");
  TextTable occupancy({"time", "ranges", "files", ""}, {false, false, false, true});
  const std::size_t step = std::max<std::size_t>(1, run.occupancy.size() / 16);
  for (std::size_t i = step - 1; i < run.occupancy.size(); i += step) {
    const Occupancy& at = run.occupancy[i];
    occupancy.Add({HumanTime(at.time_ns), Grouped(at.ranges), Grouped(at.files), Bar(at.ranges, run.ranges, 40)});
  }
  out += occupancy.ToString("  ");

  absl::StrAppend(&out, "\nMemory\n  guest  ", HumanBytes(run.guest_bytes), ", ",
                  share(run.guest_bytes, spec.window.bytes()), " of the window, mapped or not\n  host   up to ",
                  HumanBytes(run.host_bytes), " for mappings and page tables\n  a file below ",
                  HumanBytes(run.break_even_file_size),
                  " costs the guest more as a share of the window than as pages in its cache\n");

  if (!run.costliest.empty()) {
    out += "\nFiles that cost most mappings\n";
    TextTable files({"set-ups", "size", "path"}, {false, false, true});
    for (const FileCost& cost : run.costliest) {
      const FileInfo& file = trace.files()[ToIndex(cost.file)];
      files.Add({Grouped(cost.setups), HumanBytes(file.size), Printable(file.path)});
    }
    out += files.ToString("  ");
  }
  return out;
}

std::string Rows(const TraceRuns& trace) {
  const auto any = [&](auto&& value) {
    return std::any_of(trace.runs.begin(), trace.runs.end(), [&](const RunResult& run) { return value(run) > 0; });
  };
  const bool ranges_differ = std::any_of(trace.runs.begin(), trace.runs.end(), [&](const RunResult& run) {
    return run.spec.range_size != trace.runs.front().spec.range_size;
  });
  const bool without_dax = any([](const RunResult& run) { return run.non_dax_touches; });
  std::vector<std::string> header = {"window"};
  std::vector<bool> left = {false};
  const auto column = [&](std::string name, bool to_left = false) {
    header.push_back(std::move(name));
    left.push_back(to_left);
  };
  if (ranges_differ) column("range");
  column("ranges");
  column("policy", true);
  if (ranges_differ) column("touches");
  column("hits");
  column("misses");
  column("miss ratio");
  if (without_dax) column("without DAX");
  column("set-ups");
  column("upgrades");
  column("removes");
  column("in background");
  column("inline");
  column("guest memory");
  TextTable table(header, left);
  for (const RunResult& run : trace.runs) {
    std::vector<std::string> row = {run.spec.window.ToString()};
    if (ranges_differ) row.push_back(ByteSize(run.spec.range_size.bytes()).ToString());
    row.insert(row.end(), {Grouped(run.ranges), Printable(run.spec.policy.text())});
    if (ranges_differ) row.push_back(Grouped(run.touches));
    row.insert(row.end(), {Grouped(run.hits), Grouped(run.counts.misses), Percent(run.MissRatio())});
    if (without_dax) row.push_back(Grouped(run.non_dax_touches));
    row.insert(row.end(), {Grouped(run.counts.setups), Grouped(run.counts.upgrades), Grouped(run.counts.removes),
                           Grouped(run.counts.reclaims_background), Grouped(run.counts.reclaims_inline),
                           HumanBytes(run.guest_bytes)});
    table.Add(std::move(row));
  }
  if (ranges_differ) return table.ToString("  ");
  return absl::StrCat(Grouped(trace.runs.front().touches), " range touches\n\n", table.ToString("  "));
}

// The numbers of a run that CSV and JSON have in common, by their stable names.
Json Scalars(const TraceRuns& trace, const RunResult& run) {
  const ReclaimOptions& mechanics = run.spec.options.mechanics;
  Json json;
  json["trace"] = Utf8(trace.study->trace().source());
  json["policy"] = Utf8(run.spec.policy.text());
  json["window_bytes"] = run.spec.window.bytes();
  json["range_bytes"] = run.spec.range_size.bytes();
  json["ranges"] = run.ranges;
  json["accesses"] = run.accesses;
  json["touches"] = run.touches;
  json["hits"] = run.hits;
  json["misses"] = run.counts.misses;
  json["cold_misses"] = run.counts.cold_misses;
  json["miss_ratio"] = run.MissRatio();
  json["bypasses"] = run.counts.bypasses;
  json["non_dax_touches"] = run.non_dax_touches;
  json["extending_write_touches"] = run.extending_write_touches;
  json["setups"] = run.counts.setups;
  json["upgrades"] = run.counts.upgrades;
  json["removes"] = run.counts.removes;
  json["reclaims_background"] = run.counts.reclaims_background;
  json["reclaims_inline"] = run.counts.reclaims_inline;
  json["evictions"] = run.counts.evictions;
  json["peak_ranges"] = run.peak_ranges;
  json["peak_files"] = run.peak_files;
  json["mapped_ranges_ever"] = run.mapped_ranges_ever;
  json["touched_bytes"] = run.touched_bytes;
  json["touched_share"] = run.touched_share;
  json["guest_bytes"] = run.guest_bytes;
  json["host_bytes"] = run.host_bytes;
  json["break_even_file_bytes"] = run.break_even_file_size;
  json["threshold_percent"] = mechanics.threshold_percent;
  json["chunk"] = mechanics.chunk;
  json["inline_calls"] = std::string(InlineName(mechanics.calls));
  json["inline_faults"] = std::string(InlineName(mechanics.faults));
  json["send_remove"] = mechanics.send_remove;
  json["map_extending_writes"] = run.spec.options.map_extending_writes;
  json["keep_deleted"] = run.spec.options.keep_deleted;
  return json;
}

Json TraceJson(const Trace& trace) {
  Json json;
  json["source"] = Utf8(trace.source());
  json["format"] = trace.format();
  json["records"] = trace.size();
  json["files"] = trace.files().size();
  json["tasks"] = trace.tasks().size();
  json["span_ns"] = Span(trace);
  json["mapped_touches"] = std::string(MappedName(trace.mapped_touches()));
  json["skipped"] = Json::array();
  for (const ReadReport::Skipped& skipped : trace.report().skipped) {
    json["skipped"].push_back({{"reason", skipped.reason}, {"count", skipped.count}});
  }
  return json;
}

std::string CsvCell(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string TableReport(const std::vector<TraceRuns>& all) {
  std::string out;
  for (const TraceRuns& trace : all) {
    if (!out.empty()) out += "\n";
    out += TraceLine(trace.study->trace());
    out += trace.runs.size() == 1 ? Detail(*trace.study, trace.runs.front()) : Rows(trace);
  }
  return out;
}

std::string CsvReport(const std::vector<TraceRuns>& all) {
  std::string out;
  for (const TraceRuns& trace : all) {
    for (const RunResult& run : trace.runs) {
      const Json scalars = Scalars(trace, run);
      std::string header;
      std::string line;
      for (const auto& [key, value] : scalars.items()) {
        absl::StrAppend(&header, header.empty() ? "" : ",", key);
        absl::StrAppend(&line, line.empty() ? "" : ",", CsvCell(value));
      }
      if (out.empty()) out = header + "\n";
      out += line + "\n";
    }
  }
  return out;
}

std::string JsonReport(const std::vector<TraceRuns>& all) {
  Json json;
  json["version"] = DAXCACHE_VERSION;
  json["traces"] = Json::array();
  json["runs"] = Json::array();
  for (const TraceRuns& trace : all) {
    const Trace& data = trace.study->trace();
    json["traces"].push_back(TraceJson(data));
    for (const RunResult& run : trace.runs) {
      Json of = Scalars(trace, run);
      of["touched_by_file_size"] = Json::array();
      for (const TouchedClass& at : run.touched_classes) {
        const bool last = at.up_to == std::numeric_limits<std::uint64_t>::max();
        of["touched_by_file_size"].push_back({{"up_to_bytes", last ? Json() : Json(at.up_to)},
                                              {"files", at.files},
                                              {"ranges", at.ranges},
                                              {"touched_share", at.share}});
      }
      of["occupancy"] = Json::array();
      for (const Occupancy& at : run.occupancy) {
        of["occupancy"].push_back({{"time_ns", at.time_ns}, {"ranges", at.ranges}, {"files", at.files}});
      }
      of["costliest_files"] = Json::array();
      for (const FileCost& cost : run.costliest) {
        const FileInfo& file = data.files()[ToIndex(cost.file)];
        of["costliest_files"].push_back(
            {{"path", Utf8(file.path)}, {"size_bytes", file.size}, {"setups", cost.setups}});
      }
      json["runs"].push_back(std::move(of));
    }
  }
  // Paths are bytes, JSON is UTF-8 (Utf8 above); if a string is forgotten, it is no reason to throw.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace v0
}  // namespace daxcache
