// See daxcache/sim/flags.h.
#include "daxcache/sim/flags.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/suggest.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::size_t kWidth = 100;

// `text` broken into lines of at most `width` columns, each after the first indented.
std::string Wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(word);
    column += word.size();
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out;
}

}  // namespace

std::function<absl::Status(std::string_view)> SetTrue(bool* flag) {
  return [flag](std::string_view) {
    *flag = true;
    return absl::OkStatus();
  };
}

std::function<absl::Status(std::string_view)> SetNumber(std::uint64_t* number, std::uint64_t least,
                                                        std::uint64_t most) {
  return [=](std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a whole number from ", least, " to ", most, ", got \"", AbslView(text), "\""));
    }
    *number = value;
    return absl::OkStatus();
  };
}

std::function<absl::Status(std::string_view)> SetText(std::string* text) {
  return [text](std::string_view value) {
    *text = std::string(value);
    return absl::OkStatus();
  };
}

std::function<absl::Status(std::string_view)> SetWord(std::vector<std::string_view> words,
                                                      std::function<void(std::size_t)> set) {
  return [words = std::move(words), set = std::move(set)](std::string_view text) -> absl::Status {
    const auto at = std::find(words.begin(), words.end(), text);
    if (at != words.end()) {
      set(static_cast<std::size_t>(at - words.begin()));
      return absl::OkStatus();
    }
    std::string expected;
    for (const std::string_view word : words) absl::StrAppend(&expected, expected.empty() ? "" : ", ", AbslView(word));
    return absl::InvalidArgumentError(
        absl::StrCat("expected one of ", expected, ", got \"", AbslView(text), "\"", Suggest(text, words)));
  };
}

CommandLine::CommandLine(std::string program, std::string summary, std::vector<Flag> flags, std::string epilogue)
    : program_(std::move(program)),
      summary_(std::move(summary)),
      epilogue_(std::move(epilogue)),
      flags_(std::move(flags)) {
  flags_.push_back({"help", "", "show this", SetTrue(&help_), true, 'h'});
  flags_.push_back({"version", "", "show the version", SetTrue(&version_), true, 0});
}

Flag* CommandLine::Find(std::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name || (name.size() == 1 && flag.letter == name.front())) return &flag;
  }
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> CommandLine::Parse(const std::vector<std::string>& arguments,
                                                            FlagPlace place) {
  std::vector<std::string> rest;
  std::set<std::string> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument.front() != '-') {
      if (place == FlagPlace::kBeforeOperands) {
        rest.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
        break;
      }
      rest.emplace_back(argument);
      continue;
    }
    const bool is_long = argument.substr(0, 2) == "--";
    std::string_view name = argument.substr(is_long ? 2 : 1);
    const std::size_t equals = name.find('=');
    bool has_value = equals != std::string_view::npos;
    std::string_view value = has_value ? name.substr(equals + 1) : std::string_view();
    const std::string_view whole = name;
    name = name.substr(0, equals);
    if (!is_long && name.size() > 1 && Find(name) == nullptr) {
      const Flag* const attached = Find(name.substr(0, 1));
      if (attached != nullptr && !attached->value.empty()) {
        has_value = true;
        value = whole.substr(1);
        name = name.substr(0, 1);
      }
    }
    Flag* const flag = is_long != (name.size() == 1) ? Find(name) : nullptr;
    if (flag == nullptr) {
      std::vector<std::string_view> names;
      for (const Flag& known : flags_) names.push_back(known.name);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", AbslView(argument.substr(0, argument.find('='))), Suggest(name, names, "--")));
    }
    const std::string shown = (is_long ? "--" : "-") + std::string(name);
    if (!flag->repeatable && !given.insert(flag->name).second) {
      return absl::InvalidArgumentError(absl::StrCat(shown, ": given twice"));
    }
    if (flag->value.empty() && has_value) {
      return absl::InvalidArgumentError(absl::StrCat(shown, ": takes no value, got \"", AbslView(value), "\""));
    }
    if (!flag->value.empty() && !has_value) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat(shown, ": expected ", flag->value, ", got nothing"));
      }
      value = arguments[++i];
    }
    if (const absl::Status set = flag->set(value); !set.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(shown, ": ", set.message()));
    }
  }
  return rest;
}

std::string CommandLine::Help() const {
  std::string out = summary_ + "\n\nUsage: " + program_ + "\n\nFlags:\n";
  std::size_t column = 0;
  const auto spelled = [](const Flag& flag) {
    std::string text = flag.letter != 0 ? std::string("  -") + flag.letter + ", --" : std::string("  --");
    text += flag.name;
    if (!flag.value.empty()) text += " " + flag.value;
    return text;
  };
  for (const Flag& flag : flags_) column = std::max(column, spelled(flag).size());
  column = std::min<std::size_t>(column + 2, 36);
  for (const Flag& flag : flags_) {
    std::string left = spelled(flag);
    left += left.size() + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - left.size(), ' ');
    out += left + Wrapped(flag.help, column, kWidth) + "\n";
  }
  return out + "\n" + epilogue_;
}

}  // namespace v0
}  // namespace daxcache
