// How a policy declares what can be set in it: one table beside its `Options`, from which the parser of spec strings
// ("random:seed=7"), the help texts and the error messages are made.
//
//   struct MyOptions {
//     std::uint64_t seed = 1;
//     static constexpr auto Fields() {
//       return std::array{OptionField<MyOptions>{"seed", "N", "what it does", &SetNumber<&MyOptions::seed>}};
//     }
//     absl::Status Validate() const;      // of all of them together
//   };
//
// A policy that wraps another names the other's options `base`; what it does not know itself is looked for there.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

template <class Options>
struct OptionField {
  std::string_view name;
  std::string_view value;  // how the value is shown in help: "N", "SIZE"
  std::string_view help;
  absl::Status (*set)(Options&, std::string_view value);  // InvalidArgument: "expected …, got …"
  bool list = false;                                      // may be given several times
};

// The options of a policy that has none.
struct NoOptions {
  [[nodiscard]] absl::Status Validate() const { return absl::OkStatus(); }
};

// A whole number without sign, of the type of `to`.
template <class Number>
[[nodiscard]] absl::Status ParseNumber(std::string_view text, Number& to) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a whole number from 0 to ", std::numeric_limits<Number>::max(), ", got \"", AbslView(text), "\""));
  }
  to = number;
  return absl::OkStatus();
}

template <auto Member, class Options>
absl::Status SetNumber(Options& options, std::string_view value) {
  return ParseNumber(value, options.*Member);
}

// Calls `see(field)` for each option of `Options`, and of the options it wraps.
template <class Options, class See>
constexpr void ForEachField(const See& see) {
  if constexpr (requires { Options::Fields(); }) {
    for (const auto& field : Options::Fields()) see(field);
  }
  if constexpr (requires(Options options) { options.base; }) {
    ForEachField<decltype(Options::base)>(see);
  }
}

// Sets the option of that name; `again`: it has been set before. False: there is none, and `status` is as it was.
template <class Options>
bool SetOption(Options& options, std::string_view name, std::string_view value, bool again, absl::Status& status) {
  if constexpr (requires { Options::Fields(); }) {
    for (const auto& field : Options::Fields()) {
      if (field.name != name) continue;
      status = again && !field.list ? absl::InvalidArgumentError("given twice") : field.set(options, value);
      return true;
    }
  }
  if constexpr (requires { options.base; }) return SetOption(options.base, name, value, again, status);
  return false;
}

}  // namespace v0
}  // namespace daxcache
