// Reader and writer of `.dxt`. The layout is fixed: sections stand one behind the other in the order of `Section`, each
// at the next multiple of 64 bytes, so a reader knows where each must be and nothing can overlap.
#include "daxcache/traces/dxt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "check_access.h"
#include "column_builder.h"
#include "crc32c.h"
#include "daxcache/range.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

static_assert(std::endian::native == std::endian::little, ".dxt is little endian and read as it lies");

constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlign = 64;

enum Section : std::uint32_t {
  kTimes,
  kTaskIds,
  kFileIds,
  kOps,
  kOffsets,
  kLengths,
  kFiles,
  kPaths,
  kTasks,
  kTaskNames,
  kSkipped,
  kReasons,
  kSectionsWithoutStream,
  kStream = kSectionsWithoutStream,
  kWords,
  kRepeats,
  kRangeFiles,
  kRangeIndexes,
  kFirstRange,
  kRecords,
  kSectionsWithStream,
};
constexpr std::string_view kSectionNames[] = {
    "times",   "task ids",    "file ids",      "operations",   "offsets",         "lengths", "files",
    "paths",   "tasks",       "names",         "skipped",      "reasons",         "stream",  "words",
    "repeats", "range files", "range indexes", "first ranges", "records of words"};
static_assert(std::size(kSectionNames) == kSectionsWithStream);

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t sections;
  std::uint64_t file_bytes;
  std::uint64_t records;
  std::uint32_t mapped_touches;
  std::uint32_t checksum;  // of header and section table, this field taken as 0
  std::uint64_t reserved[3];
};
static_assert(sizeof(Header) == 64);

struct Entry {
  std::uint32_t section;
  std::uint32_t checksum;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t width;  // of a column: bytes a value; else 0
  std::uint32_t reserved;
  std::uint64_t base;   // of a column; else 0
  std::uint64_t scale;  // of a column; else 0
};
static_assert(sizeof(Entry) == 48);

struct FileEntry {
  std::uint64_t size;
  std::uint64_t path_end;  // the path is the bytes from the path_end before to this one
};
static_assert(sizeof(FileEntry) == 16);

struct TaskEntry {
  std::uint32_t parent;
  std::uint32_t reserved;
  std::int64_t start_ns;
  std::int64_t end_ns;
  std::uint64_t user_us;
  std::uint64_t system_us;
  std::uint64_t name_end;
};
static_assert(sizeof(TaskEntry) == 48);

struct SkippedEntry {
  std::uint64_t count;
  std::uint64_t reason_end;
};
static_assert(sizeof(SkippedEntry) == 16);

struct StreamEntry {
  std::uint32_t range_shift;
  std::uint32_t folded;
  std::uint64_t words;
  std::uint64_t ranges;
  std::uint64_t accesses;
  std::uint64_t touches;
  std::uint64_t extending_accesses;
  std::uint64_t extending_touches;
  std::uint64_t reserved;
};
static_assert(sizeof(StreamEntry) == 64);

