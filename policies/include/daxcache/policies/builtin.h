// The one list of policies. What is on it has a name that can be written in a spec string, a line in the help text, a
// place in the conformance suite, the benchmarks and the bindings; what is not on it does not exist. To add a policy:
// write its header, include it here, and add it to `BasePolicies`.
//
//   absl::StatusOr<PolicySpec> spec = ParsePolicySpec("per-file:base=arc,min=32K");
//   if (!spec.ok()) return spec.status();
//   absl::Status status = Dispatch<DenseIndex>(*spec, Runner{…});     // calls runner.operator()<P>(options)
//
//                   a hit       a miss           bytes a slot (beside the window's 16 and the index's 36 or 4)
//   linux, fifo     O(1)        O(1)             8
//   lru             O(1)        O(1)             8
//   clock           O(1)        O(1) amortized   9
//   arc             O(1)        O(1)             67 with HashIndex; with DenseIndex 35, and 4 a range of the trace
//   random          O(1)        O(1) expected    8
//   belady(-bypass) O(log n)    O(log n)         16; knows the future, so in replay only
//   per-file        its base's  its base's       4 more, and 16 or more a file; a miss at a quota is O(n)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daxcache/policies/arc.h"
#include "daxcache/policies/belady.h"
#include "daxcache/policies/clock.h"
#include "daxcache/policies/fifo.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/policies/options.h"
#include "daxcache/policies/per_file.h"
#include "daxcache/policies/random.h"
#include "daxcache/policies/spec.h"
#include "daxcache/policy.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

template <class... P>
struct PolicyList {
  static constexpr std::size_t kSize = sizeof...(P);
  static constexpr std::array<std::string_view, kSize> kNames{P::kName...};

  template <template <class> class Wrapper>
  using Wrapped = PolicyList<Wrapper<P>...>;
  template <class... Other>
  static PolicyList<P..., Other...> Join(PolicyList<Other...>);

  // True if `see.operator()<P>()` was true for one of them; those behind it are not asked.
  template <class See>
  static bool Any(const See& see) {
    return (see.template operator()<P>() || ...);
  }
};

// The list. The first is the default.
template <class Index>
using BasePolicies = PolicyList<LinuxPolicy<Index>, FifoPolicy<Index>, LruPolicy<Index>, ClockPolicy<Index>,
                                ArcPolicy<Index>, RandomPolicy<Index>, BeladyPolicy<Index>, BeladyBypassPolicy<Index>>;

// All of them: those of the list, and `per-file` over each.
template <class Index>
using PerFilePolicies = typename BasePolicies<Index>::template Wrapped<PerFilePolicy>;
template <class Index>
using BuiltinPolicies = decltype(BasePolicies<Index>::Join(PerFilePolicies<Index>{}));

// The names, each once.
inline constexpr auto kBasePolicyNames = BasePolicies<DenseIndex>::kNames;
inline constexpr auto kPolicyNames = [] {
  std::array<std::string_view, kBasePolicyNames.size() + 1> names{};
  std::copy(kBasePolicyNames.begin(), kBasePolicyNames.end(), names.begin());
  names.back() = PerFilePolicies<DenseIndex>::kNames.front();
  return names;
}();

template <class P>
concept WrapsPolicy = requires {
  typename P::Base;
};

namespace internal {

template <std::size_t kSize>
constexpr bool AllDifferent(const std::array<std::string_view, kSize>& names) {
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = i + 1; j < kSize; ++j) {
      if (names[i] == names[j]) return false;
    }
  }
  return true;
}
static_assert(AllDifferent(kPolicyNames), "two policies have the same name");

