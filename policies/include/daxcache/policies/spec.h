// A policy by name, with options, as people write it: "lru", "random:seed=7", "per-file:base=arc,min=32K,hot=2/10s".
// Only the text is looked at here; whether there is such a policy, with such options, is for builtin.h to say.
//
//   spec    = name [":" option {"," option}]
//   option  = key "=" value
//
// In a value "\," is a comma and "\\" a backslash; any other backslash stands for itself (globs use them). A key may
// come several times where the policy takes a list (include=…,include=…).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/suggest.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace internal {

// `one of a, b, c, got "x" (did you mean "a"?)`
inline std::string OneOf(std::span<const std::string_view> valid, std::string_view got) {
  std::string text;
  for (const std::string_view word : valid) {
    absl::StrAppend(&text, text.empty() ? (valid.size() > 1 ? "one of " : "") : ", ", AbslView(word));
  }
  return absl::StrCat(text, ", got \"", AbslView(got), "\"", Suggest(got, valid));
}

// Behind the error of what follows a comma that may have been meant otherwise.
inline constexpr std::string_view kCommaHint = " (a comma within a value is written \\,)";

}  // namespace internal

class PolicySpec {
 public:
  struct Option {
    std::string key;
    std::string value;
  };

  PolicySpec() = default;  // Linux's own

  const std::string& text() const { return text_; }  // as it was written
  const std::string& name() const { return name_; }
  // The policy wrapped by `per-file`: `linux` unless the spec says otherwise. Empty for other policies.
  const std::string& base() const { return base_; }
  // The policy that orders the ranges: `base` where there is one, else `name`.
  const std::string& core() const { return base_.empty() ? name_ : base_; }
  // Without `base`.
  const std::vector<Option>& options() const { return options_; }

  // Splits the text. InvalidArgument, with the place, for text that is no spec.
  [[nodiscard]] static absl::StatusOr<PolicySpec> Split(std::string_view text);

  // The error of one spec, with the place.
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("policy \"", text_, "\": ", AbslView(what)));
  }

 private:
  std::string text_ = "linux";
  std::string name_ = "linux";
  std::string base_;
  std::vector<Option> options_;
};

inline absl::StatusOr<PolicySpec> PolicySpec::Split(std::string_view text) {
  PolicySpec spec;
  spec.text_ = text;
  const std::size_t colon = text.find(':');
  spec.name_ = text.substr(0, colon);
  if (spec.name_ == "per-file") spec.base_ = "linux";
  if (colon == std::string_view::npos) return spec;
  bool based = false;
  std::size_t at = colon + 1;
  do {
    const std::size_t begin = at;
    Option option;
    bool in_value = false;
    for (; at < text.size() && text[at] != ','; ++at) {
      if (!in_value && text[at] == '=') {
        in_value = true;
        continue;
      }
      if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == ',' || text[at + 1] == '\\')) ++at;
      (in_value ? option.value : option.key).push_back(text[at]);
    }
    if (!in_value || option.key.empty()) {
      return spec.Error(absl::StrCat("expected option=value at column ", begin + 1, ", got \"",
                                     AbslView(text.substr(begin, at - begin)), "\"",
                                     begin > colon + 1 ? AbslView(internal::kCommaHint) : ""));
    }
    if (option.key == "base" && !spec.base_.empty()) {
      if (std::exchange(based, true)) return spec.Error("base: given twice");
      if (option.value.empty()) return spec.Error("base: expected the name of a policy, got \"\"");
      spec.base_ = option.value;
    } else {
      spec.options_.push_back(std::move(option));
    }
  } while (at++ < text.size());
  return spec;
}

// Cuts a list of specs ("linux,lru,random:seed=7,per-file:base=arc,min=32K,lru") into its items. An item whose first
// ':' or '=' is a '=' is an option of the spec before it; a comma behind a backslash does not cut.
inline std::vector<std::string> SplitPolicyList(std::string_view list) {
  std::vector<std::string> specs;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '\\') {
      at += at + 1 < list.size() ? 1 : 0;
      continue;
    }
    if (at < list.size() && list[at] != ',') continue;
    const std::string_view item = list.substr(begin, at - begin);
    const std::size_t mark = item.find_first_of(":=");
    if (!specs.empty() && mark != std::string_view::npos && item[mark] == '=') {
      specs.back().append(",").append(item);
    } else {
      specs.emplace_back(item);
    }
    begin = at + 1;
  }
  return specs;
}

}  // namespace v0
}  // namespace daxcache
