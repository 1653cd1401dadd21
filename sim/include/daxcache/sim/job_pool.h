// A recorded trace as a pool of jobs, as `make -j` runs them: a job is the process tree below a child of a task named
// like the driver, its accesses in recorded order with its own CPU time between them. So a build that was recorded with
// two jobs at a time on two CPUs can be run with any number of either.
//
//   absl::StatusOr<JobPool> pool = JobPool::Create(trace, {.driver = "make"});
//   JobPool::Run run(*pool, 1.0);
//   JobPool::Lane lane(run);                       // one of the jobs under way; as many as `-j` says
//   for (TimedIo io; lane.Next(io);) Use(io);
//
// What a driver itself does (reading makefiles) stands in front of the next job. Jobs start in recorded order; the last
// one (the link) when all others have ended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/sim/timed_io.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

// The same jobs as if they had been recorded one at a time, each record with its job's others, and times in whole
// `step_ns`. As a pool they do the same; compressed, such a trace is a quarter of the recorded one. Errors: as
// `Create`.
[[nodiscard]] absl::StatusOr<Trace> OneJobAtATime(const Trace& trace, const std::string& driver, std::int64_t step_ns);

class JobPool {
 public:
  struct Options {
    std::string driver = "make";
    bool as_recorded = false;  // each task by itself, its accesses at their recorded times; `driver` does not matter
  };

  // InvalidArgument for a trace without a task of the driver's name that has children, or with more than 2^32 - 1
  // records; the error of `Trace::CheckRecords`. The trace is kept (copies share their bytes).
  [[nodiscard]] static absl::StatusOr<JobPool> Create(const Trace& trace, const Options& options);

  std::size_t jobs() const { return first_.size() - 1; }
  std::int64_t cpu_ns() const { return cpu_ns_; }                     // of all tasks: user and system
  std::uint32_t lanes() const { return lanes_; }                      // as recorded: tasks at the same time; else 0
  const std::vector<std::uint64_t>& sizes() const { return sizes_; }  // of the files, bytes: nothing lies beyond
  const Trace& trace() const { return trace_; }

  // The state that the lanes of one run share.
  class Run {
   public:
    // `cpu_factor`: what the trace's CPU times are multiplied with, for a machine of another speed.
    // `progress`, if given, hears which share of the jobs has begun (0 to 1).
    Run(const JobPool& pool, double cpu_factor, std::function<void(double)> progress = nullptr)
        : pool_(pool), cpu_factor_(cpu_factor), progress_(std::move(progress)) {}

   private:
    friend class JobPool;
    const JobPool& pool_;
    double cpu_factor_;
    std::function<void(double)> progress_;
    std::size_t next_ = 0;  // job
    std::uint32_t busy_ = 0;
  };

  class Lane final : public IoSource {
   public:
    explicit Lane(Run& run) : run_(&run) {}
    bool Next(TimedIo& io) override;

   private:
    bool NextJob();

    Run* run_;
    std::uint64_t at_ = 0;
    std::uint64_t end_ = 0;
    bool busy_ = false;
    bool new_job_ = false;
  };

 private:
  static constexpr std::uint32_t kNoRecord = ~std::uint32_t{0};
  struct Item {
    std::uint32_t record = kNoRecord;  // kNoRecord: only computes
    std::uint32_t process : 31 = 0;    // of its job
    std::uint32_t extends : 1 = 0;
    std::int64_t cpu_ns = 0;
  };

  Trace trace_;
  bool as_recorded_ = false;
  std::uint32_t lanes_ = 0;
  std::int64_t begin_ns_ = 0;  // of the first record
  std::int64_t cpu_ns_ = 0;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> first_;  // by job: its first item; one more
  std::vector<Item> items_;           // by job, in recorded order
};

}  // namespace v0
}  // namespace daxcache
