// Cutting lines of strace logs. All of it works on bytes nobody vouches for: a text may end anywhere.
#include "strace_line.h"

#include <charconv>
#include <limits>

namespace daxcache {
inline namespace v0 {
namespace strace_internal {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void SkipSpaces(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

// Takes digits from the front of `text`.
template <class T>
std::optional<T> TakeNumber(std::string_view& text, int base = 10) {
  if (text.empty() || text.front() == '-') return std::nullopt;
  T value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (parsed.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

// ".123456" as ns; digits beyond the ninth are below a ns.
std::int64_t TakeFraction(std::string_view& text) {
  if (text.size() < 2 || text[0] != '.' || !IsDigit(text[1])) return 0;
  text.remove_prefix(1);
  std::int64_t ns = 0;
  std::int64_t unit = 100'000'000;
  while (!text.empty() && IsDigit(text.front())) {
    ns += unit * (text.front() - '0');
    unit /= 10;
    text.remove_prefix(1);
  }
  return ns;
}

struct Time {
  std::int64_t ns = 0;
  bool clock_only = false;
};

std::optional<Time> TakeTime(std::string_view& text) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::string_view rest = text;
  const auto seconds = TakeNumber<std::int64_t>(rest);
  if (!seconds) return std::nullopt;
  Time time;
  if (!rest.empty() && rest.front() == ':') {
    std::int64_t value = *seconds;
    for (int i = 0; i < 2; ++i) {
      if (rest.size() < 3 || rest[0] != ':' || !IsDigit(rest[1]) || !IsDigit(rest[2])) return std::nullopt;
      if (value > 1'000'000) return std::nullopt;  // before it is multiplied: more hours than a clock has
      value = value * 60 + (rest[1] - '0') * 10 + (rest[2] - '0');
      rest.remove_prefix(3);
    }
    time = {value * kSecond, true};
  } else {
    // A pid alone must not pass for a time, so the fraction is required.
    if (rest.size() < 2 || rest[0] != '.' || !IsDigit(rest[1])) return std::nullopt;
    if (*seconds >= std::numeric_limits<std::int64_t>::max() / kSecond) return std::nullopt;
    time = {*seconds * kSecond, false};
  }
  time.ns += TakeFraction(rest);
  if (rest.empty() || rest.front() != ' ') return std::nullopt;
  SkipSpaces(rest);
  text = rest;
  return time;
}

// Index just behind the quoted string that begins at `at`, or npos.
std::size_t SkipString(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return std::string_view::npos;
}

// Index just behind the <…> that begins at `at`, or npos. Paths have their own < and > escaped; what nests is the note
// on devices, </dev/null<char 1:3>>, and what holds a > is the arrow of sockets, <TCP:[a->b]>.
std::size_t SkipAngles(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\')
      ++at;
    else if (c == '<')
      ++depth;
    else if (c == '>' && text[at - 1] != '-' && --depth == 0)
      return at + 1;
  }
  return std::string_view::npos;
}

// Whether the < at `at` opens the note of a descriptor rather than being a shift, 1<<3.
bool OpensAngles(std::string_view text, std::size_t at) {
  if (at == 0 || (at + 1 < text.size() && text[at + 1] == '<')) return false;
  return IsDigit(text[at - 1]) || text[at - 1] == 'D';  // AT_FDCWD<
}

}  // namespace

std::optional<Prefix> ParsePrefix(std::string_view line) {
  Prefix prefix;
  std::string_view rest = line;
  if (rest.starts_with("[pid ")) {
    rest.remove_prefix(5);
    SkipSpaces(rest);
    prefix.pid = TakeNumber<std::int32_t>(rest);
    if (!prefix.pid || !rest.starts_with("] ")) return std::nullopt;
    rest.remove_prefix(2);
  } else {
    SkipSpaces(rest);
    std::string_view after = rest;
    const auto pid = TakeNumber<std::int32_t>(after);
    if (pid && after.starts_with(' ')) {
      prefix.pid = pid;
      rest = after;
    }
  }
  SkipSpaces(rest);
  const auto time = TakeTime(rest);
  if (!time) return std::nullopt;
  prefix.time_ns = time->ns;
  prefix.clock_only = time->clock_only;
  prefix.text = rest;
  return prefix;
}

std::string_view CallName(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && IsWord(text[length])) ++length;
  if (length == 0 || length >= text.size() || text[length] != '(' || IsDigit(text.front())) return {};
  return text.substr(0, length);
}

bool SplitCall(std::string_view text, Call& call) {
  call.args.clear();
  call.name = CallName(text);
  if (call.name.empty()) return false;
  std::size_t at = call.name.size() + 1;
  std::size_t begin = at;
  int depth = 0;
  const auto add = [&](std::size_t end) {
    std::string_view arg = text.substr(begin, end - begin);
    SkipSpaces(arg);
    while (!arg.empty() && arg.back() == ' ') arg.remove_suffix(1);
    if (!arg.empty()) call.args.push_back(arg);
    begin = end + 1;
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      if (at == std::string_view::npos) return false;
      continue;
    }
    if (c == '<' && OpensAngles(text, at)) {
      at = SkipAngles(text, at);
      if (at == std::string_view::npos) return false;
      continue;
    }
    if (c == '/' && text.substr(at, 2) == "/*") {
      at = text.find("*/", at + 2);
      if (at == std::string_view::npos) return false;
      at += 2;
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}' || (c == ')' && depth > 0)) {
      if (depth > 0) --depth;
    } else if (c == ')') {
      add(at);
      std::string_view rest = text.substr(at + 1);
      SkipSpaces(rest);
      if (!rest.starts_with('=')) return false;
      rest.remove_prefix(1);
      SkipSpaces(rest);
      call.result = rest;
      return !rest.empty();
    } else if (c == ',' && depth == 0) {
      add(at);
    }
    ++at;
  }
  return false;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0' && IsDigit(text[1])) {
    base = 8;
  }
  const auto value = TakeNumber<std::uint64_t>(text, base);
  if (!value || (!text.empty() && (IsWord(text.front()) || text.front() == '.'))) return std::nullopt;
  return value;
}

