// Reading strace logs: keeps for each process what the kernel keeps (descriptors, position, working directory, names of
// files), so that each call can be said as an access to a file. Words are cut in strace_line.cc.
#include "daxcache/traces/strace.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"
#include "strace_line.h"

namespace daxcache {
inline namespace v0 {
namespace {

using strace_internal::Call;
using strace_internal::CallName;
using strace_internal::Descriptor;
using strace_internal::DescriptorArg;
using strace_internal::Field;
using strace_internal::HasFlag;
using strace_internal::ParseNumber;
using strace_internal::ParsePrefix;
using strace_internal::ParseSigned;
using strace_internal::Prefix;
using strace_internal::SplitCall;
using strace_internal::StringArg;

constexpr std::uint64_t kMaxEnd = std::uint64_t{1} << 63;
constexpr std::int64_t kMergeNs = 10'000'000;  // contiguous calls of one task within 10 ms are one record
constexpr std::int64_t kDayNs = 86'400'000'000'000;
constexpr std::size_t kMaxPath = 1 << 16;  // far beyond PATH_MAX; bounds what a hostile log can make of relative paths
constexpr std::int64_t kMaxDescriptor = 1 << 20;  // Linux: fs.nr_open
constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();
constexpr std::int32_t kUnnamed = -1;        // the one process of a log of standard error, before its pid is seen
constexpr std::uint64_t kProgramHead = 256;  // what execve(2) reads of a program (BINPRM_BUF_SIZE)

enum class Kind {
  kClone,
  kExec,
  kExecAt,
  kOpen,
  kOpenAt,
  kCreat,
  kClose,
  kCloseRange,
  kDup,
  kDup2,
  kFcntl,
  kRead,
  kReadAt,
  kReadV2,
  kWrite,
  kWriteAt,
  kWriteV2,
  kSeek,
  kSendfile,
  kCopy,
  kMmap,
  kTruncate,
  kFtruncate,
  kFallocate,
  kStat,
  kStatAt,
  kFstat,
  kStatx,
  kUnlink,
  kUnlinkAt,
  kRename,
  kRenameAt,
  kLink,
  kLinkAt,
  kSymlink,
  kSymlinkAt,
  kChdir,
  kFchdir,
  kChroot,
  kUnshare,
};

constexpr const char* kDescriptors = "calls that change descriptors or positions only";
constexpr const char* kProcesses = "calls that change processes only";
constexpr const char* kQuestions = "calls that ask for sizes only";
constexpr const char* kNames = "calls that change names only";
constexpr const char* kData = "reads and writes of 0 bytes";

struct KnownCall {
  Kind kind;
  const char* otherwise;  // what to count it as where it leaves no record
};

const absl::flat_hash_map<std::string_view, KnownCall>& KnownCalls() {
  static const auto* const calls = new absl::flat_hash_map<std::string_view, KnownCall>{
      {"clone", {Kind::kClone, kProcesses}},
      {"clone3", {Kind::kClone, kProcesses}},
      {"fork", {Kind::kClone, kProcesses}},
      {"vfork", {Kind::kClone, kProcesses}},
      {"execve", {Kind::kExec, kProcesses}},
      {"execveat", {Kind::kExecAt, kProcesses}},
      {"open", {Kind::kOpen, kDescriptors}},
      {"openat", {Kind::kOpenAt, kDescriptors}},
      {"openat2", {Kind::kOpenAt, kDescriptors}},
      {"creat", {Kind::kCreat, kDescriptors}},
      {"close", {Kind::kClose, kDescriptors}},
      {"close_range", {Kind::kCloseRange, kDescriptors}},
      {"dup", {Kind::kDup, kDescriptors}},
      {"dup2", {Kind::kDup2, kDescriptors}},
      {"dup3", {Kind::kDup2, kDescriptors}},
      {"fcntl", {Kind::kFcntl, kDescriptors}},
      {"fcntl64", {Kind::kFcntl, kDescriptors}},
      {"read", {Kind::kRead, kData}},
      {"readv", {Kind::kRead, kData}},
      {"pread64", {Kind::kReadAt, kData}},
      {"pread", {Kind::kReadAt, kData}},
      {"preadv", {Kind::kReadAt, kData}},
      {"preadv2", {Kind::kReadV2, kData}},
      {"write", {Kind::kWrite, kData}},
      {"writev", {Kind::kWrite, kData}},
      {"pwrite64", {Kind::kWriteAt, kData}},
      {"pwrite", {Kind::kWriteAt, kData}},
      {"pwritev", {Kind::kWriteAt, kData}},
      {"pwritev2", {Kind::kWriteV2, kData}},
      {"lseek", {Kind::kSeek, kDescriptors}},
      {"_llseek", {Kind::kSeek, kDescriptors}},
      {"sendfile", {Kind::kSendfile, kData}},
      {"sendfile64", {Kind::kSendfile, kData}},
      {"copy_file_range", {Kind::kCopy, kData}},
      {"splice", {Kind::kCopy, kData}},
      {"mmap", {Kind::kMmap, "mappings (their page faults are recorded)"}},
      {"mmap2", {Kind::kMmap, "mappings (their page faults are recorded)"}},
      {"truncate", {Kind::kTruncate, kNames}},
      {"truncate64", {Kind::kTruncate, kNames}},
      {"ftruncate", {Kind::kFtruncate, kNames}},
      {"ftruncate64", {Kind::kFtruncate, kNames}},
      {"fallocate", {Kind::kFallocate, "calls of fallocate that keep the size"}},
      {"stat", {Kind::kStat, kQuestions}},
      {"lstat", {Kind::kStat, kQuestions}},
      {"stat64", {Kind::kStat, kQuestions}},
      {"lstat64", {Kind::kStat, kQuestions}},
      {"fstat", {Kind::kFstat, kQuestions}},
      {"fstat64", {Kind::kFstat, kQuestions}},
      {"newfstatat", {Kind::kStatAt, kQuestions}},
      {"fstatat64", {Kind::kStatAt, kQuestions}},
      {"statx", {Kind::kStatx, kQuestions}},
      {"unlink", {Kind::kUnlink, kNames}},
      {"unlinkat", {Kind::kUnlinkAt, kNames}},
      {"rename", {Kind::kRename, kNames}},
      {"renameat", {Kind::kRenameAt, kNames}},
      {"renameat2", {Kind::kRenameAt, kNames}},
      {"link", {Kind::kLink, kNames}},
      {"linkat", {Kind::kLinkAt, kNames}},
      {"symlink", {Kind::kSymlink, kNames}},
      {"symlinkat", {Kind::kSymlinkAt, kNames}},
      {"chdir", {Kind::kChdir, kProcesses}},
      {"fchdir", {Kind::kFchdir, kProcesses}},
      {"chroot", {Kind::kChroot, kProcesses}},
      {"unshare", {Kind::kUnshare, kProcesses}},
  };
  return *calls;
}

// Calls that do move bytes of files, in ways the log does not show.
std::string ReasonForUnknownCall(std::string_view name) {
  if (name.starts_with("io_uring_")) return "calls of io_uring (its reads and writes are not shown)";
  if (name == "io_submit") return "calls of io_submit (its reads and writes are not recorded)";
  return absl::StrCat("calls of ", AbslView(name));
}

// A file of the log; also a directory or another thing that was taken for a file until the log said otherwise.
struct File {
  std::string path;  // the last name it had
  std::uint32_t names = 1;
  bool regular = true;
  bool recorded = false;
  // While the size is unknown, `size` counts the bytes appended to it, `written` is the furthest end of other writes,
  // and the records that need the size wait in the two lists.
  bool size_known = false;
  std::uint64_t size = 0;
  std::uint64_t written = 0;
  std::uint64_t largest = 0;
  std::vector<std::uint32_t> waiting_opens;
  std::vector<std::uint32_t> waiting_appends;
  std::uint32_t epoch = 0;  // changes where records must not be merged across: truncation, deletion
};

// An open file description, shared by dup(2) and fork(2).
struct OpenFile {
  std::uint32_t file = kNoIndex;
  const char* other = nullptr;  // if no file: what calls on it count as
  std::string seen;             // the path last shown for it
  std::uint64_t position = 0;
  bool append = false;
};

struct Slot {
  std::shared_ptr<OpenFile> open;
  bool close_on_exec = false;
};
using Descriptors = std::map<std::int64_t, Slot>;

struct Directories {
  std::string cwd;   // empty: unknown; paths below it then stay relative
  std::string root;  // empty: "/"
};

// Bytes of a file that a task has touched through mappings, as disjoint [begin, end).
using Intervals = std::map<std::uint64_t, std::uint64_t>;

// A call that another task's lines have interrupted.
struct Unfinished {
  std::string text;  // its beginning; empty: there is none
  std::int64_t since_ns = 0;
  bool accounted = false;  // what it did has been read already
};

struct Task {
  std::int32_t pid = 0;
  TaskId id = kNoTask;
  std::shared_ptr<Descriptors> descriptors;
  std::shared_ptr<Directories> directories;
  Unfinished unfinished;
  bool cloning = false;        // the unfinished call makes a process …
  bool has_new_child = false;  // … which was seen already
  std::map<std::pair<std::uint32_t, Op>, Intervals> touched;
};

// Where a record can still grow.
struct Run {
  std::uint32_t record = 0;
  std::uint32_t epoch = 0;
  std::uint64_t end = 0;
};

struct RunKey {
  std::uint32_t task;
  std::uint32_t file;
  Op op;
  friend bool operator==(const RunKey&, const RunKey&) = default;
  template <class H>
  friend H AbslHashValue(H h, const RunKey& key) {
    return H::combine(std::move(h), key.task, key.file, static_cast<int>(key.op));
  }
};

struct StoredTask {
  TaskInfo info;
  std::string name;
  std::int32_t pid = 0;
};

const char* const kPseudo = "calls on /dev, /proc and /sys";

// What a path in <…> names, if it is no file of a file system.
const char* OtherThan(std::string_view path) {
  if (!path.starts_with('/')) return "calls on pipes, sockets and the like";
  if (path.starts_with("/memfd:") || path.starts_with("/SYSV") || path.starts_with("/["))
    return "calls on memory files";
  if (path.starts_with("/dev/") && !path.starts_with("/dev/shm/")) return kPseudo;
  if (path.starts_with("/proc/") || path.starts_with("/sys/") || path == "/proc" || path == "/sys") return kPseudo;
  return nullptr;
}

constexpr std::string_view kDeletedMark = " (deleted)";

std::string_view Basename(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}
std::string_view Dirname(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// The arguments beyond those a call has are empty.
std::string_view Arg(const Call& call, std::size_t i) {
  return i < call.args.size() ? call.args[i] : std::string_view();
}

class Reader {
 public:
  Reader(std::string_view name, const StraceOptions& options) : name_(name), options_(options) {
    if (options.kernel == nullptr) return;
    for (const KernelEvents::Fork& fork : options.kernel->forks) forks_[fork.child].push_back(fork);
  }

  absl::Status Line(std::string_view line);
  absl::StatusOr<Trace> Finish();

 private:
  // --- errors and the report
  void Skip(std::string_view reason, std::uint64_t count = 1) {
    accounted_ = true;
    if (const auto at = skipped_.find(reason); at != skipped_.end())
      at->second += count;
    else
      skipped_.emplace(reason, count);
  }
  absl::Status Error(std::string_view expected, std::string_view got) const {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(name_), ":", line_number_, ": expected ", AbslView(expected), ", got ", Quoted(got)));
  }
  // A path of the kernel's ends where a NUL is. One that the log gives is not the kernel's: the call is refused as soon
  // as it has been read.
  void CheckPath(std::string_view path) {
    if (path.find('\0') != std::string_view::npos && bad_path_.ok())
      bad_path_ = Error("a path without NUL bytes", path);
  }
  void CheckPath(const Descriptor& descriptor) {
    if (descriptor.path.starts_with('/')) CheckPath(std::string_view(descriptor.path));  // a socket's name may be any
  }

  // --- time
  void SetTime(const Prefix& prefix);
  void BindMappings(std::int64_t until_ns);

  // --- arguments
  std::optional<std::string> PathArg(std::string_view arg) {
    std::optional<std::string> path = StringArg(arg);
    if (path) CheckPath(*path);
    return path;
  }
  // A number that a call which succeeded cannot have had below 0. Nothing, and counted, where it is not understood.
  absl::StatusOr<std::optional<std::uint64_t>> Unsigned(std::string_view what, std::string_view arg);

  // --- lines of one task
  absl::Status TaskLine(std::int32_t pid, std::string_view text);
  absl::Status CompleteCall(Task& task, std::string_view text);
  absl::Status Do(Task& task, const KnownCall& known, const Call& call, std::uint64_t result);

  // --- tasks
  Task* FindTask(const std::optional<std::int32_t>& pid, std::string_view text);
  Task& AddTask(std::int32_t pid, Task* parent, bool share_descriptors, bool share_directories);
  void Inherit(Descriptors& table);
  void EndTask(Task& task);
  // The call that the task was in is not to be heard of again.
  void Forget(Unfinished& unfinished) {
    if (!unfinished.text.empty() && !unfinished.accounted) Skip("calls without a result");
    unfinished = {};
  }
  absl::Status Clone(Task& task, const Call& call, std::uint64_t pid);
  absl::Status Exec(Task& task, std::string_view path_arg, const std::optional<std::string>& path);
  void StopCloning(Task& task) {
    if (task.cloning) std::erase(cloning_, task.pid);
    task.cloning = false;
  }

  // --- paths
  std::string Resolve(const Task& task, std::string_view path, bool follow_last) {
    return ResolveFrom(*task.directories, task.directories->cwd, path, follow_last);
  }
  std::optional<std::string> ResolveAt(Task& task, std::string_view directory, std::string_view path, bool follow_last);
  std::string ResolveFrom(const Directories& directories, std::string_view base, std::string_view path,
                          bool follow_last);
  void LearnLink(const std::string& spelt, const std::string& real);

  // --- files
  std::uint32_t NewFile(std::string path, std::uint32_t names);
  std::uint32_t FileNamed(const std::string& path);
  void LearnSize(std::uint32_t index, std::uint64_t size);
  void LearnStat(std::optional<std::uint32_t> file, std::string_view mode, std::string_view size);
  void RemoveName(const Task& task, const std::string& path);
  void Rename(const Task& task, const std::string& from, const std::string& to);
  void RenameDirectory(const std::string& from, const std::string& to);

  // --- descriptors
  std::shared_ptr<OpenFile> OpenOf(const Descriptor& descriptor);
  std::shared_ptr<OpenFile> Use(Task& task, std::string_view arg);
  void Install(Task& task, std::int64_t number, std::shared_ptr<OpenFile> open, bool close_on_exec);
  void Close(const Task& task, Descriptors::iterator at, Descriptors& table);
  void CloseTable(const Task& task, std::shared_ptr<Descriptors>& table);
  void Released(const Task& task, const std::shared_ptr<OpenFile>& open);
  absl::Status Open(Task& task, std::string_view directory, std::string_view path_arg, std::string_view flags,
                    std::string_view result);
  absl::Status Dup(Task& task, std::string_view from, std::uint64_t number, bool close_on_exec);

  // --- records
  std::uint32_t Emit(const Task& task, std::uint32_t file, Op op, std::uint64_t offset, std::uint64_t length);
  absl::Status Data(const Task& task, std::uint32_t file, Op op, std::uint64_t offset, std::uint64_t length,
                    bool waiting);
  absl::Status Read(Task& task, OpenFile* open, std::optional<std::uint64_t> at, std::uint64_t length);
  absl::Status Write(Task& task, OpenFile* open, std::optional<std::uint64_t> at, std::uint64_t length);
  absl::Status SetSize(const Task& task, std::uint32_t file, std::uint64_t size);
  absl::Status Map(Task& task, const Call& call);
  void Touch(Task& task, std::uint32_t file, Op op, std::uint64_t begin, std::uint64_t end);

  void AddFaults();
  void AskFacts();

  std::string_view name_;
  const StraceOptions& options_;
  std::uint64_t line_number_ = 0;
  bool accounted_ = false;
  absl::Status bad_path_;
  std::map<std::string, std::uint64_t, std::less<>> skipped_;

  bool started_ = false;
  std::int64_t start_ns_ = 0;  // all times below are since then
  std::int64_t now_ = 0;
  std::int64_t began_ns_ = 0;  // when the call that is being read began; now_ where it was not interrupted
  std::int64_t days_ = 0;
  std::uint64_t call_names_ = 0;

  // A line of standard error into which strace itself broke: its rest is the next line.
  std::optional<std::pair<std::optional<std::int32_t>, std::string>> broken_;
  // Lines of processes that two or more unfinished calls may have made, until one returns the pid.
  std::map<std::int32_t, std::vector<std::string>> deferred_;

  std::map<std::int32_t, std::unique_ptr<Task>> tasks_;
  std::vector<std::int32_t> cloning_;
  std::optional<std::int32_t> unprefixed_;
  std::vector<StoredTask> stored_tasks_;
  std::map<std::int32_t, std::vector<KernelEvents::Fork>> forks_;

  std::vector<File> files_;
  std::map<std::string, std::uint32_t, std::less<>> named_;
  absl::flat_hash_map<std::string, std::uint32_t> deleted_;  // by the last name
  std::map<std::string, std::string, std::less<>> links_;    // symbolic: path -> target
  absl::flat_hash_map<std::string, std::string> canonical_;  // answers of options_.canonical
  std::vector<std::uint32_t> bound_;                         // by kernel mapping: its file

  std::vector<Access> records_;                // file: an index into files_
  std::vector<std::uint32_t> heads_;           // records of kernel reads of a program's first bytes
  std::vector<std::uint32_t> whole_programs_;  // records to be as long as their file
  absl::flat_hash_map<RunKey, Run> runs_;
  Call call_;
};

// ------------------------------------------------------------------------------------------------------------ records

std::uint32_t Reader::Emit(const Task& task, std::uint32_t file, Op op, std::uint64_t offset, std::uint64_t length) {
  accounted_ = true;
  files_[file].recorded = true;
  records_.push_back(
      {.time_ns = now_, .task = task.id, .file = FileId{file}, .op = op, .offset = offset, .length = length});
  return static_cast<std::uint32_t>(records_.size() - 1);
}

absl::Status Reader::Data(const Task& task, std::uint32_t file, Op op, std::uint64_t offset, std::uint64_t length,
                          bool waiting) {
  if (length > kMaxEnd || offset > kMaxEnd - length) {
    return Error("an offset and a length whose sum is at most 2^63", absl::StrCat(offset, " and ", length));
  }
  File& f = files_[file];
  Run& run = runs_[RunKey{ToIndex(task.id), file, op}];
  if (run.end != 0 && run.end == offset && run.epoch == f.epoch && now_ - records_[run.record].time_ns <= kMergeNs &&
      records_[run.record].length + length <= kMaxEnd) {
    accounted_ = true;
    records_[run.record].length += length;
  } else {
    run.record = Emit(task, file, op, offset, length);
    run.epoch = f.epoch;
    if (waiting) f.waiting_appends.push_back(run.record);
  }
  run.end = offset + length;
  return absl::OkStatus();
}

absl::Status Reader::Read(Task& task, OpenFile* open, std::optional<std::uint64_t> at, std::uint64_t length) {
  if (open == nullptr) return absl::OkStatus();
  if (open->file == kNoIndex) {
    Skip(open->other);
    return absl::OkStatus();
  }
  if (length == 0) return absl::OkStatus();
  const std::uint64_t offset = at.value_or(open->position);
  if (absl::Status status = Data(task, open->file, Op::kRead, offset, length, false); !status.ok()) return status;
  if (!at) open->position = offset + length;
  File& f = files_[open->file];
  f.largest = std::max(f.largest, offset + length);
  return absl::OkStatus();
}

absl::Status Reader::Write(Task& task, OpenFile* open, std::optional<std::uint64_t> at, std::uint64_t length) {
  if (open == nullptr) return absl::OkStatus();
  if (open->file == kNoIndex) {
    Skip(open->other);
    return absl::OkStatus();
  }
  if (length == 0) return absl::OkStatus();
  File& f = files_[open->file];
  // With O_APPEND even pwrite(2) appends, in Linux.
  const std::uint64_t offset = open->append ? f.size : at.value_or(open->position);
  if (absl::Status status = Data(task, open->file, Op::kWrite, offset, length, open->append && !f.size_known);
      !status.ok()) {
    return status;
  }
  const std::uint64_t end = offset + length;
  if (!at) open->position = end;
  if (f.size_known || open->append)
    f.size = std::max(f.size, end);
  else
    f.written = std::max(f.written, end);
  f.largest = std::max(f.largest, end);
  return absl::OkStatus();
}

absl::Status Reader::SetSize(const Task& task, std::uint32_t file, std::uint64_t size) {
  if (size > kMaxEnd) return Error("a size of at most 2^63", absl::StrCat(size));
  LearnSize(file, size);
  ++files_[file].epoch;
  Emit(task, file, Op::kTruncate, 0, size);
  return absl::OkStatus();
}

// Records the parts of [begin, end) that the task has not touched yet.
void Reader::Touch(Task& task, std::uint32_t file, Op op, std::uint64_t begin, std::uint64_t end) {
  Intervals& seen = task.touched[{file, op}];
  std::uint64_t at = begin;
  auto next = seen.upper_bound(begin);
  if (next != seen.begin()) next = std::prev(next);
  std::uint64_t whole_begin = begin;
  std::uint64_t whole_end = end;
  while (next != seen.end() && next->first <= end) {
    if (next->second < begin) {
      ++next;
      continue;
    }
    if (next->first > at) Emit(task, file, op, at, next->first - at);
    at = std::max(at, next->second);
    whole_begin = std::min(whole_begin, next->first);
    whole_end = std::max(whole_end, next->second);
    next = seen.erase(next);
  }
  if (at < end) Emit(task, file, op, at, end - at);
  seen[whole_begin] = whole_end;
  if (!accounted_) Skip("mappings of what the task had mapped before");
}

absl::Status Reader::Map(Task& task, const Call& call) {
  const std::string_view flags = Arg(call, 3);
  if (HasFlag(flags, "MAP_ANONYMOUS") || HasFlag(flags, "MAP_ANON") || Arg(call, 4).starts_with('-')) {
    Skip("mappings of no file");
    return absl::OkStatus();
  }
  const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 4));
  if (open == nullptr) return absl::OkStatus();
  if (open->file == kNoIndex) {
    Skip(open->other);
    return absl::OkStatus();
  }
  if (options_.kernel != nullptr) return absl::OkStatus();
  const auto length = Unsigned("a length", Arg(call, 1));
  if (!length.ok() || !*length) return length.status();
  const auto offset = Unsigned("an offset", Arg(call, 5));
  if (!offset.ok() || !*offset) return offset.status();
  if (**length == 0) return Error("a length of at least 1", Arg(call, 1));
  if (**length > kMaxEnd || **offset > kMaxEnd - **length) {
    return Error("an offset and a length whose sum is at most 2^63", absl::StrCat(**offset, " and ", **length));
  }
  const std::string_view protection = Arg(call, 2);
  if (protection == "PROT_NONE") {
    Skip("mappings that allow no access");
    return absl::OkStatus();
  }
  const bool shared = HasFlag(flags, "MAP_SHARED") || HasFlag(flags, "MAP_SHARED_VALIDATE");
  const Op op = shared && HasFlag(protection, "PROT_WRITE") ? Op::kMappedWrite : Op::kMappedRead;
  Touch(task, open->file, op, **offset, **offset + **length);
  return absl::OkStatus();
}

