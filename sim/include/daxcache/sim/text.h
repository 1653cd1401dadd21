// Numbers and columns as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace daxcache {
inline namespace v0 {

std::string Grouped(std::uint64_t number);        // 708,458
std::string Percent(double share);                // 1.64 %
std::string HumanBytes(std::uint64_t bytes);      // 64.2 MiB
std::string HumanTime(std::int64_t nanoseconds);  // 261 s

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
