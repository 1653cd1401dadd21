// Path patterns: which files of a share a rule is about.
//
//   *      any run of characters, '/' not among them        **     any run at all
//   ?      one character but '/'                            **/    at the start or behind '/': any folders, or none
//   [a-z]  one of these; [!a-z] or [^a-z]: one of the rest, but '/'
//   \x     the character x itself
//
// A pattern with a '/' in it must match the whole path; one without is matched against the last part of the path, the
// file's name. So "/usr/**" is everything below /usr, "*.so" every file of such a name, "/home/**/.cache/**" every
// cache.
//
// Matching needs no memory. Time O(pattern · path) but for patterns that mix "*" and "**", where it is O(pattern ·
// path²) at worst; never exponential, whatever the pattern.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace internal {

// One element of a pattern that stands for one character, at `at` (not a '*'), against `c`. Moves `at` behind it.
inline bool MatchOne(std::string_view pattern, std::size_t& at, char c) {
  switch (pattern[at]) {
    case '?': ++at; return c != '/';
    case '\\':
      if (at + 1 < pattern.size()) ++at;
      return pattern[at++] == c;
    case '[': {
      std::size_t i = at + 1;
      const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
      if (negated) ++i;
      bool found = false;
      // A ']' that comes first is one of the set.
      for (const std::size_t first = i; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
        if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
        const char low = pattern[i];
        char high = low;
        if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
          i += 2;
          if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
          high = pattern[i];
        }
        const auto byte = static_cast<unsigned char>(c);
        found |= static_cast<unsigned char>(low) <= byte && byte <= static_cast<unsigned char>(high);
      }
      if (i == pattern.size()) return pattern[at++] == c;  // never closed: a plain '['
      at = i + 1;
      return found != negated && c != '/';
    }
    default: return pattern[at++] == c;
  }
}

inline bool MatchWhole(std::string_view pattern, std::string_view text) {
  // Where to go on from when the characters do not match: the last "*" seen, which may take one character more if that
  // is no '/', else the last "**". Earlier ones need not be thought of: what stands between them and the last matched
  // as early as it could, and the last reaches at least as far from there.
  constexpr std::size_t kNowhere = std::string_view::npos;
  struct Star {
    std::size_t pattern = kNowhere;
    std::size_t text = 0;
  };
  Star star;
  Star stars;
  bool folders = false;  // the last "**" was a "**/"
  std::size_t p = 0;
  std::size_t t = 0;
  for (;;) {
    if (p == pattern.size()) {
      if (t == text.size()) return true;
    } else if (pattern[p] == '*') {
      const std::size_t begin = p;
      while (p < pattern.size() && pattern[p] == '*') ++p;
      if (p - begin == 1) {
        star = {p, t};
      } else {
        folders = p < pattern.size() && pattern[p] == '/' && (begin == 0 || pattern[begin - 1] == '/');
        if (folders) ++p;
        stars = {p, t};
        star = {};
      }
      continue;
    } else if (t < text.size()) {
      if (MatchOne(pattern, p, text[t])) {
        ++t;
        continue;
      }
    }
    if (star.pattern != kNowhere && star.text < text.size() && text[star.text] != '/') {
      p = star.pattern;
      t = ++star.text;
      continue;
    }
    if (stars.pattern == kNowhere) return false;
    if (folders) {
      const std::size_t slash = text.find('/', stars.text);
      if (slash == kNowhere) return false;
      stars.text = slash;
    }
    if (stars.text == text.size()) return false;
    star = {};
    p = stars.pattern;
    t = ++stars.text;
  }
}

}  // namespace internal

inline bool GlobMatch(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') == std::string_view::npos) path.remove_prefix(path.rfind('/') + 1);  // npos + 1 == 0
  return internal::MatchWhole(pattern, path);
}

// InvalidArgument for an empty pattern, a '[' that is never closed, a '\' at the end.
[[nodiscard]] inline absl::Status ValidateGlob(std::string_view pattern) {
  const auto error = [pattern](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a path pattern such as /usr/** or *.so, got \"", AbslView(pattern), "\"", what));
  };
  if (pattern.empty()) return error("");
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '\\' && at + 1 == pattern.size()) return error(" (nothing behind the \\)");
    if (pattern[at] == '*') {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    internal::MatchOne(pattern, at, '\0');
    if (pattern[begin] == '[' && at == begin + 1) return error(" (a [ without its ])");
  }
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