// -------------------------------------------------------------------------------------------------------------- files

std::uint32_t Reader::NewFile(std::string path, std::uint32_t names) {
  const auto index = static_cast<std::uint32_t>(files_.size());
  File& f = files_.emplace_back();
  f.path = std::move(path);
  f.names = names;
  return index;
}

std::uint32_t Reader::FileNamed(const std::string& path) {
  if (const auto at = named_.find(path); at != named_.end()) return at->second;
  const std::uint32_t index = NewFile(path, 1);
  named_.emplace(path, index);
  return index;
}

// The size of a file now. If it was unknown, this also says what it was when the file was opened: less what was
// appended since; or, where other writes may have made it, nothing.
void Reader::LearnSize(std::uint32_t index, std::uint64_t size) {
  File& f = files_[index];
  if (!f.size_known) {
    const std::uint64_t appended = f.size;
    const std::uint64_t base = size >= appended ? size - appended : 0;
    const std::uint64_t at_open = appended > 0 ? base : (size > f.written ? size : 0);
    for (const std::uint32_t record : f.waiting_opens) records_[record].length = at_open;
    for (const std::uint32_t record : f.waiting_appends) {
      if (base <= kMaxEnd - records_[record].offset - records_[record].length) records_[record].offset += base;
    }
    if (!f.waiting_appends.empty()) ++f.epoch;  // runs end at offsets that were relative
    f.waiting_opens.clear();
    f.waiting_appends.clear();
    f.size_known = true;
    f.largest = std::max(f.largest, at_open);
  }
  f.size = size;
  f.largest = std::max(f.largest, size);
}