constexpr std::uint64_t Aligned(std::uint64_t offset) {
  return (offset + kAlign - 1) & ~(kAlign - 1);
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A whole .dxt and its sections, once their places are known to be sound.
struct File {
  std::string name;
  Input::Whole whole;
  Header header{};
  std::vector<Entry> entries;

  template <class... Parts>
  absl::Status Error(std::uint64_t offset, const Parts&... parts) const {
    return absl::DataLossError(absl::StrCat(name, ": offset ", offset, ": expected ", parts...));
  }

  std::span<const std::byte> Bytes(Section section) const {
    return whole.bytes.subspan(entries[section].offset, entries[section].bytes);
  }
  // Sections are aligned to 64 bytes, and so is the whole.
  template <class T>
  std::span<const T> Array(Section section) const {
    const std::span bytes = Bytes(section);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  Column ColumnOf(Section section) const {
    const Entry& entry = entries[section];
    return Column(Bytes(section).data(), static_cast<int>(entry.width), entry.base, entry.scale);
  }

  bool SaysNoneMapped() const { return header.mapped_touches == static_cast<std::uint32_t>(MappedTouches::kNone); }

  absl::Status ReadTable() {
    const std::span bytes = whole.bytes;
    if (bytes.size() < sizeof(Header)) return Error(bytes.size(), "a header of 64 bytes, got ", bytes.size(), " bytes");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::string_view(header.magic, sizeof header.magic) != kDxtMagic) {
      return Error(0, "the signature of a .dxt, got ", Quoted({header.magic, sizeof header.magic}),
                   " (was it copied as text?)");
    }
    if (header.version != kVersion) return Error(8, "version ", kVersion, ", got version ", header.version);
    if (header.sections != kSectionsWithoutStream && header.sections != kSectionsWithStream) {
      return Error(12, static_cast<int>(kSectionsWithoutStream), " or ", static_cast<int>(kSectionsWithStream),
                   " sections, got ", header.sections);
    }
    if (header.file_bytes != bytes.size()) {
      return Error(16, "a file of ", header.file_bytes, " bytes, got one of ", bytes.size(), " (is it cut?)");
    }
    const std::size_t table_end = sizeof(Header) + header.sections * sizeof(Entry);
    if (bytes.size() < table_end) return Error(64, "a section table of ", header.sections, " entries, got the end");
    entries.resize(header.sections);
    std::memcpy(entries.data(), bytes.data() + sizeof(Header), header.sections * sizeof(Entry));
    Header summed = header;
    summed.checksum = 0;
    std::uint32_t sum = internal::Crc32c(std::as_bytes(std::span(&summed, 1)));
    sum = internal::Crc32c(std::as_bytes(std::span(entries)), sum);
    if (sum != header.checksum) return Error(36, "header and table with checksum ", header.checksum, ", got ", sum);
    if (header.mapped_touches > 2 || header.reserved[0] != 0 || header.reserved[1] != 0 || header.reserved[2] != 0) {
      return Error(32, "mapped touches from 0 to 2 and zeros, got others");
    }
    std::uint64_t end = table_end;
    for (std::uint32_t i = 0; i < header.sections; ++i) {
      const Entry& entry = entries[i];
      const std::uint64_t at = sizeof(Header) + i * sizeof(Entry);
      const bool column = i <= kLengths;
      if (entry.section != i || entry.offset != Aligned(end) || entry.reserved != 0) {
        return Error(at, "section ", i, " (", AbslView(kSectionNames[i]), ") at offset ", Aligned(end),
                     ", got section ", entry.section, " at ", entry.offset);
      }
      if (entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset) {
        return Error(at, "a section within the file's ", bytes.size(), " bytes, got ", entry.bytes, " at ",
                     entry.offset);
      }
      if (column) {
        const std::uint32_t w = entry.width;
        if ((w != 0 && w != 1 && w != 2 && w != 4 && w != 8) || entry.scale == 0) {
          return Error(at, "a column 0, 1, 2, 4 or 8 bytes wide, got ", w);
        }
        // Times are at least a byte wide, so that the number of records is bounded by the file's size.
        if (w == 0 ? (entry.bytes != 0 || (i == kTimes && header.records != 0))
                   : (entry.bytes % w != 0 || entry.bytes / w != header.records)) {
          return Error(at, header.records, " records of ", w, " bytes, got ", entry.bytes, " bytes");
        }
      } else if (entry.width != 0 || entry.base != 0 || entry.scale != 0) {
        return Error(at, "no packing outside of columns, got some");
      }
      for (std::uint64_t byte = end; byte < entry.offset; ++byte) {
        if (bytes[byte] != std::byte{0}) return Error(byte, "zeros between sections, got others");
      }
      end = entry.offset + entry.bytes;
    }
    if (end != bytes.size()) return Error(end, "the end of the file after the last section, got more");
    return absl::OkStatus();
  }

  absl::Status CheckSum(Section section) const {
    const std::uint32_t sum = internal::Crc32c(Bytes(section));
    if (sum == entries[section].checksum) return absl::OkStatus();
    return Error(entries[section].offset, "section \"", AbslView(kSectionNames[section]), "\" with checksum ",
                 entries[section].checksum, ", got ", sum);
  }
};

// One section of structs and one of the strings that they end in.
template <class T>
absl::StatusOr<std::span<const T>> ReadStructs(const File& file, Section section) {
  if (absl::Status status = file.CheckSum(section); !status.ok()) return status;
  if (const std::uint64_t bytes = file.entries[section].bytes; bytes % sizeof(T) != 0) {
    return file.Error(file.entries[section].offset, "entries of ", sizeof(T), " bytes, got ", bytes, " bytes");
  }
  return file.Array<T>(section);
}

class StringSection {
 public:
  StringSection(const File& file, Section section)
      : file_(file), section_(section), text_(AsText(file.Bytes(section))) {}
  absl::Status CheckSum() const { return file_.CheckSum(section_); }
  // The string that ends at `end`, where the one before ended.
  absl::StatusOr<std::string_view> Next(std::uint64_t end) {
    if (end < at_ || end > text_.size()) {
      return file_.Error(file_.entries[section_].offset, "a string that ends from ", at_, " to ", text_.size(),
                         ", got ", end);
    }
    const std::string_view text = text_.substr(at_, end - at_);
    at_ = end;
    return text;
  }

 private:
  const File& file_;
  Section section_;
  std::string_view text_;
  std::uint64_t at_ = 0;
};

absl::Status ReadTables(const File& file, Trace::Parts& parts) {
  StringSection paths(file, kPaths);
  StringSection names(file, kTaskNames);
  StringSection reasons(file, kReasons);
  for (const StringSection* strings : {&paths, &names, &reasons}) {
    if (absl::Status status = strings->CheckSum(); !status.ok()) return status;
  }
  const auto files = ReadStructs<FileEntry>(file, kFiles);
  if (!files.ok()) return files.status();
  parts.files.reserve(files->size());
  for (const FileEntry& entry : *files) {
    const auto path = paths.Next(entry.path_end);
    if (!path.ok()) return path.status();
    if (entry.size > internal::kMaxExtent) {
      return file.Error(file.entries[kFiles].offset, "files of at most 2^63 bytes, got ", entry.size);
    }
    parts.files.push_back({.path = *path, .size = entry.size});
  }
  const auto tasks = ReadStructs<TaskEntry>(file, kTasks);
  if (!tasks.ok()) return tasks.status();
  parts.tasks.reserve(tasks->size());
  for (const TaskEntry& entry : *tasks) {
    const auto name = names.Next(entry.name_end);
    if (!name.ok()) return name.status();
    if (TaskId{entry.parent} != kNoTask && entry.parent >= parts.tasks.size()) {
      return file.Error(file.entries[kTasks].offset, "a parent before task ", parts.tasks.size(), ", got ",
                        entry.parent);
    }
    if (entry.start_ns < 0 || entry.end_ns < entry.start_ns) {
      return file.Error(file.entries[kTasks].offset, "task ", parts.tasks.size(),
                        " from 0 ns or later to its end, got ", entry.start_ns, " to ", entry.end_ns);
    }
    parts.tasks.push_back({.parent = TaskId{entry.parent},
                           .start_ns = entry.start_ns,
                           .end_ns = entry.end_ns,
                           .user_us = entry.user_us,
                           .system_us = entry.system_us,
                           .name = *name});
  }
  const auto skipped = ReadStructs<SkippedEntry>(file, kSkipped);
  if (!skipped.ok()) return skipped.status();
  for (const SkippedEntry& entry : *skipped) {
    const auto reason = reasons.Next(entry.reason_end);
    if (!reason.ok()) return reason.status();
    parts.report.skipped.push_back({.reason = std::string(*reason), .count = entry.count});
  }
  if (parts.files.size() >= ToIndex(kNoFile) || parts.tasks.size() >= ToIndex(kNoTask)) {
    return file.Error(file.entries[kFiles].offset, "at most 2^32 - 1 files and tasks, got more");
  }
  return absl::OkStatus();
}

// What replay relies on: it indexes arrays by the numbers in the words. Every open of a .dxt takes this pass, so it is
// free of branches and in 32-bit arithmetic, in blocks whose sums fit: compilers make vector instructions of it.
struct WordSummary {
  std::uint64_t touches = 0;
  std::uint64_t extending_touches = 0;
  bool sound = true;  // kinds are known, numbers below their limits, repeats at least 1 and 1 for events
  bool any_mapped = false;
};
WordSummary Summarize(std::span<const std::uint32_t> words, std::span<const std::uint8_t> repeats, std::uint64_t ranges,
                      std::uint64_t files) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::int32_t kExtending = RangeStream::kExtendingWrite;
  constexpr std::int32_t kLast = RangeStream::kTruncate;
  const std::int32_t range_limit = static_cast<std::int32_t>(ranges);
  const std::int32_t file_limit = static_cast<std::int32_t>(files);
  WordSummary summary;
  for (std::size_t start = 0; start < words.size(); start += kBlock) {
    const std::size_t count = std::min(kBlock, words.size() - start);
    const std::uint32_t* const word = words.data() + start;
    const std::uint8_t* const repeat = repeats.data() + start;
    std::int32_t touches = 0;
    std::int32_t extending = 0;
    std::int32_t bad = 0;
    std::int32_t mapped = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t kind = static_cast<std::int32_t>(word[i] & ((1u << RangeStream::kKindBits) - 1));
      const std::int32_t number = static_cast<std::int32_t>(word[i] >> RangeStream::kKindBits);
      const std::int32_t times = repeat[i];
      const std::int32_t is_event = -static_cast<std::int32_t>(kind > kExtending);
      const std::int32_t is_extending = -static_cast<std::int32_t>(kind == kExtending);
      const std::int32_t limit = (file_limit & is_event) | (range_limit & ~is_event);
      touches += times & ~is_event;
      extending += times & is_extending;
      bad |= -static_cast<std::int32_t>(number >= limit) | -static_cast<std::int32_t>(kind > kLast) |
             -static_cast<std::int32_t>(times == 0) | (is_event & (times ^ 1));
      mapped |= -static_cast<std::int32_t>((kind & ~1) == RangeStream::kMappedRead);
    }
    summary.touches += static_cast<std::uint32_t>(touches);
    summary.extending_touches += static_cast<std::uint32_t>(extending);
    summary.sound = summary.sound && bad == 0;
    summary.any_mapped = summary.any_mapped || mapped != 0;
  }
  return summary;
}

