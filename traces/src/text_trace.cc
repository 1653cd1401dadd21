// The text format: a strict reader built for speed (one pass over each line, no allocation a record) and the writer.
#include "daxcache/traces/text_trace.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "check_access.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kHeader = "daxtrace 1";
constexpr std::size_t kWriteBytes = 1 << 16;

// The letter of each operation, in the order of `Op`.
constexpr std::string_view kOpLetters = "RWFGOCTD";
constexpr std::uint8_t kNoOp = 0xff;
constexpr std::array<std::uint8_t, 256> kOpOfLetter = [] {
  std::array<std::uint8_t, 256> table{};
  for (std::uint8_t& op : table) op = kNoOp;
  for (std::size_t i = 0; i < kOpLetters.size(); ++i) {
    table[static_cast<unsigned char>(kOpLetters[i])] = static_cast<std::uint8_t>(i);
  }
  return table;
}();

// This comment says what the letters F and G cannot: how finely mappings were watched.
constexpr std::string_view kMappedComment = "# mapped touches: ";
constexpr std::string_view kMappedNames[] = {"none", "ranges", "pages"};

// Reads fields from the front of a line. A failed read leaves `at` where the field starts.
struct Cursor {
  const char* at;
  const char* end;

  bool Number(std::uint64_t& value) {
    const char* p = at;
    std::uint64_t v = 0;
    while (p != end) {
      const unsigned digit = static_cast<unsigned>(static_cast<unsigned char>(*p)) - '0';
      if (digit > 9) break;
      v = v * 10 + digit;
      ++p;
    }
    if (p - at - 1 > 18) [[unlikely]]
      return LongNumber(value);  // 20 digits or more may overflow
    if (p == at) return false;
    at = p;
    value = v;
    return true;
  }
  bool Space() {
    if (at == end || *at != ' ') return false;
    ++at;
    return true;
  }
  bool LongNumber(std::uint64_t& value) {
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return false;
    at = stop;
    return true;
  }
  // Up to the next space, or to the end.
  std::string_view Field() const {
    const char* stop = at;
    while (stop != end && *stop != ' ') ++stop;
    return {at, static_cast<std::size_t>(stop - at)};
  }
};

class Reader {
 public:
  explicit Reader(Input& input) : input_(input), lines_(input) {}

  absl::StatusOr<Trace> Read() {
    std::string_view line;
    if (!lines_.Next(line)) return lines_.status();
    if (line != kHeader) return lines_.Expected("the first line \"daxtrace 1\"", line);
    while (lines_.Next(line)) {
      const char first = line.empty() ? '\n' : line.front();
      absl::Status status;
      if (first >= '0' && first <= '9') {
        Access access;
        if (!ParseRecord(line, access)) return Diagnose(line);
        status = builder_.Add(access);
        if (!status.ok()) return lines_.At(status);
        if (IsMapped(access.op)) {
          if (mapped_stated_ && mapped_ == MappedTouches::kNone) {
            return lines_.Expected("no mapped touches (the trace says so above)", line);
          }
          any_mapped_ = true;
        }
        continue;
      }
      if (first == '#') {
        status = ParseComment(line);
      } else if (line.starts_with("file ")) {
        status = ParseFile(line);
      } else if (line.starts_with("task ")) {
        status = ParseTask(line);
      } else {
        status = Diagnose(line);
      }
      if (!status.ok()) return status;
    }
    if (!lines_.status().ok()) return lines_.status();
    if (!mapped_stated_ && any_mapped_) mapped_ = MappedTouches::kPages;
    return builder_.Finish(input_.name(), std::string(kTextTrace.name), mapped_);
  }

