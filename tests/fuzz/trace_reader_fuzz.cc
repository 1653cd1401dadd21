// Any bytes as a trace: read in whatever format they claim, checked, cut into ranges, written in both native formats
// and read again. Nothing may crash, and what was read must survive writing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "../../traces/src/crc32c.h"
#include "daxcache/sim/touched.h"
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

// A `.dxt` whose checksums are made right again, so that mutations get past them.
std::string Sealed(std::string_view original) {
  std::string bytes(original);
  const auto get = [&](std::size_t at, auto value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  const auto set = [&](std::size_t at, std::uint32_t value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  const auto sum = [&](std::size_t at, std::size_t size) {
    return daxcache::internal::Crc32c(std::as_bytes(std::span(bytes)).subspan(at, size));
  };
  if (bytes.size() < 64) return bytes;
  const std::size_t sections = get(12, std::uint32_t{0});
  if (sections > (bytes.size() - 64) / 48) return bytes;
  for (std::size_t entry = 64; entry < 64 + 48 * sections; entry += 48) {
    const std::uint64_t at = get(entry + 8, std::uint64_t{0});
    const std::uint64_t size = get(entry + 16, std::uint64_t{0});
    if (at <= bytes.size() && size <= bytes.size() - at) set(entry + 4, sum(at, size));
  }
  set(36, 0);
  set(36, sum(0, 64 + 48 * sections));
  return bytes;
}

void Check(std::string_view bytes) {
  const absl::StatusOr<daxcache::Trace> trace = daxcache::ReadTraceFromBytes("fuzz", bytes, {.check_records = false});
  if (!trace.ok()) {
    const absl::string_view message = trace.status().message();
    Require(message.size() < 1000 && message.find('\n') == absl::string_view::npos);
    return;
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
  if (!trace->CheckRecords().ok()) return;
  // Records and a stream that are sound each by themselves need not belong together.
  if (const auto stream = trace->stored_stream(); stream != nullptr) {
    (void)daxcache::TouchedPages(*trace, *stream, false);
  }
  constexpr std::uint64_t kMaxWords = 1 << 16;  // so that memory stays small
  const bool small = daxcache::RangeStream::Build(*trace, {.fold = false, .max_words = kMaxWords}).ok();
  RoundTrip(*trace, daxcache::kTextTrace, false);  // not with names that break lines
  if (small) RoundTrip(*trace, daxcache::kDxt, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  if (daxcache::SniffDxt(bytes)) Check(Sealed(bytes));
  return 0;
}
