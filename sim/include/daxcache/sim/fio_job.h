// fio job files, read as fio 3.33 reads them, as far as they say what I/O is done: sections and [global], inheritance,
// include, comments, units, and the options that shape the I/O. An option that would change the result and is not
// supported is an error; one that changes nothing here (logging, verification of the environment, scheduling hints) is
// taken silently; one that fio does not know is a warning. docs/fio.md lists them.
//
//   absl::StatusOr<FioJobFile> file = ReadFioJobFile("randread.fio");
//   absl::StatusOr<FioJobFile> file = ParseFioCommandLine("--rw=randread --bs=4k --size=4g");
//   for (const FioJob& job : file->jobs) …
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace daxcache {
inline namespace v0 {

enum class FioEngine : std::uint8_t { kSync, kLibaio, kMmap };  // kSync: psync, sync, vsync, pvsync, pvsync2

// How offsets are chosen within a file.
struct FioDistribution {
  enum class Kind : std::uint8_t { kRandom, kZipf, kPareto, kNormal, kZoned } kind = Kind::kRandom;
  double parameter = 0;  // zipf: theta; pareto: h; normal: standard deviation, percent of the file
  struct Zone {
    double access = 0;  // percent of the accesses …
    double size = 0;    // … go to so many percent of the file
  };
  std::vector<Zone> zones;
};

// One size of bssplit: so many percent of the I/Os have it.
struct FioBlock {
  std::uint64_t bytes = 0;
  double percent = 0;
};

struct FioJob {
  std::string name;
  std::string description;
  FioEngine engine = FioEngine::kSync;
  std::string engine_name = "psync";  // as it was given
  bool random = false;
  std::uint32_t read_percent = 100;  // 100: reads only; 0: writes only
  // rw=…:N. Random: N I/Os follow each other at a time; sequential: N bytes are skipped after each.
  std::uint64_t sequence = 0;
  bool identical_sequence = false;  // rw_sequencer=identical: the same offset N times
  // [0] of reads, [1] of writes: the sizes and their shares, in ascending order; one entry for a fixed size.
  std::vector<FioBlock> blocks[2] = {{{4096, 100}}, {{4096, 100}}};
  bool block_range = false;            // `blocks` holds the two ends of a bsrange
  std::uint64_t size = 0;              // bytes over all files of a process; 0: the files' own
  std::uint64_t file_size[2] = {};     // filesize: from, to; 0: size / nrfiles
  std::uint64_t io_size = 0;           // bytes a process moves; 0: size
  std::uint64_t offset = 0;            // where in each file it begins
  std::uint64_t offset_increment = 0;  // … and so much later for each further process
  std::vector<std::string> filenames;  // filename, split at ':'; empty: names are made as fio makes them
  std::string directory;
  std::uint32_t nrfiles = 1;
  std::uint32_t numjobs = 1;
  std::uint32_t iodepth = 1;
  bool direct = false;
  bool invalidate = true;        // at the beginning nothing of its files is cached
  bool drop_caches = false;      // … of any file, nor mapped: exec_prerun writes to /proc/sys/vm/drop_caches
  std::uint64_t runtime_ns = 0;  // 0: until done
  bool time_based = false;
  std::uint32_t loops = 1;
  bool random_map = true;
  std::uint64_t seed = 0;  // randseed
  FioDistribution distribution;
  std::uint64_t think_ns = 0;
  std::uint32_t think_blocks = 1;
  std::uint64_t rate_iops = 0;  // of each process; 0: no limit
  std::uint64_t start_delay_ns = 0;
  bool stonewall = false;  // begins when all before it have ended
  bool group_reporting = false;

  std::uint64_t MinBlock() const;
  // The name of file `file` of process `process`, as fio makes it: directory/job.process.file.
  std::string FileName(std::uint32_t process, std::uint32_t file) const;
  std::uint32_t Files() const { return filenames.empty() ? nrfiles : static_cast<std::uint32_t>(filenames.size()); }
};

struct FioJobFile {
  std::vector<FioJob> jobs;
  std::vector<std::string> warnings;  // "file:line: …"
};

// NotFound if there is no such file; InvalidArgument as "path:line: expected …, got …".
[[nodiscard]] absl::StatusOr<FioJobFile> ReadFioJobFile(const std::string& path);
// The same from text. `include` lines are looked up beside `name`.
[[nodiscard]] absl::StatusOr<FioJobFile> ParseFioJobText(std::string_view text, const std::string& name);
// Options as on fio's command line, separated by blanks: those before the first --name hold for all jobs; without any
// --name they make one job, called "job".
[[nodiscard]] absl::StatusOr<FioJobFile> ParseFioCommandLine(std::string_view text);

}  // namespace v0
}  // namespace daxcache