 private:
  // <time_ns> <task> <op> <file> <offset> <length>
  static bool ParseRecord(std::string_view line, Access& access) {
    Cursor in{line.data(), line.data() + line.size()};
    std::uint64_t time = 0;
    std::uint64_t task = 0;
    std::uint64_t file = 0;
    if (!in.Number(time) || !in.Space() || !in.Number(task) || !in.Space()) return false;
    if (in.end - in.at < 2) return false;
    const std::uint8_t op = kOpOfLetter[static_cast<unsigned char>(*in.at)];
    if (op == kNoOp) return false;
    ++in.at;
    if (!in.Space() || !in.Number(file) || !in.Space() || !in.Number(access.offset) || !in.Space() ||
        !in.Number(access.length) || in.at != in.end) {
      return false;
    }
    if (time >> 63 != 0 || task >= ToIndex(kNoTask) || file >= ToIndex(kNoFile)) return false;
    access.time_ns = static_cast<std::int64_t>(time);
    access.task = TaskId{static_cast<std::uint32_t>(task)};
    access.file = FileId{static_cast<std::uint32_t>(file)};
    access.op = static_cast<Op>(op);
    return true;
  }

  // What is wrong with a line that is no record.
  absl::Status Diagnose(std::string_view line) const {
    if (line.empty()) {
      return lines_.At(
          absl::InvalidArgumentError("expected a record, \"file\", \"task\" or a comment, got an empty line"));
    }
    const char first = line.front();
    if (first != '-' && first != '+' && (first < '0' || first > '9')) {
      return lines_.Expected("a record (a time first), \"file …\", \"task …\" or a comment", line);
    }
    constexpr std::string_view kNames[] = {"a time in ns",    "a task's number", "",
                                           "a file's number", "an offset",       "a length"};
    Cursor in{line.data(), line.data() + line.size()};
    for (int field = 0; field < 6; ++field) {
      if (field > 0 && !in.Space()) {
        return lines_.Expected("one space and six fields: time task op file offset length", line);
      }
      if (field == 2) {
        const std::string_view op = in.Field();
        if (op.size() != 1 || kOpOfLetter[static_cast<unsigned char>(op[0])] == kNoOp) {
          return lines_.Expected("an operation (one of R W F G O C T D)", op);
        }
        ++in.at;
        continue;
      }
      const std::string_view got = in.Field();
      const std::uint64_t limit = field == 0                 ? std::numeric_limits<std::int64_t>::max()
                                  : field == 1 || field == 3 ? ToIndex(kNoFile) - 1
                                                             : std::numeric_limits<std::uint64_t>::max();
      std::uint64_t value = 0;
      if (!in.Number(value) || value > limit || !in.Field().empty()) {
        return lines_.Expected(absl::StrCat(AbslView(kNames[field]), " from 0 to ", limit), got);
      }
    }
    return lines_.Expected("the end of the line after six fields",
                           std::string_view(in.at, static_cast<std::size_t>(in.end - in.at)));
  }

  // One number of a declaration and the space behind it.
  absl::Status DeclaredNumber(Cursor& in, std::string_view what, std::uint64_t limit, std::uint64_t& value) const {
    const std::string_view got = in.Field();
    if (!in.Number(value) || value > limit || !in.Space()) {
      return lines_.Expected(absl::StrCat(AbslView(what), " from 0 to ", limit, " and a space"), got);
    }
    return absl::OkStatus();
  }

  absl::Status DeclaredId(Cursor& in, std::string_view what, std::uint32_t next) const {
    const std::string_view got = in.Field();
    std::uint64_t id = 0;
    if (!in.Number(id) || id != next || !in.Space()) {
      return lines_.Expected(
          absl::StrCat(AbslView(what), " ", next, " (each is declared once, in the order 0, 1, 2, …)"), got);
    }
    return absl::OkStatus();
  }

