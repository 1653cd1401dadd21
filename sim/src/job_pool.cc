// See daxcache/sim/job_pool.h.
#include "daxcache/sim/job_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/sim/text.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// By task: the job that it belongs to, kNone for drivers and for what stands above them.
std::vector<std::uint32_t> JobsOf(const Trace& trace, const JobPool::Options& options,
                                  std::vector<std::int64_t>& starts) {
  const std::vector<TaskInfo>& tasks = trace.tasks();
  std::vector<std::uint32_t> root(tasks.size(), kNone);
  std::vector<std::uint32_t> roots;
  for (std::uint32_t task = 0; task < tasks.size(); ++task) {
    if (options.as_recorded) {
      root[task] = task;
    } else if (tasks[task].name == options.driver || tasks[task].parent == kNoTask) {
      continue;
    } else {
      const std::uint32_t parent = ToIndex(tasks[task].parent);
      root[task] = tasks[parent].name == options.driver ? task : root[parent];
    }
    if (root[task] == task) roots.push_back(task);
  }
  std::stable_sort(roots.begin(), roots.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return tasks[a].start_ns < tasks[b].start_ns; });
  std::vector<std::uint32_t> number(tasks.size(), kNone);
  for (std::uint32_t job = 0; job < roots.size(); ++job) {
    number[roots[job]] = job;
    starts.push_back(tasks[roots[job]].start_ns);
  }
  std::vector<std::uint32_t> jobs(tasks.size(), kNone);
  for (std::uint32_t task = 0; task < tasks.size(); ++task) {
    if (root[task] != kNone) jobs[task] = number[root[task]];
  }
  return jobs;
}

// How many of [start, end) overlap at most.
std::uint32_t MostAtOnce(const std::vector<TaskInfo>& tasks) {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const TaskInfo& task : tasks) {
    changes.emplace_back(task.start_ns, 1);
    changes.emplace_back(std::max(task.end_ns, task.start_ns + 1), -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0;
  int most = 1;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return static_cast<std::uint32_t>(most);
}

// What a task computes between its records: its CPU time, spread evenly from its start to its last record.
struct Computing {
  std::int64_t last_ns = 0;     // its latest record so far
  std::uint64_t left = 0;       // records to come
  double share = 0;             // of the time that it spends on a CPU
  std::int64_t pending_ns = 0;  // computed since its last item
  std::uint32_t job = kNone;    // of its latest item …
  std::uint32_t process = 0;    // … and which process of it it is
};

// By record: its job. One of a task that is none's (a driver) belongs to the job that comes next to its first record;
// in the end to the last job.
std::vector<std::uint32_t> JobsOfRecords(const Trace& trace, const std::vector<std::uint32_t>& jobs,
                                         std::size_t count) {
  std::vector<std::uint32_t> of(trace.size());
  std::vector<bool> begun(count);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> begins;  // first record, job
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    of[i] = jobs[trace.columns().task[i]];
    if (of[i] == kNone || begun[of[i]]) continue;
    begun[of[i]] = true;
    begins.emplace_back(i, of[i]);
  }
  std::size_t next = 0;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    if (next < begins.size() && begins[next].first == i) ++next;
    if (of[i] == kNone) of[i] = next < begins.size() ? begins[next].second : static_cast<std::uint32_t>(count - 1);
  }
  return of;
}

absl::Status CheckPool(const Trace& trace, const std::vector<std::int64_t>& starts, const JobPool::Options& options) {
  if (trace.size() >= kNone) return absl::InvalidArgumentError("expected at most 2^32 - 2 records for a timed run");
  if (!starts.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      options.as_recorded
          ? "expected a trace with tasks"
          : absl::StrCat("expected a task named \"", Printable(options.driver), "\" that has children, got none"));
}

}  // namespace

