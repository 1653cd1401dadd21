// daxtrace: looks into traces, and converts them. Each command is one function; what they print is computed in one pass
// over the records.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daxcache/access.h"
#include "daxcache/range.h"
#include "daxcache/sim/flags.h"
#include "daxcache/sim/progress.h"
#include "daxcache/sim/record.h"
#include "daxcache/sim/text.h"
#include "daxcache/suggest.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/traces/trace.h"
#include "daxcache/units.h"
#include "daxcache/version.h"
#include "nlohmann/json.hpp"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitBadData = 1;
constexpr int kExitBadUsage = 2;

constexpr std::string_view kOpNames[kNumOps] = {"read", "write", "mapped_read", "mapped_write",
                                                "open", "close", "truncate",    "unlink"};
constexpr std::string_view kMappedNames[] = {"none", "ranges", "pages"};

// File sizes are shown in these classes: up to so many bytes.
struct SizeClass {
  std::uint64_t up_to;
  std::string_view name;
};
constexpr SizeClass kSizeClasses[] = {
    {0, "empty"},          {4096, "up to 4K"},      {65536, "up to 64K"},  {1 << 20, "up to 1M"},
    {2 << 20, "up to 2M"}, {64 << 20, "up to 64M"}, {1 << 30, "up to 1G"}, {~std::uint64_t{0}, "over 1G"}};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "daxtrace: %s\n", std::string(status.message()).c_str());
  return kExitBadData;
}

int BadUsage(std::string_view command, const std::string& what) {
  const std::string name = command.empty() ? "daxtrace" : absl::StrCat("daxtrace ", AbslView(command));
  std::fprintf(stderr, "%s: %s\nTry \"%s --help\".\n", name.c_str(), what.c_str(), name.c_str());
  return kExitBadUsage;
}

absl::StatusOr<Trace> Load(const std::string& path) {
  Progress progress(absl::StrCat("reading ", path));
  return ReadTrace(path, {.progress = [&progress](std::uint64_t done, std::uint64_t total) {
                     if (total > 0) {
                       progress.Update(static_cast<double>(done) / static_cast<double>(total));
                     }
                     return true;
                   }});
}

// What a .dxt holds twice: reading it checked the records and the stream, each for itself; here the stored stream is
// compared with one made from the records.
absl::Status Verify(const Trace& trace) {
  const std::shared_ptr<const RangeStream> stored = trace.stored_stream();
  if (stored == nullptr) return absl::OkStatus();
  Trace::Parts parts = trace.parts();
  parts.stored_stream = nullptr;
  const auto rebuilt =
      RangeStream::Build(Trace(std::move(parts)), {.range_size = stored->range_size(), .fold = stored->folded()});
  if (!rebuilt.ok()) return rebuilt.status();
  const RangeStream::Parts& a = stored->parts();
  const RangeStream::Parts& b = (*rebuilt)->parts();
  const bool same = std::ranges::equal(a.words, b.words) && std::ranges::equal(a.repeats, b.repeats) &&
                    std::ranges::equal(a.records, b.records) && std::ranges::equal(a.range_files, b.range_files) &&
                    std::ranges::equal(a.range_indexes, b.range_indexes) &&
                    std::ranges::equal(a.first_range, b.first_range) && a.accesses == b.accesses &&
                    a.touches == b.touches && a.extending_accesses == b.extending_accesses &&
                    a.extending_touches == b.extending_touches;
  if (same) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(trace.source(), ": expected the stored range stream to be that of the records, got another"));
}

struct Summary {
  std::array<std::uint64_t, kNumOps> records{};
  std::array<std::uint64_t, kNumOps> bytes{};
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::array<std::uint64_t, std::size(kSizeClasses)> files{};
  std::uint64_t file_bytes = 0;
};

Summary Summarize(const Trace& trace) {
  Summary summary;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access access = trace[i];
    const std::size_t op = static_cast<std::size_t>(access.op);
    ++summary.records[op];
    if (TouchesData(access.op)) summary.bytes[op] += access.length;
  }
  if (trace.size() > 0) {
    summary.first_ns = trace[0].time_ns;
    summary.last_ns = trace[trace.size() - 1].time_ns;
  }
  for (const FileInfo& file : trace.files()) {
    std::size_t size_class = 0;
    while (file.size > kSizeClasses[size_class].up_to) ++size_class;
    ++summary.files[size_class];
    summary.file_bytes += file.size;
  }
  return summary;
}

