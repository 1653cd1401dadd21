// See daxcache/sim/fio_job.h.
#include "daxcache/sim/fio_job.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daxcache/suggest.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr int kMostIncludes = 16;  // deep, as in fio
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::string_view Strip(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

absl::Status Expected(std::string_view what, std::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", AbslView(what), ", got \"", AbslView(got), "\""));
}

absl::StatusOr<double> ParseDouble(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Expected("a number", text);
  }
  return value;
}

// A whole number with an optional unit. fio's units: with kb_base=1024 (the default) k and kb are 1024 and ki 1000, as
// odd as that is; with kb_base=1000 the other way round.
absl::StatusOr<std::uint64_t> ParseBytes(std::string_view text, bool decimal_base) {
  const absl::Status error = Expected("a size such as 4k, 1m or 4g", text);
  std::uint64_t value = 0;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const char* const begin = text.data() + (hex ? 2 : 0);
  const auto [end, failed] = std::from_chars(begin, text.data() + text.size(), value, hex ? 16 : 10);
  if (failed != std::errc()) return error;
  std::string unit = Lower(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.empty()) return value;
  const std::size_t power = std::string_view("kmgtp").find(unit.front()) + 1;
  if (power == 0 || (unit.size() > 1 && unit.substr(1) != "i")) return error;
  const bool binary = (unit.size() == 1) != decimal_base;
  for (std::size_t i = 0; i < power; ++i) {
    if (value > kMostBytes / 1024) return Expected("a size of at most 2^62 bytes", text);
    value *= binary ? 1024 : 1000;
  }
  return value;
}

// A time; a bare number counts `unit_ns`.
absl::StatusOr<std::uint64_t> ParseTime(std::string_view text, std::uint64_t unit_ns) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const absl::Status error = Expected("a time such as 30, 5m or 100us", text);
  if (failed != std::errc()) return error;
  const std::string unit = Lower(text.substr(static_cast<std::size_t>(end - text.data())));
  constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"ns", 1},           {"us", 1000},          {"ms", 1'000'000},       {"msec", 1'000'000},      {"usec", 1000},
      {"s", 1000'000'000}, {"m", 60'000'000'000}, {"h", 3600'000'000'000}, {"d", 86'400'000'000'000}};
  std::uint64_t scale = unit.empty() ? unit_ns : 0;
  for (const auto& [name, ns] : kUnits) {
    if (unit == name) scale = ns;
  }
  if (scale == 0 || value > (std::uint64_t{1} << 62) / scale) return error;
  return value * scale;
}

template <class T>
absl::Status ParseWhole(std::string_view text, T& value, T least, T most) {
  T parsed = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (failed != std::errc() || end != text.data() + text.size() || parsed < least || parsed > most) {
    return Expected(absl::StrCat("a whole number from ", least, " to ", most), text);
  }
  value = parsed;
  return absl::OkStatus();
}

absl::Status ParseBool(std::string_view text, bool& value) {
  if (text.empty() || text == "1") {
    value = true;
  } else if (text == "0") {
    value = false;
  } else {
    return Expected("0 or 1", text);
  }
  return absl::OkStatus();
}

// What an option of a job is set by. Options see the job as it is so far, and the base of units.
struct Context {
  FioJob& job;
  bool decimal_base;
};
using Setter = absl::Status (*)(Context, std::string_view);

absl::Status SetRw(Context context, std::string_view text) {
  FioJob& job = context.job;
  const std::size_t colon = text.find(':');
  const std::string_view mode = text.substr(0, colon);
  struct Mode {
    std::string_view name;
    bool random;
    std::uint32_t read_percent;
  };
  constexpr Mode kModes[] = {{"read", false, 100},   {"write", false, 0}, {"randread", true, 100},
                             {"randwrite", true, 0}, {"rw", false, 50},   {"readwrite", false, 50},
                             {"randrw", true, 50}};
  const auto* const found =
      std::find_if(std::begin(kModes), std::end(kModes), [&](const Mode& m) { return m.name == mode; });
  if (found == std::end(kModes)) {
    if (mode.find("trim") != std::string_view::npos) {
      return absl::UnimplementedError(
          absl::StrCat("rw=", AbslView(mode), " is not supported: a DAX window has no trim"));
    }
    std::vector<std::string_view> names;
    for (const Mode& m : kModes) names.push_back(m.name);
    return absl::InvalidArgumentError(absl::StrCat("expected read, write, randread, randwrite, rw or randrw, got \"",
                                                   AbslView(mode), "\"", Suggest(mode, names)));
  }
  job.random = found->random;
  job.read_percent = found->read_percent;
  job.sequence = 0;
  if (colon == std::string_view::npos) return absl::OkStatus();
  const auto sequence = ParseBytes(text.substr(colon + 1), context.decimal_base);
  if (!sequence.ok()) return sequence.status();
  job.sequence = *sequence;
  return absl::OkStatus();
}

