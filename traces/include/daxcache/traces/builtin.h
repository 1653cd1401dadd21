// The one list of trace formats, and reading and writing by it. A format that is not on the list does not exist.
//
//   absl::StatusOr<Trace> trace = ReadTrace("kbuild.trace.zst");
//   absl::Status written = WriteTrace(*trace, "kbuild.dxt");
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/traces/dxt.h"
#include "daxcache/traces/fio_iolog.h"
#include "daxcache/traces/format.h"
#include "daxcache/traces/input.h"
#include "daxcache/traces/strace.h"
#include "daxcache/traces/text_trace.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

inline constexpr Format kTraceFormats[] = {
    kTextTrace,
    kDxt,
    kFioIolog,
    kStraceLog,
};

struct ReadOptions {
  ReadProgress progress = {};
  // Call `Trace::CheckRecords` too, so that the trace is sound to its last byte. With false a `.dxt` opens at once and
  // its columns stay unread; then the caller calls it before reading any record, or `RangeStream::records()`.
  bool check_records = true;
};

// Reads a trace of any format in the list, plain or zstd-compressed, known by its content. "-" is standard input.
// Errors are one line with the place: `path:line: expected …, got …`, or `path: offset N: …` in a binary format.
[[nodiscard]] absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadOptions& options = {});

// The same from memory; `name` stands in errors where the path would. The trace does not refer to `bytes`.
[[nodiscard]] absl::StatusOr<Trace> ReadTraceFromBytes(std::string name, std::string_view bytes,
                                                       const ReadOptions& options = {});

// Writes it in the format of the path's extension, compressed if that ends in ".zst". The file appears under its name
// only when it is whole.
[[nodiscard]] absl::Status WriteTrace(const Trace& trace, const std::string& path);

// InvalidArgument if WriteTrace would not know what to write by the name.
[[nodiscard]] absl::Status CheckWritable(std::string_view path);

// Whether two traces hold the same records, files, tasks and kind of mapped touches; where they came from is left out.
[[nodiscard]] bool SameContent(const Trace& a, const Trace& b);

// The extensions that WriteTrace knows, as in ".trace, .trace.zst, .dxt, .dxt.zst".
std::string WritableExtensions();

}  // namespace v0
}  // namespace daxcache
