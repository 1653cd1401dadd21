// Page faults in file mappings, forks and CPU times of a process and all its descendants, from perf_event_open(2). The
// recorder opens this on a child that waits to exec, drains it while the child runs, and gives the result to the reader
// of the log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daxcache/traces/strace.h"

namespace daxcache {
inline namespace v0 {

class EventRecorder {
 public:
  // `tracer` must not have exec'd yet: its exec starts the recording. It and children of it that do not exec are left
  // out, so it may be strace. PermissionDenied or Unavailable, with the reason, where the kernel does not permit this.
  [[nodiscard]] static absl::StatusOr<EventRecorder> Open(pid_t tracer);
  ~EventRecorder();
  EventRecorder(EventRecorder&&) noexcept;
  EventRecorder& operator=(EventRecorder&&) noexcept;

  // Descriptors that become readable when it is time to drain.
  const std::vector<int>& descriptors() const;
  // Takes what the kernel has written so far. At least every second, or the kernel runs out of room.
  void Drain();
  // After the last process has ended.
  KernelEvents Finish();

  bool system_time() const;          // whether time in the kernel is counted
  std::uint64_t lost() const;        // records the kernel dropped
  std::uint64_t unresolved() const;  // faults of processes whose mappings were not known

 private:
  struct State;
  explicit EventRecorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace daxcache
