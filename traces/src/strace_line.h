// The words of a strace log: one line cut into pid, time and call, a call cut into name, arguments and result. Nothing
// is kept between lines; strace.cc has the meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace daxcache {
inline namespace v0 {
namespace strace_internal {

// `[pid N]`, `N` or nothing, then the time. `text` is the rest of the line.
struct Prefix {
  std::optional<std::int32_t> pid;
  std::int64_t time_ns = 0;
  bool clock_only = false;  // -t or -tt: the time of day, which starts anew at midnight
  std::string_view text;
};
std::optional<Prefix> ParsePrefix(std::string_view line);

// A call whose end has been seen. Views point into the text it was cut from.
struct Call {
  std::string_view name;
  std::vector<std::string_view> args;
  std::string_view result;  // what follows "= ": "3</path>", "-1 ENOENT (…)", "?"
};
// Nothing if the text is no complete call. `call` is reused from line to line, to save allocations.
bool SplitCall(std::string_view text, Call& call);

// The identifier before "(", or empty.
std::string_view CallName(std::string_view text);

// Decimal, 0x… or 0…; the number must be the whole text, or end at a character that cannot continue a number.
std::optional<std::uint64_t> ParseNumber(std::string_view text);
std::optional<std::int64_t> ParseSigned(std::string_view text);

// The bytes of an escaped text: \n \t \" \\ \ooo \xhh.
std::string Unescape(std::string_view text);

// The string of an argument `"…"`. Nothing if it is none (NULL, an address), or was cut short by -s (`"…"...`).
std::optional<std::string> StringArg(std::string_view arg);

// A descriptor as -y shows it: `3`, `3</path>`, `3</path>(deleted)`, `3<pipe:[12]>`, `AT_FDCWD</cwd>`.
struct Descriptor {
  std::int64_t number = -1;
  bool at_cwd = false;
  bool annotated = false;
  bool deleted = false;
  bool device = false;  // `<char 1:3>` or `<block 8:0>` follows the path
  std::string path;     // what stands between < and >, unescaped
};
std::optional<Descriptor> DescriptorArg(std::string_view arg);

// The value of `key=` in a struct or list of flags, up to the next comma or brace: Field("{st_mode=…, st_size=5}",
// "st_size") is "5". Empty if it is not there.
std::string_view Field(std::string_view arg, std::string_view key);

// True if `flag` is one of the words of `A|B|C`.
bool HasFlag(std::string_view flags, std::string_view flag);

}  // namespace strace_internal
}  // namespace v0
}  // namespace daxcache
