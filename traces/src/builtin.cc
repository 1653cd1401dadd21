// Reading by content and writing by extension, over the list of formats.
#include "daxcache/traces/builtin.h"

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

absl::StatusOr<Trace> ReadInput(absl::StatusOr<Input> input) {
  if (!input.ok()) return input.status();
  for (const Format& format : kTraceFormats) {
    if (format.sniff(input->head())) return format.read(*input);
  }
  std::string names;
  for (const Format& format : kTraceFormats) absl::StrAppend(&names, names.empty() ? "" : ", ", AbslView(format.name));
  return absl::InvalidArgumentError(
      absl::StrCat(input->name(), ":1: expected a trace (one of ", names, "), got ", Describe(input->head())));
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadOptions& options) {
  return ReadInput(Input::Open(path, options.progress));
}

absl::StatusOr<Trace> ReadTraceFromBytes(std::string name, std::string_view bytes) {
  return ReadInput(Input::FromBytes(std::move(name), bytes));
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
  std::string_view name = path;
  const bool compress = name.ends_with(kZstd);
  if (compress) name.remove_suffix(kZstd.size());
  for (const Format& format : kTraceFormats) {
    if (format.write == nullptr || !name.ends_with(format.extension)) continue;
    if (absl::Status status = trace.CheckRecords(); !status.ok()) return status;
    absl::StatusOr<Output> output = Output::Create(path, compress);
    if (!output.ok()) return output.status();
    if (absl::Status status = format.write(trace, *output); !status.ok()) return status;
    return output->Commit();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a file name that ends in one of ", WritableExtensions(), ", got ", Quoted(path)));
}

}  // namespace v0
}  // namespace daxcache