std::string InfoText(const Trace& trace, const Summary& summary, const RangeStream* stream, bool verified) {
  std::string text = absl::StrCat(trace.source(), ": ", trace.format(), "\n");
  const auto line = [&text](std::string_view name, const std::string& value) {
    absl::StrAppendFormat(&text, "  %-16s %s\n", AbslView(name), value);
  };
  line("records", Grouped(trace.size()));
  line("time",
       absl::StrFormat("%.3f s (from %.3f s to %.3f s)", static_cast<double>(summary.last_ns - summary.first_ns) / 1e9,
                       static_cast<double>(summary.first_ns) / 1e9, static_cast<double>(summary.last_ns) / 1e9));
  line("tasks", Grouped(trace.tasks().size()));
  line("files", absl::StrCat(Grouped(trace.files().size()), ", ", HumanBytes(summary.file_bytes), " in all"));
  constexpr std::string_view kFaults[] = {"not recorded: calls only", "one touch a range when a mapping was made",
                                          "recorded, page by page"};
  line("faults", std::string(kFaults[static_cast<std::size_t>(trace.mapped_touches())]));
  if (stream != nullptr) {
    line("ranges of 2M", absl::StrCat(Grouped(stream->ranges()), " touched, ", Grouped(stream->touches()),
                                      " touches by ", Grouped(stream->accesses()), " accesses (",
                                      Grouped(stream->extending_touches()), " by writes that extend their file)"));
  }
  absl::StrAppendFormat(&text, "\n  %-16s %15s %15s\n", "operation", "records", "bytes");
  for (std::size_t op = 0; op < kNumOps; ++op) {
    if (summary.records[op] == 0) continue;
    absl::StrAppendFormat(&text, "  %-16s %15s", AbslView(kOpNames[op]), Grouped(summary.records[op]));
    if (TouchesData(static_cast<Op>(op))) absl::StrAppendFormat(&text, " %15s", HumanBytes(summary.bytes[op]));
    text += "\n";
  }
  absl::StrAppendFormat(&text, "\n  %-16s %15s %15s\n", "file size", "files", "share");
  for (std::size_t i = 0; i < std::size(kSizeClasses); ++i) {
    if (summary.files[i] == 0) continue;
    absl::StrAppendFormat(&text, "  %-16s %15s %13.1f %%\n", AbslView(kSizeClasses[i].name), Grouped(summary.files[i]),
                          100.0 * static_cast<double>(summary.files[i]) / static_cast<double>(trace.files().size()));
  }
  if (!trace.report().skipped.empty()) {
    absl::StrAppendFormat(&text, "\n  %-32s %15s\n", "lines that are no access", "count");
    for (const ReadReport::Skipped& skipped : trace.report().skipped) {
      absl::StrAppendFormat(&text, "  %-32s %15s\n", skipped.reason, Grouped(skipped.count));
    }
  }
  if (verified) text += "\n  verified: every checksum, every record, and the stored range stream against the records\n";
  return text;
}