  // The free text at the end of a declaration.
  absl::Status DeclaredText(const Cursor& in, std::string_view what, bool may_be_empty, std::string_view& text) const {
    text = {in.at, static_cast<std::size_t>(in.end - in.at)};
    if (text.empty() && !may_be_empty) {
      return lines_.At(
          absl::InvalidArgumentError(absl::StrCat("expected ", AbslView(what), ", got the end of the line")));
    }
    if (text.find('\0') != std::string_view::npos)
      return lines_.Expected(absl::StrCat(AbslView(what), " without NUL bytes"), text);
    return absl::OkStatus();
  }

  // file <id> <size> <path…>
  absl::Status ParseFile(std::string_view line) {
    Cursor in{line.data() + 5, line.data() + line.size()};
    std::uint64_t size = 0;
    std::string_view path;
    if (absl::Status s = DeclaredId(in, "file", builder_.files()); !s.ok()) return s;
    if (absl::Status s = DeclaredNumber(in, "a size in bytes", internal::kMaxExtent, size); !s.ok()) return s;
    if (absl::Status s = DeclaredText(in, "a path", false, path); !s.ok()) return s;
    builder_.AddFile(path, size);
    return absl::OkStatus();
  }

  // task <id> <parent|-> <start_ns> <end_ns> <user_us> <sys_us> <name…>
  absl::Status ParseTask(std::string_view line) {
    Cursor in{line.data() + 5, line.data() + line.size()};
    TaskInfo task;
    const std::uint32_t id = builder_.tasks();
    if (absl::Status s = DeclaredId(in, "task", id); !s.ok()) return s;
    if (in.Field() == "-") {
      in.at += 1;
      if (!in.Space()) return lines_.Expected("a space after the parent", line);
    } else {
      const std::string_view got = in.Field();
      std::uint64_t parent = 0;
      if (!in.Number(parent) || parent >= id || !in.Space()) {
        return lines_.Expected("a parent: a task that was declared before, or -", got);
      }
      task.parent = TaskId{static_cast<std::uint32_t>(parent)};
    }
    constexpr std::uint64_t kMaxTime = std::numeric_limits<std::int64_t>::max();
    constexpr std::uint64_t kMaxCpu = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t start = 0;
    std::uint64_t stop = 0;
    if (absl::Status s = DeclaredNumber(in, "a start time in ns", kMaxTime, start); !s.ok()) return s;
    if (absl::Status s = DeclaredNumber(in, "an end time in ns", kMaxTime, stop); !s.ok()) return s;
    if (absl::Status s = DeclaredNumber(in, "user CPU time in us", kMaxCpu, task.user_us); !s.ok()) return s;
    if (absl::Status s = DeclaredNumber(in, "system CPU time in us", kMaxCpu, task.system_us); !s.ok()) return s;
    if (absl::Status s = DeclaredText(in, "a name", true, task.name); !s.ok()) return s;
    if (stop < start) return lines_.Expected(absl::StrCat("an end time of at least ", start, " ns (the start)"), line);
    task.start_ns = static_cast<std::int64_t>(start);
    task.end_ns = static_cast<std::int64_t>(stop);
    builder_.AddTask(task);
    return absl::OkStatus();
  }

  absl::Status ParseComment(std::string_view line) {
    if (line.find('\0') != std::string_view::npos) return lines_.Expected("a comment without NUL bytes", line);
    if (!line.starts_with(kMappedComment)) return absl::OkStatus();
    line.remove_prefix(kMappedComment.size());
    for (std::size_t i = 0; i < std::size(kMappedNames); ++i) {
      if (line != kMappedNames[i]) continue;
      const auto mapped = static_cast<MappedTouches>(i);
      if (mapped_stated_ && mapped != mapped_) {
        return lines_.Expected(absl::StrCat(AbslView(MappedName(mapped_)), ", as above"), line);
      }
      if (any_mapped_ && mapped == MappedTouches::kNone) {
        return lines_.Expected("ranges or pages (there are mapped touches above)", line);
      }
      mapped_ = mapped;
      mapped_stated_ = true;
      return absl::OkStatus();
    }
    return lines_.Expected("none, ranges or pages", line);
  }

