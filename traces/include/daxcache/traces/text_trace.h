// The native text format, `.trace`: for people, scripts and version control. docs/formats.md has its grammar.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/access.h"
#include "daxcache/traces/format.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

absl::StatusOr<Trace> ReadTextTrace(Input& input);
absl::Status WriteTextTrace(const Trace& trace, Output& output);

// As the format spells it: none, ranges, pages.
std::string_view MappedName(MappedTouches mapped);

// One line of it each, with its LF, appended to `text`: for tools that print a part of a trace.
void AppendTextFile(FileId id, const FileInfo& file, std::string& text);
void AppendTextTask(TaskId id, const TaskInfo& task, std::string& text);
void AppendTextAccess(const Access& access, std::string& text);

inline bool SniffTextTrace(std::string_view head) {
  return head.starts_with("daxtrace ");
}

inline constexpr Format kTextTrace = {.name = "trace",
                                      .summary = "the native text format, one record a line",
                                      .extension = ".trace",
                                      .sniff = &SniffTextTrace,
                                      .read = &ReadTextTrace,
                                      .write = &WriteTextTrace};

}  // namespace v0
}  // namespace daxcache