std::string InfoJson(const Trace& trace, const Summary& summary, const RangeStream* stream, bool verified) {
  nlohmann::ordered_json json;
  json["source"] = trace.source();
  json["format"] = trace.format();
  json["records"] = trace.size();
  json["first_ns"] = summary.first_ns;
  json["last_ns"] = summary.last_ns;
  json["tasks"] = trace.tasks().size();
  json["files"] = trace.files().size();
  json["file_bytes"] = summary.file_bytes;
  json["mapped_touches"] = kMappedNames[static_cast<std::size_t>(trace.mapped_touches())];
  for (std::size_t op = 0; op < kNumOps; ++op) {
    auto& entry = json["operations"][std::string(kOpNames[op])];
    entry["records"] = summary.records[op];
    if (TouchesData(static_cast<Op>(op))) entry["bytes"] = summary.bytes[op];
  }
  json["range_bytes"] = RangeSize().bytes();
  if (stream != nullptr) {
    json["ranges"] = stream->ranges();
    json["accesses"] = stream->accesses();
    json["touches"] = stream->touches();
    json["extending_accesses"] = stream->extending_accesses();
    json["extending_touches"] = stream->extending_touches();
  }
  json["file_sizes"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::size(kSizeClasses); ++i) {
    nlohmann::ordered_json entry;
    entry["up_to_bytes"] = i + 1 < std::size(kSizeClasses) ? nlohmann::ordered_json(kSizeClasses[i].up_to) : nullptr;
    entry["files"] = summary.files[i];
    json["file_sizes"].push_back(std::move(entry));
  }
  json["skipped"] = nlohmann::ordered_json::array();
  for (const ReadReport::Skipped& skipped : trace.report().skipped) {
    json["skipped"].push_back({{"reason", skipped.reason}, {"count", skipped.count}});
  }
  json["verified"] = verified;
  // Names are bytes, not always UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// What to do with the arguments behind a command's name; `done` is set when that was only to print help or to complain.
struct Parsed {
  std::vector<std::string> rest;
  int exit = kExitOk;
  bool done = false;
};
Parsed ParseFlags(std::string_view command, CommandLine& line, const std::vector<std::string>& arguments,
                  std::size_t operands, const char* expected) {
  absl::StatusOr<std::vector<std::string>> rest = line.Parse(arguments);
  if (!rest.ok()) return {.rest = {}, .exit = BadUsage(command, std::string(rest.status().message())), .done = true};
  if (line.help_wanted()) {
    std::fputs(line.Help().c_str(), stdout);
    return {.rest = {}, .exit = kExitOk, .done = true};
  }
  if (line.version_wanted()) {
    std::puts("daxtrace " DAXCACHE_VERSION);
    return {.rest = {}, .exit = kExitOk, .done = true};
  }
  if (rest->size() != operands) {
    return {.rest = {},
            .exit = BadUsage(command, absl::StrCat("expected ", expected, ", got ", rest->size(), " arguments")),
            .done = true};
  }
  return {.rest = *std::move(rest), .exit = kExitOk, .done = false};
}

int Info(const std::vector<std::string>& arguments) {
  bool json = false;
  bool verify = false;
  CommandLine line(
      "daxtrace info [FLAGS] FILE",
      "Says what is in a trace: its records by operation, files by size, times, the 2 MiB ranges it touches, "
      "and every line that became no record, by reason.",
      {{.name = "format",
        .value = "text|json",
        .help = "what to print; text is for people and may change, json is stable",
        .set =
            [&json](std::string_view text) {
              json = text == "json";
              if (json || text == "text") return absl::OkStatus();
              constexpr std::string_view kValid[] = {"text", "json"};
              return absl::InvalidArgumentError(
                  absl::StrCat("expected text or json, got ", Quoted(text), Suggest(text, kValid)));
            }},
       {.name = "verify",
        .value = "",
        .help = "also make the range stream again from the records and compare it with the one that a .dxt "
                "stores (checksums and records are always checked)",
        .set = SetTrue(&verify)}},
      "Examples:\n"
      "  daxtrace info traces/data/kbuild.trace.zst\n"
      "  daxtrace info --format json build.dxt | jq .touches\n"
      "  zstd -dc build.trace.zst | daxtrace info -\n");
  const Parsed parsed = ParseFlags("info", line, arguments, 1, "one FILE");
  if (parsed.done) return parsed.exit;
  const absl::StatusOr<Trace> trace = Load(parsed.rest[0]);
  if (!trace.ok()) return Fail(trace.status());
  if (verify) {
    if (absl::Status status = Verify(*trace); !status.ok()) return Fail(status);
  }
  const Summary summary = Summarize(*trace);
  const auto stream = RangeStream::Build(*trace, {});
  if (!stream.ok())
    std::fprintf(stderr, "daxtrace: ranges are not counted: %s\n", std::string(stream.status().message()).c_str());
  const RangeStream* const ranges = stream.ok() ? stream->get() : nullptr;
  const std::string text = json ? InfoJson(*trace, summary, ranges, verify) : InfoText(*trace, summary, ranges, verify);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

int Head(const std::vector<std::string>& arguments) {
  std::uint64_t count = 10;
  CommandLine line("daxtrace head [-n N] FILE",
                   "Prints the first records of a trace of any format as a text trace, with the files and tasks that "
                   "they need: a small trace in its own right.",
                   {{.name = "records",
                     .value = "N",
                     .help = "how many records; 10 unless given",
                     .set = SetNumber(&count, 0, ~std::uint64_t{0}),
                     .letter = 'n'}},
                   "Examples:\n"
                   "  daxtrace head traces/data/kbuild.trace.zst\n"
                   "  daxtrace head -n 100000 build.dxt > small.trace\n");
  const Parsed parsed = ParseFlags("head", line, arguments, 1, "one FILE");
  if (parsed.done) return parsed.exit;
  const absl::StatusOr<Trace> trace = Load(parsed.rest[0]);
  if (!trace.ok()) return Fail(trace.status());
  count = std::min(count, trace->size());
  // Ids are dense, so all up to the highest one used are declared.
  std::uint32_t files = 0;
  std::uint32_t tasks = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    files = std::max(files, ToIndex((*trace)[i].file) + 1);
    tasks = std::max(tasks, ToIndex((*trace)[i].task) + 1);
  }
  const auto printable = [](std::string_view text) {
    std::string copy(text.empty() ? "?" : text);
    std::ranges::replace_if(
        copy, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, '?');
    return copy;
  };
  std::string text = absl::StrCat("daxtrace 1\n# mapped touches: ",
                                  AbslView(kMappedNames[static_cast<std::size_t>(trace->mapped_touches())]), "\n");
  for (std::uint32_t i = 0; i < files; ++i) {
    FileInfo file = trace->files()[i];
    const std::string path = printable(file.path);
    file.path = path;
    AppendTextFile(FileId{i}, file, text);
  }
  for (std::uint32_t i = 0; i < tasks; ++i) {
    TaskInfo task = trace->tasks()[i];
    const std::string name = printable(task.name);
    task.name = name;
    AppendTextTask(TaskId{i}, task, text);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    AppendTextAccess((*trace)[i], text);
    if (text.size() < (1u << 16) && i + 1 < count) continue;
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) return kExitBadData;
    text.clear();
  }
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

int Convert(const std::vector<std::string>& arguments) {
  bool verify = false;
  CommandLine line("daxtrace convert [FLAGS] IN OUT",
                   "Writes a trace in another format. IN is known by its content (\"-\" is standard input), OUT by its "
                   "name: it ends in one of " +
                       WritableExtensions() + ".",
                   {{.name = "verify",
                     .value = "",
                     .help = "read OUT back and compare every record, file and task",
                     .set = SetTrue(&verify)}},
                   "A .dxt is for replay: daxsim maps it and starts at once. OUT appears only when it is whole.\n\n"
                   "Examples:\n"
                   "  daxtrace convert kbuild.trace.zst kbuild.dxt\n"
                   "  daxtrace convert job.iolog job.trace          # of fio --write_iolog=job.iolog\n"
                   "  daxtrace convert big.dxt small.dxt.zst        # to keep or to send\n");
  const Parsed parsed = ParseFlags("convert", line, arguments, 2, "IN and OUT");
  if (parsed.done) return parsed.exit;
  const std::string& out = parsed.rest[1];
  if (absl::Status status = CheckWritable(out); !status.ok()) {
    return BadUsage("convert", std::string(status.message()));
  }
  const absl::StatusOr<Trace> trace = Load(parsed.rest[0]);
  if (!trace.ok()) return Fail(trace.status());
  if (absl::Status status = WriteTrace(*trace, out); !status.ok()) return Fail(status);
  if (!verify) return kExitOk;
  const absl::StatusOr<Trace> back = Load(out);
  if (!back.ok()) return Fail(back.status());
  if (absl::Status status = Verify(*back); !status.ok()) return Fail(status);
  if (!SameContent(*trace, *back)) {
    return Fail(
        absl::DataLossError(absl::StrCat(out, ": expected what ", trace->source(), " holds, got something else")));
  }
  return kExitOk;
}

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& arguments);
};
constexpr Command kCommands[] = {
    {"info", "says what is in a trace", &Info},
    {"head", "prints its first records as text", &Head},
    {"convert", "writes it in another format", &Convert},
};