// "read[,write[,trim]]": calls set(0, …) and set(1, …); a missing second is the first.
absl::Status ForBoth(std::string_view text, const std::function<absl::Status(int, std::string_view)>& set) {
  if (text.empty()) return Expected("a value", text);
  const auto parts = Split(text, ',');
  if (parts.size() > 3) return Expected("at most three values: read,write,trim", text);
  for (int direction = 0; direction < 2; ++direction) {
    const std::size_t at = std::min<std::size_t>(static_cast<std::size_t>(direction), parts.size() - 1);
    if (parts[at].empty()) continue;  // "bs=,8k" sets writes alone
    if (const absl::Status status = set(direction, parts[at]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> ParseBlock(std::string_view text, bool decimal_base) {
  const auto bytes = ParseBytes(text, decimal_base);
  if (bytes.ok() && (*bytes == 0 || *bytes > (std::uint64_t{1} << 31))) {
    return Expected("a block of 1 byte to 2 GiB", text);
  }
  return bytes;
}

absl::Status SetBlockSize(Context context, std::string_view text) {
  context.job.block_range = false;
  return ForBoth(text, [&](int direction, std::string_view value) -> absl::Status {
    const auto bytes = ParseBlock(value, context.decimal_base);
    if (bytes.ok()) context.job.blocks[direction] = {{*bytes, 100}};
    return bytes.status();
  });
}

absl::Status SetBlockRange(Context context, std::string_view text) {
  context.job.block_range = true;
  return ForBoth(text, [&](int direction, std::string_view value) -> absl::Status {
    const std::size_t dash = value.find_first_of("-:");
    if (dash == std::string_view::npos) return Expected("a range such as 1k-4k", value);
    const auto from = ParseBlock(value.substr(0, dash), context.decimal_base);
    const auto to = ParseBlock(value.substr(dash + 1), context.decimal_base);
    if (!from.ok()) return from.status();
    if (!to.ok()) return to.status();
    context.job.blocks[direction] = {{std::min(*from, *to), 50}, {std::max(*from, *to), 50}};
    return absl::OkStatus();
  });
}

absl::Status SetBlockSplit(Context context, std::string_view text) {
  context.job.block_range = false;
  return ForBoth(text, [&](int direction, std::string_view value) -> absl::Status {
    std::vector<FioBlock> blocks;
    double given = 0;
    std::size_t open = 0;
    for (const std::string_view part : Split(value, ':')) {
      const std::size_t slash = part.find('/');
      const auto bytes = ParseBlock(part.substr(0, slash), context.decimal_base);
      if (!bytes.ok()) return bytes.status();
      double percent = -1;
      if (slash != std::string_view::npos && slash + 1 < part.size()) {
        const auto share = ParseDouble(part.substr(slash + 1));
        if (!share.ok() || *share < 0 || *share > 100) return Expected("a share from 0 to 100 percent", part);
        percent = *share;
        given += percent;
      } else {
        ++open;
      }
      blocks.push_back({*bytes, percent});
    }
    if (given > 100.0001 || (open == 0 && given < 99.9999)) return Expected("shares that add up to 100 percent", value);
    for (FioBlock& block : blocks) {
      if (block.percent < 0) block.percent = (100 - given) / static_cast<double>(open);
    }
    std::stable_sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    context.job.blocks[direction] = std::move(blocks);
    return absl::OkStatus();
  });
}

absl::Status SetMix(Context context, std::string_view text, bool of_reads) {
  std::uint32_t percent = 0;
  if (const absl::Status status = ParseWhole(text, percent, 0u, 100u); !status.ok()) return status;
  // It means something to a mixed job alone; which kind the job is may still be to come.
  if (context.job.read_percent != 100 && context.job.read_percent != 0) {
    context.job.read_percent = std::clamp(of_reads ? percent : 100 - percent, 1u, 99u);
    if (percent == 0 || percent == 100) context.job.read_percent = of_reads == (percent == 100) ? 100 : 0;
  }
  return absl::OkStatus();
}

absl::Status SetEngine(Context context, std::string_view text) {
  constexpr std::pair<std::string_view, FioEngine> kEngines[] = {
      {"psync", FioEngine::kSync},      {"sync", FioEngine::kSync},       {"vsync", FioEngine::kSync},
      {"pvsync", FioEngine::kSync},     {"pvsync2", FioEngine::kSync},    {"libaio", FioEngine::kLibaio},
      {"posixaio", FioEngine::kLibaio}, {"io_uring", FioEngine::kLibaio}, {"mmap", FioEngine::kMmap}};
  const std::string_view name = text.substr(0, text.find(','));
  for (const auto& [known, engine] : kEngines) {
    if (known == name) {
      context.job.engine = engine;
      context.job.engine_name = std::string(name);
      return absl::OkStatus();
    }
  }
  std::string known;
  for (const auto& [engine, ignored] : kEngines) absl::StrAppend(&known, known.empty() ? "" : ", ", AbslView(engine));
  return absl::UnimplementedError(
      absl::StrCat("ioengine=", AbslView(text), " is not supported; expected one of ", known));
}

absl::Status SetDistribution(Context context, std::string_view text) {
  using Kind = FioDistribution::Kind;
  FioDistribution made;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const auto number = [&](double otherwise, double least, double most) -> absl::Status {
    made.parameter = otherwise;
    if (rest.empty()) return absl::OkStatus();
    const auto value = ParseDouble(rest.substr(0, rest.find(':')));
    if (!value.ok() || *value < least || *value > most) {
      return Expected(absl::StrCat("a number from ", least, " to ", most, " after ", AbslView(kind), ":"), rest);
    }
    made.parameter = *value;
    return absl::OkStatus();
  };
  absl::Status status;
  if (kind == "random") {
    made.kind = Kind::kRandom;
  } else if (kind == "zipf") {
    made.kind = Kind::kZipf;
    status = number(1.1, 0.0001, 20);
    if (status.ok() && made.parameter == 1.0) return Expected("a theta other than 1", rest);
  } else if (kind == "pareto") {
    made.kind = Kind::kPareto;
    status = number(0.2, 0.0001, 0.9999);
  } else if (kind == "normal" || kind == "gauss") {
    made.kind = Kind::kNormal;
    status = number(0, 0, 100);
  } else if (kind == "zoned") {
    made.kind = Kind::kZoned;
    double accesses = 0;
    double sizes = 0;
    for (const std::string_view zone : Split(rest.substr(0, rest.find(',')), ':')) {
      const std::size_t slash = zone.find('/');
      const auto access = ParseDouble(zone.substr(0, slash));
      const auto size = ParseDouble(slash == std::string_view::npos ? "" : zone.substr(slash + 1));
      if (!access.ok() || !size.ok() || *access < 0 || *size <= 0) {
        return Expected("zones such as zoned:60/10:40/90 (accesses/size in percent)", text);
      }
      accesses += *access;
      sizes += *size;
      made.zones.push_back({*access, *size});
    }
    if (std::abs(accesses - 100) > 1e-6 || std::abs(sizes - 100) > 1e-6) {
      return Expected("zones whose accesses and sizes both add up to 100 percent", text);
    }
  } else if (kind == "zoned_abs") {
    return absl::UnimplementedError("random_distribution=zoned_abs is not supported");
  } else {
    return Expected("random, zipf, pareto, normal or zoned", text);
  }
  if (status.ok()) context.job.distribution = std::move(made);
  return status;
}

template <auto Member>
absl::Status SetBytesOf(Context context, std::string_view text) {
  if (!text.empty() && text.back() == '%') {
    return absl::UnimplementedError(
        absl::StrCat(AbslView(text), ": percentages of a file are not supported, since there is no file; give bytes"));
  }
  const auto bytes = ParseBytes(text, context.decimal_base);
  if (bytes.ok()) context.job.*Member = *bytes;
  return bytes.status();
}
template <auto Member, std::uint64_t UnitNs>
absl::Status SetTimeOf(Context context, std::string_view text) {
  const auto ns = ParseTime(text, UnitNs);
  if (ns.ok()) context.job.*Member = *ns;
  return ns.status();
}
template <auto Member, std::uint64_t Least, std::uint64_t Most>
absl::Status SetWholeOf(Context context, std::string_view text) {
  std::uint64_t value = 0;
  const absl::Status status = ParseWhole(text, value, Least, Most);
  if (status.ok()) context.job.*Member = static_cast<std::remove_reference_t<decltype(context.job.*Member)>>(value);
  return status;
}
template <auto Member>
absl::Status SetBoolOf(Context context, std::string_view text) {
  return ParseBool(text, context.job.*Member);
}

struct Option {
  std::string_view name;
  Setter set;
};

constexpr std::uint64_t kSecond = 1'000'000'000;

const Option kOptions[] = {
    {"rw", SetRw},
    {"readwrite", SetRw},
    {"bs", SetBlockSize},
    {"blocksize", SetBlockSize},
    {"bsrange", SetBlockRange},
    {"blocksize_range", SetBlockRange},
    {"bssplit", SetBlockSplit},
    {"rwmixread", [](Context c, std::string_view v) { return SetMix(c, v, true); }},
    {"rwmixwrite", [](Context c, std::string_view v) { return SetMix(c, v, false); }},
    {"rw_sequencer",
     [](Context c, std::string_view v) -> absl::Status {
       if (v != "sequential" && v != "identical") return Expected("sequential or identical", v);
       c.job.identical_sequence = v == "identical";
       return absl::OkStatus();
     }},
    {"ioengine", SetEngine},
    {"size", SetBytesOf<&FioJob::size>},
    {"io_size", SetBytesOf<&FioJob::io_size>},
    {"io_limit", SetBytesOf<&FioJob::io_size>},
    {"filesize",
     [](Context c, std::string_view v) -> absl::Status {
       const std::size_t dash = v.find('-');
       const auto from = ParseBytes(v.substr(0, dash), c.decimal_base);
       const auto to = dash == std::string_view::npos ? from : ParseBytes(v.substr(dash + 1), c.decimal_base);
       if (!from.ok()) return from.status();
       if (!to.ok()) return to.status();
       c.job.file_size[0] = std::min(*from, *to);
       c.job.file_size[1] = std::max(*from, *to);
       return absl::OkStatus();
     }},
    {"offset", SetBytesOf<&FioJob::offset>},
    {"offset_increment", SetBytesOf<&FioJob::offset_increment>},
    {"filename",
     [](Context c, std::string_view v) -> absl::Status {
       if (v.empty()) return Expected("a file name", v);
       c.job.filenames.clear();
       for (const std::string_view name : Split(v, ':')) c.job.filenames.emplace_back(name);
       return absl::OkStatus();
     }},
    {"directory",
     [](Context c, std::string_view v) {
       c.job.directory = std::string(v);
       return absl::OkStatus();
     }},
    {"nrfiles", SetWholeOf<&FioJob::nrfiles, 1, 1'000'000>},
    {"nr_files", SetWholeOf<&FioJob::nrfiles, 1, 1'000'000>},
    {"numjobs", SetWholeOf<&FioJob::numjobs, 1, 4096>},
    {"iodepth", SetWholeOf<&FioJob::iodepth, 1, 1u << 20>},
    {"direct", SetBoolOf<&FioJob::direct>},
    {"invalidate", SetBoolOf<&FioJob::invalidate>},
    {"exec_prerun",  // any other command is taken to change nothing
     [](Context c, std::string_view v) {
       c.job.drop_caches = v.find("/proc/sys/vm/drop_caches") != std::string_view::npos;
       return absl::OkStatus();
     }},
    {"buffered",
     [](Context c, std::string_view v) {
       bool buffered = false;
       const absl::Status status = ParseBool(v, buffered);
       if (status.ok()) c.job.direct = !buffered;
       return status;
     }},
    {"runtime", SetTimeOf<&FioJob::runtime_ns, kSecond>},
    {"timeout", SetTimeOf<&FioJob::runtime_ns, kSecond>},
    {"time_based", SetBoolOf<&FioJob::time_based>},
    {"loops", SetWholeOf<&FioJob::loops, 1, 1u << 30>},
    {"norandommap",
     [](Context c, std::string_view v) {
       bool without = false;
       const absl::Status status = ParseBool(v, without);
       if (status.ok()) c.job.random_map = !without;
       return status;
     }},
    {"randseed", SetWholeOf<&FioJob::seed, 0, ~std::uint64_t{0}>},
    {"random_distribution", SetDistribution},
    {"thinktime", SetTimeOf<&FioJob::think_ns, 1000>},
    {"thinktime_blocks", SetWholeOf<&FioJob::think_blocks, 1, 1u << 30>},
    {"rate_iops", SetWholeOf<&FioJob::rate_iops, 0, 1u << 30>},
    {"startdelay", SetTimeOf<&FioJob::start_delay_ns, kSecond>},
    {"stonewall", SetBoolOf<&FioJob::stonewall>},
    {"wait_for_previous", SetBoolOf<&FioJob::stonewall>},
    {"group_reporting", SetBoolOf<&FioJob::group_reporting>},
    {"description",
     [](Context c, std::string_view v) {
       c.job.description = std::string(v);
       return absl::OkStatus();
     }},
    {"name",
     [](Context c, std::string_view v) {
       c.job.name = std::string(v);
       return absl::OkStatus();
     }},
};

// Options of fio that change nothing that is modelled here.
constexpr std::string_view kWithoutEffect[] = {
    "allow_file_create",
    "allow_mounted_write",
    "atomic",
    "bandwidth-log",
    "buffer_pattern",
    "clocksource",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_on_open",
    "create_only",
    "create_serialize",
    "cgroup",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "dontneed",
    "exec_postrun",
    "exitall",
    "exitall_on_error",
    "fadvise_hint",
    "fallocate",
    "file_service_type",
    "filename_format",
    "gtod_cpu",
    "gtod_reduce",
    "hugepage-size",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "iomem",
    "iomem_align",
    "ioscheduler",
    "kb_base",
    "lat_percentiles",
    "clat_percentiles",
    "slat_percentiles",
    "lockfile",
    "lockmem",
    "log_avg_msec",
    "log_hist_coarseness",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_unix_epoch",
    "mem",
    "mem_align",
    "new_group",
    "nice",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "openfiles",
    "overwrite",
    "percentile_list",
    "pre_read",
    "prio",
    "prioclass",
    "profile",
    "ramp_time",
    "randrepeat",
    "allrandrepeat",
    "random_generator",
    "refill_buffers",
    "scramble_buffers",
    "sync_file_range",
    "thread",
    "unified_rw_reporting",
    "unit_base",
    "unlink",
    "unlink_each_loop",
    "use_os_rand",
    "userspace_reap",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
    "write_iolog",
    "zero_buffers",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "nowait",
    "eta",
    "continue_on_error",
    "ignore_error",
    "error_dump",
    "uid",
    "gid",
    "experimental_verify",
    "steadystate",
    "steadystate_duration",
    "per_job_logs",
    "opendir",
    "sync",
    "end_fsync",
    "fsync_on_close",
};
// Options of fio that would change the result.
constexpr std::string_view kNotSupported[] = {
    "read_iolog",
    "replay_no_stall",
    "replay_redirect",
    "verify",
    "do_verify",
    "verify_only",
    "rate",
    "rate_min",
    "rate_process",
    "rate_iops_min",
    "flow",
    "flow_watermark",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "fsync",
    "fdatasync",
    "percentage_random",
    "bs_unaligned",
    "blocksize_unaligned",
    "blockalign",
    "ba",
    "bs_is_seq_rand",
    "cmdprio",
    "cmdprio_percentage",
    "trim_percentage",
    "trim_backlog",
    "softrandommap",
    "number_ios",
    "fill_device",
    "fill_fs",
    "file_append",
    "offset_align",
    "random_seed",
    "job_max_size",
    "thinkcycles",
    "thinktime_spin",
    "rate_cycle",
    "wait_for",
    "nr_jobs",
    "max_open_zones",
    "write_barrier",
};

class Parser {
 public:
  explicit Parser(FioJobFile& file) : file_(file) {}

  absl::Status ReadText(std::string_view text, const std::string& name, int depth);
  absl::Status CommandLine(std::string_view text);

 private:
  struct Given {
    std::string where;
    std::string name;
    std::string value;
  };
  static absl::Status At(std::string_view where, const absl::Status& status) {
    return absl::Status(absl::StatusCode::kInvalidArgument, absl::StrCat(AbslView(where), ": ", status.message()));
  }
  absl::Status Apply(FioJob& job, const std::vector<Given>& options);
  absl::Status ApplyOne(FioJob& job, const Given& option, bool decimal_base);
  absl::Status EndSection();

  FioJobFile& file_;
  std::vector<Given> global_;
  std::vector<Given> section_;
  std::optional<std::string> section_name_;
  std::string section_where_;
};

absl::Status Parser::ApplyOne(FioJob& job, const Given& option, bool decimal_base) {
  for (const Option& known : kOptions) {
    if (known.name != option.name) continue;
    const absl::Status set = known.set({job, decimal_base}, option.value);
    if (!set.ok()) {
      return At(option.where, absl::Status(set.code(), absl::StrCat(option.name, ": ", set.message())));
    }
    return absl::OkStatus();
  }
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), option.name) != std::end(names);
  };
  if (among(kWithoutEffect)) return absl::OkStatus();
  if (among(kNotSupported) || option.name.starts_with("verify") || option.name.starts_with("trim")) {
    return At(option.where,
              absl::UnimplementedError(absl::StrCat(option.name, " is not supported, and would change the result")));
  }
  std::vector<std::string_view> names;
  for (const Option& known : kOptions) names.push_back(known.name);
  const std::string warning =
      absl::StrCat(option.where, ": unknown option \"", option.name, "\" ignored", Suggest(option.name, names));
  // A global one is met once for each job.
  if (std::find(file_.warnings.begin(), file_.warnings.end(), warning) == file_.warnings.end()) {
    file_.warnings.push_back(warning);
  }
  return absl::OkStatus();
}

absl::Status Parser::Apply(FioJob& job, const std::vector<Given>& options) {
  bool decimal_base = false;
  for (const Given& option : options) {
    if (option.name != "kb_base") continue;
    if (option.value != "1000" && option.value != "1024") {
      return At(option.where, Expected("kb_base: 1000 or 1024", option.value));
    }
    decimal_base = option.value == "1000";
  }
  // A mix means something once the mode is known.
  const auto is_mix = [](const Given& option) { return option.name.starts_with("rwmix"); };
  for (const bool mixes : {false, true}) {
    for (const Given& option : options) {
      if (is_mix(option) != mixes) continue;
      if (absl::Status status = ApplyOne(job, option, decimal_base); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::EndSection() {
  if (!section_name_) return absl::OkStatus();
  const std::string name = *std::exchange(section_name_, std::nullopt);
  std::vector<Given> options = std::exchange(section_, {});
  if (name == "global") {
    global_.insert(global_.end(), options.begin(), options.end());
    return absl::OkStatus();
  }
  FioJob job;
  job.name = name;
  options.insert(options.begin(), global_.begin(), global_.end());
  if (absl::Status status = Apply(job, options); !status.ok()) return status;
  const auto refuse = [&](std::string_view what) {
    return At(section_where_, absl::InvalidArgumentError(absl::StrCat("job \"", job.name, "\": ", AbslView(what))));
  };
  if (job.size == 0 && job.file_size[0] == 0) return refuse("expected a size: size= or filesize=");
  if (job.time_based && job.runtime_ns == 0) return refuse("expected runtime= beside time_based");
  if (job.file_size[0] == 0 && job.size / job.Files() < job.MinBlock()) {
    return refuse("expected files of at least one block: size= over the number of files is less than bs=");
  }
  file_.jobs.push_back(std::move(job));
  return absl::OkStatus();
}

absl::Status Parser::ReadText(std::string_view text, const std::string& name, int depth) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string where = absl::StrCat(name, ":", ++number);
    if (line.find('\0') != std::string_view::npos) return At(where, Expected("text", "a NUL byte"));
    line = Strip(line.substr(0, line.find_first_of(";#")));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (absl::Status status = EndSection(); !status.ok()) return status;
      const std::size_t close = line.find(']');
      if (close == std::string_view::npos || close == 1) return At(where, Expected("[name]", line));
      section_name_ = std::string(line.substr(1, close - 1));
      section_where_ = where;
      continue;
    }
    if (line.starts_with("include ") || line.starts_with("include\t")) {
      const std::string_view included = Strip(line.substr(8));
      if (depth == kMostIncludes) {
        return At(where, absl::InvalidArgumentError(
                             absl::StrCat("expected at most ", kMostIncludes, " files that include one another")));
      }
      const std::string path = (std::filesystem::path(name).parent_path() / std::string(included)).string();
      std::ifstream in(path, std::ios::binary);
      std::ostringstream all;
      if (!in || !(all << in.rdbuf())) {
        return At(where, absl::NotFoundError(absl::StrCat("include: cannot read ", path)));
      }
      if (absl::Status status = ReadText(all.str(), path, depth + 1); !status.ok()) return status;
      continue;
    }
    if (!section_name_) {
      return At(where, absl::InvalidArgumentError(absl::StrCat("expected [name] before \"", AbslView(line), "\"")));
    }
    const std::size_t equals = line.find('=');
    const bool bare = equals == std::string_view::npos;
    section_.push_back({where, std::string(Strip(line.substr(0, equals))),
                        std::string(bare ? std::string_view() : Strip(line.substr(equals + 1)))});
  }
  return depth == 0 ? EndSection() : absl::OkStatus();
}

absl::Status Parser::CommandLine(std::string_view text) {
  section_name_ = "global";
  bool any = false;
  std::size_t number = 0;
  for (std::string_view word : Split(text, ' ')) {
    word = Strip(word);
    if (word.empty()) continue;
    const std::string where = absl::StrCat("--fio: option ", ++number);
    if (!word.starts_with("--")) return At(where, Expected("--option=value", word));
    word.remove_prefix(2);
    const std::size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const std::string value(equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1));
    if (name == "name") {
      if (absl::Status status = EndSection(); !status.ok()) return status;
      section_name_ = value;
      section_where_ = where;
      any = true;
    } else {
      section_.push_back({where, name, value});
    }
  }
  if (!any) {
    section_name_ = "job";
    section_where_ = "--fio";
  }
  return EndSection();
}

}  // namespace

std::uint64_t FioJob::MinBlock() const {
  std::uint64_t least = ~std::uint64_t{0};
  if (read_percent > 0) least = std::min(least, blocks[0].front().bytes);
  if (read_percent < 100) least = std::min(least, blocks[1].front().bytes);
  return least;
}

std::string FioJob::FileName(std::uint32_t process, std::uint32_t file) const {
  const std::string base = filenames.empty() ? absl::StrCat(name, ".", process, ".", file) : filenames[file];
  return directory.empty() ? base : absl::StrCat(directory, "/", base);
}

absl::StatusOr<FioJobFile> ParseFioJobText(std::string_view text, const std::string& name) {
  FioJobFile file;
  if (absl::Status status = Parser(file).ReadText(text, name, 0); !status.ok()) return status;
  if (file.jobs.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": expected a job, got none"));
  return file;
}

absl::StatusOr<FioJobFile> ReadFioJobFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return ParseFioJobText(text.str(), path);
}

absl::StatusOr<FioJobFile> ParseFioCommandLine(std::string_view text) {
  FioJobFile file;
  if (absl::Status status = Parser(file).CommandLine(text); !status.ok()) return status;
  return file;
}

}  // namespace v0
}  // namespace daxcache