absl::StatusOr<JobPool> JobPool::Create(const Trace& trace, const Options& options) {
  if (absl::Status status = trace.CheckRecords(); !status.ok()) return status;
  JobPool pool;
  pool.trace_ = trace;
  pool.as_recorded_ = options.as_recorded;
  std::vector<std::int64_t> starts;
  const std::vector<std::uint32_t> jobs = JobsOf(trace, options, starts);
  if (absl::Status status = CheckPool(trace, starts, options); !status.ok()) return status;
  if (options.as_recorded) pool.lanes_ = MostAtOnce(trace.tasks());

  const std::vector<TaskInfo>& tasks = trace.tasks();
  std::vector<Computing> computing(tasks.size());
  for (std::uint32_t task = 0; task < tasks.size(); ++task) computing[task].last_ns = tasks[task].start_ns;
  const Trace::Columns& columns = trace.columns();
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    Computing& task = computing[columns.task[i]];
    task.last_ns = std::max(task.last_ns, static_cast<std::int64_t>(columns.time_ns[i]));
    ++task.left;
  }
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    Computing& task = computing[i];
    const auto cpu_ns = static_cast<std::int64_t>((tasks[i].user_us + tasks[i].system_us) * 1000);
    pool.cpu_ns_ += cpu_ns;
    const std::int64_t span_ns = task.last_ns - tasks[i].start_ns;
    if (span_ns > 0) {
      task.share = static_cast<double>(cpu_ns) / static_cast<double>(span_ns);
    } else {
      task.pending_ns = cpu_ns;
    }
    task.last_ns = tasks[i].start_ns;
  }

  for (const FileInfo& file : trace.files()) pool.sizes_.push_back(file.size);
  std::vector<std::uint64_t> sizes = pool.sizes_;  // at the moment
  std::vector<std::uint32_t> processes(starts.size());
  std::vector<std::uint32_t> item_jobs;
  std::vector<Item> items;
  pool.begin_ns_ = trace.size() > 0 ? static_cast<std::int64_t>(columns.time_ns[0]) : 0;
  const std::vector<std::uint32_t> record_jobs = JobsOfRecords(trace, jobs, starts.size());
  const auto emit = [&](std::uint32_t number, std::uint32_t job, std::uint32_t record, bool extends) {
    Computing& task = computing[number];
    if (task.job != job) {
      task.job = job;
      task.process = processes[job]++;
    }
    item_jobs.push_back(job);
    items.push_back({.record = record,
                     .process = task.process & 0x7fffffff,
                     .extends = extends,
                     .cpu_ns = options.as_recorded ? 0 : std::exchange(task.pending_ns, 0)});
  };
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access access = trace[i];
    const std::uint32_t file = ToIndex(access.file);
    const std::uint32_t number = ToIndex(access.task);
    Computing& task = computing[number];
    if (access.time_ns > task.last_ns) {
      task.pending_ns += std::llround(static_cast<double>(access.time_ns - task.last_ns) * task.share);
      task.last_ns = access.time_ns;
    }
    --task.left;
    bool extends = false;
    if (access.op == Op::kOpen) {
      sizes[file] = (access.offset & 2) != 0 ? 0 : access.length;
    } else if (access.op == Op::kTruncate) {
      sizes[file] = access.length;
    } else if (TouchesData(access.op)) {
      const std::uint64_t end = access.offset + access.length;
      extends = access.op == Op::kWrite && access.length > 0 && end > sizes[file];
      if (extends) sizes[file] = end;
      pool.sizes_[file] = std::max(pool.sizes_[file], end);
    }
    const bool file_event = access.op == Op::kUnlink || access.op == Op::kOpen || access.op == Op::kClose;
    if (file_event || (TouchesData(access.op) && access.length > 0)) {
      emit(number, record_jobs[i], static_cast<std::uint32_t>(i), extends);
    } else if (task.left == 0 && task.pending_ns > 0) {
      emit(number, record_jobs[i], kNoRecord, false);
    }
  }
  // Tasks that are not seen to touch anything.
  for (std::uint32_t number = 0; number < tasks.size(); ++number) {
    if (computing[number].pending_ns == 0 || options.as_recorded) continue;
    emit(number, jobs[number] != kNone ? jobs[number] : 0, kNoRecord, false);
  }

  pool.first_.resize(starts.size() + 1);
  for (const std::uint32_t job : item_jobs) ++pool.first_[job + 1];
  std::partial_sum(pool.first_.begin(), pool.first_.end(), pool.first_.begin());
  std::vector<std::uint64_t> at(pool.first_.begin(), pool.first_.end() - 1);
  pool.items_.resize(items.size());
  for (std::uint64_t i = 0; i < items.size(); ++i) pool.items_[at[item_jobs[i]]++] = items[i];
  return pool;
}

