// Path patterns: each kind of wildcard, and random patterns beside a matcher that tries everything.
#include "daxcache/glob.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "policies/drive.h"

namespace daxcache {
namespace {

TEST(Glob, Matches) {
  const struct {
    std::string_view pattern, path;
    bool matches;
  } cases[] = {
      {"/usr/bin/ls", "/usr/bin/ls", true},
      {"/usr/bin/ls", "/usr/bin/lsof", false},
      {"/usr/bin/ls", "/mnt/usr/bin/ls", false},
      // One folder.
      {"/usr/*", "/usr/bin", true},
      {"/usr/*", "/usr/", true},
      {"/usr/*", "/usr/bin/ls", false},
      {"/usr/*/ls", "/usr/bin/ls", true},
      {"/*/*/l*s", "/usr/bin/less", true},
      {"/*/*/l*s", "/usr/bin/x/less", false},
      // Any depth.
      {"/usr/**", "/usr/bin/ls", true},
      {"/usr/**", "/usr/", true},
      {"/usr/**", "/usr", false},
      {"/usr/**", "/usrlocal/x", false},
      {"/usr/**/*.so", "/usr/lib/x86/libc.so", true},
      {"/usr/**/*.so", "/usr/libc.so", true},
      {"/usr/**/*.so", "/usr/lib/libc.so.6", false},
      {"/usr/**/lib/**/*.so", "/usr/a/lib/b/lib/c.so", true},
      {"/usr/**/lib/**/*.so", "/usr/a/xlib/c.so", false},
      {"**/cc1", "/usr/lib/cc1", true},
      {"**/cc1", "cc1", true},
      {"**/cc1", "/usr/lib/xcc1", false},
      {"/a**z/b", "/a/x/yz/b", true},
      {"**", "/any/thing", true},
      {"**", "", true},
      {"***", "/any/thing", true},
      // Without a '/': the name alone.
      {"*.so", "/usr/lib/libc.so", true},
      {"*.so", "libc.so", true},
      {"*.so", "/usr/lib.so/libc", false},
      {"cc1", "/usr/lib/cc1", true},
      {"*", "/usr/lib/cc1", true},
      // One character.
      {"/a?c", "/abc", true},
      {"/a?c", "/ac", false},
      {"/a?c", "/a/c", false},
      {"[a-c]x", "/bx", true},
      {"[a-c]x", "/dx", false},
      {"[!a-c]x", "/dx", true},
      {"[^a-c]x", "/ax", false},
      {"/x[!a]y", "/x/y", false},
      {"/x[/]y", "/x/y", false},
      {"[]a]", "]", true},
      {"[!]a]", "b", true},
      {"[a-]", "-", true},
      {"[\\]]", "]", true},
      {"[a\\-c]", "b", false},
      {"[a", "[a", true},
      {"\\*", "*", true},
      {"\\*", "x", false},
      {"\\[a]", "[a]", true},
      {"a\\", "a\\", true},
      {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
      {"[\x80-\xff]", "\xc3", true},
      {"", "", true},
      {"", "x", false},
  };
  for (const auto& [pattern, path, matches] : cases)
    EXPECT_EQ(GlobMatch(pattern, path), matches) << pattern << " " << path;
}

// Tries every length for every wildcard.
bool TryAll(std::string_view pattern, std::string_view text, bool at_start = true) {
  if (pattern.empty()) return text.empty();
  if (at_start && pattern.starts_with("**/")) {
    if (TryAll(pattern.substr(3), text)) return true;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '/' && TryAll(pattern.substr(3), text.substr(i + 1))) return true;
    }
    return false;
  }
  if (pattern.starts_with("**")) {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (TryAll(pattern.substr(2), text.substr(i), false)) return true;
    }
    return false;
  }
  if (pattern[0] == '*') {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (TryAll(pattern.substr(1), text.substr(i), false)) return true;
      if (i < text.size() && text[i] == '/') return false;
    }
    return false;
  }
  if (text.empty() || (pattern[0] == '?' ? text[0] == '/' : pattern[0] != text[0])) return false;
  return TryAll(pattern.substr(1), text.substr(1), pattern[0] == '/');
}

TEST(Glob, AgreesWithTryingEverything) {
  Dice dice(1);
  int matched = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string pattern = "/";
    std::string text = "/";
    for (std::uint32_t n = dice.Below(7); n > 0; --n) {
      constexpr std::string_view kParts[] = {"*", "?", "a", "b", "/", "**", "/**/", "a"};
      const std::string_view part = kParts[dice.Below(8)];
      // Three stars running mean the same as two, which trying everything does not know.
      if (pattern.back() == '*' && part[0] == '*') continue;
      if (part == "/**/" && pattern.back() == '/') continue;
      pattern += part;
    }
    for (std::uint32_t n = dice.Below(9); n > 0; --n) text += "ab/a"[dice.Below(4)];
    const bool matches = GlobMatch(pattern, text);
    matched += matches;
    ASSERT_EQ(matches, TryAll(pattern, text)) << pattern << " " << text;
  }
  EXPECT_GT(matched, 5000);
}

TEST(Glob, StaysPolynomial) {
  const std::string text(2000, 'a');
  std::string pattern = "/";
  for (int i = 0; i < 200; ++i) pattern += i % 2 == 0 ? "*a" : "**a";
  EXPECT_FALSE(GlobMatch(pattern + "b", "/" + text));
  EXPECT_TRUE(GlobMatch(pattern, "/" + text));
}

TEST(Glob, Validates) {
  for (const std::string_view good : {"*", "/usr/**", "[a]", "[]]", "[!]]", "\\[", "a]", "[a-z]*[!0-9]"}) {
    EXPECT_TRUE(ValidateGlob(good).ok()) << good;
  }
  for (const std::string_view bad : {"", "[", "[]", "[!]", "/a[b", "[a\\]", "x\\"}) {
    EXPECT_FALSE(ValidateGlob(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace daxcache
