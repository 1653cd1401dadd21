// Numbers, names and columns as people read them, and standard output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

std::string Grouped(std::uint64_t number);          // 708,458
std::string Percent(double share);                  // 1.64 %
std::string HumanBytes(std::uint64_t bytes);        // 64.2 MiB
std::string HumanTime(std::int64_t nanoseconds);    // 261 s
std::string Printable(std::string_view text);       // one line of UTF-8: any other byte as \xNN
std::string Utf8(std::string_view text);            // any byte that is none as U+FFFD: for JSON and CSV
std::string_view MappedText(MappedTouches mapped);  // page faults recorded

// To standard output, at once: an error tells of a full disk while something can still be said.
[[nodiscard]] absl::Status WriteOut(std::string_view text);

// Columns aligned to their widest cell: those of `left` to the left, the others to the right.
class TextTable {
 public:
  TextTable(std::vector<std::string> header, std::vector<bool> left);
  void Add(std::vector<std::string> row);
  std::string ToString(std::string_view indent) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
  std::vector<bool> left_;
};

}  // namespace v0
}  // namespace daxcache