absl::StatusOr<Trace> OneJobAtATime(const Trace& trace, const std::string& driver, std::int64_t step_ns) {
  if (absl::Status status = trace.CheckRecords(); !status.ok()) return status;
  std::vector<std::int64_t> starts;
  const JobPool::Options options = {.driver = driver};
  const std::vector<std::uint32_t> jobs = JobsOf(trace, options, starts);
  if (absl::Status status = CheckPool(trace, starts, options); !status.ok()) return status;
  const std::vector<std::uint32_t> job_of = JobsOfRecords(trace, jobs, starts.size());
  std::vector<std::uint64_t> first(starts.size() + 1);
  for (const std::uint32_t job : job_of) ++first[job + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> order(trace.size());
  for (std::uint32_t i = 0; i < trace.size(); ++i) order[first[job_of[i]]++] = i;

  const auto whole = [step_ns](std::int64_t ns) { return ns / step_ns * step_ns; };
  const std::vector<TaskInfo>& tasks = trace.tasks();
  TraceBuilder builder;
  for (const FileInfo& file : trace.files()) builder.AddFile(file.path, file.size);
  for (const TaskInfo& task : tasks) builder.AddTask(task);
  // By job: where it begins; its tasks do not begin earlier, so that jobs stay in order, those without records too.
  std::vector<std::int64_t> begins(starts.size());
  std::vector<std::pair<std::int64_t, std::int64_t>> lives(tasks.size(), {-1, 0});
  std::int64_t end_ns = 0;
  for (std::uint32_t job = 0; job < starts.size(); ++job) {
    begins[job] = end_ns;
    std::int64_t shift_ns = 0;
    for (std::uint64_t at = job == 0 ? 0 : first[job - 1]; at < first[job]; ++at) {
      Access access = trace[order[at]];
      auto& [begin, end] = lives[ToIndex(access.task)];
      // What a task computed before its first record belongs to it, so its job begins when it started.
      const std::int64_t start_ns = std::min(tasks[ToIndex(access.task)].start_ns, access.time_ns);
      if (at == (job == 0 ? 0 : first[job - 1])) shift_ns = end_ns - (begin < 0 ? start_ns : access.time_ns);
      if (begin < 0) begin = std::max(begins[job], start_ns + shift_ns);
      access.time_ns += shift_ns;
      end_ns = std::max(end_ns, access.time_ns);
      end = access.time_ns = whole(end_ns);
      if (absl::Status status = builder.Add(access); !status.ok()) return status;
    }
  }
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    TaskInfo task = tasks[i];
    if (lives[i].first < 0 && jobs[i] != kNone) lives[i] = {begins[jobs[i]], begins[jobs[i]]};
    task.start_ns = whole(std::max<std::int64_t>(0, lives[i].first));
    task.end_ns = std::max(task.start_ns, whole(lives[i].second));
    builder.SetTask(TaskId{i}, task);
  }
  return builder.Finish(trace.source(), trace.format(), trace.mapped_touches());
}

bool JobPool::Lane::NextJob() {
  const JobPool& pool = run_->pool_;
  if (std::exchange(busy_, false)) --run_->busy_;
  // The last one waits for all others; the lane that is left over takes it.
  if (run_->next_ + 1 > pool.jobs() || (run_->next_ + 1 == pool.jobs() && run_->busy_ > 0 && !pool.as_recorded_)) {
    return false;
  }
  at_ = pool.first_[run_->next_];
  end_ = pool.first_[++run_->next_];
  ++run_->busy_;
  if (run_->progress_ && run_->next_ % 64 == 0) {
    run_->progress_(static_cast<double>(run_->next_) / static_cast<double>(pool.jobs()));
  }
  return busy_ = new_job_ = true;
}

bool JobPool::Lane::Next(TimedIo& io) {
  while (at_ == end_) {
    if (!NextJob()) return false;
  }
  const JobPool& pool = run_->pool_;
  const Item& item = pool.items_[at_++];
  io = {.op = Op::kClose,
        .file = ToIndex(kNoFile),
        .extends = item.extends != 0,
        .new_job = std::exchange(new_job_, false),
        .process = item.process,
        .cpu_ns = std::llround(static_cast<double>(item.cpu_ns) * run_->cpu_factor_)};
  if (item.record == kNoRecord) return true;
  const Access access = pool.trace_[item.record];
  io.op = access.op;
  io.file = ToIndex(access.file);
  io.offset = access.offset;
  io.length = access.length;
  if (pool.as_recorded_) io.not_before_ns = access.time_ns - pool.begin_ns_;
  return true;
}

}  // namespace v0
}  // namespace daxcache
