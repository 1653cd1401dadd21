// daxtrace: looks into traces, converts them, and records commands. Each subcommand is one function.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
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
#include "daxcache/sim/job_pool.h"
#include "daxcache/sim/progress.h"
#include "daxcache/sim/record.h"
#include "daxcache/sim/size_classes.h"
#include "daxcache/sim/text.h"
#include "daxcache/suggest.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/input.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/traces/text_trace.h"
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

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "daxtrace: %s\n", std::string(status.message()).c_str());
  return kExitBadData;
}

// Prints, and says so if that fails.
int Show(std::string_view text) {
  const absl::Status status = WriteOut(text);
  return status.ok() ? kExitOk : Fail(status);
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
  const std::shared_ptr<const RangeStream>& stored = trace.stored_stream();
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
  std::array<std::uint64_t, kSizeClasses.size()> files{};
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
    ++summary.files[SizeClassOf(file.size)];
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
  line("mappings", std::string(MappedText(trace.mapped_touches())));
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
  for (std::size_t i = 0; i < kSizeClasses.size(); ++i) {
    if (summary.files[i] == 0) continue;
    absl::StrAppendFormat(&text, "  %-16s %15s %13.1f %%\n", SizeClassName(i), Grouped(summary.files[i]),
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
  json["mapped_touches"] = std::string(MappedName(trace.mapped_touches()));
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
  for (std::size_t i = 0; i < kSizeClasses.size(); ++i) {
    nlohmann::ordered_json entry;
    entry["up_to_bytes"] = i + 1 < kSizeClasses.size() ? nlohmann::ordered_json(kSizeClasses[i]) : nullptr;
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
  std::vector<std::string> rest = {};
  int exit = kExitOk;
  bool done = false;
};
Parsed ParseFlags(std::string_view command, CommandLine& line, const std::vector<std::string>& arguments,
                  FlagPlace place = FlagPlace::kAnywhere) {
  absl::StatusOr<std::vector<std::string>> rest = line.Parse(arguments, place);
  if (!rest.ok()) return {.exit = BadUsage(command, std::string(rest.status().message())), .done = true};
  if (line.help_wanted()) return {.exit = Show(line.Help()), .done = true};
  if (line.version_wanted()) return {.exit = Show("daxtrace " DAXCACHE_VERSION "\n"), .done = true};
  return {.rest = *std::move(rest)};
}
// The same for a command that takes so many operands.
Parsed ParseOperands(std::string_view command, CommandLine& line, const std::vector<std::string>& arguments,
                     std::size_t operands, std::string_view expected) {
  Parsed parsed = ParseFlags(command, line, arguments);
  if (parsed.done || parsed.rest.size() == operands) return parsed;
  const std::string got = parsed.rest.empty() ? "nothing" : absl::StrCat(parsed.rest.size());
  return {.exit = BadUsage(command, absl::StrCat("expected ", AbslView(expected), ", got ", got)), .done = true};
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
        .set = SetWord({"text", "json"}, [&json](std::size_t at) { json = at == 1; })},
       {.name = "verify",
        .value = "",
        .help = "also make the range stream again from the records and compare it with the one that a .dxt "
                "stores (checksums and records are always checked)",
        .set = SetTrue(&verify)}},
      "Examples:\n"
      "  daxtrace info traces/data/kbuild.trace.zst\n"
      "  daxtrace info --format json build.dxt | jq .touches\n"
      "  zstd -dc build.trace.zst | daxtrace info -\n");
  const Parsed parsed = ParseOperands("info", line, arguments, 1, "one FILE");
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
  return Show(json ? InfoJson(*trace, summary, ranges, verify) : InfoText(*trace, summary, ranges, verify));
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
  const Parsed parsed = ParseOperands("head", line, arguments, 1, "one FILE");
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
  // A text trace has one name a line.
  const auto printable = [](std::string_view name) { return name.empty() ? std::string("?") : Printable(name); };
  std::string text =
      absl::StrCat("daxtrace 1\n# mapped touches: ", AbslView(MappedName(trace->mapped_touches())), "\n");
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
    if (const int exit = Show(text); exit != kExitOk) return exit;
    text.clear();
  }
  return Show(text);
}

