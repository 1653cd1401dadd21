// The pages touched, of streams that belong to the records and of one that does not.
#include "daxcache/sim/touched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daxcache/traces/builtin.h"
#include "traces/forged_dxt.h"

namespace daxcache {
namespace {

using ::testing::ElementsAre;

constexpr char kText[] =
    "daxtrace 1\nfile 0 8388608 a\ntask 0 - 0 9 0 0 t\n"
    "1 0 R 0 0 4096\n2 0 R 0 4096 8192\n3 0 R 0 2093056 8192\n4 0 W 0 8384512 8192\n";

TEST(TouchedPages, EachPageCountsOnce) {
  const Trace trace = ReadTraceFromBytes("t", kText).value();
  const auto stream = RangeStream::Build(trace, {.fold = false}).value();
  EXPECT_THAT(TouchedPages(trace, *stream, true).value(), ElementsAre(4u, 1u, 1u, 1u));
  EXPECT_THAT(TouchedPages(trace, *stream, false).value(), ElementsAre(4u, 1u, 0u, 0u)) << "the write extends the file";
}

TEST(TouchedPages, AStreamOfOtherRecordsIsDataLoss) {
  std::string bytes;
  Output output = Output::ToBytes(bytes);
  ASSERT_TRUE(kDxt.write(ReadTraceFromBytes("t", kText).value(), output).ok());
  Forged forged(bytes);
  // The last range of the file is said to be another.
  forged.Set(forged.SectionOffset(kRangeIndexes) + 24, std::uint64_t{77});
  const auto trace = ReadTraceFromBytes("t.dxt", forged.Sealed());
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_NE(trace->stored_stream(), nullptr);
  EXPECT_EQ(TouchedPages(*trace, *trace->stored_stream(), true).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace daxcache
