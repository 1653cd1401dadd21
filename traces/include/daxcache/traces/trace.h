// A trace in memory: what tasks did to files, in order of time, as columns. Every reader makes one, every driver takes
// one; a `.dxt` file is one, mapped.
//
//   absl::StatusOr<Trace> trace = ReadTrace("kbuild.trace.zst");        // daxcache/traces/builtin.h
//   for (std::uint64_t i = 0; i < trace->size(); ++i) Use((*trace)[i]);
//
// A Trace is immutable and cheap to copy (copies share the bytes). To make one, use `TraceBuilder`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

// One column of unsigned numbers, packed: value = base + scale * raw, with raw little endian in 0, 1, 2, 4 or 8 bytes
// (0: all values equal base). Does not own its bytes.
class Column {
 public:
  Column() = default;
  Column(const std::byte* data, int width, std::uint64_t base, std::uint64_t scale)
      : data_(data), base_(base), scale_(scale), width_(width) {}

  std::uint64_t operator[](std::uint64_t i) const {
    switch (width_) {
      case 0: return base_;
      case 1: return base_ + scale_ * Raw<std::uint8_t>(i);
      case 2: return base_ + scale_ * Raw<std::uint16_t>(i);
      case 4: return base_ + scale_ * Raw<std::uint32_t>(i);
      default: return base_ + scale_ * Raw<std::uint64_t>(i);
    }
  }
  const std::byte* data() const { return data_; }
  int width() const { return width_; }  // bytes a value
  std::uint64_t base() const { return base_; }
  std::uint64_t scale() const { return scale_; }

 private:
  template <class T>
  T Raw(std::uint64_t i) const {
    T raw;
    std::memcpy(&raw, data_ + i * sizeof(T), sizeof(T));
    return raw;
  }

  const std::byte* data_ = nullptr;
  std::uint64_t base_ = 0;
  std::uint64_t scale_ = 1;
  int width_ = 0;
};

struct FileInfo {
  std::string_view path = {};
  std::uint64_t size = 0;  // the largest seen, bytes
};

struct TaskInfo {
  TaskId parent = kNoTask;  // declared before its children, so its id is less than theirs
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t user_us = 0;  // CPU time of the task's own, without its children
  std::uint64_t system_us = 0;
  std::string_view name = {};
};

// How finely a trace shows loads and stores through mappings.
enum class MappedTouches : std::uint8_t {
  kNone,    // not at all: the format has calls only
  kRanges,  // one touch a range when the mapping was made
  kPages,   // page faults
};

// What a reader met besides good records: every line is either a record or counted here, by reason.
struct ReadReport {
  struct Skipped {
    std::string reason;  // "fio 'wait' actions", "calls on sockets", …
    std::uint64_t count = 0;
  };
  std::vector<Skipped> skipped;
};

class RangeStream;

class Trace {
 public:
  struct Columns {
    Column time_ns, task, file, op, offset, length;
  };
  // Everything a trace is made of; `storage` keeps alive what the columns and strings point into.
  struct Parts {
    std::uint64_t size = 0;  // records
    Columns columns;
    std::vector<FileInfo> files;
    std::vector<TaskInfo> tasks;
    MappedTouches mapped_touches = MappedTouches::kNone;
    ReadReport report;
    std::string source;                                // where it came from: a path, "-", or a generator's spec
    std::string format;                                // "trace", "dxt", "fio-iolog-3", …
    std::shared_ptr<const RangeStream> stored_stream;  // made when a .dxt was written, or null
    std::function<absl::Status()> check_records;       // null: the columns were checked when they were made
    std::vector<std::shared_ptr<const void>> storage;
  };

  Trace() : parts_(std::make_shared<Parts>()) {}
  explicit Trace(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  std::uint64_t size() const { return parts_->size; }
  Access operator[](std::uint64_t i) const {
    const Columns& c = parts_->columns;
    return Access{.time_ns = static_cast<std::int64_t>(c.time_ns[i]),
                  .task = TaskId{static_cast<std::uint32_t>(c.task[i])},
                  .file = FileId{static_cast<std::uint32_t>(c.file[i])},
                  .op = static_cast<Op>(c.op[i] & (kNumOps - 1)),
                  .offset = c.offset[i],
                  .length = c.length[i]};
  }
  const Columns& columns() const { return parts_->columns; }
  const std::vector<FileInfo>& files() const { return parts_->files; }
  const std::vector<TaskInfo>& tasks() const { return parts_->tasks; }
  MappedTouches mapped_touches() const { return parts_->mapped_touches; }
  const ReadReport& report() const { return parts_->report; }
  const std::string& source() const { return parts_->source; }
  const std::string& format() const { return parts_->format; }
  const std::shared_ptr<const RangeStream>& stored_stream() const { return parts_->stored_stream; }
  const Parts& parts() const { return *parts_; }

  // For a trace read with `ReadOptions::check_records` off, whose columns have not been looked at, so that replay
  // (which needs the range stream alone) never reads them. Who goes on to read records by `operator[]`, or
  // `RangeStream::records()`, and indexes tables by what they hold asks this first: it checks the columns' checksums
  // and that every id, time and extent is within bounds. Done once; free for any other trace.
  [[nodiscard]] absl::Status CheckRecords() const {
    return parts_->check_records ? parts_->check_records() : absl::OkStatus();
  }

 private:
  std::shared_ptr<const Parts> parts_;
};

// Builds a trace from records in order of time. Errors are those of the data ("expected …, got …"); the caller adds the
// place. Records are packed as they come (about 10 bytes each in the recorded kernel builds), so a builder of many
// million records stays small.
//
//   TraceBuilder builder;
//   const TaskId task = builder.AddTask({.name = "make"});
//   const FileId file = builder.AddFile("/etc/passwd", 1500);
//   if (absl::Status s = builder.Add({.task = task, .file = file, .length = 1500}); !s.ok()) return s;
//   return builder.Finish("example", "example", MappedTouches::kNone);
class TraceBuilder {
 public:
  TraceBuilder();
  ~TraceBuilder();
  TraceBuilder(TraceBuilder&&) noexcept;
  TraceBuilder& operator=(TraceBuilder&&) noexcept;

  // Ids are given in order: 0, 1, 2 … The strings are copied.
  FileId AddFile(std::string_view path, std::uint64_t size);
  TaskId AddTask(const TaskInfo& task);
  // For readers that learn sizes and times on the way. Ids that were not given are ignored.
  void GrowFile(FileId file, std::uint64_t size);  // size = max(size, …)
  void SetTask(TaskId task, const TaskInfo& info);
  std::uint32_t files() const;
  std::uint32_t tasks() const;

  // InvalidArgument for an unknown file or task, a time that is negative or goes back, offset + length beyond 2^63, or
  // an offset that the operation does not have (see `Op`). Nothing is added then.
  [[nodiscard]] absl::Status Add(const Access& access);
  // Counts a line that is no record, by reason.
  void Skip(std::string_view reason, std::uint64_t count = 1);

  std::uint64_t size() const;  // records so far
  // Takes records in any order; `Finish` sorts them by time, and those of one time stay in order.
  void AllowUnsorted();
  // `source` is where it came from, `format` the name of what it was read as. The builder is empty afterwards.
  // InvalidArgument for a task whose parent comes after it or which ends before it starts, and for mapped touches in a
  // trace of kNone.
  [[nodiscard]] absl::StatusOr<Trace> Finish(std::string source, std::string format, MappedTouches mapped);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace daxcache
