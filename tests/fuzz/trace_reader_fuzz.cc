// Any bytes as a trace: read in whatever format they claim, checked, cut into ranges, written in both native formats
// and read again. Nothing may crash, and what was read must survive writing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daxcache/traces/builtin.h"
#include "daxcache/traces/range_stream.h"

namespace {

// Unlike assert, in every build.
void Require(bool condition) {
  if (!condition) std::abort();
}

void RoundTrip(const daxcache::Trace& trace, const daxcache::Format& format, bool must_be_written) {
  std::string bytes;
  daxcache::Output output = daxcache::Output::ToBytes(bytes);
  const absl::Status written = format.write(trace, output);
  Require(written.ok() || !must_be_written);
  if (!written.ok()) return;
  const absl::StatusOr<daxcache::Trace> again = daxcache::ReadTraceFromBytes("again", bytes);
  Require(again.ok() && again->CheckRecords().ok() && daxcache::SameContent(trace, *again));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<daxcache::Trace> trace = daxcache::ReadTraceFromBytes("fuzz", bytes);
  if (!trace.ok()) {
    const absl::string_view message = trace.status().message();
    Require(message.size() < 1000 && message.find('\n') == absl::string_view::npos);
    return 0;
  }
  // A stored stream is used without looking at the records: every number in it must be within bounds by now.
  if (const auto stream = trace->stored_stream(); stream != nullptr) {
    for (const std::uint32_t word : stream->words()) {
      const std::uint32_t number = daxcache::RangeStream::NumberOf(word);
      const bool touch = daxcache::RangeStream::KindOf(word) <= daxcache::RangeStream::kExtendingWrite;
      Require(number < (touch ? stream->ranges() : trace->files().size()));
      if (touch) Require(ToIndex(stream->range(number).file) < trace->files().size());
    }
  }
  if (!trace->CheckRecords().ok()) return 0;
  constexpr std::uint64_t kMaxWords = 1 << 16;  // so that memory stays small
  const bool small = daxcache::RangeStream::Build(*trace, {.fold = false, .max_words = kMaxWords}).ok();
  RoundTrip(*trace, daxcache::kTextTrace, false);  // not with names that break lines
  if (small) RoundTrip(*trace, daxcache::kDxt, true);
  return 0;
}
