// Running a command under strace, and what the reader of its log cannot know by itself: sizes and links of files as
// they are after the run, the descriptors the command began with, page faults and CPU times.
#include "daxcache/sim/record.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/traces/strace.h"
#include "daxcache/units.h"
#include "record_events.h"

namespace daxcache {
inline namespace v0 {
namespace {

// Calls that the reader understands. "?" lets strace pass over those that an architecture does not have.
constexpr std::string_view kCalls[] = {
    "clone",      "clone3",          "fork",           "vfork",     "execve",      "execveat",  "open",
    "openat",     "openat2",         "creat",          "close",     "close_range", "dup",       "dup2",
    "dup3",       "fcntl",           "read",           "readv",     "pread64",     "preadv",    "preadv2",
    "write",      "writev",          "pwrite64",       "pwritev",   "pwritev2",    "lseek",     "sendfile",
    "splice",     "copy_file_range", "mmap",           "truncate",  "ftruncate",   "fallocate", "fstat",
    "newfstatat", "statx",           "unlink",         "unlinkat",  "rename",      "renameat",  "renameat2",
    "link",       "linkat",          "symlink",        "symlinkat", "chdir",       "fchdir",    "chroot",
    "unshare",    "io_submit",       "io_uring_setup",
};

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  int get() const { return fd_; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

absl::Status ErrnoStatus(std::string_view what) {
  return absl::UnavailableError(absl::StrCat(AbslView(what), ": ", std::strerror(errno)));
}

std::optional<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  return real ? std::optional<std::string>(real.get()) : std::nullopt;
}

std::optional<StraceOptions::FileFacts> Facts(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  return StraceOptions::FileFacts{.regular = S_ISREG(facts.st_mode), .size = static_cast<std::uint64_t>(facts.st_size)};
}

// The loader that a 64-bit ELF program names, or empty.
std::string LoaderOf(int fd, const char* head, std::size_t size) {
  Elf64_Ehdr elf;
  if (size < sizeof(elf)) return {};
  std::memcpy(&elf, head, sizeof(elf));
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(Elf64_Phdr)) return {};
  for (std::uint64_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr part;
    const std::uint64_t at = elf.e_phoff + i * sizeof(part);
    if (at > INT32_MAX || pread(fd, &part, sizeof(part), static_cast<off_t>(at)) != sizeof(part)) return {};
    if (part.p_type != PT_INTERP || part.p_filesz > PATH_MAX || part.p_offset > INT32_MAX) continue;
    std::string path(part.p_filesz, '\0');
    if (pread(fd, path.data(), path.size(), static_cast<off_t>(part.p_offset)) < 0) return {};
    return path.substr(0, path.find('\0'));
  }
  return {};
}

// What execve(2) opens: the script, the program that runs it, that one's loader.
std::vector<StraceOptions::Program> Programs(const std::string& path) {
  std::vector<StraceOptions::Program> programs;
  std::string next = path;
  for (int depth = 0; depth < 5 && !next.empty(); ++depth) {
    const std::string real = RealPath(next).value_or(next);
    next.clear();
    programs.push_back({.path = real, .mapped = true});
    const Fd fd(open(real.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 256> head{};
    const ssize_t got = fd.get() < 0 ? -1 : pread(fd.get(), head.data(), head.size(), 0);
    if (got < 2) break;
    const std::string_view text(head.data(), static_cast<std::size_t>(got));
    if (text.starts_with("#!")) {
      programs.back().mapped = false;
      const std::size_t begin = text.find_first_not_of(" \t", 2);
      if (begin == std::string_view::npos) break;
      next = std::string(text.substr(begin, text.find_first_of(" \t\n", begin) - begin));
    } else if (text.starts_with(ELFMAG)) {
      next = LoaderOf(fd.get(), head.data(), text.size());
    }
  }
  return programs;
}

// Regular files among the descriptors that a child will inherit, and where they stand.
std::vector<StraceOptions::Inherited> InheritedFiles() {
  std::vector<StraceOptions::Inherited> files;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
  if (directory == nullptr) return files;
  while (const dirent* entry = readdir(directory.get())) {
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || number == dirfd(directory.get())) continue;
    const int fd = static_cast<int>(number);
    struct stat facts {};
    if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    std::array<char, PATH_MAX> path{};
    const ssize_t length = readlinkat(dirfd(directory.get()), entry->d_name, path.data(), path.size());
    if (length <= 0) continue;
    StraceOptions::Inherited file;
    file.descriptor = fd;
    file.path = std::string(path.data(), static_cast<std::size_t>(length));
    const off_t position = lseek(fd, 0, SEEK_CUR);
    file.position = position > 0 ? static_cast<std::uint64_t>(position) : 0;
    file.append = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.descriptor < b.descriptor; });
  // `cmd >log 2>&1` gives two descriptors of one open file.
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i && files[i].same_as < 0; ++j) {
      const bool same = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, files[j].descriptor, files[i].descriptor) == 0;
      if (same) files[i].same_as = files[j].descriptor;
    }
  }
  return files;
}