absl::StatusOr<std::shared_ptr<const RangeStream>> ReadStream(const File& file, std::size_t num_files) {
  const auto at = [&file](Section section) { return file.entries[section].offset; };
  // The records of the words are for those who also read the columns: see CheckColumns.
  for (const Section section : {kStream, kWords, kRepeats, kRangeFiles, kRangeIndexes, kFirstRange}) {
    if (absl::Status status = file.CheckSum(section); !status.ok()) return status;
  }
  if (file.entries[kStream].bytes != sizeof(StreamEntry)) {
    return file.Error(at(kStream), "64 bytes, got ", file.entries[kStream].bytes);
  }
  StreamEntry entry;
  std::memcpy(&entry, file.Bytes(kStream).data(), sizeof entry);
  if (entry.range_shift < 12 || entry.range_shift > 30 || entry.folded > 1 || entry.reserved != 0) {
    return file.Error(at(kStream), "a range size from 2^12 to 2^30 and a flag, got 2^", entry.range_shift, " and ",
                      entry.folded);
  }
  const struct {
    Section section;
    std::uint64_t count;
    std::uint64_t bytes_each;
  } sizes[] = {{kWords, entry.words, 4},       {kRepeats, entry.words, 1},       {kRecords, entry.words, 4},
               {kRangeFiles, entry.ranges, 4}, {kRangeIndexes, entry.ranges, 8}, {kFirstRange, num_files + 1, 4}};
  for (const auto& size : sizes) {
    const std::uint64_t bytes = file.entries[size.section].bytes;
    if (bytes % size.bytes_each != 0 || bytes / size.bytes_each != size.count) {
      return file.Error(at(size.section), size.count, " entries of ", size.bytes_each, " bytes, got ", bytes, " bytes");
    }
  }
  RangeStream::Parts parts;
  const absl::StatusOr<RangeSize> range_size = RangeSize::Create(ByteSize(std::uint64_t{1} << entry.range_shift));
  if (!range_size.ok()) return range_size.status();
  parts.range_size = *range_size;
  parts.folded = entry.folded != 0;
  parts.words = file.Array<std::uint32_t>(kWords);
  parts.repeats = file.Array<std::uint8_t>(kRepeats);
  parts.records = file.Array<std::uint32_t>(kRecords);
  parts.range_files = file.Array<std::uint32_t>(kRangeFiles);
  parts.range_indexes = file.Array<std::uint64_t>(kRangeIndexes);
  parts.first_range = file.Array<std::uint32_t>(kFirstRange);
  parts.accesses = entry.accesses;
  parts.touches = entry.touches;
  parts.extending_accesses = entry.extending_accesses;
  parts.extending_touches = entry.extending_touches;
  parts.storage.push_back(file.whole.storage);

  // Ranges: the numbers of a file's follow on one another, in order of their index.
  if (entry.ranges > RangeStream::kMaxRanges || num_files > RangeStream::kMaxRanges) {
    return file.Error(at(kStream), "at most 2^29 ranges and files, got more");
  }
  std::uint64_t number = 0;
  for (std::uint64_t f = 0; f < num_files; ++f) {
    const std::uint64_t end = parts.first_range[f + 1];
    if (parts.first_range[f] != number || end < number || end > entry.ranges) {
      return file.Error(at(kFirstRange), "ranges of file ", f, " from ", number, ", got ", parts.first_range[f], " to ",
                        end);
    }
    for (const std::uint64_t first = number; number < end; ++number) {
      const std::uint64_t index = parts.range_indexes[number];
      if (parts.range_files[number] != f || index > internal::kMaxExtent >> entry.range_shift ||
          (number > first && index <= parts.range_indexes[number - 1])) {
        return file.Error(at(kRangeFiles), "range ", number, " to be of file ", f, " and in order, got file ",
                          parts.range_files[number], " index ", index);
      }
    }
  }
  if (number != entry.ranges || parts.first_range[num_files] != number) {
    return file.Error(at(kFirstRange), entry.ranges, " ranges, got ", number);
  }
  const WordSummary summary = Summarize(parts.words, parts.repeats, entry.ranges, num_files);
  if (!summary.sound) {
    return file.Error(at(kWords), "words of kinds up to ", static_cast<int>(RangeStream::kTruncate), ", ranges below ",
                      entry.ranges, ", files below ", num_files, " and repeats of at least 1, got others");
  }
  if (summary.any_mapped && file.SaysNoneMapped()) {
    return file.Error(at(kWords), "no mapped touches (the header says so), got some");
  }
  if (summary.touches != entry.touches || summary.extending_touches != entry.extending_touches ||
      entry.accesses > entry.touches || entry.accesses > file.header.records ||
      entry.extending_accesses > entry.accesses) {
    return file.Error(at(kStream), entry.touches, " touches, ", entry.extending_touches, " of them extending, got ",
                      summary.touches, " and ", summary.extending_touches);
  }
  return std::make_shared<const RangeStream>(std::move(parts));
}