void Reader::LearnStat(std::optional<std::uint32_t> file, std::string_view mode, std::string_view size) {
  if (!file || *file == kNoIndex || mode.empty()) return;
  if (!HasFlag(mode, "S_IFREG")) {
    files_[*file].regular = false;
    return;
  }
  if (const auto bytes = ParseNumber(size); bytes && *bytes < kMaxEnd) LearnSize(*file, *bytes);
}

void Reader::RemoveName(const Task& task, const std::string& path) {
  links_.erase(path);
  const auto at = named_.find(path);
  if (at == named_.end()) {
    Skip("deletions of what the log had not shown before");
    return;
  }
  const std::uint32_t index = at->second;
  named_.erase(at);
  File& f = files_[index];
  if (f.names > 0) --f.names;
  if (f.names > 0) return;
  ++f.epoch;
  f.path = path;
  deleted_[path] = index;
  if (f.recorded)
    Emit(task, index, Op::kUnlink, 0, f.size_known ? f.size : std::max(f.size, f.written));
  else
    Skip("deletions of what the log had not shown before");
}

void Reader::RenameDirectory(const std::string& from, const std::string& to) {
  const std::string below = from + "/";
  std::vector<std::pair<std::string, std::uint32_t>> moved;
  for (auto at = named_.lower_bound(below); at != named_.end() && at->first.starts_with(below);) {
    std::string path = to + at->first.substr(from.size());
    if (path.size() <= kMaxPath) {
      if (files_[at->second].path == at->first) files_[at->second].path = path;
      moved.emplace_back(std::move(path), at->second);
    }
    at = named_.erase(at);
  }
  for (auto& [path, index] : moved) named_[path] = index;
  std::vector<std::pair<std::string, std::string>> links;
  for (auto at = links_.lower_bound(below); at != links_.end() && at->first.starts_with(below);) {
    links.emplace_back(to + at->first.substr(from.size()), at->second);
    at = links_.erase(at);
  }
  for (auto& [path, target] : links) links_[path] = target;
  for (auto& [pid, task] : tasks_) {
    std::string& cwd = task->directories->cwd;
    if (cwd == from)
      cwd = to;
    else if (cwd.starts_with(below))
      cwd = to + cwd.substr(from.size());
  }
}

void Reader::Rename(const Task& task, const std::string& from, const std::string& to) {
  if (from == to) return;
  const auto source = named_.find(from);
  const auto target = named_.find(to);
  if (source != named_.end() && target != named_.end() && source->second == target->second) return;  // POSIX: no effect
  if (const auto link = links_.find(from); link != links_.end()) {
    links_[to] = link->second;
    links_.erase(from);
  } else {
    links_.erase(to);
  }
  if (target != named_.end()) RemoveName(task, to);
  if (source != named_.end()) {
    const std::uint32_t index = source->second;
    named_.erase(source);
    named_[to] = index;
    files_[index].path = to;
  } else {
    RenameDirectory(from, to);
  }
}

