// Reading the published tables: lines of fields with commas between them.
#pragma once

#include <charconv>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/text.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// The whole of `text` as a number.
template <class T>
bool ParseAll(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Calls `row(fields)` for each line after the header; false: the line is not `expected`. NotFound, or InvalidArgument
// as "path:line: expected …, got …".
inline absl::Status ReadCsv(const std::string& path, std::string_view header, std::string_view expected,
                            const std::function<bool(const std::vector<std::string_view>&)>& row) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  std::string line;
  std::size_t number = 1;
  for (; std::getline(in, line); ++number) {
    const auto fault = [&](std::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": expected ", AbslView(what), ", got \"", Printable(line), "\""));
    };
    if (number == 1) {
      if (line != header) return fault(header);
      continue;
    }
    std::vector<std::string_view> fields;
    std::string_view rest = line;
    for (;;) {
      const std::size_t comma = rest.find(',');
      fields.push_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (!row(fields)) return fault(expected);
  }
  if (number <= 2) return absl::InvalidArgumentError(absl::StrCat(path, ": expected rows, got none"));
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
