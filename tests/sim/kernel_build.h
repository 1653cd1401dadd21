// The recorded kernel build that comes with the project, as tests of replay use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daxcache/sim/study.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/trace.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

inline Study& KernelBuild() {
  static Study& study = *new Study(ReadTrace(DAXCACHE_SOURCE_DIR "/traces/data/kbuild.trace.zst").value());
  return study;
}

// Its first records.
inline Trace HeadOfKernelBuild(std::uint64_t records) {
  const Trace& whole = KernelBuild().trace();
  TraceBuilder builder;
  for (const FileInfo& file : whole.files()) builder.AddFile(file.path, file.size);
  for (const TaskInfo& task : whole.tasks()) builder.AddTask(task);
  for (std::uint64_t i = 0; i < std::min(records, whole.size()); ++i) EXPECT_TRUE(builder.Add(whole[i]).ok());
  return builder.Finish("head", "test", MappedTouches::kPages).value();
}

// For tests that replay it a hundred times: all of it, or, under a sanitizer, where everything takes ten times as long,
// its first tenth.
inline Study& KernelBuildToRepeat() {
#ifdef DAXCACHE_SANITIZED
  static Study& study = *new Study(HeadOfKernelBuild(120'000));
  return study;
#else
  return KernelBuild();
#endif
}

}  // namespace daxcache::testing_