// -------------------------------------------------------------------------------------------------------------- paths

std::string Reader::ResolveFrom(const Directories& directories, std::string_view base, std::string_view path,
                                bool follow_last) {
  std::vector<std::string_view> todo;  // components, the next one last
  const auto push = [&todo](std::string_view text) {
    const std::size_t first = todo.size();
    while (!text.empty()) {
      const std::size_t slash = text.find('/');
      const std::string_view part = text.substr(0, slash);
      if (!part.empty() && part != ".") todo.push_back(part);
      text = slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
    }
    std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
  };
  push(path);
  std::string out(path.starts_with('/') ? std::string_view(directories.root) : base);
  bool absolute = path.starts_with('/') || base.starts_with('/');
  while (out.ends_with('/')) out.pop_back();
  int follows = 0;
  while (!todo.empty()) {
    const std::string_view part = todo.back();
    todo.pop_back();
    const std::size_t parent = out.size();
    if (part == "..") {
      const std::size_t slash = out.rfind('/');
      if (absolute)
        out.resize(slash == std::string::npos ? 0 : slash);
      else if (out.empty() || Basename(out) == "..")
        out += out.empty() ? ".." : "/..";
      else
        out.resize(slash == std::string::npos ? 0 : slash);
      continue;
    }
    if (absolute || !out.empty()) out += '/';
    out += part;
    if (out.size() > kMaxPath) return std::string(path);
    if (todo.empty() && !follow_last) break;
    const auto link = links_.empty() ? links_.end() : links_.find(out);
    if (link == links_.end() || ++follows > 40) continue;
    if (link->second.starts_with('/')) {
      out = directories.root;
      absolute = true;
    } else {
      out.resize(parent);
    }
    push(link->second);
    if (todo.size() > kMaxPath) return std::string(path);
  }
  if (out.empty()) return absolute ? "/" : ".";
  if (!options_.canonical || !absolute || named_.contains(out)) return out;
  // A path through links that the log has not shown: ask for its directory, since the file itself may be gone.
  const std::string directory(Dirname(out));
  auto known = canonical_.find(directory);
  if (known == canonical_.end()) {
    known = canonical_.emplace(directory, options_.canonical(directory.empty() ? "/" : directory).value_or(directory))
                .first;
  }
  if (known->second == directory) return out;
  return absl::StrCat(known->second == "/" ? "" : known->second, "/", AbslView(Basename(out)));
}

std::optional<std::string> Reader::ResolveAt(Task& task, std::string_view directory, std::string_view path_arg,
                                             bool follow_last) {
  const auto path = PathArg(path_arg);
  if (!path) {
    Skip("calls with paths that are cut short or not shown");
    return std::nullopt;
  }
  const auto descriptor = DescriptorArg(directory);
  if (!descriptor || path->starts_with('/')) return Resolve(task, *path, follow_last);
  if (descriptor->at_cwd) {
    CheckPath(*descriptor);
    if (descriptor->annotated) task.directories->cwd = descriptor->path;
    return Resolve(task, *path, follow_last);
  }
  const std::shared_ptr<OpenFile> open = Use(task, directory);
  if (open == nullptr) return std::nullopt;
  if (path->empty()) return open->seen;                            // AT_EMPTY_PATH
  if (open->file != kNoIndex) files_[open->file].regular = false;  // only directories can be used like this
  return ResolveFrom(*task.directories, open->seen, *path, follow_last);
}

// -y shows where an open led; a different spelling got there by a symbolic link, which later calls may use again.
void Reader::LearnLink(const std::string& spelt, const std::string& real) {
  if (spelt == real || !spelt.starts_with('/') || !real.starts_with('/')) return;
  std::string_view link = spelt;
  std::string_view target = real;
  while (Basename(link) == Basename(target) && !Dirname(link).empty() && !Dirname(target).empty()) {
    link = Dirname(link);
    target = Dirname(target);
  }
  // A link to what is below itself would be followed for ever.
  if (link == target || target.starts_with(std::string(link) + "/")) return;
  links_[std::string(link)] = std::string(target);
}

// -------------------------------------------------------------------------------------------------------- descriptors

std::shared_ptr<OpenFile> Reader::OpenOf(const Descriptor& descriptor) {
  auto open = std::make_shared<OpenFile>();
  open->seen = descriptor.path;
  CheckPath(descriptor);
  if (!descriptor.annotated) {
    open->other = "calls on descriptors of unknown files";
    return open;
  }
  open->other = descriptor.device ? kPseudo : OtherThan(descriptor.path);
  if (open->other != nullptr) return open;
  std::string path = descriptor.path;
  bool deleted = descriptor.deleted;
  // Before 5.8 strace had the mark inside the brackets, where it may also be part of the name.
  if (!deleted && path.ends_with(kDeletedMark) && !named_.contains(path)) {
    deleted = true;
    path.resize(path.size() - kDeletedMark.size());
  }
  if (!deleted) {
    open->file = FileNamed(path);
  } else if (const auto at = deleted_.find(path); at != deleted_.end()) {
    open->file = at->second;
  } else {
    open->file = NewFile(path, 0);
    deleted_[path] = open->file;
  }
  return open;
}

// What a descriptor stands for. The table knows, unless the log missed how it came to be (inherited, sent over a
// socket): then -y says.
std::shared_ptr<OpenFile> Reader::Use(Task& task, std::string_view arg) {
  const auto descriptor = DescriptorArg(arg);
  if (!descriptor || descriptor->number < 0 || descriptor->number > kMaxDescriptor) {
    Skip("calls with arguments that are not understood");
    return nullptr;
  }
  CheckPath(*descriptor);
  const auto at = task.descriptors->find(descriptor->number);
  if (at != task.descriptors->end()) {
    const std::shared_ptr<OpenFile> open = at->second.open;
    if (!descriptor->annotated || descriptor->path == open->seen) return open;
    if (open->file == kNoIndex) {
      if (descriptor->device || OtherThan(descriptor->path) != nullptr) {
        open->seen = descriptor->path;
        return open;
      }
    } else {
      const auto shown = named_.find(descriptor->path);
      const auto seen = named_.find(open->seen);
      const bool renamed =
          shown != named_.end() ? shown->second == open->file : seen == named_.end() || seen->second != open->file;
      if (descriptor->deleted || renamed) {
        open->seen = descriptor->path;
        return open;
      }
    }
  }
  std::shared_ptr<OpenFile> open = OpenOf(*descriptor);
  const bool close_on_exec = at != task.descriptors->end() && at->second.close_on_exec;
  Install(task, descriptor->number, open, close_on_exec);
  return open;
}

void Reader::Released(const Task& task, const std::shared_ptr<OpenFile>& open) {
  if (open->file == kNoIndex || open.use_count() > 1 || !files_[open->file].recorded) return;
  Emit(task, open->file, Op::kClose, 0, 0);
  for (const Op op : {Op::kRead, Op::kWrite}) runs_.erase(RunKey{ToIndex(task.id), open->file, op});
}

void Reader::Close(const Task& task, Descriptors::iterator at, Descriptors& table) {
  std::shared_ptr<OpenFile> open = std::move(at->second.open);
  table.erase(at);
  Released(task, open);
}

void Reader::Install(Task& task, std::int64_t number, std::shared_ptr<OpenFile> open, bool close_on_exec) {
  Slot& slot = (*task.descriptors)[number];
  std::shared_ptr<OpenFile> before = std::exchange(slot.open, std::move(open));
  slot.close_on_exec = close_on_exec;
  if (before != nullptr) Released(task, before);
}

// Lets go of a task's table; closes what nobody else holds.
void Reader::CloseTable(const Task& task, std::shared_ptr<Descriptors>& table) {
  if (table.use_count() == 1) {
    while (!table->empty()) Close(task, table->begin(), *table);
  }
  table.reset();
}

