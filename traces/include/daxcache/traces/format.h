// What a trace format is to the rest of the project. A format is one header that declares a `constexpr Format`, plus
// one line in `daxcache/traces/builtin.h`; reading, writing, help texts and the list of formats follow from that.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/traces/input.h"
#include "daxcache/traces/output.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

struct Format {
  std::string_view name;       // "trace"
  std::string_view summary;    // one line, for lists of formats
  std::string_view extension;  // ".trace": what `WriteTrace` goes by; reading never does
  // Whether a file that starts with `head` (up to 4096 bytes, decompressed) is one of these, well-formed or not.
  bool (*sniff)(std::string_view head) = nullptr;
  absl::StatusOr<Trace> (*read)(Input& input) = nullptr;
  absl::Status (*write)(const Trace& trace, Output& output) = nullptr;  // null: cannot be written
};

}  // namespace v0
}  // namespace daxcache
