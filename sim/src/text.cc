// See daxcache/sim/text.h.
#include "daxcache/sim/text.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {
namespace {

std::string Formatted(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

// Columns a UTF-8 string takes: all but continuation bytes.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Bytes of the character that `text` begins with; 0 if it does not begin with one (RFC 3629).
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
      (first == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string Grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string Percent(double share) {
  return Formatted(share * 100 < 9.995 ? "%.2f %%" : "%.1f %%", share * 100);
}

std::string HumanBytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return Formatted(value == static_cast<double>(static_cast<std::uint64_t>(value)) ? "%.0f " : "%.1f ", value) +
         kUnits[unit];
}

std::string HumanTime(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  if (seconds >= 100) return Formatted("%.0f s", seconds);
  if (seconds >= 1) return Formatted("%.1f s", seconds);
  if (seconds >= 1e-3) return Formatted("%.1f ms", seconds * 1e3);
  return Formatted("%.1f µs", seconds * 1e6);
}

std::string_view MappedText(MappedTouches mapped) {
  switch (mapped) {
    case MappedTouches::kNone: return "calls only";
    case MappedTouches::kRanges: return "a mapping counts as one touch a range";
    case MappedTouches::kPages: return "page faults recorded";
  }
  return "";
}

std::string Printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = Utf8Length(text.substr(at));
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

std::string Utf8(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8Length(text.substr(at));
    out += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

absl::Status WriteOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("standard output: ", std::strerror(errno)));
}

TextTable::TextTable(std::vector<std::string> header, std::vector<bool> left) : left_(std::move(left)) {
  rows_.push_back(std::move(header));
}

void TextTable::Add(std::vector<std::string> row) {
  rows_.push_back(std::move(row));
}

std::string TextTable::ToString(std::string_view indent) const {
  std::vector<std::size_t> widths(left_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - Width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += left_[i] ? row[i] + pad : pad + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace v0
}  // namespace daxcache