absl::Status Reader::Open(Task& task, std::string_view directory, std::string_view path_arg, std::string_view flags,
                          std::string_view result) {
  auto descriptor = DescriptorArg(result);
  if (!descriptor || descriptor->number < 0 || descriptor->number > kMaxDescriptor) {
    Skip("calls with arguments that are not understood");
    return absl::OkStatus();
  }
  CheckPath(*descriptor);
  const std::optional<std::string> spelt = ResolveAt(task, directory, path_arg, true);
  if (!spelt && !descriptor->annotated) return absl::OkStatus();
  accounted_ = false;
  const bool shown = descriptor->annotated;
  if (!shown) {
    descriptor->annotated = true;
    descriptor->path = *spelt;
  } else if (spelt && !descriptor->deleted && OtherThan(descriptor->path) == nullptr) {
    LearnLink(*spelt, descriptor->path);
  }
  const bool close_on_exec = HasFlag(flags, "O_CLOEXEC");
  std::shared_ptr<OpenFile> open;
  const char* other = descriptor->device ? kPseudo : nullptr;
  if (other == nullptr && (shown || descriptor->path.starts_with('/'))) other = OtherThan(descriptor->path);
  if (HasFlag(flags, "O_DIRECTORY")) other = "calls on directories";
  if (HasFlag(flags, "O_PATH")) other = "calls on descriptors that are paths only";
  if (HasFlag(flags, "O_TMPFILE") && !descriptor->deleted) descriptor->deleted = true;
  const bool nameless = descriptor->deleted;
  if (other != nullptr) {
    open = std::make_shared<OpenFile>();
    open->other = other;
  } else {
    open = std::make_shared<OpenFile>();
    if (nameless) {
      open->file = NewFile(descriptor->path, 0);
    } else {
      const bool fresh = HasFlag(flags, "O_CREAT") && HasFlag(flags, "O_EXCL");
      // Made anew though the log has a file of that name: that one must have gone unseen.
      if (fresh) named_.erase(descriptor->path);
      open->file = FileNamed(descriptor->path);
      if (fresh) LearnSize(open->file, 0);
    }
  }
  open->seen = descriptor->path;
  open->append = HasFlag(flags, "O_APPEND");
  Install(task, descriptor->number, open, close_on_exec);
  if (open->file == kNoIndex) {
    Skip(open->other);
    return absl::OkStatus();
  }
  const bool writes = HasFlag(flags, "O_WRONLY") || HasFlag(flags, "O_RDWR");
  const bool truncates = HasFlag(flags, "O_TRUNC");
  File& f = files_[open->file];
  if (truncates || HasFlag(flags, "O_TMPFILE")) {
    LearnSize(open->file, 0);
    ++f.epoch;
  }
  const std::uint32_t record =
      Emit(task, open->file, Op::kOpen, (writes ? 1u : 0u) | (truncates ? 2u : 0u), f.size_known ? f.size : 0);
  if (!f.size_known) f.waiting_opens.push_back(record);
  return absl::OkStatus();
}

absl::Status Reader::Dup(Task& task, std::string_view from, std::uint64_t number, bool close_on_exec) {
  const std::shared_ptr<OpenFile> open = Use(task, from);
  if (open == nullptr) return absl::OkStatus();
  if (number > static_cast<std::uint64_t>(kMaxDescriptor)) {
    Skip("calls with arguments that are not understood");
    return absl::OkStatus();
  }
  const auto to = static_cast<std::int64_t>(number);
  if (const auto at = task.descriptors->find(to); at != task.descriptors->end() && at->second.open == open) {
    return absl::OkStatus();  // dup2(n, n)
  }
  Install(task, to, open, close_on_exec);
  return absl::OkStatus();
}

// -------------------------------------------------------------------------------------------------------------- tasks

Task& Reader::AddTask(std::int32_t pid, Task* parent, bool share_descriptors, bool share_directories) {
  auto task = std::make_unique<Task>();
  task->pid = pid;
  task->id = TaskId{static_cast<std::uint32_t>(stored_tasks_.size())};
  StoredTask stored;
  stored.pid = pid;
  stored.info.start_ns = now_;
  if (parent != nullptr) {
    task->descriptors = share_descriptors ? parent->descriptors : std::make_shared<Descriptors>(*parent->descriptors);
    task->directories = share_directories ? parent->directories : std::make_shared<Directories>(*parent->directories);
    stored.info.parent = parent->id;
    stored.name = stored_tasks_[ToIndex(parent->id)].name;
  } else {
    task->descriptors = std::make_shared<Descriptors>();
    task->directories = std::make_shared<Directories>();
    if (stored_tasks_.empty()) Inherit(*task->descriptors);
    stored.name = pid == kUnnamed ? "?" : absl::StrCat("pid-", pid);
  }
  stored_tasks_.push_back(std::move(stored));
  return *(tasks_[pid] = std::move(task));
}

void Reader::Inherit(Descriptors& table) {
  for (const StraceOptions::Inherited& inherited : options_.inherited) {
    const auto same = table.find(inherited.same_as);
    if (same != table.end()) {
      table[inherited.descriptor].open = same->second.open;
      continue;
    }
    Descriptor descriptor;
    descriptor.annotated = true;
    descriptor.path = inherited.path;
    std::shared_ptr<OpenFile> open = OpenOf(descriptor);
    open->position = inherited.position;
    open->append = inherited.append;
    table[inherited.descriptor].open = std::move(open);
  }
}

void Reader::EndTask(Task& task) {
  stored_tasks_[ToIndex(task.id)].info.end_ns = now_;
  CloseTable(task, task.descriptors);
  StopCloning(task);
  Forget(task.unfinished);
  if (unprefixed_ == task.pid) unprefixed_.reset();
  tasks_.erase(task.pid);
}

// The task a line belongs to; null if that is not known yet (the line is then kept).
Task* Reader::FindTask(const std::optional<std::int32_t>& pid, std::string_view text) {
  if (!pid) {
    // On standard error strace leaves the pid out while there is one process only.
    if (unprefixed_ && tasks_.contains(*unprefixed_)) return tasks_[*unprefixed_].get();
    if (tasks_.size() == 1)
      unprefixed_ = tasks_.begin()->first;
    else
      unprefixed_ = kUnnamed;
    const auto at = tasks_.find(*unprefixed_);
    return at != tasks_.end() ? at->second.get() : &AddTask(*unprefixed_, nullptr, false, false);
  }
  unprefixed_.reset();
  if (const auto at = tasks_.find(*pid); at != tasks_.end()) return at->second.get();
  if (const auto at = tasks_.find(kUnnamed); at != tasks_.end()) {
    // Either the process that had no pid so far, or its first child, whose first line came before its own pid.
    const bool child = at->second->cloning && !at->second->has_new_child && !text.starts_with("<... ");
    if (!child) {
      std::unique_ptr<Task> task = std::move(at->second);
      tasks_.erase(at);
      std::replace(cloning_.begin(), cloning_.end(), kUnnamed, *pid);
      task->pid = *pid;
      StoredTask& stored = stored_tasks_[ToIndex(task->id)];
      stored.pid = *pid;
      if (stored.name == "?") stored.name = absl::StrCat("pid-", *pid);
      return (tasks_[*pid] = std::move(task)).get();
    }
  }
  std::vector<Task*> parents;
  for (const std::int32_t candidate : cloning_) {
    Task* task = tasks_[candidate].get();
    if (!task->has_new_child) parents.push_back(task);
  }
  if (parents.size() > 1) {
    // The kernel's events may know.
    const auto forks = forks_.find(*pid);
    if (forks != forks_.end()) {
      for (auto fork = forks->second.rbegin(); fork != forks->second.rend(); ++fork) {
        if (fork->time_ns > start_ns_ + now_) continue;
        std::erase_if(parents, [&](const Task* task) { return task->pid != fork->parent; });
        break;
      }
    }
    if (parents.size() != 1) return nullptr;
  }
  if (parents.empty()) return &AddTask(*pid, nullptr, false, false);
  Task* parent = parents.front();
  parent->has_new_child = true;
  return &AddTask(*pid, parent, HasFlag(parent->unfinished.text, "CLONE_FILES"),
                  HasFlag(parent->unfinished.text, "CLONE_FS"));
}

