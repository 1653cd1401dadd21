// TraceBuilder: checks records, packs them, and makes the immutable Trace of them.
#include "daxcache/traces/trace.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "check_access.h"
#include "column_builder.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::size_t kBlockRecords = 8192;
enum ColumnNumber { kTime, kTask, kFile, kOp, kOffset, kLength, kNumColumns };

// Strings that never move, in chunks.
class Strings {
 public:
  std::string_view Add(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > left_) {
      const std::size_t size = std::max(text.size(), kChunk);
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(size));
      at_ = chunks_.back().get();
      left_ = size;
    }
    char* copy = at_;
    std::memcpy(copy, text.data(), text.size());
    at_ += text.size();
    left_ -= text.size();
    return {copy, text.size()};
  }

 private:
  static constexpr std::size_t kChunk = 1 << 16;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* at_ = nullptr;
  std::size_t left_ = 0;
};

// The column with its values in the order of `order`.
Column Reordered(const Column& column, std::span<const std::uint64_t> order,
                 std::vector<std::shared_ptr<const void>>& storage) {
  const std::size_t width = static_cast<std::size_t>(column.width());
  std::shared_ptr<std::byte[]> bytes(new std::byte[order.size() * width]);
  std::byte* out = bytes.get();
  for (const std::uint64_t i : order) {
    std::memcpy(out, column.data() + i * width, width);
    out += width;
  }
  const Column reordered(bytes.get(), column.width(), column.base(), column.scale());
  storage.push_back(std::move(bytes));
  return reordered;
}

}  // namespace

struct TraceBuilder::State {
  std::array<std::array<std::uint64_t, kBlockRecords>, kNumColumns> staged;
  std::size_t num_staged = 0;
  std::array<internal::ColumnBuilder, kNumColumns> columns;
  std::uint64_t size = 0;
  std::int64_t last_time_ns = 0;
  bool allow_unsorted = false;
  bool unsorted = false;
  bool any_mapped = false;
  std::vector<FileInfo> files;
  std::vector<TaskInfo> tasks;
  std::shared_ptr<Strings> strings = std::make_shared<Strings>();
  ReadReport report;
  absl::flat_hash_map<std::string, std::size_t> reasons;

  void Flush() {
    for (int c = 0; c < kNumColumns; ++c) {
      columns[static_cast<std::size_t>(c)].AddBlock(std::span(staged[static_cast<std::size_t>(c)]).first(num_staged));
    }
    num_staged = 0;
  }
};

TraceBuilder::TraceBuilder() : state_(std::make_unique<State>()) {}
TraceBuilder::~TraceBuilder() = default;
TraceBuilder::TraceBuilder(TraceBuilder&&) noexcept = default;
TraceBuilder& TraceBuilder::operator=(TraceBuilder&&) noexcept = default;

FileId TraceBuilder::AddFile(std::string_view path, std::uint64_t size) {
  state_->files.push_back({.path = state_->strings->Add(path), .size = size});
  return FileId{static_cast<std::uint32_t>(state_->files.size() - 1)};
}

TaskId TraceBuilder::AddTask(const TaskInfo& task) {
  state_->tasks.push_back(task);
  state_->tasks.back().name = state_->strings->Add(task.name);
  return TaskId{static_cast<std::uint32_t>(state_->tasks.size() - 1)};
}

void TraceBuilder::GrowFile(FileId file, std::uint64_t size) {
  if (ToIndex(file) >= state_->files.size()) return;
  std::uint64_t& current = state_->files[ToIndex(file)].size;
  current = std::max(current, size);
}

void TraceBuilder::SetTask(TaskId task, const TaskInfo& info) {
  if (ToIndex(task) >= state_->tasks.size()) return;
  TaskInfo& stored = state_->tasks[ToIndex(task)];
  const std::string_view name = stored.name == info.name ? stored.name : state_->strings->Add(info.name);
  stored = info;
  stored.name = name;
}

std::uint32_t TraceBuilder::files() const {
  return static_cast<std::uint32_t>(state_->files.size());
}
std::uint32_t TraceBuilder::tasks() const {
  return static_cast<std::uint32_t>(state_->tasks.size());
}
std::uint64_t TraceBuilder::size() const {
  return state_->size;
}
void TraceBuilder::AllowUnsorted() {
  state_->allow_unsorted = true;
}

