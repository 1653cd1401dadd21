// Command lines of our programs: a table of flags that parses, explains and refuses. An unknown flag is refused with
// the nearest known one; a flag that takes one value is refused the second time, so that nothing given is silently
// lost.
//
//   CommandLine line("daxsim", "Replays a trace through a virtiofs DAX window.", {
//     {"window", "SIZE[,…]", "window size, such as 4G", [&](std::string_view text) { return ParseWindows(text); }},
//     {"keep-deleted", "", "deleted files keep their ranges", SetTrue(&keep)}});
//   absl::StatusOr<std::vector<std::string>> rest = line.Parse(arguments);   // what is not a flag
//
// Abseil's own flags are not used because they exit with status 1 on a bad flag and print help of their own shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace daxcache {
inline namespace v0 {

struct Flag {
  std::string name;   // without the dashes
  std::string value;  // what the value is called in the help; empty: the flag takes none
  std::string help;   // a sentence or two; lines are broken where it is printed
  std::function<absl::Status(std::string_view)> set;
  bool repeatable = false;
  char letter = 0;  // a one-letter form, or none
};

std::function<absl::Status(std::string_view)> SetTrue(bool* flag);
// A whole number from `least` to `most`.
std::function<absl::Status(std::string_view)> SetNumber(std::uint64_t* number, std::uint64_t least, std::uint64_t most);
std::function<absl::Status(std::string_view)> SetText(std::string* text);
// One of a few words; `set` gets which of them it is. Another word is refused with the nearest of them.
std::function<absl::Status(std::string_view)> SetWord(std::vector<std::string_view> words,
                                                      std::function<void(std::size_t)> set);

// Where flags may stand: anywhere, or only before the first word that is none, as in `record -o FILE COMMAND -x`, where
// -x is the command's own.
enum class FlagPlace { kAnywhere, kBeforeOperands };

class CommandLine {
 public:
  // `epilogue`: examples, and what else a reader of --help needs.
  CommandLine(std::string program, std::string summary, std::vector<Flag> flags, std::string epilogue);

  // "--flag value", "--flag=value", "-f value", "-fvalue"; "--" ends the flags. A name of several letters needs both
  // dashes: "-flag" is refused, not taken for "-f lag". InvalidArgument says which flag, what was expected and what
  // came.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments,
                                                               FlagPlace place = FlagPlace::kAnywhere);
  bool help_wanted() const { return help_; }
  bool version_wanted() const { return version_; }
  std::string Help() const;

 private:
  Flag* Find(std::string_view name);
  std::string program_;
  std::string summary_;
  std::string epilogue_;
  std::vector<Flag> flags_;
  bool help_ = false;
  bool version_ = false;
};

}  // namespace v0
}  // namespace daxcache