// Whether the raw values of a column never fall, and the greatest value (false and any if that does not fit 64 bits).
// Simple loops over one column, which compilers vectorise.
struct ColumnSummary {
  bool fits = true;
  bool sorted = true;
  std::uint64_t max = 0;
};
ColumnSummary Summarize(const Column& column, std::uint64_t size) {
  std::uint64_t max_raw = 0;
  ColumnSummary summary;
  internal::WithWidth(column.width(), [&]<class T>(T max) {
    // Sections are aligned to 64 bytes.
    const T* const raw = reinterpret_cast<const T*>(column.data());
    unsigned falls = 0;
    for (std::uint64_t i = 0; i < size; ++i) max = std::max(max, raw[i]);
    for (std::uint64_t i = 1; i < size; ++i) falls |= static_cast<unsigned>(raw[i] < raw[i - 1]);
    summary.sorted = falls == 0;
    max_raw = max;
  });
  summary.fits = max_raw <= (std::numeric_limits<std::uint64_t>::max() - column.base()) / column.scale();
  summary.max = column.base() + column.scale() * max_raw;
  return summary;
}

// True if the columns taken one by one show that every record is a sound touch, and not a mapped one where there are
// none; false means "look at each record".
bool AllSoundTouches(const File& file, std::uint64_t num_files, std::uint64_t num_tasks) {
  const std::uint64_t size = file.header.records;
  const auto within = [&](Section section, std::uint64_t limit) {
    const ColumnSummary column = Summarize(file.ColumnOf(section), size);
    return column.fits && column.max < limit;
  };
  const Op last = file.SaysNoneMapped() ? Op::kWrite : Op::kMappedWrite;
  if (!within(kOps, static_cast<std::uint64_t>(last) + 1)) return false;
  if (!within(kTaskIds, num_tasks) || !within(kFileIds, num_files)) return false;
  const ColumnSummary times = Summarize(file.ColumnOf(kTimes), size);
  const ColumnSummary offsets = Summarize(file.ColumnOf(kOffsets), size);
  const ColumnSummary lengths = Summarize(file.ColumnOf(kLengths), size);
  return times.fits && times.sorted && times.max <= std::numeric_limits<std::int64_t>::max() && offsets.fits &&
         lengths.fits && lengths.max <= internal::kMaxExtent && offsets.max <= internal::kMaxExtent - lengths.max;
}