  Input& input_;
  LineReader lines_;
  TraceBuilder builder_;
  MappedTouches mapped_ = MappedTouches::kNone;
  bool mapped_stated_ = false;
  bool any_mapped_ = false;
};

void AppendNumber(std::uint64_t value, std::string& text) {
  char digits[20];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, static_cast<std::size_t>(end - digits));
}

absl::Status CheckText(std::string_view text, std::string_view what, std::size_t id) {
  if (text.find_first_of(std::string_view("\n\0", 2)) == std::string_view::npos && !text.ends_with('\r')) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("expected ", AbslView(what), " ", id,
                                                 " to have a name without line breaks and NUL bytes, got ",
                                                 Quoted(text), " (a .dxt can hold it)"));
}

}  // namespace

absl::StatusOr<Trace> ReadTextTrace(Input& input) {
  return Reader(input).Read();
}

std::string_view MappedName(MappedTouches mapped) {
  return kMappedNames[static_cast<std::size_t>(mapped)];
}

void AppendTextFile(FileId id, const FileInfo& file, std::string& text) {
  text += "file ";
  AppendNumber(ToIndex(id), text);
  text += ' ';
  AppendNumber(file.size, text);
  text += ' ';
  text += file.path;
  text += '\n';
}

void AppendTextTask(TaskId id, const TaskInfo& task, std::string& text) {
  text += "task ";
  AppendNumber(ToIndex(id), text);
  text += ' ';
  if (task.parent == kNoTask) {
    text += '-';
  } else {
    AppendNumber(ToIndex(task.parent), text);
  }
  for (const std::uint64_t value : {static_cast<std::uint64_t>(task.start_ns), static_cast<std::uint64_t>(task.end_ns),
                                    task.user_us, task.system_us}) {
    text += ' ';
    AppendNumber(value, text);
  }
  text += ' ';
  text += task.name;
  text += '\n';
}

void AppendTextAccess(const Access& access, std::string& text) {
  AppendNumber(static_cast<std::uint64_t>(access.time_ns), text);
  text += ' ';
  AppendNumber(ToIndex(access.task), text);
  text += ' ';
  text += kOpLetters[static_cast<std::size_t>(access.op)];
  text += ' ';
  AppendNumber(ToIndex(access.file), text);
  text += ' ';
  AppendNumber(access.offset, text);
  text += ' ';
  AppendNumber(access.length, text);
  text += '\n';
}

absl::Status WriteTextTrace(const Trace& trace, Output& output) {
  std::string text(kHeader);
  text += '\n';
  text += kMappedComment;
  text += MappedName(trace.mapped_touches());
  text += '\n';
  const auto flush = [&](std::size_t at_least) {
    if (text.size() < at_least) return absl::OkStatus();
    const absl::Status status = output.Write(text);
    text.clear();
    return status;
  };
  for (std::size_t i = 0; i < trace.files().size(); ++i) {
    const FileInfo& file = trace.files()[i];
    if (absl::Status status = CheckText(file.path, "file", i); !status.ok()) return status;
    if (file.path.empty())
      return absl::InvalidArgumentError(absl::StrCat("expected file ", i, " to have a path, got none"));
    AppendTextFile(FileId{static_cast<std::uint32_t>(i)}, file, text);
    if (absl::Status status = flush(kWriteBytes); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < trace.tasks().size(); ++i) {
    const TaskInfo& task = trace.tasks()[i];
    if (absl::Status status = CheckText(task.name, "task", i); !status.ok()) return status;
    AppendTextTask(TaskId{static_cast<std::uint32_t>(i)}, task, text);
    if (absl::Status status = flush(kWriteBytes); !status.ok()) return status;
  }
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    AppendTextAccess(trace[i], text);
    if (absl::Status status = flush(kWriteBytes); !status.ok()) return status;
  }
  return flush(0);
}

}  // namespace v0
}  // namespace daxcache
