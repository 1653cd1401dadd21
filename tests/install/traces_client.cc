// A program of somebody else's that makes a trace, writes and reads it through the installed static library.
#include <cstdio>
#include <string>

#include "daxcache/traces/builtin.h"
#include "daxcache/traces/trace.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;  // where to write
  daxcache::TraceBuilder builder;
  const daxcache::TaskId task = builder.AddTask({.name = "client"});
  const daxcache::FileId file = builder.AddFile("a/file", 8192);
  const absl::Status added = builder.Add(
      {.time_ns = 5, .task = task, .file = file, .op = daxcache::Op::kRead, .offset = 4096, .length = 4096});
  auto made = builder.Finish("client", "client", daxcache::MappedTouches::kNone);
  if (!added.ok() || !made.ok()) return 1;
  const std::string path = std::string(argv[1]) + "/client.trace.zst";
  if (!daxcache::WriteTrace(*made, path).ok()) return 1;
  const auto trace = daxcache::ReadTrace(path);
  if (!trace.ok()) {
    std::printf("%s\n", trace.status().ToString().c_str());
    return 1;
  }
  std::printf("%llu records, as %s\n", static_cast<unsigned long long>(trace->size()), trace->format().c_str());
  return trace->size() == 1 && (*trace)[0].offset == 4096 ? 0 : 1;
}
