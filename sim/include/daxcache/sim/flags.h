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

class CommandLine {
 public:
  // `epilogue`: examples, and what else a reader of --help needs.
  CommandLine(std::string program, std::string summary, std::vector<Flag> flags, std::string epilogue);

  // "--flag value", "--flag=value", "-f value"; "--" ends the flags. InvalidArgument says which flag, what was expected
  // and what came.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments);
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
