// The guest's page cache against a naive one.
#include "daxcache/sim/page_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace daxcache {
namespace {

constexpr std::uint64_t kPage = PageCache::kPageBytes;

TEST(PageCache, AMissReadsAheadToTheEndOfTheFileOrOfWhatIsMissing) {
  const std::vector<std::uint64_t> sizes = {100 * kPage, 3 * kPage - 1};
  PageCache cache(sizes, 0);
  auto fetched = cache.Read(0, 10 * kPage + 1, 1, true);
  EXPECT_EQ(fetched.requests, 1u);
  EXPECT_EQ(fetched.pages, 32u);
  EXPECT_EQ(cache.Read(0, 10 * kPage, 32 * kPage, true).requests, 0u);
  fetched = cache.Read(0, 0, 10 * kPage, true);
  EXPECT_EQ(fetched.requests, 1u);
  EXPECT_EQ(fetched.pages, 10u) << "what follows is there";
  fetched = cache.Read(0, 42 * kPage, 58 * kPage, true);
  EXPECT_EQ(fetched.requests, 2u);
  EXPECT_EQ(fetched.pages, 58u);
  fetched = cache.Read(1, 0, 1, true);
  EXPECT_EQ(fetched.pages, 3u) << "a small file is read whole";
  EXPECT_EQ(cache.present(), 103u);
  cache.Drop(0);
  EXPECT_EQ(cache.present(), 3u);
  cache.Write(0, 0, kPage + 1);
  EXPECT_EQ(cache.Read(0, 0, 2 * kPage, false).requests, 0u) << "what was written is there";
}

TEST(PageCache, ALimitIsKeptAndWhatIsUsedAgainStaysLonger) {
  const std::vector<std::uint64_t> sizes(1000, kPage);
  PageCache cache(sizes, 10);
  std::uint64_t hot_misses = 0;
  for (std::uint32_t i = 1; i < 1000; ++i) {
    hot_misses += cache.Read(0, 0, 1, true).requests;
    EXPECT_EQ(cache.Read(i, 0, 1, true).requests, 1u);
    EXPECT_LE(cache.present(), 10u);
  }
  EXPECT_LE(hot_misses, 1000u / 9 + 1) << "at most once a turn of the hand";
}

TEST(PageCache, WithoutALimitItIsASetOfPages) {
  std::mt19937_64 random(7);
  const std::vector<std::uint64_t> sizes = {70 * kPage, 1, 33 * kPage + 5, 400 * kPage};
  PageCache cache(sizes, 0);
  std::set<std::pair<std::uint32_t, std::uint64_t>> naive;
  for (int i = 0; i < 2000; ++i) {
    const auto file = static_cast<std::uint32_t>(random() % 4);
    const std::uint64_t offset = random() % sizes[file];
    const std::uint64_t length = 1 + random() % (sizes[file] - offset);
    const std::uint64_t first = offset / kPage;
    const std::uint64_t last = (offset + length - 1) / kPage;
    const std::uint64_t end = (sizes[file] + kPage - 1) / kPage;
    switch (random() % 16) {
      case 0:
        cache.Drop(file);
        std::erase_if(naive, [&](const auto& page) { return page.first == file; });
        break;
      case 1:
        cache.Write(file, offset, length);
        for (std::uint64_t page = first; page <= last; ++page) naive.insert({file, page});
        break;
      default: {
        const bool ahead = random() % 2 == 0;
        std::uint64_t requests = 0;
        std::uint64_t pages = 0;
        for (std::uint64_t page = first; page <= last; ++page) {
          if (naive.contains({file, page})) continue;
          ++requests;
          for (std::uint64_t next = page; next < std::min(ahead ? end : last + 1, page + 32); ++next) {
            if (!naive.insert({file, next}).second) break;
            ++pages;
          }
        }
        const auto fetched = cache.Read(file, offset, length, ahead);
        ASSERT_EQ(fetched.requests, requests);
        ASSERT_EQ(fetched.pages, pages);
      }
    }
    ASSERT_EQ(cache.present(), naive.size());
  }
}

}  // namespace
}  // namespace daxcache
