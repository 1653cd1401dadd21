// The one list: every header is on it, names are found, and spec strings are read or refused with the place.
#include "daxcache/policies/builtin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace daxcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BuiltinPolicies, EveryHeaderThatDefinesAPolicyIsOnTheList) {
  const std::filesystem::path folder =
      std::filesystem::path(DAXCACHE_SOURCE_DIR) / "policies/include/daxcache/policies";
  const std::string list = ReadFile(folder / "builtin.h");
  constexpr std::string_view kName = "kName = \"";
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file == "any_policy.h") continue;  // whichever of them a spec names
    const std::string text = ReadFile(entry.path());
    for (std::size_t at = text.find(kName); at != std::string::npos; at = text.find(kName, at)) {
      at += kName.size();
      const std::string name = text.substr(at, text.find('"', at) - at);
      EXPECT_THAT(list, HasSubstr("#include \"daxcache/policies/" + file + "\""));
      EXPECT_TRUE(found.insert(name).second) << name << " is defined twice";
      EXPECT_NE(std::find(kPolicyNames.begin(), kPolicyNames.end(), name), kPolicyNames.end()) << file;
    }
  }
  EXPECT_EQ(found.size(), kPolicyNames.size());
}

TEST(BuiltinPolicies, NamesInTheirOrder) {
  EXPECT_THAT(kPolicyNames,
              ElementsAre("linux", "fifo", "lru", "clock", "arc", "random", "belady", "belady-bypass", "per-file"));
  std::vector<std::string_view> names;
  for (const PolicyInfo& info : BuiltinPolicyInfos()) {
    names.push_back(info.name);
    EXPECT_FALSE(info.summary.empty()) << info.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAreArray(kPolicyNames));
}

TEST(BuiltinPolicies, TwoOfANameWouldNotCompile) {
  static_assert(!internal::AllDifferent(std::array<std::string_view, 3>{"lru", "fifo", "lru"}));
  static_assert(internal::AllDifferent(std::array<std::string_view, 3>{"lru", "fifo", "clock"}));
}

// The class that a spec leads to, and what it was given.
template <class Index>
std::string Reached(const PolicySpec& spec) {
  std::string reached;
  const absl::Status status = Dispatch<Index>(spec, [&]<class P>(const typename P::Options& options) {
    reached = P::kName;
    if constexpr (WrapsPolicy<P>) {
      reached.append("/").append(P::Base::kName);
      if constexpr (requires { options.base.seed; }) reached += "/" + std::to_string(options.base.seed);
    }
    if constexpr (requires { options.seed; }) reached += "/" + std::to_string(options.seed);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return reached;
}

TEST(PolicySpec, LeadsToItsPolicy) {
  for (const std::string_view name : kPolicyNames) {
    const absl::StatusOr<PolicySpec> spec = ParsePolicySpec(name);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->name(), name);
    EXPECT_EQ(spec->text(), name);
    const std::string reached = name == "random"     ? "random/1"
                                : name == "per-file" ? "per-file/linux"
                                                     : std::string(name);
    EXPECT_EQ(Reached<DenseIndex>(*spec), reached);
    EXPECT_EQ(Reached<HashIndex>(*spec), reached);
  }
  EXPECT_EQ(Reached<DenseIndex>(PolicySpec()), "linux");
  EXPECT_EQ(Reached<DenseIndex>(*ParsePolicySpec("random:seed=18446744073709551615")), "random/18446744073709551615");
  for (const std::string_view base : kBasePolicyNames) {
    const auto spec = ParsePolicySpec("per-file:min=1,base=" + std::string(base));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->base(), base);
    EXPECT_EQ(spec->core(), base);
    EXPECT_THAT(Reached<DenseIndex>(*spec), HasSubstr("per-file/" + std::string(base)));
  }
  // Options that are not its own are its base's.
  EXPECT_EQ(Reached<DenseIndex>(*ParsePolicySpec("per-file:base=random,min=4K,seed=7")), "per-file/random/7");
}

