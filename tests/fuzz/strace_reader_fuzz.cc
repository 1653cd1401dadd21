// Any bytes as a strace log: the reader must give a trace whose records hold together, or an error of one line, with
// the place. The first byte chooses what is known beside the log (page faults, sizes), so that that code sees odd logs
// too.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "daxcache/traces/strace.h"

namespace {

void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "strace_reader_fuzz: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using daxcache::Access;
  if (size == 0) return 0;
  const std::uint8_t mode = data[0];
  const std::string_view log(reinterpret_cast<const char*>(data) + 1, size - 1);
  daxcache::LooksLikeStrace(log);

  daxcache::KernelEvents kernel;
  daxcache::StraceOptions options;
  if ((mode & 1) != 0) {
    kernel.mappings = {{.time_ns = 1'050'000'000, .path = "/a"}, {.time_ns = 1'500'000'000, .path = "/b (deleted)"}};
    kernel.faults = {{.time_ns = 900'000'000, .task = 7, .mapping = 0, .offset = 4096, .pages = 2},
                     {.time_ns = 2'000'000'000, .task = 8, .mapping = 1, .offset = ~std::uint64_t{0}, .pages = 1}};
    kernel.forks = {{.time_ns = 1'000'000'000, .parent = 7, .child = 8}};
    kernel.cpu_times = {{.time_ns = 1'000'000'000, .task = 7, .user_us = 1, .system_us = 1}};
    options.kernel = &kernel;
  }
  if ((mode & 2) != 0) {
    options.facts = [](const std::string& path) -> std::optional<daxcache::StraceOptions::FileFacts> {
      if (path.size() % 3 == 0) return std::nullopt;
      return daxcache::StraceOptions::FileFacts{.regular = path.size() % 3 == 1, .size = path.size() * 1000};
    };
  }
  if ((mode & 4) != 0) {
    options.inherited = {{.descriptor = 0, .path = "/in", .position = 5},
                         {.descriptor = 1, .path = "/in", .same_as = 0}};
    options.canonical = [](const std::string& path) -> std::optional<std::string> { return path + "x"; };
  }

  const absl::StatusOr<daxcache::Trace> trace = daxcache::ReadStrace(log, "fuzz", options);
  if (!trace.ok()) {
    const std::string_view message(trace.status().message().data(), trace.status().message().size());
    Check(message.starts_with("fuzz:"), "an error without the place");
    Check(message.find('\n') == std::string_view::npos, "an error of several lines");
    return 0;
  }
  std::int64_t time = 0;
  for (std::uint64_t i = 0; i < trace->size(); ++i) {
    const Access access = (*trace)[i];
    Check(access.time_ns >= time, "times that go back");
    time = access.time_ns;
    Check(daxcache::ToIndex(access.file) < trace->files().size(), "an unknown file");
    Check(daxcache::ToIndex(access.task) < trace->tasks().size(), "an unknown task");
    if (daxcache::TouchesData(access.op)) {
      Check(access.length <= (std::uint64_t{1} << 63) - access.offset, "an end beyond 2^63");
    }
  }
  return 0;
}
