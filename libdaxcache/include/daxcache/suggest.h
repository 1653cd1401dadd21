// "Did you mean": the nearest of a few valid words to one that was mistyped, for error messages.
//
//   "expected linux or lru, got \"lri\"" + Suggest("lri", {{"linux", "lru"}})   // … (did you mean "lru"?)
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace daxcache {
inline namespace v0 {

// The least number of letters to insert, delete, replace or swap with their neighbour to turn one word into the other
// (optimal string alignment). Letters of different case are half a replacement, so costs are counted in halves.
inline std::size_t EditDistance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = 2 * j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = 2 * (i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = a[i] == b[j] ? 0 : lower(a[i]) == lower(b[j]) ? 1 : 2;
      next[j + 1] = std::min({row[j] + replace, row[j + 1] + 2, next[j] + 2});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 2);
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

// The nearest valid word, the first of equals; "" if none is near.
inline std::string_view Nearest(std::string_view got, std::span<const std::string_view> valid) {
  std::string_view nearest;
  std::size_t least = 0;
  for (const std::string_view word : valid) {
    // A word that starts with what was typed is near, however long it is.
    const bool prefix = got.size() >= 3 && word.starts_with(got);
    const std::size_t distance = prefix ? 1 : EditDistance(got, word);
    if (nearest.empty() || distance < least) {
      nearest = word;
      least = distance;
    }
  }
  const std::size_t limit = 2 * std::max<std::size_t>(2, std::max(got.size(), nearest.size()) / 3);
  return least > limit || least >= 2 * nearest.size() ? std::string_view() : nearest;
}

// ` (did you mean "x"?)` for the nearest valid word; "" if none is near. `before` stands before the word and is not
// part of it: the dashes of a flag.
inline std::string Suggest(std::string_view got, std::span<const std::string_view> valid,
                           std::string_view before = "") {
  const std::string_view nearest = Nearest(got, valid);
  if (nearest.empty()) return "";
  return " (did you mean \"" + std::string(before) + std::string(nearest) + "\"?)";
}

}  // namespace v0
}  // namespace daxcache
