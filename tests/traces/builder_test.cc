// TraceBuilder: what it refuses, how it packs, sorting.
#include <limits>
#include <vector>

#include "daxcache/traces/generators.h"
#include "daxcache/traces/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "traces/trace_testing.h"

namespace daxcache {
namespace {

using ::testing::HasSubstr;

TEST(TraceBuilder, PacksAnyNumbers) {
  // Columns whose values differ little, much, by multiples, not at all, and change their nature half-way.
  Random random(7);
  for (int kind = 0; kind < 7; ++kind) {
    TraceBuilder builder;
    const TaskId task = builder.AddTask({});
    const FileId file = builder.AddFile("f", 0);
    std::vector<Access> accesses;
    std::int64_t time = 0;
    for (int i = 0; i < 30000; ++i) {
      std::uint64_t value = 0;
      switch (i > 20000 && kind == 6 ? 2 : kind) {
        case 0: value = 42; break;
        case 1: value = random.Below(200); break;
        case 2: value = 1'000'000'000'000 + 4096 * random.Below(60000); break;
        case 3: value = random.Next() >> 2; break;
        case 4: value = 12345 * static_cast<std::uint64_t>(i); break;
        case 5: value = i == 29999 ? std::uint64_t{1} << 62 : 0; break;
        default: value = 1'000'000'000'000 + 6144 * random.Below(10);
      }
      time += static_cast<std::int64_t>(value % 5000);
      accesses.push_back({.time_ns = time,
                          .task = task,
                          .file = file,
                          .op = static_cast<Op>(random.Below(4)),
                          .offset = value,
                          .length = value});
      ASSERT_TRUE(builder.Add(accesses.back()).ok());
    }
    const Trace trace = *builder.Finish("x", "x", MappedTouches::kRanges);
    ASSERT_EQ(trace.size(), accesses.size());
    for (std::size_t i = 0; i < accesses.size(); ++i) ASSERT_EQ(trace[i], accesses[i]) << kind << " " << i;
    const int widths[] = {0, 1, 2, 8, 2, 1, 4};
    EXPECT_LE(trace.columns().offset.width(), widths[kind]) << kind;
  }
}

TEST(TraceBuilder, RefusesWhatIsNotSound) {
  TraceBuilder builder;
  const TaskId task = builder.AddTask({});
  const FileId file = builder.AddFile("f", 0);
  const Access good{.time_ns = 5, .task = task, .file = file};
  ASSERT_TRUE(builder.Add(good).ok());
  const auto message = [&](auto change) {
    Access access = good;
    change(access);
    return std::string(builder.Add(access).message());
  };
  EXPECT_THAT(message([](Access& a) { a.time_ns = -1; }), HasSubstr("time"));
  EXPECT_THAT(message([](Access& a) { a.time_ns = 4; }), HasSubstr("sorted"));
  EXPECT_THAT(message([](Access& a) { a.task = kNoTask; }), HasSubstr("task"));
  EXPECT_THAT(message([](Access& a) { a.file = FileId{1}; }), HasSubstr("file 1"));
  EXPECT_THAT(message([](Access& a) {
                a.offset = ~0ull;
                a.length = 1;
              }),
              HasSubstr("2^63"));
  EXPECT_THAT(message([](Access& a) { a.length = ~0ull; }), HasSubstr("2^63"));
  EXPECT_THAT(message([](Access& a) {
                a.op = Op::kOpen;
                a.offset = 4;
              }),
              HasSubstr("flags"));
  EXPECT_THAT(message([](Access& a) {
                a.op = Op::kClose;
                a.length = 1;
              }),
              HasSubstr("close"));
  EXPECT_THAT(message([](Access& a) {
                a.op = Op::kUnlink;
                a.offset = 1;
              }),
              HasSubstr("whole file"));
  EXPECT_THAT(message([](Access& a) { a.op = static_cast<Op>(8); }), HasSubstr("operation"));
  EXPECT_EQ(builder.size(), 1u);

  TraceBuilder backwards;
  backwards.AddTask({.parent = TaskId{1}});
  backwards.AddTask({});
  EXPECT_THAT(MessageOf(backwards.Finish("x", "x", MappedTouches::kNone).status()), HasSubstr("parent of task 0"));
}

TEST(TraceBuilder, SortsByTimeAndKeepsTheOrderOfEquals) {
  TraceBuilder builder;
  builder.AllowUnsorted();
  const TaskId task = builder.AddTask({});
  const FileId file = builder.AddFile("f", 0);
  Random random(3);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    ASSERT_TRUE(
        builder.Add({.time_ns = static_cast<std::int64_t>(random.Below(100)), .task = task, .file = file, .offset = i})
            .ok());
  }
  const Trace trace = *builder.Finish("x", "x", MappedTouches::kNone);
  for (std::uint64_t i = 1; i < trace.size(); ++i) {
    ASSERT_LE(trace[i - 1].time_ns, trace[i].time_ns);
    if (trace[i - 1].time_ns == trace[i].time_ns) {
      ASSERT_LT(trace[i - 1].offset, trace[i].offset);
    }
  }
}

TEST(TraceBuilder, LearnsOnTheWay) {
  TraceBuilder builder;
  const TaskId task = builder.AddTask({.name = "sh"});
  const FileId file = builder.AddFile("f", 10);
  builder.GrowFile(file, 5);
  builder.GrowFile(file, 20);
  builder.GrowFile(FileId{7}, 20);
  builder.SetTask(task, {.end_ns = 9, .name = "make"});
  builder.SetTask(kNoTask, {});
  builder.Skip("blank lines");
  builder.Skip("signals", 4);
  builder.Skip("blank lines");
  const Trace trace = *builder.Finish("where", "what", MappedTouches::kRanges);
  EXPECT_EQ(trace.files()[0].size, 20u);
  EXPECT_EQ(trace.tasks()[0].name, "make");
  EXPECT_EQ(trace.tasks()[0].end_ns, 9);
  EXPECT_EQ(trace.source(), "where");
  EXPECT_EQ(trace.format(), "what");
  EXPECT_EQ(trace.mapped_touches(), MappedTouches::kRanges);
  ASSERT_EQ(trace.report().skipped.size(), 2u);
  EXPECT_EQ(trace.report().skipped[0].count, 2u);
  EXPECT_EQ(trace.report().skipped[1].count, 4u);
  EXPECT_EQ(builder.size(), 0u);
}

}  // namespace
}  // namespace daxcache