int Convert(const std::vector<std::string>& arguments) {
  bool verify = false;
  std::string driver;
  CommandLine line("daxtrace convert [FLAGS] IN OUT",
                   "Writes a trace in another format. IN is known by its content (\"-\" is standard input), OUT by its "
                   "name: it ends in one of " +
                       WritableExtensions() + ".",
                   {{.name = "verify",
                     .value = "",
                     .help = "read OUT back and compare every record, file and task",
                     .set = SetTrue(&verify)},
                    {.name = "jobs-of",
                     .value = "NAME",
                     .help = "as if a task of that name (make) had run its jobs one at a time, with times to 10 ms: as "
                             "daxsim --jobs needs it, and far smaller when compressed",
                     .set = SetText(&driver)}},
                   "A .dxt is for replay: daxsim maps it and starts at once. OUT appears only when it is whole.\n\n"
                   "Examples:\n"
                   "  daxtrace convert kbuild.trace.zst kbuild.dxt\n"
                   "  daxtrace convert job.iolog job.trace          # of fio --write_iolog=job.iolog\n"
                   "  daxtrace convert big.dxt small.dxt.zst        # to keep or to send\n");
  const Parsed parsed = ParseOperands("convert", line, arguments, 2, "IN and OUT");
  if (parsed.done) return parsed.exit;
  const std::string& out = parsed.rest[1];
  if (absl::Status status = CheckWritable(out); !status.ok()) {
    return BadUsage("convert", std::string(status.message()));
  }
  absl::StatusOr<Trace> trace = Load(parsed.rest[0]);
  if (!trace.ok()) return Fail(trace.status());
  if (!driver.empty()) trace = OneJobAtATime(*trace, driver, 10'000'000);
  if (!trace.ok())
    return Fail(absl::Status(trace.status().code(), parsed.rest[0] + ": " + std::string(trace.status().message())));
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

// A run may take hours: what can be known to fail at its end is said before it.
absl::Status CheckFolder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(folder, ": ", std::strerror(errno)));
}

std::string DescribeStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) return absl::StrCat("was killed by signal ", WTERMSIG(wait_status));
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

// On standard error, for standard output is the command's.
void ReportRecording(const Recording& recording, const std::string& command, const std::string& output) {
  const Trace& trace = recording.trace;
  std::string text;
  const auto line = [&text](auto... parts) { absl::StrAppend(&text, "daxtrace record: ", parts..., "\n"); };
  line(command, " ", DescribeStatus(recording.wait_status));
  line("wrote ", output, ": ", trace.size(), " records, ", trace.files().size(), " files, ", trace.tasks().size(),
       " tasks");
  if (recording.no_faults_because.empty()) {
    line("mappings: page faults; CPU times: sampled", recording.system_time ? "" : ", in user mode only");
  } else {
    line("mappings: one touch of all each covers, CPU times: none (page faults: ", recording.no_faults_because, ")");
  }
  if (recording.lost_events > 0) {
    line("the kernel dropped ", recording.lost_events, " events (page faults, mappings)");
  }
  if (recording.unresolved > 0) {
    line(recording.unresolved, " page faults of processes whose mappings were not known");
  }
  std::fputs(text.c_str(), stderr);
}