std::optional<std::int64_t> ParseSigned(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto value = ParseNumber(text);
  if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(*value) : static_cast<std::int64_t>(*value);
}

std::string Unescape(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      bytes.push_back(text[i]);
      continue;
    }
    const char c = text[++i];
    switch (c) {
      case 'n': bytes.push_back('\n'); break;
      case 't': bytes.push_back('\t'); break;
      case 'r': bytes.push_back('\r'); break;
      case 'v': bytes.push_back('\v'); break;
      case 'f': bytes.push_back('\f'); break;
      case 'x': {
        std::string_view digits = text.substr(i + 1, 2);
        const std::size_t before = digits.size();
        const auto value = TakeNumber<unsigned>(digits, 16);
        if (value) bytes.push_back(static_cast<char>(*value));
        i += before - digits.size();
        break;
      }
      default: {
        if (c < '0' || c > '7') {
          bytes.push_back(c);
          break;
        }
        unsigned value = 0;
        std::size_t digits = 0;
        while (digits < 3 && i + digits < text.size() && text[i + digits] >= '0' && text[i + digits] <= '7') {
          value = value * 8 + static_cast<unsigned>(text[i + digits] - '0');
          ++digits;
        }
        bytes.push_back(static_cast<char>(value & 0xff));
        i += digits - 1;
      }
    }
  }
  return bytes;
}

std::optional<std::string> StringArg(std::string_view arg) {
  if (!arg.starts_with('"')) return std::nullopt;
  const std::size_t end = SkipString(arg, 0);
  if (end == std::string_view::npos || end != arg.size()) return std::nullopt;
  return Unescape(arg.substr(1, end - 2));
}

std::optional<Descriptor> DescriptorArg(std::string_view arg) {
  Descriptor descriptor;
  if (arg.starts_with("AT_FDCWD")) {
    descriptor.at_cwd = true;
    arg.remove_prefix(8);
  } else {
    const bool negative = arg.starts_with('-');
    if (negative) arg.remove_prefix(1);
    const auto number = TakeNumber<std::int32_t>(arg);
    if (!number) return std::nullopt;
    descriptor.number = negative ? -1 : *number;
  }
  if (!arg.starts_with('<')) return descriptor;
  const std::size_t end = SkipAngles(arg, 0);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view inside = arg.substr(1, end - 2);
  descriptor.annotated = true;
  descriptor.deleted = arg.substr(end).starts_with("(deleted)");
  if (const auto note = inside.rfind('<'); note != std::string_view::npos && note > 0 && inside.ends_with('>')) {
    descriptor.device = true;
    inside = inside.substr(0, note);
  }
  descriptor.path = Unescape(inside);
  return descriptor;
}

std::string_view Field(std::string_view arg, std::string_view key) {
  for (std::size_t at = arg.find(key); at != std::string_view::npos; at = arg.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if (end >= arg.size() || arg[end] != '=' || (at > 0 && IsWord(arg[at - 1]))) continue;
    const std::string_view value = arg.substr(end + 1);
    return value.substr(0, value.find_first_of(",}"));
  }
  return {};
}

bool HasFlag(std::string_view flags, std::string_view flag) {
  for (std::size_t at = flags.find(flag); at != std::string_view::npos; at = flags.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if ((at == 0 || !IsWord(flags[at - 1])) && (end >= flags.size() || !IsWord(flags[end]))) return true;
  }
  return false;
}

}  // namespace strace_internal
}  // namespace v0
}  // namespace daxcache