TEST(PolicySpec, ReadsEveryOptionOfPerFile) {
  const auto spec = ParsePolicySpec(
      "per-file:base=arc,min=32K,max=1G,hot=2/10s,cold=1/60s,include=/usr/**,include=/a\\,b/*,exclude=*.o,quota=10,"
      "quota=64@/usr/lib/**");
  ASSERT_TRUE(spec.ok()) << spec.status();
  bool reached = false;
  const absl::Status status = Dispatch<DenseIndex>(*spec, [&]<class P>(const typename P::Options& options) {
    if constexpr (WrapsPolicy<P>) {
      reached = P::Base::kName == "arc";
      EXPECT_EQ(options.min_size, ByteSize(32 << 10));
      EXPECT_EQ(options.max_size, ByteSize(1 << 30));
      EXPECT_EQ(options.hot.accesses, 2u);
      EXPECT_EQ(options.hot.within, absl::Seconds(10));
      EXPECT_EQ(options.cold.accesses, 1u);
      EXPECT_EQ(options.cold.within, absl::Minutes(1));
      EXPECT_THAT(options.include, ElementsAre("/usr/**", "/a,b/*"));
      EXPECT_THAT(options.exclude, ElementsAre("*.o"));
      EXPECT_EQ(options.file_quota, 10u);
      EXPECT_EQ(options.group_quotas.size(), 1u);
      EXPECT_EQ(options.group_quotas[0].glob, "/usr/lib/**");
      EXPECT_EQ(options.group_quotas[0].slots, 64u);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(reached);
}

TEST(PolicySpec, ErrorsSayWhereAndWhat) {
  const struct {
    std::string_view text;
    std::string_view message;
  } cases[] = {
      {"",
       "policy \"\": expected one of linux, fifo, lru, clock, arc, random, belady, belady-bypass, per-file, got \"\""},
      {"lur",
       "policy \"lur\": expected one of linux, fifo, lru, clock, arc, random, belady, belady-bypass, per-file, got "
       "\"lur\" (did you mean \"lru\"?)"},
      {"LRU", "got \"LRU\" (did you mean \"lru\"?)"},
      {"randm:seed=1", "(did you mean \"random\"?)"},
      {" lru", "(did you mean \"lru\"?)"},
      {"lru:seed=1", "policy \"lru:seed=1\": expected no options, got \"seed\""},
      {"lru:", "policy \"lru:\": expected option=value at column 5, got \"\""},
      {"lru:base=arc", "expected no options, got \"base\""},
      {"random:seed", "policy \"random:seed\": expected option=value at column 8, got \"seed\""},
      {"random:=3", "expected option=value at column 8, got \"=3\""},
      {"random:seed=1,", "expected option=value at column 15, got \"\""},
      {"random:seed=",
       "policy \"random:seed=\": seed: expected a whole number from 0 to 18446744073709551615, got \"\""},
      {"random:seed=-1", "seed: expected a whole number from 0 to 18446744073709551615, got \"-1\""},
      {"random:seed=18446744073709551616", "got \"18446744073709551616\""},
      {"random:seed=1x", "got \"1x\""},
      {"random:sed=1", "policy \"random:sed=1\": expected seed, got \"sed\" (did you mean \"seed\"?)"},
      {"random:seed=1,seed=2", "policy \"random:seed=1,seed=2\": seed: given twice"},
      {"per-file:base=per-file",
       "base: expected one of linux, fifo, lru, clock, arc, random, belady, belady-bypass, got "
       "\"per-file\""},
      {"per-file:base=arcs", "(did you mean \"arc\"?)"},
      {"per-file:base=", "base: expected the name of a policy, got \"\""},
      {"per-file:base=arc,base=lru", "base: given twice"},
      {"per-file:seed=3", "expected one of min, max, include, exclude, hot, cold, quota, base, got \"seed\""},
      {"per-file:base=random,sed=3", "expected one of min, max, include, exclude, hot, cold, quota, seed, base, got"},
      {"per-file:min=32Q", "min: expected a size such as 4G, 64MiB or 1.5g, got \"32Q\""},
      {"per-file:min=2M,max=1M", "expected a smallest size of at most the largest, 1M, got 2M"},
      {"per-file:hot=2", "hot: expected accesses/time such as 2/10s or 5/500ms, got \"2\""},
      {"per-file:hot=/10s", "got \"/10s\""},
      {"per-file:hot=0/10s", "got \"0/10s\""},
      {"per-file:hot=2/ten", "got \"2/ten\""},
      {"per-file:hot=2/10", "got \"2/10\""},
      {"per-file:hot=2/-1s", "expected from 1 to 256 accesses within a time above 0, such as 2/10s, got 2/-1s"},
      {"per-file:hot=2/inf", "got 2/inf"},
      {"per-file:hot=257/1s", "got 257/1s"},
      {"per-file:cold=1/10s", "cold: expected hot beside it"},
      {"per-file:hot=2/10s,cold=3/10s", "expected files to become cold by fewer accesses or a longer time"},
      {"per-file:hot=2/10s,cold=2/5s", "expected files to become cold by fewer accesses or a longer time"},
      {"per-file:include=", "include: expected a path pattern such as /usr/** or *.so, got \"\""},
      {"per-file:exclude=[a",
       "exclude: expected a path pattern such as /usr/** or *.so, got \"[a\" (a [ without its ])"},
      {"per-file:quota=0", "quota: expected at least 1 slot, got 0"},
      {"per-file:quota=many", "quota: expected a whole number from 0 to 4294967295, got \"many\""},
      {"per-file:quota=3@", "quota: expected a path pattern"},
      {"per-file:quota=3,quota=4", "quota: the quota of each file is given twice"},
  };
  for (const auto& [text, message] : cases) {
    const absl::StatusOr<PolicySpec> spec = ParsePolicySpec(text);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(std::string(message))) << text;
    EXPECT_EQ(spec.status().message().find('\n'), absl::string_view::npos);
  }
}

TEST(PolicySpec, ListsAreCutWhereASpecBegins) {
  EXPECT_THAT(SplitPolicyList("linux,lru"), ElementsAre("linux", "lru"));
  EXPECT_THAT(SplitPolicyList("lru"), ElementsAre("lru"));
  EXPECT_THAT(SplitPolicyList("fifo,per-file:base=arc,min=32K,include=/a:b/**,lru,random:seed=1,belady"),
              ElementsAre("fifo", "per-file:base=arc,min=32K,include=/a:b/**", "lru", "random:seed=1", "belady"));
  EXPECT_THAT(SplitPolicyList("per-file:include=/a\\,lru,arc"), ElementsAre("per-file:include=/a\\,lru", "arc"));
  EXPECT_THAT(SplitPolicyList("lru,"), ElementsAre("lru", ""));
  EXPECT_THAT(SplitPolicyList("seed=1"), ElementsAre("seed=1"));
  EXPECT_THAT(SplitPolicyList("a\\"), ElementsAre("a\\"));
  const auto specs = ParsePolicyList("linux,per-file:base=arc,min=32K,belady");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 3u);
  EXPECT_EQ((*specs)[1].text(), "per-file:base=arc,min=32K");
  EXPECT_THAT(std::string(ParsePolicyList("lru,,fifo").status().message()), HasSubstr("got \"\""));
  // What follows a comma may have been meant as the rest of a value.
  for (const char* list : {"per-file:include=/a,b", "per-file:include=/a,b,lru", "lru,per-file:include=/a,b"}) {
    EXPECT_THAT(std::string(ParsePolicyList(list).status().message()),
                testing::EndsWith("got \"b\" (a comma within a value is written \\,)"));
  }
  EXPECT_THAT(std::string(ParsePolicySpec("per-file:include=/a,b").status().message()),
              testing::EndsWith("got \"b\" (a comma within a value is written \\,)"));
  for (const char* list : {"lru,lur", "per-file:min=1K,lru:", "per-file:mni=1K"}) {
    EXPECT_THAT(std::string(ParsePolicyList(list).status().message()), testing::Not(HasSubstr("comma"))) << list;
  }
  EXPECT_THAT(std::string(ParsePolicyList("lru,seed=1").status().message()), HasSubstr("policy \"lru,seed=1\""));
}

TEST(PolicySpec, ValuesMayHoldCommasAndBackslashes) {
  const auto spec = PolicySpec::Split("per-file:include=\\\\x\\,y\\*=z");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->options().size(), 1u);
  EXPECT_EQ(spec->options()[0].value, "\\x,y\\*=z");
}

}  // namespace
}  // namespace daxcache