std::string Help() {
  std::string text =
      "Looks into traces of file accesses, converts and records them.\n\nUsage: daxtrace COMMAND "
      "[ARGUMENTS]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", AbslView(command.name), AbslView(command.summary));
  }
  absl::StrAppendFormat(&text, "  %-10s %s\n", "record", "runs a command and records what it does to files");
  text += "\nFormats (known by content; each may be zstd-compressed):\n";
  for (const Format& format : kTraceFormats) {
    absl::StrAppendFormat(&text, "  %-10s %s%s\n", AbslView(format.name), AbslView(format.summary),
                          format.write == nullptr ? "" : absl::StrCat(", written as ", AbslView(format.extension)));
  }
  text +=
      "\nExamples:\n"
      "  daxtrace info traces/data/kbuild.trace.zst    # what is in it\n"
      "  daxtrace head -n 20 build.dxt                 # the first records, as text\n"
      "  daxtrace convert job.iolog job.dxt            # of fio --write_iolog=job.iolog, for daxsim\n"
      "  daxtrace record -o build.dxt -- make -j2      # a trace of your own\n"
      "\nExit status: 0 done, 1 bad data or a file that cannot be read or written, 2 bad usage.\n"
      "\"daxtrace COMMAND --help\" says more about each.\n";
  return text;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kExitBadUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help().c_str(), stdout);
    return kExitOk;
  }
  if (name == "--version") {
    std::puts("daxtrace " DAXCACHE_VERSION);
    return kExitOk;
  }
  if (name == "record") return RecordMain(argc - 1, argv + 1);
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run({arguments.begin() + 1, arguments.end()});
    names.push_back(command.name);
  }
  names.push_back("record");
  return BadUsage("", absl::StrCat("unknown command ", Quoted(name), Suggest(name, names)));
}

}  // namespace
}  // namespace v0
}  // namespace daxcache

int main(int argc, char** argv) {
  const int exit = daxcache::Main(argc, argv);
  // A full disk shows only here.
  if (std::fflush(stdout) != 0) {
    std::perror("daxtrace: standard output");
    return exit == 0 ? 1 : exit;
  }
  return exit;
}
