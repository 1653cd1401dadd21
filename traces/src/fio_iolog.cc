// The fio iolog reader. Fields are taken from the end of a line, where their number is known; what is left in front is
// the file's name, which may hold spaces. Records are kept until the end, because an open tells the file's final size.
#include "daxcache/traces/fio_iolog.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "check_access.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kHeader = "fio version ";
constexpr std::int64_t kNsPerUs = 1000;

enum class Action { kAdd, kOpen, kClose, kRead, kWrite, kTrim, kOther };
struct Word {
  std::string_view word;
  Action action;
};
constexpr Word kFileActions[] = {{"add", Action::kAdd}, {"open", Action::kOpen}, {"close", Action::kClose}};
// io_ddir_name() in fio's io_ddir.h, and "wait" of version 2.
constexpr Word kIoActions[] = {{"read", Action::kRead},      {"write", Action::kWrite},
                               {"trim", Action::kTrim},      {"sync", Action::kOther},
                               {"datasync", Action::kOther}, {"sync_file_range", Action::kOther},
                               {"syncfs", Action::kOther},   {"wait", Action::kOther}};

template <std::size_t N>
const Word* Find(const Word (&words)[N], std::string_view word) {
  for (const Word& entry : words) {
    if (entry.word == word) return &entry;
  }
  return nullptr;
}

// Takes the last field off the line.
std::string_view TakeLast(std::string_view& line) {
  const std::size_t space = line.rfind(' ');
  const std::string_view field = space == std::string_view::npos ? line : line.substr(space + 1);
  line = space == std::string_view::npos ? std::string_view() : line.substr(0, space);
  return field;
}

