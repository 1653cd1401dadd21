// Reading by content and writing by extension, over the list of formats.
#include "daxcache/traces/builtin.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::string_view kZstd = ".zst";

// What people give by mistake, by its first bytes.
struct Signature {
  std::string_view bytes;
  std::string_view what;
};
constexpr Signature kSignatures[] = {
    {"\x1f\x8b", "a gzip file"},
    {"BZh", "a bzip2 file"},
    {"\xfd"
     "7zXZ",
     "an xz file"},
    {"\x04\x22\x4d\x18", "an lz4 file"},
    {"PK\x03\x04", "a zip file"},
    {"\x89PNG", "a PNG image"},
    {"\x7f"
     "ELF",
     "a program"},
    {"PERFILE2", "a perf recording"},
    {"\xff\xfe", "UTF-16 text"},
    {"\xef\xbb\xbf", "text with a byte order mark"},
};

std::string Describe(std::string_view head) {
  if (head.empty()) return "an empty file";
  for (const Signature& signature : kSignatures) {
    if (head.starts_with(signature.bytes)) return std::string(signature.what);
  }
  return Quoted(head.substr(0, head.find('\n')));
}

// The format that a file of this name is written in; null if there is none.
const Format* FindWriter(std::string_view path) {
  if (path.ends_with(kZstd)) path.remove_suffix(kZstd.size());
  for (const Format& format : kTraceFormats) {
    if (format.write != nullptr && path.ends_with(format.extension)) return &format;
  }
  return nullptr;
}

absl::StatusOr<Trace> ReadInput(absl::StatusOr<Input> input, const ReadOptions& options) {
  if (!input.ok()) return input.status();
  for (const Format& format : kTraceFormats) {
    if (!format.sniff(input->head())) continue;
    absl::StatusOr<Trace> trace = format.read(*input);
    if (trace.ok() && options.check_records) {
      if (absl::Status status = trace->CheckRecords(); !status.ok()) return status;
    }
    return trace;
  }
  std::string names;
  for (const Format& format : kTraceFormats) absl::StrAppend(&names, names.empty() ? "" : ", ", AbslView(format.name));
  return absl::InvalidArgumentError(
      absl::StrCat(input->name(), ":1: expected a trace (one of ", names, "), got ", Describe(input->head())));
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadOptions& options) {
  return ReadInput(Input::Open(path, options.progress), options);
}

absl::StatusOr<Trace> ReadTraceFromBytes(std::string name, std::string_view bytes, const ReadOptions& options) {
  return ReadInput(Input::FromBytes(std::move(name), bytes), options);
}

absl::Status CheckWritable(std::string_view path) {
  if (FindWriter(path) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a file name that ends in one of ", WritableExtensions(), ", got ", Quoted(path)));
}

bool SameContent(const Trace& a, const Trace& b) {
  const auto same_file = [](const FileInfo& x, const FileInfo& y) { return x.path == y.path && x.size == y.size; };
  const auto same_task = [](const TaskInfo& x, const TaskInfo& y) {
    return x.parent == y.parent && x.start_ns == y.start_ns && x.end_ns == y.end_ns && x.user_us == y.user_us &&
           x.system_us == y.system_us && x.name == y.name;
  };
  if (a.size() != b.size() || a.mapped_touches() != b.mapped_touches() ||
      !std::ranges::equal(a.files(), b.files(), same_file) || !std::ranges::equal(a.tasks(), b.tasks(), same_task)) {
    return false;
  }
  for (std::uint64_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

std::string WritableExtensions() {
  std::string list;
  for (const Format& format : kTraceFormats) {
    if (format.write == nullptr) continue;
    absl::StrAppend(&list, list.empty() ? "" : ", ", AbslView(format.extension), ", ", AbslView(format.extension),
                    AbslView(kZstd));
  }
  return list;
}

absl::Status WriteTrace(const Trace& trace, const std::string& path) {
  if (absl::Status status = CheckWritable(path); !status.ok()) return status;
  if (absl::Status status = trace.CheckRecords(); !status.ok()) return status;
  absl::StatusOr<Output> output = Output::Create(path, path.ends_with(kZstd));
  if (!output.ok()) return output.status();
  if (absl::Status status = FindWriter(path)->write(trace, *output); !status.ok()) return status;
  return output->Commit();
}

}  // namespace v0
}  // namespace daxcache