// What opening leaves out: the columns, and the stream's way back to them.
absl::Status CheckColumns(const File& file, std::uint64_t num_files, std::uint64_t num_tasks) {
  for (const Section section : {kTimes, kTaskIds, kFileIds, kOps, kOffsets, kLengths}) {
    if (absl::Status status = file.CheckSum(section); !status.ok()) return status;
  }
  const bool each = !AllSoundTouches(file, num_files, num_tasks);
  const Column times = file.ColumnOf(kTimes);
  const Column task_ids = file.ColumnOf(kTaskIds);
  const Column file_ids = file.ColumnOf(kFileIds);
  const Column ops = file.ColumnOf(kOps);
  const Column offsets = file.ColumnOf(kOffsets);
  const Column lengths = file.ColumnOf(kLengths);
  internal::AccessBounds bounds{.files = num_files, .tasks = num_tasks, .not_before_ns = 0};
  for (std::uint64_t i = 0; each && i < file.header.records; ++i) {
    const std::uint64_t task = std::min<std::uint64_t>(task_ids[i], ToIndex(kNoTask));
    const std::uint64_t of_file = std::min<std::uint64_t>(file_ids[i], ToIndex(kNoFile));
    const Access access{.time_ns = static_cast<std::int64_t>(times[i]),
                        .task = TaskId{static_cast<std::uint32_t>(task)},
                        .file = FileId{static_cast<std::uint32_t>(of_file)},
                        .op = static_cast<Op>(std::min<std::uint64_t>(ops[i], kNumOps)),
                        .offset = offsets[i],
                        .length = lengths[i]};
    const auto error_at = [&](Section section, absl::string_view what) {
      const Entry& entry = file.entries[section];
      return absl::DataLossError(
          absl::StrCat(file.name, ": offset ", entry.offset + i * entry.width, " (record ", i, "): ", what));
    };
    if (!internal::IsSoundTouch(access, bounds)) {
      if (absl::Status status = internal::CheckAccess(access, bounds); !status.ok()) {
        return error_at(kTimes, status.message());
      }
    }
    if (IsMapped(access.op) && file.SaysNoneMapped()) {
      return error_at(kOps, "expected no mapped touches (the header says so), got one");
    }
    bounds.not_before_ns = access.time_ns;
  }
  if (file.header.sections != kSectionsWithStream) return absl::OkStatus();
  if (absl::Status status = file.CheckSum(kRecords); !status.ok()) return status;
  const ColumnSummary records =
      Summarize(Column(file.Bytes(kRecords).data(), 4, 0, 1), file.entries[kRecords].bytes / 4);
  if (!records.sorted || (file.entries[kRecords].bytes > 0 && records.max >= file.header.records)) {
    return file.Error(file.entries[kRecords].offset, "records of words that never fall, below ", file.header.records,
                      ", got others");
  }
  return absl::OkStatus();
}