absl::Status Reader::Clone(Task& task, const Call& call, std::uint64_t pid) {
  if (pid == 0 || pid > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    return Error("a process id as the result", call.result);
  }
  const auto child = static_cast<std::int32_t>(pid);
  if (tasks_.contains(child)) return absl::OkStatus();  // its lines came first, or it ended already
  if (task.has_new_child) return absl::OkStatus();
  bool share_descriptors = false;
  bool share_directories = false;
  for (const std::string_view arg : call.args) {
    share_descriptors |= HasFlag(arg, "CLONE_FILES");
    share_directories |= HasFlag(arg, "CLONE_FS");
  }
  AddTask(child, &task, share_descriptors, share_directories);
  const auto kept = deferred_.find(child);
  if (kept == deferred_.end()) return absl::OkStatus();
  const std::vector<std::string> lines = std::move(kept->second);
  deferred_.erase(kept);
  for (const std::string& line : lines) {
    if (absl::Status status = TaskLine(child, line); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Reader::Exec(Task& task, std::string_view path_arg, const std::optional<std::string>& path) {
  if (!path) return absl::OkStatus();
  const auto spelt = StringArg(path_arg);
  const std::string_view title = Basename(spelt && !spelt->empty() ? std::string_view(*spelt) : *path);
  stored_tasks_[ToIndex(task.id)].name = std::string(title);
  // execve(2) gives the process a table of its own and closes what is marked.
  if (task.descriptors.use_count() > 1) {
    auto own = std::make_shared<Descriptors>(*task.descriptors);
    task.descriptors = std::move(own);
  }
  for (auto at = task.descriptors->begin(); at != task.descriptors->end();) {
    const auto next = std::next(at);
    if (at->second.close_on_exec) Close(task, at, *task.descriptors);
    at = next;
  }
  task.touched.clear();
  std::string real = *path;
  if (options_.canonical) real = options_.canonical(*path).value_or(*path);
  std::vector<StraceOptions::Program> programs;
  if (options_.programs) programs = options_.programs(real);
  if (programs.empty()) programs.push_back({.path = real});
  const std::size_t first = records_.size();
  for (const StraceOptions::Program& program : programs) {
    if (program.path.starts_with('/') && OtherThan(program.path) != nullptr) continue;
    const std::uint32_t index = FileNamed(program.path);
    File& f = files_[index];
    const std::uint32_t record = Emit(task, index, Op::kOpen, 0, f.size_known ? f.size : 0);
    if (!f.size_known) f.waiting_opens.push_back(record);
    heads_.push_back(Emit(task, index, Op::kRead, 0, kProgramHead));
    if (options_.kernel == nullptr && program.mapped) {
      whole_programs_.push_back(Emit(task, index, Op::kMappedRead, 0, kProgramHead));
    }
    Emit(task, index, Op::kClose, 0, 0);
  }
  // The kernel reads the program, and its pages are first touched, before the call ends.
  for (std::size_t i = first; i < records_.size(); ++i) records_[i].time_ns = began_ns_;
  return absl::OkStatus();
}

// -------------------------------------------------------------------------------------------------------------- calls

absl::StatusOr<std::optional<std::uint64_t>> Reader::Unsigned(std::string_view what, std::string_view arg) {
  if (const auto value = ParseNumber(arg)) return value;
  if (const auto value = ParseSigned(arg); value && *value < 0) {
    return Error(absl::StrCat(AbslView(what), " of at least 0"), arg);
  }
  Skip("calls with arguments that are not understood");
  return std::optional<std::uint64_t>();
}

absl::Status Reader::Do(Task& task, const KnownCall& known, const Call& call, std::uint64_t result) {
  const absl::Status ok = absl::OkStatus();
  // `[3]`, `[0] => [3]`: the offset a call was given by address; NULL, or an address alone: the file's position.
  const auto indirect = [&](std::size_t i) -> absl::StatusOr<std::optional<std::uint64_t>> {
    const std::string_view arg = Arg(call, i);
    if (!arg.starts_with('[')) return std::optional<std::uint64_t>();
    const std::string_view number = arg.substr(1, arg.find_first_of(" ]") - 1);
    if (ParseSigned(number).value_or(0) < 0) return Error("an offset of at least 0", number);
    return ParseNumber(number);
  };
  const auto name_of = [&](std::size_t i, bool follow) -> std::optional<std::string> {
    return ResolveAt(task, "AT_FDCWD", Arg(call, i), follow);
  };
  const auto named = [&](const std::optional<std::string>& path) -> std::optional<std::uint32_t> {
    if (!path) return std::nullopt;
    const auto at = named_.find(*path);
    return at == named_.end() ? std::nullopt : std::optional<std::uint32_t>(at->second);
  };
  const auto transfer = [&](std::size_t in, std::size_t in_at, std::size_t out, std::size_t out_at) -> absl::Status {
    const std::shared_ptr<OpenFile> from = Use(task, Arg(call, in));
    const std::shared_ptr<OpenFile> to = Use(task, Arg(call, out));
    const auto read_at = indirect(in_at);
    if (!read_at.ok()) return read_at.status();
    absl::StatusOr<std::optional<std::uint64_t>> write_at = std::optional<std::uint64_t>();
    if (out_at != 0) write_at = indirect(out_at);
    if (!write_at.ok()) return write_at.status();
    if (absl::Status status = Read(task, from.get(), *read_at, result); !status.ok()) return status;
    return Write(task, to.get(), *write_at, result);
  };

  switch (known.kind) {
    case Kind::kClone: return Clone(task, call, result);
    case Kind::kExec: return Exec(task, Arg(call, 0), name_of(0, true));
    case Kind::kExecAt: return Exec(task, Arg(call, 1), ResolveAt(task, Arg(call, 0), Arg(call, 1), true));
    case Kind::kOpen: return Open(task, "AT_FDCWD", Arg(call, 0), Arg(call, 1), call.result);
    case Kind::kOpenAt: return Open(task, Arg(call, 0), Arg(call, 1), Arg(call, 2), call.result);
    case Kind::kCreat: return Open(task, "AT_FDCWD", Arg(call, 0), "O_WRONLY|O_CREAT|O_TRUNC", call.result);
    case Kind::kClose: {
      const auto descriptor = DescriptorArg(Arg(call, 0));
      if (!descriptor) break;
      const auto at = task.descriptors->find(descriptor->number);
      if (at != task.descriptors->end()) Close(task, at, *task.descriptors);
      return ok;
    }
    case Kind::kCloseRange: {
      const auto first = ParseNumber(Arg(call, 0));
      const auto last = ParseNumber(Arg(call, 1));
      if (!first || !last) break;
      if (HasFlag(Arg(call, 2), "CLOSE_RANGE_UNSHARE") && task.descriptors.use_count() > 1) {
        task.descriptors = std::make_shared<Descriptors>(*task.descriptors);
      }
      const bool mark = HasFlag(Arg(call, 2), "CLOSE_RANGE_CLOEXEC");
      for (auto at = task.descriptors->begin(); at != task.descriptors->end();) {
        const auto next = std::next(at);
        const auto number = static_cast<std::uint64_t>(at->first);
        if (number >= *first && number <= *last) {
          if (mark)
            at->second.close_on_exec = true;
          else
            Close(task, at, *task.descriptors);
        }
        at = next;
      }
      return ok;
    }
    case Kind::kDup: return Dup(task, Arg(call, 0), result, false);
    case Kind::kDup2: return Dup(task, Arg(call, 0), result, HasFlag(Arg(call, 2), "O_CLOEXEC"));
    case Kind::kFcntl: {
      const std::string_view command = Arg(call, 1);
      if (command == "F_DUPFD" || command == "F_DUPFD_CLOEXEC") {
        return Dup(task, Arg(call, 0), result, command != "F_DUPFD");
      }
      if (command != "F_SETFD" && command != "F_SETFL") return ok;
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      if (open == nullptr) return ok;
      if (command == "F_SETFL")
        open->append = HasFlag(Arg(call, 2), "O_APPEND");
      else
        (*task.descriptors)[DescriptorArg(Arg(call, 0))->number].close_on_exec = HasFlag(Arg(call, 2), "FD_CLOEXEC");
      return ok;
    }
    case Kind::kRead: return Read(task, Use(task, Arg(call, 0)).get(), std::nullopt, result);
    case Kind::kWrite: return Write(task, Use(task, Arg(call, 0)).get(), std::nullopt, result);
    case Kind::kReadAt:
    case Kind::kReadV2:
    case Kind::kWriteAt:
    case Kind::kWriteV2: {
      std::optional<std::uint64_t> offset;
      // preadv2(2) and pwritev2(2) take -1 for the file's position.
      const bool may_be_none = known.kind == Kind::kReadV2 || known.kind == Kind::kWriteV2;
      if (!may_be_none || Arg(call, 3) != "-1") {
        const auto given = Unsigned("an offset", Arg(call, 3));
        if (!given.ok() || !*given) return given.status();
        offset = *given;
      }
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      const bool reads = known.kind == Kind::kReadAt || known.kind == Kind::kReadV2;
      return reads ? Read(task, open.get(), offset, result) : Write(task, open.get(), offset, result);
    }
    case Kind::kSeek: {
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      if (open == nullptr) return ok;
      if (call.name == "_llseek") break;  // its result stands in the arguments; 32-bit programs only
      open->position = result;
      const auto back = ParseSigned(Arg(call, 1));
      if (open->file != kNoIndex && Arg(call, 2) == "SEEK_END" && back && *back <= 0 &&
          result < kMaxEnd - static_cast<std::uint64_t>(-*back)) {
        LearnSize(open->file, result + static_cast<std::uint64_t>(-*back));
      }
      return ok;
    }
    case Kind::kSendfile: return transfer(1, 2, 0, 0);
    case Kind::kCopy: return transfer(0, 1, 2, 3);
    case Kind::kMmap: return Map(task, call);
    case Kind::kTruncate: {
      const auto path = name_of(0, true);
      if (!path) return ok;
      const auto size = Unsigned("a size", Arg(call, 1));
      if (!size.ok() || !*size) return size.status();
      return SetSize(task, FileNamed(*path), **size);
    }
    case Kind::kFtruncate: {
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      if (open == nullptr) return ok;
      const auto size = Unsigned("a size", Arg(call, 1));
      if (!size.ok() || !*size) return size.status();
      if (open->file != kNoIndex) return SetSize(task, open->file, **size);
      Skip(open->other);
      return ok;
    }
    case Kind::kFallocate: {
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      if (open == nullptr || open->file == kNoIndex || Arg(call, 1) != "0") return ok;
      const auto offset = Unsigned("an offset", Arg(call, 2));
      if (!offset.ok() || !*offset) return offset.status();
      const auto length = Unsigned("a length", Arg(call, 3));
      if (!length.ok() || !*length) return length.status();
      if (**length > kMaxEnd || **offset > kMaxEnd - **length) return Error("a size of at most 2^63", Arg(call, 3));
      const std::uint64_t end = **offset + **length;
      File& f = files_[open->file];
      if (f.size_known && end > f.size) return SetSize(task, open->file, end);
      f.written = std::max(f.written, end);
      return ok;
    }
    case Kind::kStat:
      LearnStat(named(name_of(0, !call.name.starts_with('l'))), Field(Arg(call, 1), "st_mode"),
                Field(Arg(call, 1), "st_size"));
      return ok;
    case Kind::kFstat: {
      const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
      if (open != nullptr) LearnStat(open->file, Field(Arg(call, 1), "st_mode"), Field(Arg(call, 1), "st_size"));
      return ok;
    }
    case Kind::kStatAt:
    case Kind::kStatx: {
      const bool x = known.kind == Kind::kStatx;
      const std::string_view flags = Arg(call, x ? 2 : 3);
      const std::string_view buffer = Arg(call, x ? 4 : 2);
      const std::string_view mode = Field(buffer, x ? "stx_mode" : "st_mode");
      const std::string_view size = Field(buffer, x ? "stx_size" : "st_size");
      if (Arg(call, 1) == "\"\"" && !Arg(call, 0).starts_with("AT_FDCWD")) {
        const std::shared_ptr<OpenFile> open = Use(task, Arg(call, 0));
        if (open != nullptr) LearnStat(open->file, mode, size);
        return ok;
      }
      LearnStat(named(ResolveAt(task, Arg(call, 0), Arg(call, 1), !HasFlag(flags, "AT_SYMLINK_NOFOLLOW"))), mode, size);
      return ok;
    }
    case Kind::kUnlink:
      if (const auto path = name_of(0, false)) RemoveName(task, *path);
      return ok;
    case Kind::kUnlinkAt:
      if (HasFlag(Arg(call, 2), "AT_REMOVEDIR")) return ok;
      if (const auto path = ResolveAt(task, Arg(call, 0), Arg(call, 1), false)) RemoveName(task, *path);
      return ok;
    case Kind::kRename:
    case Kind::kRenameAt: {
      const bool at = known.kind == Kind::kRenameAt;
      const auto from = at ? ResolveAt(task, Arg(call, 0), Arg(call, 1), false) : name_of(0, false);
      const auto to = at ? ResolveAt(task, Arg(call, 2), Arg(call, 3), false) : name_of(1, false);
      if (!from || !to) return ok;
      if (HasFlag(Arg(call, 4), "RENAME_EXCHANGE")) {
        const std::string aside = absl::StrCat(*from, "\n(exchanged)");
        Rename(task, *from, aside);
        Rename(task, *to, *from);
        Rename(task, aside, *to);
      } else {
        Rename(task, *from, *to);
      }
      return ok;
    }
    case Kind::kLink:
    case Kind::kLinkAt: {
      const bool at = known.kind == Kind::kLinkAt;
      const auto to = at ? ResolveAt(task, Arg(call, 2), Arg(call, 3), false) : name_of(1, false);
      std::uint32_t index = kNoIndex;
      const auto spelt = StringArg(Arg(call, at ? 1 : 0));
      constexpr std::string_view kProcFd = "/proc/self/fd/";
      if (at && spelt && (spelt->empty() || spelt->starts_with(kProcFd))) {
        // How a file of O_TMPFILE gets its name.
        const std::string arg = spelt->empty() ? std::string(Arg(call, 0)) : spelt->substr(kProcFd.size());
        if (const auto open = Use(task, arg)) index = open->file;
      } else {
        const auto from = at ? ResolveAt(task, Arg(call, 0), Arg(call, 1), HasFlag(Arg(call, 4), "AT_SYMLINK_FOLLOW"))
                             : name_of(0, false);
        if (from) index = FileNamed(*from);
      }
      if (!to || index == kNoIndex) return ok;
      links_.erase(*to);
      if (named_.contains(*to)) RemoveName(task, *to);  // gone unseen: link(2) does not replace
      named_[*to] = index;
      if (files_[index].names++ == 0) files_[index].path = *to;
      return ok;
    }
    case Kind::kSymlink:
    case Kind::kSymlinkAt: {
      const bool at = known.kind == Kind::kSymlinkAt;
      const auto target = PathArg(Arg(call, 0));
      const auto path = at ? ResolveAt(task, Arg(call, 1), Arg(call, 2), false) : name_of(1, false);
      if (target && path && !target->empty()) links_[*path] = *target;
      return ok;
    }
    case Kind::kChdir:
      if (const auto path = name_of(0, true)) task.directories->cwd = *path;
      return ok;
    case Kind::kFchdir:
      if (const auto open = Use(task, Arg(call, 0))) {
        task.directories->cwd = open->seen;
        if (open->file != kNoIndex) files_[open->file].regular = false;
      }
      return ok;
    case Kind::kChroot:
      if (const auto path = name_of(0, true)) task.directories->root = *path == "/" ? "" : *path;
      return ok;
    case Kind::kUnshare:
      if (HasFlag(Arg(call, 0), "CLONE_FILES")) {
        task.descriptors = std::make_shared<Descriptors>(*task.descriptors);
      }
      if (HasFlag(Arg(call, 0), "CLONE_FS")) task.directories = std::make_shared<Directories>(*task.directories);
      return ok;
  }
  if (!accounted_) Skip("calls with arguments that are not understood");
  return ok;
}

absl::Status Reader::CompleteCall(Task& task, std::string_view text) {
  const std::string_view name = CallName(text);
  if (name.empty()) {
    Skip("lines that are not strace's");
    return absl::OkStatus();
  }
  const auto known = KnownCalls().find(name);
  if (known == KnownCalls().end()) {
    // A bound, so that a log of nonsense does not become a report as long as itself.
    std::string reason = ReasonForUnknownCall(name);
    if (!skipped_.contains(reason) && ++call_names_ > 500) reason = "other calls";
    Skip(reason);
    return absl::OkStatus();
  }
  if (!SplitCall(text, call_)) {
    Skip("calls cut short");
    return absl::OkStatus();
  }
  if (call_.result.starts_with('-')) {
    Skip("calls that failed");
    return absl::OkStatus();
  }
  // The number ends at -y's note, which a number's own check would not like in "3</path>".
  const auto result = ParseNumber(call_.result.substr(0, call_.result.find_first_of("< (")));
  if (!result) {
    Skip("calls without a result");
    return absl::OkStatus();
  }
  Call call = std::move(call_);  // Clone may come back here with kept lines
  accounted_ = false;
  absl::Status status = Do(task, known->second, call, *result);
  if (status.ok()) status = bad_path_;
  if (status.ok() && !accounted_) Skip(known->second.otherwise);
  call_ = std::move(call);
  return status;
}

// -------------------------------------------------------------------------------------------------------------- lines

void Reader::SetTime(const Prefix& prefix) {
  std::int64_t time = prefix.time_ns;
  if (!started_) {
    started_ = true;
    start_ns_ = time;
  }
  if (prefix.clock_only) {
    if (time + days_ * kDayNs - start_ns_ < now_ - kDayNs / 2 && days_ < 36'500) ++days_;
    time += days_ * kDayNs;
  }
  // A clock that is set back must not make records go back.
  now_ = std::max(now_, time - start_ns_);
}

absl::Status Reader::TaskLine(std::int32_t pid, std::string_view text) {
  const auto found = tasks_.find(pid);
  if (found == tasks_.end()) {
    Skip("lines of processes that had ended");
    return absl::OkStatus();
  }
  Task& task = *found->second;
  if (text.starts_with("--- ")) {
    Skip("signals");
    return absl::OkStatus();
  }
  if (text.starts_with("+++ ")) {
    constexpr std::string_view kSuperseded = "+++ superseded by execve in pid ";
    if (text.starts_with(kSuperseded)) {
      // A thread called execve: it goes on under the pid of its process, with the call it is in.
      const auto number = ParseNumber(text.substr(kSuperseded.size()));
      const auto at = number && *number <= 0x7fffffff ? tasks_.find(static_cast<std::int32_t>(*number)) : tasks_.end();
      if (at != tasks_.end() && at->first != pid) {
        // What the process itself was in will not return; its table goes, the thread's stays.
        Task& thread = *at->second;
        StopCloning(task);
        task.has_new_child = false;
        Forget(task.unfinished);
        std::swap(task.unfinished, thread.unfinished);
        std::swap(task.descriptors, thread.descriptors);
        std::swap(task.directories, thread.directories);
        EndTask(thread);
      }
    } else {
      EndTask(task);
    }
    Skip("ends of processes");
    return absl::OkStatus();
  }
  constexpr std::string_view kUnfinished = "<unfinished ...>";
  if (text.starts_with("<... ")) {
    const std::size_t mark = text.find(" resumed>");
    StopCloning(task);
    Unfinished call = std::exchange(task.unfinished, {});
    if (mark == std::string_view::npos || call.text.empty() || CallName(call.text) != text.substr(5, mark - 5)) {
      Forget(call);
      Skip("calls whose beginning is missing");
      return absl::OkStatus();
    }
    if (call.accounted) {
      accounted_ = true;
      return absl::OkStatus();
    }
    call.text += text.substr(mark + 9);
    if (call.text.ends_with(kUnfinished)) {  // resumed only to be interrupted again
      call.text.resize(call.text.size() - kUnfinished.size());
      task.unfinished = std::move(call);
      accounted_ = true;
      return absl::OkStatus();
    }
    began_ns_ = call.since_ns;
    absl::Status status = CompleteCall(task, call.text);
    // The task may have been ended by lines that Clone had kept; look it up again.
    if (const auto again = tasks_.find(pid); again != tasks_.end()) again->second->has_new_child = false;
    return status;
  }
  if (!task.unfinished.text.empty()) {
    Forget(task.unfinished);
    StopCloning(task);
  }
  if (text.ends_with(kUnfinished)) {
    text.remove_suffix(kUnfinished.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    task.unfinished = {.text = std::string(text), .since_ns = now_, .accounted = CallName(text) == "close"};
    const auto known = KnownCalls().find(CallName(text));
    task.cloning = known != KnownCalls().end() && known->second.kind == Kind::kClone;
    task.has_new_child = false;
    if (task.cloning) cloning_.push_back(pid);
    if (task.unfinished.text.empty()) Skip("calls cut short");
    if (task.unfinished.accounted) {
      // The kernel frees the number as the call begins, whatever it returns; another thread may get it before it ends.
      began_ns_ = now_;
      return CompleteCall(task, std::string(text) + ") = 0");
    }
    return absl::OkStatus();
  }
  began_ns_ = now_;
  return CompleteCall(task, text);
}

absl::Status Reader::Line(std::string_view line) {
  ++line_number_;
  // strace escapes both in what it quotes, so these come from whoever changed the log.
  if (line.ends_with('\r')) return Error("a line that ends in LF alone", line);
  if (line.find('\0') != std::string_view::npos) return Error("a line without NUL bytes", line);
  if (line.empty()) return absl::OkStatus();
  std::optional<std::int32_t> pid;
  std::string joined;
  std::string_view text;
  const auto prefix = ParsePrefix(line);
  if (broken_ && !prefix) {
    pid = broken_->first;
    joined = broken_->second + std::string(line);
    text = joined;
    broken_.reset();
  } else {
    if (broken_) {
      Skip("calls cut short");
      broken_.reset();
    }
    if (!prefix) {
      Skip(line.starts_with("strace: ") ? "notes of strace" : "lines that are not strace's");
      return absl::OkStatus();
    }
    if (options_.kernel != nullptr) BindMappings(prefix->time_ns);
    SetTime(*prefix);
    pid = prefix->pid;
    text = prefix->text;
    // "clone(…strace: Process 7 attached": the rest of the call is the next line.
    constexpr std::string_view kNote = "strace: Process ";
    if (const auto note = text.rfind(kNote);
        note != std::string_view::npos && note > 0 && (text.ends_with(" attached") || text.ends_with(" detached"))) {
      broken_.emplace(pid, std::string(text.substr(0, note)));
      return absl::OkStatus();
    }
  }
  if (pid && deferred_.contains(*pid) && !tasks_.contains(*pid)) {
    deferred_[*pid].emplace_back(text);
    return absl::OkStatus();
  }
  Task* task = FindTask(pid, text);
  if (task == nullptr) {
    deferred_[*pid].emplace_back(text);
    return absl::OkStatus();
  }
  return TaskLine(task->pid, text);
}

// ------------------------------------------------------------------------------------------------------ kernel events

// Each mapping stands for the file that had its path when it was made.
void Reader::BindMappings(std::int64_t until_ns) {
  const auto& mappings = options_.kernel->mappings;
  while (bound_.size() < mappings.size() && mappings[bound_.size()].time_ns <= until_ns) {
    Descriptor descriptor;
    descriptor.annotated = true;
    descriptor.path = mappings[bound_.size()].path;
    bound_.push_back(OpenOf(descriptor)->file);
  }
}

void Reader::AddFaults() {
  BindMappings(std::numeric_limits<std::int64_t>::max());
  absl::flat_hash_map<std::int32_t, std::vector<TaskId>> by_pid;
  for (std::size_t i = 0; i < stored_tasks_.size(); ++i) {
    by_pid[stored_tasks_[i].pid].push_back(TaskId{static_cast<std::uint32_t>(i)});
  }
  // Pids are used again; a task's own events lie before its end.
  const auto task_at = [&](std::int32_t pid, std::int64_t time_ns) {
    const auto at = by_pid.find(pid);
    if (at == by_pid.end()) return kNoTask;
    for (const TaskId id : at->second) {
      if (stored_tasks_[ToIndex(id)].info.end_ns >= time_ns) return id;
    }
    return at->second.back();
  };
  for (const KernelEvents::Faults& faults : options_.kernel->faults) {
    const std::int64_t time = std::max<std::int64_t>(0, faults.time_ns - start_ns_);
    const TaskId task = task_at(faults.task, time);
    const std::uint32_t file = faults.mapping < bound_.size() ? bound_[faults.mapping] : kNoIndex;
    if (task == kNoTask) {
      Skip("page faults of processes not in the log", faults.pages);
      continue;
    }
    if (file == kNoIndex || faults.pages > kMaxEnd / 4096 || faults.offset > kMaxEnd - 4096 * faults.pages) {
      Skip("page faults in mappings of no file", faults.pages);
      continue;
    }
    files_[file].recorded = true;
    records_.push_back({.time_ns = time,
                        .task = task,
                        .file = FileId{file},
                        .op = faults.shared_writable ? Op::kMappedWrite : Op::kMappedRead,
                        .offset = faults.offset,
                        .length = 4096 * faults.pages});
  }
  for (const KernelEvents::CpuTime& cpu : options_.kernel->cpu_times) {
    const TaskId task = task_at(cpu.task, std::max<std::int64_t>(0, cpu.time_ns - start_ns_));
    if (task == kNoTask) continue;
    stored_tasks_[ToIndex(task)].info.user_us += cpu.user_us;
    stored_tasks_[ToIndex(task)].info.system_us += cpu.system_us;
  }
}

// --------------------------------------------------------------------------------------------------------------- end

void Reader::AskFacts() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    File& f = files_[i];
    if (!f.recorded || !f.regular || f.names == 0) continue;
    const auto at = named_.find(f.path);
    if (at == named_.end() || at->second != index) continue;
    const auto facts = options_.facts(f.path);
    if (!facts) continue;
    if (!facts->regular)
      f.regular = false;
    else if (!f.size_known)
      LearnSize(index, facts->size);
    else
      f.largest = std::max(f.largest, facts->size);
  }
}

absl::StatusOr<Trace> Reader::Finish() {
  if (!started_) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(name_), ":", line_number_, ": expected a log of strace -f -ttt -y, got no line of one"));
  }
  if (broken_) Skip("calls cut short");
  while (!deferred_.empty()) {
    // Whose children these are was never said.
    const auto kept = deferred_.begin();
    const std::int32_t pid = kept->first;
    const std::vector<std::string> lines = std::move(kept->second);
    deferred_.erase(kept);
    if (!tasks_.contains(pid)) AddTask(pid, nullptr, false, false);
    for (const std::string& line : lines) {
      if (absl::Status status = TaskLine(pid, line); !status.ok()) return status;
    }
  }
  for (auto& [pid, task] : tasks_) {
    Forget(task->unfinished);
    stored_tasks_[ToIndex(task->id)].info.end_ns = now_;
  }
  if (options_.kernel != nullptr) AddFaults();
  if (options_.facts) AskFacts();
  for (const std::uint32_t record : whole_programs_) {
    records_[record].length = std::max(files_[ToIndex(records_[record].file)].largest, kProgramHead);
  }
  for (const std::uint32_t record : heads_) {
    const File& f = files_[ToIndex(records_[record].file)];
    if (f.size_known) records_[record].length = std::min(f.largest, kProgramHead);
  }

  std::vector<std::uint32_t> order;
  order.reserve(records_.size());
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Access& record = records_[i];
    const File& f = files_[ToIndex(record.file)];
    if (!f.regular) {
      Skip("calls on directories");
      continue;
    }
    if (options_.kernel == nullptr && IsMapped(record.op) && f.size_known) {
      // A mapping may be longer than its file; nobody can touch what lies beyond.
      const std::uint64_t left = f.largest > record.offset ? f.largest - record.offset : 0;
      record.length = std::min(record.length, left);
      if (record.length == 0) {
        Skip("mappings beyond the end of their file");
        continue;
      }
    }
    order.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return records_[a].time_ns < records_[b].time_ns; });

  TraceBuilder builder;
  for (StoredTask& task : stored_tasks_) {
    task.info.name = task.name;
    builder.AddTask(task.info);
  }
  std::vector<FileId> ids(files_.size(), kNoFile);
  for (const std::uint32_t i : order) {
    Access record = records_[i];
    FileId& id = ids[ToIndex(record.file)];
    const File& f = files_[ToIndex(record.file)];
    if (id == kNoFile) id = builder.AddFile(f.path, f.largest);
    record.file = id;
    if (absl::Status status = builder.Add(record); !status.ok()) return status;
  }
  for (const auto& [reason, count] : skipped_) builder.Skip(reason, count);
  return builder.Finish(std::string(name_), "strace",
                        options_.kernel != nullptr ? MappedTouches::kPages : MappedTouches::kRanges);
}

}  // namespace

absl::StatusOr<Trace> ReadStrace(std::string_view bytes, std::string_view name, const StraceOptions& options) {
  Reader reader(name, options);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (absl::Status status = reader.Line(bytes.substr(0, end)); !status.ok()) return status;
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
  }
  return reader.Finish();
}

absl::StatusOr<Trace> ReadStraceInput(Input& input) {
  absl::StatusOr<Input::Whole> whole = input.ReadAll();
  if (!whole.ok()) return whole.status();
  return ReadStrace({reinterpret_cast<const char*>(whole->bytes.data()), whole->bytes.size()}, input.name());
}

bool LooksLikeStrace(std::string_view bytes) {
  // A log of standard error may begin with words of the command.
  for (int line = 0; line < 20 && !bytes.empty(); ++line) {
    const std::size_t end = bytes.find('\n');
    const auto prefix = ParsePrefix(bytes.substr(0, std::min<std::size_t>(end, 4096)));
    if (prefix) {
      const std::string_view text = prefix->text;
      return !CallName(text).empty() || text.starts_with("<... ") || text.starts_with("+++ ") ||
             text.starts_with("--- ");
    }
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
  }
  return false;
}

}  // namespace v0
}  // namespace daxcache
