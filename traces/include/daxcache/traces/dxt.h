// The native binary format, `.dxt`: the columns of a trace, packed, together with its range stream for 2 MiB, made to
// be mapped. Reading one checks its tables and the words of its stream; its columns are left to `Trace::CheckRecords`,
// so with `ReadOptions::check_records` off a replay never reads them. docs/formats.md has every byte.
//
// The file stays mapped as long as the trace lives: who shortens it meanwhile gets SIGBUS, as with any mapped file.
// `WriteTrace` replaces files whole, so it never does that.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/traces/format.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// Like a PNG's: a byte that is no text, the name, and line ends that a careless copy would change.
inline constexpr std::string_view kDxtMagic =
    "\x89"
    "DXT\r\n\x1a\n";

absl::StatusOr<Trace> ReadDxt(Input& input);

// Stores the range stream for 2 MiB, folded, with it; without one if `RangeStream::Build` refuses the trace, or if the
// output is compressed, so that nobody can map it.
absl::Status WriteDxt(const Trace& trace, Output& output);

inline bool SniffDxt(std::string_view head) {
  return head.starts_with(kDxtMagic.substr(0, 4));
}

inline constexpr Format kDxt = {.name = "dxt",
                                .summary = "the native binary format, mapped for replay",
                                .extension = ".dxt",
                                .sniff = &SniffDxt,
                                .read = &ReadDxt,
                                .write = &WriteDxt};

}  // namespace v0
}  // namespace daxcache