// A file for the log: what the user asked for, or one that has no name and so is gone with us.
absl::StatusOr<Fd> CreateLog(const std::string& keep) {
  if (!keep.empty()) {
    Fd fd(open(keep.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd.get() < 0) return ErrnoStatus(keep);
    return fd;
  }
  const char* const folder = std::getenv("TMPDIR");
  std::string name = absl::StrCat(folder != nullptr && *folder != '\0' ? folder : "/tmp", "/daxtrace-XXXXXX");
  Fd fd(mkostemp(name.data(), O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(name);
  unlink(name.c_str());
  return fd;
}

// What the child writes if it cannot become strace, and where it waits until it is being watched.
struct Pipes {
  Fd go_read, go_write, error_read, error_write;
};
absl::StatusOr<Pipes> MakePipes() {
  int go[2];
  int error[2];
  if (pipe2(go, O_CLOEXEC) != 0) return ErrnoStatus("pipe");
  if (pipe2(error, O_CLOEXEC) != 0) {
    const absl::Status status = ErrnoStatus("pipe");
    close(go[0]);
    close(go[1]);
    return status;
  }
  return Pipes{Fd(go[0]), Fd(go[1]), Fd(error[0]), Fd(error[1])};
}

// While the command runs, the terminal's signals are its own: it ends, and its trace is written.
class IgnoreSignals {
 public:
  IgnoreSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;  // NOLINT: the macro casts
    sigaction(SIGINT, &ignore, &interrupt_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~IgnoreSignals() { Restore(); }
  IgnoreSignals(const IgnoreSignals&) = delete;
  IgnoreSignals& operator=(const IgnoreSignals&) = delete;
  void Restore() const {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

std::vector<std::string> StraceCommand(const RecordOptions& options, int log) {
  std::string calls;
  for (const std::string_view call : kCalls) absl::StrAppend(&calls, calls.empty() ? "?" : ",?", AbslView(call));
  // The log is opened by its descriptor, since it may have no name. Strings are not shown (-s 0): paths always are.
  std::vector<std::string> command = {options.strace,
                                      "--follow-forks",
                                      "--seccomp-bpf",
                                      "--absolute-timestamps=format:unix,precision:ns",
                                      "--decode-fds=path",
                                      "--string-limit=0",
                                      "--columns=1",
                                      "--quiet=attach,personality",
                                      absl::StrCat("--trace=", calls),
                                      absl::StrCat("--output=/proc/", getpid(), "/fd/", log),
                                      "--"};
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

absl::StatusOr<int> WaitFor(pid_t child, EventRecorder* events) {
  // 428 everywhere; glibc has the function only since 2.36.
  const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  std::vector<pollfd> polls;
  if (ended.get() >= 0) polls.push_back({.fd = ended.get(), .events = POLLIN, .revents = 0});
  if (events != nullptr) {
    for (const int fd : events->descriptors()) polls.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  for (;;) {
    poll(polls.data(), polls.size(), events != nullptr || ended.get() < 0 ? 100 : -1);
    // An event whose task has ended is always ready; asking for it again would spin.
    for (pollfd& p : polls) {
      if ((p.revents & (POLLHUP | POLLERR)) != 0) p.fd = -1;
    }
    if (events != nullptr) events->Drain();
    int status = 0;
    const pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) return status;
    if (got < 0 && errno != EINTR) return ErrnoStatus("waitpid");
  }
}

}  // namespace

absl::StatusOr<Recording> Record(const RecordOptions& options) {
  if (options.command.empty()) return absl::InvalidArgumentError("expected a command to record, got nothing");
  absl::StatusOr<Fd> log = CreateLog(options.keep_log);
  if (!log.ok()) return log.status();
  absl::StatusOr<Pipes> pipes = MakePipes();
  if (!pipes.ok()) return pipes.status();

  StraceOptions reading;
  reading.inherited = InheritedFiles();
  std::vector<std::string> command = StraceCommand(options, log->get());
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  Recording recording;
  std::optional<EventRecorder> events;
  {
    const IgnoreSignals ignore;
    const pid_t child = fork();
    if (child < 0) return ErrnoStatus("fork");
    if (child == 0) {
      ignore.Restore();
      char byte = 0;
      if (read(pipes->go_read.get(), &byte, 1) != 1) _exit(127);
      execvp(arguments[0], arguments.data());
      const int error = errno;
      [[maybe_unused]] const ssize_t written = write(pipes->error_write.get(), &error, sizeof(error));
      _exit(127);
    }
    pipes->error_write.Reset();
    if (options.faults == RecordOptions::Faults::kOff) {
      recording.no_faults_because = "not asked for";
    } else {
      absl::StatusOr<EventRecorder> opened = EventRecorder::Open(child);
      if (opened.ok()) {
        events = *std::move(opened);
      } else if (options.faults == RecordOptions::Faults::kOn) {
        pipes->go_write.Reset();  // the child goes away
        waitpid(child, nullptr, 0);
        return absl::FailedPreconditionError(absl::StrCat(
            "expected page faults to be recordable, got ", opened.status().message(),
            " (see /proc/sys/kernel/perf_event_paranoid; without --faults=on the trace is made without them)"));
      } else {
        recording.no_faults_because = std::string(opened.status().message());
      }
    }
    if (write(pipes->go_write.get(), "g", 1) != 1) return ErrnoStatus("pipe");
    int error = 0;
    const bool failed = read(pipes->error_read.get(), &error, sizeof(error)) == sizeof(error);
    const absl::StatusOr<int> status = WaitFor(child, events ? &*events : nullptr);
    if (!status.ok()) return status.status();
    if (failed) {
      return absl::FailedPreconditionError(
          absl::StrCat("expected to run ", options.strace, " (package strace), got ", std::strerror(error)));
    }
    recording.wait_status = *status;
  }

  struct stat facts {};
  if (fstat(log->get(), &facts) != 0) return ErrnoStatus("the log");
  recording.log_bytes = static_cast<std::uint64_t>(facts.st_size);
  if (facts.st_size == 0) {
    // strace has said why, on standard error.
    return absl::NotFoundError(absl::StrCat("expected ", options.command[0], " to run under strace, got no calls"));
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* const map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, log->get(), 0);
  if (map == MAP_FAILED) return ErrnoStatus("the log");
  KernelEvents kernel;
  if (events) {
    kernel = events->Finish();
    reading.kernel = &kernel;
    recording.lost_events = events->lost();
    recording.unresolved = events->unresolved();
    recording.system_time = events->system_time();
  }
  reading.facts = Facts;
  // Asked for each program started and each folder; the answers are kept.
  std::map<std::string, std::optional<std::string>> real_paths;
  reading.canonical = [&real_paths](const std::string& path) {
    const auto at = real_paths.find(path);
    return at != real_paths.end() ? at->second : real_paths.emplace(path, RealPath(path)).first->second;
  };
  std::map<std::string, std::vector<StraceOptions::Program>> programs;
  reading.programs = [&programs](const std::string& path) {
    const auto at = programs.find(path);
    return at != programs.end() ? at->second : programs.emplace(path, Programs(path)).first->second;
  };
  const std::string name = options.keep_log.empty() ? "log of strace" : options.keep_log;
  absl::StatusOr<Trace> trace = ReadStrace({static_cast<const char*>(map), size}, name, reading);
  munmap(map, size);
  if (!trace.ok()) return trace.status();
  recording.trace = *std::move(trace);
  return recording;
}

}  // namespace v0
}  // namespace daxcache