int RunRecord(const std::vector<std::string>& arguments) {
  RecordOptions options;
  std::string output;
  bool report = false;
  bool quiet = false;
  CommandLine line(
      "daxtrace record -o FILE [FLAGS] [--] COMMAND [ARGUMENT]…",
      "Runs a command and writes a trace of what its processes do to files.",
      {{.name = "output",
        .value = "FILE",
        .help = "the trace; its format follows from how the name ends: one of " + WritableExtensions(),
        .set = SetText(&output),
        .letter = 'o'},
       {.name = "faults",
        .value = "auto|on|off",
        .help = "auto: record page faults in file mappings if the kernel permits (default); on: fail if it does not; "
                "off: do not, a mapping then counts as one touch of all it covers, once a task",
        .set = SetWord({"auto", "on", "off"},
                       [&options](std::size_t at) { options.faults = static_cast<RecordOptions::Faults>(at); })},
       {.name = "keep-log",
        .value = "FILE",
        .help = "leave strace's log there (\"daxtrace convert FILE out.dxt\" reads it, without the page faults)",
        .set = SetText(&options.keep_log)},
       {.name = "report", .value = "", .help = "say what left no record, and how often", .set = SetTrue(&report)},
       {.name = "quiet", .value = "", .help = "say nothing but errors", .set = SetTrue(&quiet), .letter = 'q'}},
      "Flags end at the command: what follows is its own.\n\n"
      "The command keeps standard input, output and error. Recording ends when it and all that it left in the\n"
      "background have ended. Needs strace (Debian: apt install strace) and, for page faults and CPU times,\n"
      "perf_event_open: root, or kernel.perf_event_paranoid at most 2. CPU times of tasks are sampled every\n"
      "millisecond; without those events they are 0.\n\n"
      "Examples:\n"
      "  daxtrace record -o build.dxt -- make -j2\n"
      "  daxtrace record -q --faults off -o test.trace.zst ./run_tests --all\n"
      "\nExit status: 0 if the trace was written (the command's own status is printed), 1 if not, 2 bad usage.\n");
  const Parsed parsed = ParseFlags("record", line, arguments, FlagPlace::kBeforeOperands);
  if (parsed.done) return parsed.exit;
  if (output.empty()) return BadUsage("record", "expected -o FILE: where the trace goes");
  if (parsed.rest.empty()) return BadUsage("record", "expected a command to record");
  if (absl::Status status = CheckWritable(output); !status.ok()) {
    return BadUsage("record", std::string(status.message()));
  }
  const auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "daxtrace record: %s\n", std::string(status.message()).c_str());
    return kExitBadData;
  };
  if (absl::Status status = CheckFolder(output); !status.ok()) return fail(status);
  options.command = parsed.rest;
  const absl::StatusOr<Recording> recording = Record(options);
  if (!recording.ok()) return fail(recording.status());
  if (const absl::Status status = WriteTrace(recording->trace, output); !status.ok()) {
    fail(status);
    // The run may have been long, and .trace cannot name every file; a .dxt can.
    const std::string instead = output + ".dxt";
    if (!output.ends_with(".dxt") && WriteTrace(recording->trace, instead).ok()) {
      std::fprintf(stderr, "daxtrace record: wrote %s instead\n", instead.c_str());
    }
    return kExitBadData;
  }
  if (quiet) return kExitOk;
  ReportRecording(*recording, options.command[0], output);
  if (report) {
    for (const ReadReport::Skipped& skipped : recording->trace.report().skipped) {
      std::fprintf(stderr, "%12llu  %s\n", static_cast<unsigned long long>(skipped.count), skipped.reason.c_str());
    }
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
    {"record", "runs a command and records what it does to files", &RunRecord},
};

std::string Epilogue() {
  std::string text = "Commands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", AbslView(command.name), AbslView(command.summary));
  }
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

int Main(const std::vector<std::string>& arguments) {
  CommandLine line("daxtrace COMMAND [ARGUMENTS]", "Looks into traces of file accesses, converts and records them.", {},
                   Epilogue());
  const Parsed parsed = ParseFlags("", line, arguments, FlagPlace::kBeforeOperands);
  if (parsed.done) return parsed.exit;
  if (parsed.rest.empty()) return BadUsage("", "expected a command: info, head, convert or record");
  const std::string& name = parsed.rest[0];
  if (name == "help") return Show(line.Help());
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run({parsed.rest.begin() + 1, parsed.rest.end()});
    names.push_back(command.name);
  }
  return BadUsage("", absl::StrCat("unknown command ", Quoted(name), Suggest(name, names)));
}

}  // namespace
}  // namespace v0
}  // namespace daxcache

int main(int argc, char** argv) {
  try {
    return daxcache::Main({argv + std::min(argc, 1), argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("daxtrace: not enough memory for this trace\n", stderr);
    return 1;
  }
}