template <class T>
std::string_view StructBytes(const std::vector<T>& entries) {
  return {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(T)};
}

}  // namespace

absl::StatusOr<Trace> ReadDxt(Input& input) {
  absl::StatusOr<Input::Whole> whole = input.ReadAll();
  if (!whole.ok()) return whole.status();
  auto file = std::make_shared<File>();
  file->name = input.name();
  file->whole = *std::move(whole);
  if (absl::Status status = file->ReadTable(); !status.ok()) return status;
  Trace::Parts parts;
  parts.size = file->header.records;
  parts.columns = {.time_ns = file->ColumnOf(kTimes),
                   .task = file->ColumnOf(kTaskIds),
                   .file = file->ColumnOf(kFileIds),
                   .op = file->ColumnOf(kOps),
                   .offset = file->ColumnOf(kOffsets),
                   .length = file->ColumnOf(kLengths)};
  if (absl::Status status = ReadTables(*file, parts); !status.ok()) return status;
  if (file->header.sections == kSectionsWithStream) {
    absl::StatusOr<std::shared_ptr<const RangeStream>> stream = ReadStream(*file, parts.files.size());
    if (!stream.ok()) return stream.status();
    parts.stored_stream = *std::move(stream);
  }
  parts.mapped_touches = static_cast<MappedTouches>(file->header.mapped_touches);
  parts.source = file->name;
  parts.format = std::string(kDxt.name);
  // Checked once, whoever asks and however often.
  struct Check {
    std::once_flag once;
    absl::Status status;
  };
  parts.check_records = [file, check = std::make_shared<Check>(), files = parts.files.size(),
                         tasks = parts.tasks.size()] {
    std::call_once(check->once, [&] { check->status = CheckColumns(*file, files, tasks); });
    return check->status;
  };
  parts.storage.push_back(file);
  return Trace(std::move(parts));
}