bool ParseNumber(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

class Reader {
 public:
  explicit Reader(Input& input) : input_(input), lines_(input) { builder_.AllowUnsorted(); }

  absl::StatusOr<Trace> Read() {
    std::string_view line;
    while (lines_.Next(line)) {
      const absl::Status status = line.starts_with(kHeader) ? ParseHeader(line) : ParseLine(line);
      if (!status.ok()) return status;
    }
    if (!lines_.status().ok()) return lines_.status();
    for (Access& access : records_) {
      // What fio laid out beforehand.
      if (access.op == Op::kOpen) access.length = extents_[ToIndex(access.file)];
      if (absl::Status status = builder_.Add(access); !status.ok()) return lines_.At(status);
    }
    for (std::uint32_t file = 0; file < extents_.size(); ++file) builder_.GrowFile(FileId{file}, extents_[file]);
    for (std::uint32_t run = 0; run < run_ends_.size(); ++run) {
      const std::string name = RunName(run);
      builder_.SetTask(
          TaskId{run},
          {.parent = kNoTask, .start_ns = 0, .end_ns = run_ends_[run], .user_us = 0, .system_us = 0, .name = name});
    }
    return builder_.Finish(input_.name(), absl::StrCat(AbslView(kFioIolog.name), "-", version_), MappedTouches::kNone);
  }

 private:
  static std::string RunName(std::size_t run) { return run == 0 ? "fio" : absl::StrCat("fio ", run + 1); }

  absl::Status ParseHeader(std::string_view line) {
    const int version = line == "fio version 2 iolog" ? 2 : line == "fio version 3 iolog" ? 3 : 0;
    if (version == 0) return lines_.Expected("fio version 2 iolog or fio version 3 iolog", line);
    if (version_ != 0 && version != version_) {
      return lines_.Expected(absl::StrCat("a header of version ", version_, " again"), line);
    }
    version_ = version;
    builder_.AddTask({.parent = kNoTask,
                      .start_ns = 0,
                      .end_ns = 0,
                      .user_us = 0,
                      .system_us = 0,
                      .name = RunName(run_ends_.size())});
    run_ends_.push_back(0);
    return absl::OkStatus();
  }

  // version 3: <us> before all of these
  //   <file> add|open|close
  //   <file> read|write|… <offset> <length>
  absl::Status ParseLine(std::string_view line) {
    std::string_view rest = line;
    const std::string_view last = TakeLast(rest);
    const Word* word = Find(kFileActions, last);
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    if (word == nullptr) {
      const std::string_view first = TakeLast(rest);
      const std::string_view action = TakeLast(rest);
      word = Find(kIoActions, action);
      if (word == nullptr) return BadLine(line);
      if (!ParseNumber(first, offset)) return lines_.Expected("an offset from 0 to 2^64 - 1", first);
      if (!ParseNumber(last, length)) return lines_.Expected("a length from 0 to 2^64 - 1", last);
    }
    std::int64_t time_ns = 0;
    if (version_ == 3) {
      const std::size_t space = rest.find(' ');
      std::uint64_t time_us = 0;
      const std::string_view stamp = rest.substr(0, space);
      if (space == std::string_view::npos || !ParseNumber(stamp, time_us) ||
          time_us > std::numeric_limits<std::int64_t>::max() / kNsPerUs) {
        return lines_.Expected("a time in us and a file's name", rest);
      }
      time_ns = static_cast<std::int64_t>(time_us) * kNsPerUs;
      rest.remove_prefix(space + 1);
    } else {
      time_ns = static_cast<std::int64_t>(records_.size()) * kNsPerUs;
    }
    if (rest.empty() || rest.find('\0') != std::string_view::npos) return lines_.Expected("a file's name", rest);
    if (word->action == Action::kAdd) {
      const auto [at, added] = files_.try_emplace(std::string(rest), builder_.files());
      if (added) {
        builder_.AddFile(rest, 0);
        extents_.push_back(0);
      }
      return absl::OkStatus();
    }
    if (word->action == Action::kTrim) {
      // No access, but the file reaches that far.
      const auto trimmed = files_.find(AbslView(rest));
      if (trimmed != files_.end() && length <= internal::kMaxExtent && offset <= internal::kMaxExtent - length) {
        extents_[trimmed->second] = std::max(extents_[trimmed->second], offset + length);
      }
    }
    if (word->action == Action::kOther || word->action == Action::kTrim) {
      builder_.Skip(absl::StrCat("fio '", AbslView(word->word), "' lines"));
      return absl::OkStatus();
    }
    const auto file = files_.find(AbslView(rest));
    if (file == files_.end()) {
      return lines_.Expected(absl::StrCat("a file that was added before", AbslView(SharedHint())), rest);
    }
    Access access{.time_ns = time_ns,
                  .task = TaskId{static_cast<std::uint32_t>(run_ends_.size() - 1)},
                  .file = FileId{file->second},
                  .op = Op::kRead,
                  .offset = offset,
                  .length = length};
    if (word->action == Action::kWrite) access.op = Op::kWrite;
    if (word->action == Action::kOpen) access.op = Op::kOpen;
    if (word->action == Action::kClose) access.op = Op::kClose;
    // Checked here, where the line is known; at the end only the sizes of opens are filled in.
    const internal::AccessBounds bounds{.files = builder_.files(), .tasks = builder_.tasks(), .not_before_ns = 0};
    if (absl::Status status = internal::CheckAccess(access, bounds); !status.ok()) return lines_.At(status);
    std::uint64_t& extent = extents_[file->second];
    if (TouchesData(access.op)) extent = std::max(extent, offset + length);
    std::int64_t& end = run_ends_.back();
    end = std::max(end, time_ns);
    records_.push_back(access);
    return absl::OkStatus();
  }

  // Whatever a line looks like that two jobs wrote at once, this is what helps.
  std::string_view SharedHint() const {
    return " (jobs that share a log cut each other's lines: give each its own write_iolog)";
  }

  absl::Status BadLine(std::string_view line) const {
    const std::string shape =
        absl::StrCat(version_ == 3 ? "TIME " : "", "FILE add|open|close or ", version_ == 3 ? "TIME " : "",
                     "FILE read|write|trim|sync|datasync|sync_file_range|syncfs|wait OFFSET LENGTH");
    return lines_.Expected(absl::StrCat(shape, AbslView(SharedHint())), line);
  }

  Input& input_;
  LineReader lines_;
  TraceBuilder builder_;
  int version_ = 0;
  absl::flat_hash_map<std::string, std::uint32_t> files_;
  std::vector<std::uint64_t> extents_;  // by file
  std::vector<std::int64_t> run_ends_;  // by run, which is a task
  std::vector<Access> records_;
};

}  // namespace

absl::StatusOr<Trace> ReadFioIolog(Input& input) {
  return Reader(input).Read();
}

}  // namespace v0
}  // namespace daxcache