void TraceBuilder::Skip(std::string_view reason, std::uint64_t count) {
  const auto [at, added] = state_->reasons.try_emplace(std::string(reason), state_->report.skipped.size());
  if (added) state_->report.skipped.push_back({.reason = std::string(reason), .count = 0});
  state_->report.skipped[at->second].count += count;
}

absl::Status TraceBuilder::Add(const Access& access) {
  State& s = *state_;
  const internal::AccessBounds bounds{
      .files = s.files.size(), .tasks = s.tasks.size(), .not_before_ns = s.allow_unsorted ? 0 : s.last_time_ns};
  if (!internal::IsSoundTouch(access, bounds)) {
    if (absl::Status status = internal::CheckAccess(access, bounds); !status.ok()) return status;
  }
  s.unsorted |= access.time_ns < s.last_time_ns;
  s.any_mapped |= IsMapped(access.op);
  s.last_time_ns = std::max(s.last_time_ns, access.time_ns);
  const std::size_t at = s.num_staged;
  s.staged[kTime][at] = static_cast<std::uint64_t>(access.time_ns);
  s.staged[kTask][at] = ToIndex(access.task);
  s.staged[kFile][at] = ToIndex(access.file);
  s.staged[kOp][at] = static_cast<std::uint64_t>(access.op);
  s.staged[kOffset][at] = access.offset;
  s.staged[kLength][at] = access.length;
  ++s.size;
  if (++s.num_staged == kBlockRecords) s.Flush();
  return absl::OkStatus();
}

absl::StatusOr<Trace> TraceBuilder::Finish(std::string source, std::string format, MappedTouches mapped) {
  State& s = *state_;
  constexpr std::size_t kMaxIds = std::numeric_limits<std::uint32_t>::max();
  if (s.files.size() >= kMaxIds || s.tasks.size() >= kMaxIds) {
    return absl::OutOfRangeError("expected at most 2^32 - 1 files and as many tasks, got more");
  }
  for (std::size_t t = 0; t < s.tasks.size(); ++t) {
    const TaskId parent = s.tasks[t].parent;
    if (parent != kNoTask && ToIndex(parent) >= t) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected the parent of task ", t, " to be declared before it, got task ", ToIndex(parent)));
    }
    const TaskInfo& task = s.tasks[t];
    if (task.start_ns < 0 || task.end_ns < task.start_ns) {
      return absl::InvalidArgumentError(absl::StrCat("expected task ", t, " from 0 ns or later to its end, got ",
                                                     task.start_ns, " to ", task.end_ns));
    }
  }
  if (s.any_mapped && mapped == MappedTouches::kNone) {
    return absl::InvalidArgumentError("expected no mapped touches in a trace that has none, got some");
  }
  s.Flush();
  Trace::Parts parts;
  parts.size = s.size;
  const auto finish = [&](ColumnNumber c, int min_width) { return s.columns[c].Finish(min_width, parts.storage); };
  // Times take at least a byte each even if all are equal: so the records of a `.dxt` are bounded by its bytes.
  parts.columns.time_ns = finish(kTime, 1);
  parts.columns.task = finish(kTask, 0);
  parts.columns.file = finish(kFile, 0);
  parts.columns.op = finish(kOp, 0);
  parts.columns.offset = finish(kOffset, 0);
  parts.columns.length = finish(kLength, 0);
  if (s.unsorted) {
    std::vector<std::uint64_t> order(parts.size);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    const Column time = parts.columns.time_ns;
    std::stable_sort(order.begin(), order.end(),
                     [&time](std::uint64_t a, std::uint64_t b) { return time[a] < time[b]; });
    std::vector<std::shared_ptr<const void>> storage;
    for (Column* column : {&parts.columns.time_ns, &parts.columns.task, &parts.columns.file, &parts.columns.op,
                           &parts.columns.offset, &parts.columns.length}) {
      *column = Reordered(*column, order, storage);
    }
    parts.storage = std::move(storage);
  }
  parts.files = std::move(s.files);
  parts.tasks = std::move(s.tasks);
  parts.storage.push_back(std::move(s.strings));
  parts.report = std::move(s.report);
  parts.mapped_touches = mapped;
  parts.source = std::move(source);
  parts.format = std::move(format);
  state_ = std::make_unique<State>();
  return Trace(std::move(parts));
}

}  // namespace v0
}  // namespace daxcache