absl::Status WriteDxt(const Trace& trace, Output& output) {
  std::array<std::string_view, kSectionsWithStream> contents;
  std::array<Entry, kSectionsWithStream> entries{};

  const Trace::Columns& c = trace.columns();
  const Column* columns[] = {&c.time_ns, &c.task, &c.file, &c.op, &c.offset, &c.length};
  for (std::uint32_t i = 0; i <= kLengths; ++i) {
    const Column& column = *columns[i];
    contents[i] = {reinterpret_cast<const char*>(column.data()),
                   trace.size() * static_cast<std::uint64_t>(column.width())};
    entries[i].width = static_cast<std::uint32_t>(column.width());
    entries[i].base = column.base();
    entries[i].scale = column.scale();
  }
  std::vector<FileEntry> files;
  std::string paths;
  for (const FileInfo& file : trace.files()) {
    paths += file.path;
    files.push_back({.size = file.size, .path_end = paths.size()});
  }
  std::vector<TaskEntry> tasks;
  std::string names;
  for (const TaskInfo& task : trace.tasks()) {
    names += task.name;
    tasks.push_back({.parent = ToIndex(task.parent),
                     .reserved = 0,
                     .start_ns = task.start_ns,
                     .end_ns = task.end_ns,
                     .user_us = task.user_us,
                     .system_us = task.system_us,
                     .name_end = names.size()});
  }
  std::vector<SkippedEntry> skipped;
  std::string reasons;
  for (const ReadReport::Skipped& entry : trace.report().skipped) {
    reasons += entry.reason;
    skipped.push_back({.count = entry.count, .reason_end = reasons.size()});
  }
  contents[kFiles] = StructBytes(files);
  contents[kPaths] = paths;
  contents[kTasks] = StructBytes(tasks);
  contents[kTaskNames] = names;
  contents[kSkipped] = StructBytes(skipped);
  contents[kReasons] = reasons;

  std::uint32_t sections = kSectionsWithoutStream;
  absl::StatusOr<std::shared_ptr<const RangeStream>> stream = nullptr;
  if (!output.compresses()) stream = RangeStream::Build(trace, {});
  std::vector<StreamEntry> stream_entry;
  if (stream.ok() && *stream != nullptr) {
    sections = kSectionsWithStream;
    const RangeStream::Parts& s = (*stream)->parts();
    stream_entry.push_back({.range_shift = static_cast<std::uint32_t>(s.range_size.shift()),
                            .folded = s.folded ? 1u : 0u,
                            .words = s.words.size(),
                            .ranges = s.range_files.size(),
                            .accesses = s.accesses,
                            .touches = s.touches,
                            .extending_accesses = s.extending_accesses,
                            .extending_touches = s.extending_touches,
                            .reserved = 0});
    contents[kStream] = StructBytes(stream_entry);
    contents[kWords] = AsText(std::as_bytes(s.words));
    contents[kRepeats] = AsText(std::as_bytes(s.repeats));
    contents[kRecords] = AsText(std::as_bytes(s.records));
    contents[kRangeFiles] = AsText(std::as_bytes(s.range_files));
    contents[kRangeIndexes] = AsText(std::as_bytes(s.range_indexes));
    contents[kFirstRange] = AsText(std::as_bytes(s.first_range));
  } else if (!stream.ok() && !absl::IsOutOfRange(stream.status()) && !absl::IsResourceExhausted(stream.status())) {
    return stream.status();
  }

  std::uint64_t end = sizeof(Header) + sections * sizeof(Entry);
  for (std::uint32_t i = 0; i < sections; ++i) {
    entries[i].section = i;
    entries[i].offset = Aligned(end);
    entries[i].bytes = contents[i].size();
    entries[i].checksum = internal::Crc32c(AsBytes(contents[i]));
    end = entries[i].offset + entries[i].bytes;
  }
  Header header{};
  std::memcpy(header.magic, kDxtMagic.data(), sizeof header.magic);
  header.version = kVersion;
  header.sections = sections;
  header.file_bytes = end;
  header.records = trace.size();
  header.mapped_touches = static_cast<std::uint32_t>(trace.mapped_touches());
  const std::span table = std::as_bytes(std::span(entries).first(sections));
  header.checksum = internal::Crc32c(table, internal::Crc32c(std::as_bytes(std::span(&header, 1))));
  if (absl::Status s = output.Write(AsText(std::as_bytes(std::span(&header, 1)))); !s.ok()) return s;
  if (absl::Status s = output.Write(AsText(table)); !s.ok()) return s;
  end = sizeof(Header) + table.size();
  constexpr char kPadding[kAlign] = {};
  for (std::uint32_t i = 0; i < sections; ++i) {
    if (absl::Status s = output.Write({kPadding, entries[i].offset - end}); !s.ok()) return s;
    if (absl::Status s = output.Write(contents[i]); !s.ok()) return s;
    end = entries[i].offset + entries[i].bytes;
  }
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
