// AnyPolicy is the policy that its spec names: the same misses, the same answers about files.
#include "daxcache/policies/any_policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "policies/drive.h"

namespace daxcache {

template class AnyPolicy<DenseIndex>;
template class AnyPolicy<HashIndex>;

namespace {

using Any = AnyPolicy<DenseIndex>;

const std::vector<FileFacts>& Facts() {
  static const std::vector<FileFacts> facts = {{"/a", 1000}, {"/b", 5000}, {"/c", 5000}, {"/d", 5000}, {"/e.o", 5000}};
  return facts;
}

Any::Options Named(const std::string& spec) {
  return {.spec = ParsePolicySpec(spec).value(), .files = Facts()};
}

template <Policy P>
void ExpectSame(const std::string& spec, typename P::Options options = {}) {
  const Ranges ranges(5, 8);
  if constexpr (SeesFiles<P>) options.files = Facts();
  for (const auto& [name, stream] : TestStreams(ranges.size(), 3000)) {
    for (const std::uint32_t slots : {1u, 7u, 24u}) {
      EXPECT_EQ(Misses<Any>(ranges, stream, slots, Named(spec)), Misses<P>(ranges, stream, slots, options))
          << spec << ", " << name << ", " << slots;
    }
  }
}

TEST(AnyPolicy, MissesWhatItsPolicyMisses) {
  ExpectSame<LinuxPolicy<DenseIndex>>("linux");
  ExpectSame<BeladyBypassPolicy<DenseIndex>>("belady-bypass");
  PerFilePolicy<LruPolicy<DenseIndex>>::Options rules;
  rules.min_size = ByteSize(4096);
  rules.exclude = {"*.o"};
  rules.file_quota = 3;
  ExpectSame<PerFilePolicy<LruPolicy<DenseIndex>>>("per-file:base=lru,min=4K,exclude=*.o,quota=3", rules);
}

TEST(AnyPolicy, HearsOfFilesIfItsPolicyDoes) {
  const Ranges ranges(5, 8);
  Demand<Any> rules(ranges, 4, Named("per-file:base=lru,min=4K,hot=2/1s"));
  Any& policy = rules.window().policy();
  EXPECT_TRUE(policy.sees_files());
  EXPECT_FALSE(policy.UsesWindow(FileId{1})) << "nobody has used it yet";
  for (std::int64_t i = 1; i <= 2; ++i) {
    policy.OnNonDax({.file = FileId{1}, .op = Op::kRead, .time_ns = i * 300'000'000});
  }
  EXPECT_TRUE(policy.OnOpen(FileId{1}, 5000)) << "hot: its inode is made anew";
  EXPECT_TRUE(policy.UsesWindow(FileId{1}));
  EXPECT_FALSE(policy.OnClose(FileId{1}));
  policy.OnEvict(FileId{1});
  EXPECT_TRUE(policy.CheckInvariants().ok());

  Demand<Any> lru(ranges, 4, Named("lru"));
  EXPECT_FALSE(lru.window().policy().sees_files());
  EXPECT_TRUE(lru.window().policy().UsesWindow(FileId{1}));
  EXPECT_FALSE(lru.window().policy().OnOpen(FileId{1}, 5000));
  EXPECT_FALSE(lru.window().policy().OnClose(FileId{1}));
}

TEST(AnyPolicy, ASpecThatNamesNoneIsAnError) {
  const auto spec = PolicySpec::Split("lruu");
  ASSERT_TRUE(spec.ok());
  EXPECT_FALSE(Any::Options{.spec = *spec}.Validate().ok());
  EXPECT_TRUE(Named("arc").Validate().ok());
}

}  // namespace
}  // namespace daxcache
