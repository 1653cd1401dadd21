// Sizes as people write them. `ByteSize` parses "4G", "64MiB", "1.5g", "4096" (powers of two: K = 1024) and prints the
// shortest exact form.
//
//   absl::StatusOr<ByteSize> window = ByteSize::Parse("4G");
//   if (!window.ok()) return window.status();   // "expected a size such as 4G or 64MiB, got \"4Q\""
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {

// Debian's Abseil has a string_view type of its own; this spells the conversion once.
inline absl::string_view AbslView(std::string_view text) {
  return {text.data(), text.size()};
}

class ByteSize {
 public:
  constexpr ByteSize() = default;
  constexpr explicit ByteSize(std::uint64_t bytes) : bytes_(bytes) {}

  constexpr std::uint64_t bytes() const { return bytes_; }
  friend constexpr auto operator<=>(ByteSize, ByteSize) = default;

  // Decimal number, optional fraction, optional unit: B, K, M, G, T, P, E, with "iB" or "B" behind it, any case, and
  // spaces between. Powers of two always. InvalidArgument for anything else: signs, junk, overflow of 64 bits,
  // fractions of a byte.
  [[nodiscard]] static absl::StatusOr<ByteSize> Parse(std::string_view text);

  // "4G", "1536M", "65537": the largest unit that divides the size. Parse(ToString()) gives the same size.
  std::string ToString() const;

 private:
  std::uint64_t bytes_ = 0;
};

inline absl::StatusOr<ByteSize> ByteSize::Parse(std::string_view text) {
  const auto error = [text](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a size such as 4G, 64MiB or 1.5g, got \"", AbslView(text), "\"", what));
  };
  std::string_view rest = text;
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  while (!rest.empty() && rest.back() == ' ') rest.remove_suffix(1);
  if (rest.empty()) return error(" (nothing there)");
  if (rest.front() == '-') return error(" (negative)");
  std::uint64_t whole = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), whole);
  if (parsed.ec == std::errc::result_out_of_range) return error(" (more than 64 bits)");
  if (parsed.ec != std::errc()) return error("");
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  // The fraction as numerator over a power of ten, exact: 0.1 of a KiB is refused rather than rounded.
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    if (rest.empty() || rest.front() < '0' || rest.front() > '9') return error("");
    while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
      if (denominator > 1'000'000'000'000) return error(" (too many digits)");
      numerator = numerator * 10 + static_cast<std::uint64_t>(rest.front() - '0');
      denominator *= 10;
      rest.remove_prefix(1);
    }
  }
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  int shift = 0;
  if (!rest.empty()) {
    const char upper = static_cast<char>(rest.front() & ~0x20);
    constexpr std::string_view kUnits = "KMGTPE";
    if (const auto at = kUnits.find(upper); at != std::string_view::npos) {
      shift = 10 * static_cast<int>(at + 1);
      rest.remove_prefix(1);
      if (rest.size() == 2 && (rest[0] == 'i' || rest[0] == 'I'))
        rest.remove_prefix(1);
      else if (rest.size() == 1 && (rest[0] == 'i' || rest[0] == 'I'))
        return error("");
    }
    if (!rest.empty() && (rest == "B" || rest == "b")) rest.remove_prefix(1);
    if (!rest.empty()) return error("");
  }
  if (whole > (std::numeric_limits<std::uint64_t>::max() >> shift)) return error(" (more than 64 bits)");
  __extension__ using Wide = unsigned __int128;  // 10^13 << 60 does not fit 64 bits
  const Wide fraction = static_cast<Wide>(numerator) << shift;
  if (fraction % denominator != 0) return error(" (a fraction of a byte)");
  return ByteSize((whole << shift) + static_cast<std::uint64_t>(fraction / denominator));
}

inline std::string ByteSize::ToString() const {
  constexpr char kUnits[] = "KMGTPE";
  int unit = 0;
  std::uint64_t value = bytes_;
  while (value != 0 && value % 1024 == 0 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  std::string text = absl::StrCat(value);
  if (unit > 0) text.push_back(kUnits[unit - 1]);
  return text;
}

}  // namespace v0
}  // namespace daxcache
