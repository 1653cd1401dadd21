// Input and LineReader: system calls and decompression end here.
#include "daxcache/traces/input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::size_t kRawBytes = 1 << 17;  // read from a compressed file at once
constexpr std::size_t kHeadBytes = 4096;    // for sniffing
constexpr std::size_t kMaxLine = 1 << 20;   // the longest line of a text format
constexpr std::size_t kLineBuffer = 1 << 21;
constexpr std::size_t kQuotedBytes = 60;
constexpr std::uint64_t kProgressBytes = 1 << 20;
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";

// A zstd file starts with a frame, or with a skippable frame (magic 0x184D2A50 to 0x184D2A5F).
bool LooksLikeZstd(std::string_view head) {
  if (head.starts_with(kZstdMagic)) return true;
  return head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xf0) == 0x50 &&
         head.substr(1, 3) == "\x2a\x4d\x18";
}

// Memory from the kernel, which grows without being copied.
struct Pages {
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (data != nullptr) munmap(data, size);
  }
  bool Resize(std::size_t new_size) {
    void* const grown = data == nullptr
                            ? mmap(nullptr, new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : mremap(data, size, new_size, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) return false;
    data = static_cast<char*>(grown);
    size = new_size;
    return true;
  }
  char* data = nullptr;
  std::size_t size = 0;
};

struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kQuotedBytes)) {
    if (c == '"' || c == '\\') {
      quoted.push_back('\\');
      quoted.push_back(c);
    } else if (c >= ' ' && c <= '~') {
      quoted.push_back(c);
    } else {
      absl::StrAppend(&quoted, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  quoted += text.size() > kQuotedBytes ? "\"…" : "\"";
  return quoted;
}

struct Input::State {
  std::string name;
  int fd = -1;
  bool owns_fd = false;
  std::string_view memory;  // the rest of it, if fd is -1
  std::uint64_t total = 0;  // bytes of a regular file, else 0
  bool regular = false;

  std::uint64_t raw_done = 0;  // bytes of the file read so far
  std::string raw_head;        // read for sniffing; read again before the rest
  std::size_t raw_head_at = 0;

  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> decompressor;
  std::unique_ptr<char[]> raw;
  ZSTD_inBuffer in{nullptr, 0, 0};
  bool in_frame = false;

  std::string head;
  std::size_t head_at = 0;
  bool head_only = true;  // nothing was read but the head

  ReadProgress progress;
  std::uint64_t next_progress = kProgressBytes;

  ~State() {
    if (owns_fd) close(fd);
  }

  // Bytes of the file as they are.
  absl::StatusOr<std::size_t> ReadRaw(char* buffer, std::size_t size) {
    std::size_t done = 0;
    if (raw_head_at < raw_head.size()) {
      done = std::min(size, raw_head.size() - raw_head_at);
      std::memcpy(buffer, raw_head.data() + raw_head_at, done);
      raw_head_at += done;
    } else if (fd < 0) {
      done = std::min(size, memory.size());
      std::copy_n(memory.data(), done, buffer);
      memory.remove_prefix(done);
      raw_done += done;
    } else {
      ssize_t got = 0;
      do {
        got = read(fd, buffer, size);
      } while (got < 0 && errno == EINTR);
      if (got < 0) return absl::ErrnoToStatus(errno, name);
      done = static_cast<std::size_t>(got);
      raw_done += done;
    }
    if (progress != nullptr && raw_done >= next_progress) {
      next_progress = raw_done + kProgressBytes;
      if (!progress(raw_done, total)) return absl::CancelledError(absl::StrCat(name, ": reading was given up"));
    }
    return done;
  }

  // Bytes of the trace; at least one unless at the end.
  absl::StatusOr<std::size_t> ReadSome(char* buffer, std::size_t size) {
    if (decompressor == nullptr) return ReadRaw(buffer, size);
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos == 0) {
      if (in.pos == in.size) {
        const absl::StatusOr<std::size_t> got = ReadRaw(raw.get(), kRawBytes);
        if (!got.ok()) return got.status();
        in = {raw.get(), *got, 0};
        if (*got == 0) {
          if (!in_frame) return std::size_t{0};
          // What a full buffer left inside the decompressor comes out without more input.
          const std::size_t left = ZSTD_decompressStream(decompressor.get(), &out, &in);
          if (!ZSTD_isError(left) && out.pos > 0) return out.pos;
          return absl::DataLossError(absl::StrCat(name, ": offset ", raw_done,
                                                  ": expected the rest of a zstd frame, got the end of the file"));
        }
      }
      const std::size_t left = ZSTD_decompressStream(decompressor.get(), &out, &in);
      if (ZSTD_isError(left)) {
        return absl::DataLossError(absl::StrCat(name, ": offset ", raw_done - (in.size - in.pos),
                                                ": expected a sound zstd frame, got one with the error \"",
                                                ZSTD_getErrorName(left), "\""));
      }
      in_frame = left != 0;
    }
    return out.pos;
  }

  absl::Status Start() {
    raw_head.resize(kHeadBytes);
    std::size_t have = 0;
    while (have < kHeadBytes) {
      raw_head_at = raw_head.size();  // not from the head itself
      const absl::StatusOr<std::size_t> got = ReadRaw(raw_head.data() + have, kHeadBytes - have);
      if (!got.ok()) return got.status();
      if (*got == 0) break;
      have += *got;
    }
    raw_head.resize(have);
    raw_head_at = 0;
    if (LooksLikeZstd(raw_head)) {
      decompressor.reset(ZSTD_createDCtx());
      raw.reset(new (std::nothrow) char[kRawBytes]);
      if (decompressor == nullptr || raw == nullptr)
        return absl::ResourceExhaustedError(absl::StrCat(name, ": no memory"));
    }
    head.resize(kHeadBytes);
    have = 0;
    while (have < kHeadBytes) {
      const absl::StatusOr<std::size_t> got = ReadSome(head.data() + have, kHeadBytes - have);
      if (!got.ok()) return got.status();
      if (*got == 0) break;
      have += *got;
    }
    head.resize(have);
    return absl::OkStatus();
  }
};

Input::Input(std::unique_ptr<State> state) : state_(std::move(state)) {}
Input::~Input() = default;
Input::Input(Input&&) noexcept = default;
Input& Input::operator=(Input&&) noexcept = default;

absl::StatusOr<Input> Input::Open(const std::string& path, ReadProgress progress) {
  auto state = std::make_unique<State>();
  state->name = path;
  state->progress = std::move(progress);
  if (path == "-") {
    state->fd = STDIN_FILENO;
  } else {
    state->fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (state->fd < 0) return absl::ErrnoToStatus(errno, path);
    state->owns_fd = true;
  }
  struct stat info;
  if (fstat(state->fd, &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (S_ISDIR(info.st_mode)) return absl::ErrnoToStatus(EISDIR, path);
  state->regular = S_ISREG(info.st_mode) && path != "-";
  if (state->regular) state->total = static_cast<std::uint64_t>(info.st_size);
  if (absl::Status status = state->Start(); !status.ok()) return status;
  return Input(std::move(state));
}

absl::StatusOr<Input> Input::FromBytes(std::string name, std::string_view bytes) {
  auto state = std::make_unique<State>();
  state->name = std::move(name);
  state->memory = bytes;
  state->total = bytes.size();
  if (absl::Status status = state->Start(); !status.ok()) return status;
  return Input(std::move(state));
}

const std::string& Input::name() const {
  return state_->name;
}
bool Input::compressed() const {
  return state_->decompressor != nullptr;
}
std::string_view Input::head() const {
  return state_->head;
}

absl::StatusOr<std::size_t> Input::Read(char* buffer, std::size_t size) {
  State& s = *state_;
  std::size_t done = std::min(size, s.head.size() - s.head_at);
  std::copy_n(s.head.data() + s.head_at, done, buffer);
  s.head_at += done;
  while (done < size) {
    if (s.head_only && s.decompressor == nullptr) s.raw_head_at = s.raw_head.size();
    s.head_only = false;
    const absl::StatusOr<std::size_t> got = s.ReadSome(buffer + done, size - done);
    if (!got.ok()) return got.status();
    if (*got == 0) break;
    done += *got;
  }
  return done;
}

absl::StatusOr<Input::Whole> Input::ReadAll() {
  State& s = *state_;
  if (s.regular && s.decompressor == nullptr && s.head_only && s.head_at == 0 && s.total > 0) {
    void* const data = mmap(nullptr, s.total, PROT_READ, MAP_SHARED, s.fd, 0);
    if (data != MAP_FAILED) {
      const std::size_t size = s.total;
      std::shared_ptr<const void> storage(data, [size](const void* p) { munmap(const_cast<void*>(p), size); });
      return Whole{.bytes = {static_cast<const std::byte*>(data), size}, .storage = std::move(storage)};
    }
  }
  auto pages = std::make_shared<Pages>();
  std::size_t have = 0;
  std::size_t capacity = std::max<std::size_t>(kRawBytes, s.decompressor == nullptr ? s.total + 1 : 0);
  while (true) {
    if (!pages->Resize(capacity)) {
      return absl::ResourceExhaustedError(absl::StrCat(s.name, ": no memory for more than ", have, " bytes"));
    }
    const absl::StatusOr<std::size_t> got = Read(pages->data + have, capacity - have);
    if (!got.ok()) return got.status();
    have += *got;
    if (have < capacity) break;
    capacity *= 2;
  }
  const auto* data = reinterpret_cast<const std::byte*>(pages->data);
  return Whole{.bytes = {data, have}, .storage = std::move(pages)};
}

LineReader::LineReader(Input& input) : input_(input), buffer_(new (std::nothrow) char[kLineBuffer]) {
  at_ = end_ = buffer_.get();
  if (buffer_ == nullptr) status_ = absl::ResourceExhaustedError(absl::StrCat(input.name(), ": no memory"));
}
LineReader::~LineReader() = default;

// Where the next line's LF is; null at the end of the input and on an error.
const char* LineReader::FindEnd() {
  if (!status_.ok()) return nullptr;
  std::size_t left = static_cast<std::size_t>(end_ - at_);
  if (left > 0) {
    if (const void* found = std::memchr(at_, '\n', std::min(left, kMaxLine + 1)))
      return static_cast<const char*>(found);
  }
  // Move the started line to the front, and fill the buffer behind it.
  if (left <= kMaxLine && !at_end_of_input_) {
    std::memmove(buffer_.get(), at_, left);
    const absl::StatusOr<std::size_t> got = input_.Read(buffer_.get() + left, kLineBuffer - left);
    if (!got.ok()) {
      status_ = got.status();
      return nullptr;
    }
    at_end_of_input_ = *got < kLineBuffer - left;
    at_ = buffer_.get();
    end_ = at_ + left + *got;
    const std::size_t have = left + *got;
    if (const void* found = std::memchr(at_ + left, '\n', std::min(have, kMaxLine + 1) - std::min(left, have))) {
      return static_cast<const char*>(found);
    }
    left = have;
  }
  if (left == 0) return nullptr;
  const std::string_view rest(at_, left);
  ++number_;
  status_ = left > kMaxLine ? Expected("a line of at most 1 MiB", rest)
                            : Expected("a line feed at the end of the last line (is the file cut?)", rest);
  return nullptr;
}

bool LineReader::CarriageReturn() {
  const char* start = at_ - 1;  // the LF of the line
  while (start > buffer_.get() && start[-1] != '\n') --start;
  status_ = Expected("a line that ends in LF", std::string_view(start, static_cast<std::size_t>(at_ - start)));
  return false;
}

absl::Status LineReader::Expected(std::string_view expected, std::string_view got) const {
  return absl::InvalidArgumentError(
      absl::StrCat(input_.name(), ":", number_, ": expected ", AbslView(expected), ", got ", Quoted(got)));
}

absl::Status LineReader::At(const absl::Status& error) const {
  return absl::Status(error.code(), absl::StrCat(input_.name(), ":", number_, ": ", error.message()));
}

}  // namespace v0
}  // namespace daxcache
