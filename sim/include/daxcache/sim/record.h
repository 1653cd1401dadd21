// Recording a command: runs it under strace, with page faults of file mappings from perf_event_open where that is
// permitted, and makes a Trace of it. Use it to get a trace of any workload: a build, a database, a test suite.
//
//   absl::StatusOr<Recording> recording = Record({.command = {"make", "-j2"}});
//   if (recording.ok()) status = WriteTrace(recording->trace, "make.dxt");
//
// The command keeps its standard input, output and error, its environment and its signals. Record returns when the
// command and all that it left in the background have ended. Each recorded call stops its process twice, some tens of
// microseconds: a compiler hardly shows it, a program that only opens small files takes several times as long. The log
// needs some 120 bytes a call in $TMPDIR (or /tmp) while recording.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daxcache/traces/trace.h"

namespace daxcache {
inline namespace v0 {

struct RecordOptions {
  std::vector<std::string> command = {};
  // How mappings are seen: by page faults if permitted (kAuto), or an error if not (kOn), or as a whole (kOff).
  enum class Faults { kAuto, kOn, kOff };
  Faults faults = Faults::kAuto;
  std::string keep_log = {};      // where strace's log is left; empty: nowhere
  std::string strace = "strace";  // looked up in PATH
};

struct Recording {
  Trace trace;
  int wait_status = 0;            // of the command, as waitpid(2) gives it
  std::string no_faults_because;  // why page faults are not in the trace; empty if they are
  bool system_time = false;       // CPU times are sampled with, or without, those in the kernel
  std::uint64_t lost_events = 0;  // page faults and the like for which the kernel had no room
  std::uint64_t unresolved = 0;   // page faults of processes whose mappings were not known
  std::uint64_t log_bytes = 0;
};

// FailedPrecondition if strace is not there or may not trace, NotFound if the command cannot be started.
[[nodiscard]] absl::StatusOr<Recording> Record(const RecordOptions& options);

}  // namespace v0
}  // namespace daxcache
