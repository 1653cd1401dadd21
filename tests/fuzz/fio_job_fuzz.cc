// Any text as a fio job file or command line: an error or jobs, whose I/Os stay within their files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/fio_stream.h"

namespace {

void Walk(const absl::StatusOr<daxcache::FioJobFile>& file) {
  if (!file.ok()) return;
  for (const daxcache::FioJob& job : file->jobs) {
    // What follows takes memory by the block and by the file.
    if (job.Files() > 100 || job.size / job.MinBlock() > 1'000'000 || job.file_size[1] / job.MinBlock() > 10'000)
      continue;
    daxcache::FioStream stream(job, job.numjobs - 1);
    const std::vector<std::uint64_t> sizes = stream.FileSizes();
    daxcache::TimedIo io;
    for (int i = 0; i < 1000 && stream.Next(io); ++i) {
      if (io.file >= sizes.size() || io.length == 0 || io.offset > sizes[io.file] ||
          io.length > sizes[io.file] - io.offset) {
        std::abort();
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("include") != std::string::npos) return 0;  // no files but the input
  Walk(daxcache::ParseFioJobText(text, "fuzz.fio"));
  Walk(daxcache::ParseFioCommandLine(text));
  return 0;
}
