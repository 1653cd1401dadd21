// Recording real commands: what the trace says is compared with what the commands are known to have done. Skipped where
// strace is not installed or may not trace.
#include "daxcache/sim/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daxcache/traces/builtin.h"

namespace daxcache {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool Have(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

std::string Output(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  for (std::size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), got);
  pclose(pipe);
  return out;
}

class RecordTest : public ::testing::TestWithParam<RecordOptions::Faults> {
 protected:
  void SetUp() override {
    if (!Have("strace")) GTEST_SKIP() << "strace is not installed";
    if (std::system("strace -f --seccomp-bpf -e trace=execve -o /dev/null true >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "strace may not trace here (ptrace is not permitted, or strace is too old)";
    }
    std::string name = (fs::temp_directory_path() / "daxcache-record-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = fs::canonical(name);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void WriteFile(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // Runs it in the folder, by a shell that then is the command.
  Recording Run(const std::string& command) {
    RecordOptions options;
    options.faults = GetParam();
    options.command = {"sh", "-c", "cd '" + folder_.string() + "' && " + command};
    absl::StatusOr<Recording> recording = Record(options);
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : Recording();
  }

  bool CompileC(const std::string& name, const std::string& source) {
    if (!Have("cc")) return false;
    WriteFile(name + ".c", source);
    return std::system(("cc -w -o '" + Path(name) + "' '" + Path(name + ".c") + "'").c_str()) == 0;
  }

  fs::path folder_;
};

// What a file went through, in order; files that had the same name follow each other.
struct History {
  std::string ops;  // a letter a record
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  std::vector<std::string> calls;  // "R offset length"; contiguous ones as one
};

std::vector<History> Of(const Trace& trace, const std::string& path) {
  constexpr std::string_view kLetters = "RWFGOCTD";
  std::map<std::uint32_t, History> histories;
  std::map<std::uint32_t, Access> last;
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    Access a = trace[i];
    if (trace.files()[ToIndex(a.file)].path != path) continue;
    History& history = histories[ToIndex(a.file)];
    if (a.op == Op::kRead) history.read += a.length;
    if (a.op == Op::kWrite) history.written += a.length;
    // Whether two contiguous calls are one record depends on how soon the second came: here they always are.
    Access& before = last[ToIndex(a.file)];
    const bool calls = a.op == Op::kRead || a.op == Op::kWrite;
    if (calls && before.op == a.op && before.task == a.task && before.offset + before.length == a.offset &&
        !history.calls.empty()) {
      a.offset = before.offset;
      a.length += before.length;
      history.ops.pop_back();
      history.calls.pop_back();
    }
    before = a;
    const char letter = kLetters[static_cast<std::size_t>(a.op)];
    history.ops.push_back(letter);
    history.calls.push_back(std::string(1, letter) + " " + std::to_string(a.offset) + " " + std::to_string(a.length));
  }
  std::vector<History> list;
  for (auto& [id, history] : histories) list.push_back(std::move(history));
  return list;
}

std::uint64_t SizeOf(const Trace& trace, const std::string& path) {
  for (const FileInfo& file : trace.files()) {
    if (file.path == path) return file.size;
  }
  return 0;
}

std::set<std::string> Paths(const Trace& trace) {
  std::set<std::string> paths;
  for (const FileInfo& file : trace.files()) paths.emplace(file.path);
  return paths;
}

TEST_P(RecordTest, ACompilationNamesAllItsFiles) {
  if (!Have("gcc")) GTEST_SKIP() << "gcc is not installed";
  fs::create_directory(folder_ / "inc");
  WriteFile("inc/my header.h", "#define ANSWER 42\n");
  WriteFile("a.c",
            "#include <stdio.h>\n#include <stdlib.h>\n#include \"my header.h\"\nint main(void){return ANSWER;}\n");
  const Recording recording = Run("gcc -Iinc -c a.c -o a.o");
  EXPECT_EQ(recording.wait_status, 0);
  const std::set<std::string> paths = Paths(recording.trace);
  EXPECT_THAT(paths, Contains(Path("a.c")));
  EXPECT_THAT(paths, Contains(Path("a.o")));
  std::string cc1 = Output("gcc -print-prog-name=cc1");
  cc1.erase(std::remove(cc1.begin(), cc1.end(), '\n'), cc1.end());
  EXPECT_THAT(paths, Contains(fs::canonical(cc1).string()));
  // What `gcc -M` names, its "\ " and "\<newline>" undone.
  const std::string rule = Output("cd '" + folder_.string() + "' && gcc -Iinc -M a.c");
  ASSERT_THAT(rule, HasSubstr("stdio.h"));
  int headers = 0;
  std::string name;
  for (std::size_t i = rule.find(':') + 1; i <= rule.size(); ++i) {
    const char c = i < rule.size() ? rule[i] : ' ';
    if (c == '\\' && i + 1 < rule.size()) {
      if (rule[i + 1] == ' ') name.push_back(' ');
      ++i;
    } else if (c != ' ' && c != '\n') {
      name.push_back(c);
    } else if (!name.empty()) {
      const fs::path real = fs::canonical(name.front() == '/' ? fs::path(name) : folder_ / name);
      EXPECT_THAT(paths, Contains(real.string()));
      const auto histories = Of(recording.trace, real.string());
      ASSERT_EQ(histories.size(), 1u) << real;
      EXPECT_GE(histories[0].read, fs::file_size(real)) << real;
      ++headers;
      name.clear();
    }
  }
  EXPECT_GT(headers, 10);
  // gcc, cc1 and as; the object was written to its end (with gaps).
  EXPECT_EQ(recording.trace.tasks().size(), 4u) << "with the shell";
  const auto object = Of(recording.trace, Path("a.o"));
  ASSERT_EQ(object.size(), 1u);
  EXPECT_EQ(SizeOf(recording.trace, Path("a.o")), fs::file_size(Path("a.o")));
  const auto compiler = Of(recording.trace, fs::canonical(cc1).string());
  ASSERT_EQ(compiler.size(), 1u);
  EXPECT_THAT(compiler[0].ops, HasSubstr("F"));
}

TEST_P(RecordTest, ManySmallFiles) {
  WriteFile("run.sh",
            "i=0\n"
            "while [ $i -lt 50 ]; do\n"
            "  mkdir -p \"d $i/e\" && cd \"d $i/e\"\n"
            "  echo hello >new; echo world >>new\n"
            "  mv new 'file >é'; cat ../e/file* >copy\n"
            "  echo again >copy; cd ../..\n"
            "  if [ $((i % 2)) = 0 ]; then rm \"d $i/e/copy\"; echo new >\"d $i/e/copy\"; fi\n"
            "  i=$((i + 1))\n"
            "done\n");
  const Recording recording = Run("sh run.sh");
  EXPECT_EQ(recording.wait_status, 0);
  for (int i = 0; i < 50; ++i) {
    const std::string folder = "d " + std::to_string(i) + "/e/";
    const auto file = Of(recording.trace, Path(folder + "file >é"));
    ASSERT_EQ(file.size(), 1u) << i;
    EXPECT_THAT(file[0].calls,
                ElementsAre("O 3 0", "W 0 6", "C 0 0", "O 1 6", "W 6 6", "C 0 0", "O 0 12", "R 0 12", "C 0 0"));
    const auto copies = Of(recording.trace, Path(folder + "copy"));
    ASSERT_EQ(copies.size(), i % 2 == 0 ? 2u : 1u) << i;
    EXPECT_THAT(copies[0].ops, i % 2 == 0 ? "OWCOWCD" : "OWCOWC");
    EXPECT_EQ(copies[0].written, 12u + 6u);
    EXPECT_THAT(Of(recording.trace, Path(folder + "new")), IsEmpty());
  }
  EXPECT_EQ(recording.lost_events, 0u);
}

TEST_P(RecordTest, ADatabase) {
  if (!Have("sqlite3")) GTEST_SKIP() << "sqlite3 is not installed";
  const Recording recording =
      Run("sqlite3 t.db 'create table t(a, b); insert into t values(1, zeroblob(20000)); update t set a = 2;' && "
          "sqlite3 t.db 'pragma journal_mode=wal; insert into t values(3, zeroblob(20000));'");
  EXPECT_EQ(recording.wait_status, 0);
  const Trace& trace = recording.trace;
  const auto database = Of(trace, Path("t.db"));
  ASSERT_EQ(database.size(), 1u);
  EXPECT_GE(database[0].written, fs::file_size(Path("t.db")));
  EXPECT_GT(database[0].read, 0u);
  // A journal for each transaction, written and removed; the log and its index removed at the end.
  const auto journals = Of(trace, Path("t.db-journal"));
  ASSERT_GE(journals.size(), 3u);
  for (const History& journal : journals) EXPECT_THAT(journal.ops, HasSubstr("D"));
  const auto log = Of(trace, Path("t.db-wal"));
  ASSERT_EQ(log.size(), 1u);
  EXPECT_GT(log[0].written, 20000u);
  const auto index = Of(trace, Path("t.db-shm"));
  ASSERT_EQ(index.size(), 1u);
  EXPECT_THAT(index[0].ops, HasSubstr("T"));
  EXPECT_THAT(index[0].ops, HasSubstr("G")) << "mapped shared and writable";
  EXPECT_THAT(index[0].ops, HasSubstr("D"));
}

constexpr const char* kCalls = R"(
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static char buffer[1 << 16];
int main(void) {
  /* dup, fork and lseek: one position */
  int a = open("a", O_RDWR | O_CREAT | O_TRUNC, 0644);
  write(a, buffer, 10000);
  int b = fcntl(a, F_DUPFD, 50);
  lseek(b, 1000, SEEK_SET);
  if (fork() == 0) { read(b, buffer, 500); _exit(0); }
  wait(NULL);
  usleep(20000);
  read(a, buffer, 250);
  struct iovec v[2] = {{buffer, 30}, {buffer, 70}};
  readv(b, v, 2);
  preadv(a, v, 2, 5000);
  pwrite(a, buffer, 7, 9000);
  ftruncate(a, 9100);
  lseek(a, -100, SEEK_END);
  read(a, buffer, 4096);
  close(a); close(b);
  /* append to what exists */
  int c = open("log", O_WRONLY | O_APPEND);
  write(c, buffer, 11);
  pwrite(c, buffer, 11, 0);
  close(c);
  /* mappings */
  int m = open("map", O_RDWR);
  char *p = mmap(NULL, 6 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
  close(m);
  p[0] = 1; p[5 << 20] = 1;
  int r = open("map2", O_RDONLY);
  volatile char *q = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, r, 2 << 20);
  char sum = q[0] + q[4096];
  close(r);
  /* copies */
  int in = open("in", O_RDONLY), out = open("out", O_WRONLY | O_CREAT | O_EXCL, 0644);
  off_t at = 100;
  sendfile(out, in, &at, 200);
  lseek(in, 1000, SEEK_SET);
  if (copy_file_range(in, NULL, out, NULL, 300, 0) != 300) sendfile(out, in, NULL, 300);
  /* names */
  link("out", "out2"); unlink("out"); rename("out2", "out3");
  int d = open("sub", O_RDONLY | O_DIRECTORY);
  int e = openat(d, "../in", O_RDONLY);
  read(e, buffer, 5);
  fchdir(d);
  int f = open("inner", O_WRONLY | O_CREAT, 0644);
  write(f, buffer, 6);
  unlink("inner");
  write(f, buffer, 6);
  symlink("..", "up");
  unlink("up/out3");
  /* programs: close-on-exec, and the table across exec */
  int g = open("../in", O_RDONLY);
  lseek(g, 10, SEEK_SET);
  dup2(g, 0);
  execlp("cat", "cat", NULL);
  return 1;
}
)";

TEST_P(RecordTest, EveryKindOfCall) {
  if (!CompileC("calls", kCalls)) GTEST_SKIP() << "no C compiler";
  fs::create_directory(folder_ / "sub");
  WriteFile("log", std::string(77, 'x'));
  WriteFile("map", std::string(6 << 20, 'x'));
  WriteFile("map2", std::string(3 << 20, 'x'));
  WriteFile("in", std::string(3000, 'x'));
  const Recording recording = Run("exec ./calls >/dev/null");
  EXPECT_EQ(recording.wait_status, 0);
  const Trace& trace = recording.trace;

  auto history = Of(trace, Path("a"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_THAT(history[0].calls, ElementsAre("O 3 0", "W 0 10000", "R 1000 500", "R 1500 350", "R 5000 100", "W 9000 7",
                                            "T 0 9100", "R 9000 100", "C 0 0"));
  history = Of(trace, Path("log"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_THAT(history[0].calls, ElementsAre("O 1 77", "W 77 22", "C 0 0")) << "even pwrite(2) appends";
  history = Of(trace, Path("map"));
  ASSERT_EQ(history.size(), 1u);
  if (trace.mapped_touches() == MappedTouches::kPages) {
    // The first page of each 2 MiB that was stored to; how many pages a fault maps is the kernel's.
    EXPECT_THAT(history[0].calls, ElementsAre("O 1 6291456", "C 0 0", "G 0 4096", "G 5242880 4096"));
    history = Of(trace, Path("map2"));
    ASSERT_EQ(history.size(), 1u);
    EXPECT_THAT(history[0].calls[1], testing::StartsWith("F 2097152 "));
  } else {
    EXPECT_THAT(history[0].calls, ElementsAre("O 1 6291456", "G 0 6291456", "C 0 0"));
    history = Of(trace, Path("map2"));
    ASSERT_EQ(history.size(), 1u);
    EXPECT_THAT(history[0].calls, ElementsAre("O 0 3145728", "F 2097152 1048576", "C 0 0"));
  }
  history = Of(trace, Path("out3"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].written, 500u);
  EXPECT_THAT(history[0].ops, HasSubstr("D"));
  history = Of(trace, Path("sub/inner"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_THAT(history[0].calls, ElementsAre("O 1 0", "W 0 6", "D 0 6", "W 6 6", "C 0 0"));
  history = Of(trace, Path("in"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].read, 200u + 300u + 5u + 2990u);
  EXPECT_THAT(history[0].calls, Contains("R 100 200"));
  EXPECT_THAT(history[0].calls, Contains("R 1000 300"));
  EXPECT_THAT(history[0].calls, Contains("R 10 2990")) << "by cat, from its standard input";
  EXPECT_THAT(Paths(trace), Contains(fs::canonical("/bin/cat").string()));
}

TEST_P(RecordTest, InheritedDescriptorsKeepTheirPlace) {
  WriteFile("input", std::string(1000, 'x'));
  const Recording recording = Run("exec <input >output 2>&1; head -c 100 | cat; echo one; sh -c 'echo two >&2'; wc -c");
  EXPECT_EQ(recording.wait_status, 0);
  auto history = Of(recording.trace, Path("output"));
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].written, fs::file_size(Path("output")));
  EXPECT_THAT(history[0].calls[1], "W 0 100");
  EXPECT_THAT(history[0].calls[2], "W 100 4");
  EXPECT_THAT(history[0].calls[3], "W 104 4");
}

TEST_P(RecordTest, NoByteIsLost) {
  WriteFile("a", std::string(300'000, 'x'));
  const Recording recording = Run("exec dd if=a of=b bs=777 2>/dev/null");
  EXPECT_EQ(recording.wait_status, 0);
  const auto a = Of(recording.trace, Path("a"));
  const auto b = Of(recording.trace, Path("b"));
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(a[0].read, 300'000u);
  EXPECT_EQ(b[0].written, 300'000u);
}

TEST_P(RecordTest, TasksHaveParentsAndLives) {
  const Recording recording = Run("sh -c 'true; /bin/true' & sleep 0.05; wait; exit 3");
  EXPECT_EQ(WEXITSTATUS(recording.wait_status), 3);
  const auto& tasks = recording.trace.tasks();
  ASSERT_GE(tasks.size(), 3u);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_LE(tasks[i].start_ns, tasks[i].end_ns);
    if (i == 0) {
      EXPECT_EQ(tasks[i].parent, kNoTask);
    } else {
      EXPECT_LT(ToIndex(tasks[i].parent), i);
    }
  }
  EXPECT_TRUE(std::any_of(tasks.begin(), tasks.end(), [](const TaskInfo& task) { return task.name == "sleep"; }));
}

TEST_P(RecordTest, CpuTimesAreSampledWherePossible) {
  const Recording recording = Run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
  ASSERT_FALSE(recording.trace.tasks().empty());
  const TaskInfo& shell = recording.trace.tasks()[0];
  if (recording.no_faults_because.empty()) {
    EXPECT_GT(shell.user_us, 10'000u);
    EXPECT_LE(shell.user_us + shell.system_us, static_cast<std::uint64_t>(shell.end_ns - shell.start_ns) / 1000 + 5000);
  } else {
    EXPECT_EQ(shell.user_us, 0u);
  }
}

TEST_P(RecordTest, TheTraceSaysHowMappingsWereSeen) {
  const Recording recording = Run("true");
  EXPECT_EQ(recording.trace.mapped_touches(),
            recording.no_faults_because.empty() ? MappedTouches::kPages : MappedTouches::kRanges);
  if (GetParam() == RecordOptions::Faults::kOff) {
    EXPECT_FALSE(recording.no_faults_because.empty());
  }
  for (const char* name : {"t.dxt", "t.trace"}) {
    ASSERT_TRUE(WriteTrace(recording.trace, Path(name)).ok());
    const absl::StatusOr<Trace> again = ReadTrace(Path(name));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->mapped_touches(), recording.trace.mapped_touches());
    EXPECT_EQ(again->size(), recording.trace.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, RecordTest,
                         ::testing::Values(RecordOptions::Faults::kAuto, RecordOptions::Faults::kOff),
                         [](const auto& test) { return test.param == RecordOptions::Faults::kAuto ? "Auto" : "Off"; });

TEST(RecordErrorTest, SaysWhatIsMissing) {
  EXPECT_EQ(Record({}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<Recording> no_strace = Record({.command = {"true"}, .strace = "no-such-strace"});
  ASSERT_FALSE(no_strace.ok());
  EXPECT_EQ(no_strace.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(no_strace.status().message()), HasSubstr("no-such-strace"));
  if (!Have("strace")) GTEST_SKIP() << "strace is not installed";
  EXPECT_FALSE(Record({.command = {"/no/such/command"}}).ok());
}

}  // namespace
}  // namespace daxcache