// Sets the options of a policy from a spec.
template <class Options>
absl::Status ReadOptions(const PolicySpec& spec, Options& options) {
  for (const PolicySpec::Option& option : spec.options()) {
    bool again = false;
    for (const PolicySpec::Option* before = spec.options().data(); before != &option; ++before) {
      again = again || before->key == option.key;
    }
    absl::Status status;
    if (!SetOption(options, option.key, option.value, again, status)) {
      std::vector<std::string_view> valid;
      ForEachField<Options>([&](const auto& field) { valid.push_back(field.name); });
      if (!spec.base().empty()) valid.push_back("base");
      return spec.Error(valid.empty() ? absl::StrCat("expected no options, got \"", option.key, "\"")
                                      : absl::StrCat("expected ", OneOf(valid, option.key)));
    }
    if (!status.ok()) return spec.Error(absl::StrCat(option.key, ": ", status.message()));
  }
  if (const absl::Status status = options.Validate(); !status.ok()) {
    return spec.Error(std::string(status.message()));
  }
  return absl::OkStatus();
}

}  // namespace internal

// Calls `fn.template operator()<P>(options)` for the policy that the spec names, and returns what it returns.
// InvalidArgument for a spec that names none, or options that it does not have.
template <class Index, class Fn>
[[nodiscard]] absl::Status Dispatch(const PolicySpec& spec, const Fn& fn) {
  absl::Status result;
  const bool found = BuiltinPolicies<Index>::Any([&]<class P>() {
    if (P::kName != spec.name()) return false;
    if constexpr (WrapsPolicy<P>) {
      if (P::Base::kName != spec.base()) return false;
    }
    typename P::Options options;
    result = internal::ReadOptions(spec, options);
    if (result.ok()) result = fn.template operator()<P>(options);
    return true;
  });
  if (found) return result;
  if (!spec.base().empty()) {
    return spec.Error(absl::StrCat("base: expected ", internal::OneOf(kBasePolicyNames, spec.base())));
  }
  return spec.Error(absl::StrCat("expected ", internal::OneOf(kPolicyNames, spec.name())));
}

// Reads a spec string, and checks it. Errors say where and what was expected, with the nearest valid word.
[[nodiscard]] inline absl::StatusOr<PolicySpec> ParsePolicySpec(std::string_view text) {
  absl::StatusOr<PolicySpec> spec = PolicySpec::Split(text);
  if (!spec.ok()) return spec;
  const absl::Status status =
      Dispatch<DenseIndex>(*spec, []<class P>(const typename P::Options&) { return absl::OkStatus(); });
  if (!status.ok()) return status;
  return spec;
}

// A list of them, as a sweep takes it: "linux,lru,per-file:base=arc,min=32K,belady".
[[nodiscard]] inline absl::StatusOr<std::vector<PolicySpec>> ParsePolicyList(std::string_view list) {
  std::vector<PolicySpec> specs;
  for (const std::string& text : SplitPolicyList(list)) {
    absl::StatusOr<PolicySpec> spec = ParsePolicySpec(text);
    if (!spec.ok()) {
      // "per-file:include=/a,b,lru": is b a policy, or the rest of a name?
      const bool behind_options = !specs.empty() && specs.back().text().find('=') != std::string::npos &&
                                  text.find_first_of(":=") == std::string::npos;
      if (!behind_options) return spec.status();
      return absl::InvalidArgumentError(absl::StrCat(spec.status().message(), AbslView(internal::kCommaHint)));
    }
    specs.push_back(*std::move(spec));
  }
  return specs;
}

// What can be said of a policy without an instance of it.
struct PolicyInfo {
  struct Option {
    std::string_view name, value, help;
  };
  std::string_view name;
  std::string_view summary;
  std::vector<Option> options;
};

inline std::vector<PolicyInfo> BuiltinPolicyInfos() {
  std::vector<PolicyInfo> infos;
  BuiltinPolicies<DenseIndex>::Any([&]<class P>() {
    if (!infos.empty() && infos.back().name == P::kName) return false;  // the same wrapper over another policy
    PolicyInfo& info = infos.emplace_back(PolicyInfo{P::kName, P::kSummary, {}});
    if constexpr (WrapsPolicy<P>) {
      info.options.push_back({"base", "POLICY", "whose order is kept, its options may follow (default linux)"});
    }
    ForEachField<typename P::Options>([&](const auto& field) {
      info.options.push_back({field.name, field.value, field.help});
    });
    return false;
  });
  return infos;
}

}  // namespace v0
}  // namespace daxcache
