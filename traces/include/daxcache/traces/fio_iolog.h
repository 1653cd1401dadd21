// Logs of fio (`fio --write_iolog=FILE`), versions 2 and 3: which job did what to which files. docs/formats.md has the
// lines and what becomes of each.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daxcache/traces/format.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// fio lays its files out before it starts, so a file's size is the largest extent that the log mentions, from the
// start: no write extends. A header in the middle (fio appends to a log that is there) starts another run, which is a
// task of its own whose times start at 0 again; in the trace they lie side by side. Version 2 has no times: the n-th
// record of the log is put at n microseconds.
absl::StatusOr<Trace> ReadFioIolog(Input& input);

inline bool SniffFioIolog(std::string_view head) {
  return head.starts_with("fio version ");
}

inline constexpr Format kFioIolog = {.name = "fio-iolog",
                                     .summary = "a log of fio --write_iolog, version 2 or 3",
                                     .extension = "",
                                     .sniff = &SniffFioIolog,
                                     .read = &ReadFioIolog,
                                     .write = nullptr};

}  // namespace v0
}  // namespace daxcache
