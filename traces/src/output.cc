// Output: a file made whole or not at all.
#include "daxcache/traces/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::size_t kBufferBytes = 1 << 18;
constexpr int kCompressionLevel = 3;  // zstd's own default

struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// A name beside `path` that no other Output of any process has.
std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return absl::StrCat(path, ".", getpid(), "-", counter.fetch_add(1), ".tmp");
}

}  // namespace

struct Output::State {
  std::string* memory = nullptr;
  std::string path;
  std::string temporary;  // empty: written directly
  int fd = -1;
  std::string buffer;
  std::unique_ptr<ZSTD_CCtx, FreeCompressor> compressor;

  ~State() {
    if (fd >= 0) close(fd);
    if (!temporary.empty()) unlink(temporary.c_str());
  }

  absl::Status WriteRaw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        return absl::ErrnoToStatus(errno, path);
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Compress(std::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (true) {
      buffer.resize(kBufferBytes);
      ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
      const std::size_t left = ZSTD_compressStream2(compressor.get(), &out, &in, directive);
      if (ZSTD_isError(left)) {
        return absl::InternalError(absl::StrCat(path, ": zstd cannot compress: ", ZSTD_getErrorName(left)));
      }
      if (absl::Status status = WriteRaw({buffer.data(), out.pos}); !status.ok()) return status;
      if (in.pos == in.size && (directive == ZSTD_e_continue || left == 0)) return absl::OkStatus();
    }
  }
};

Output::Output(std::unique_ptr<State> state) : state_(std::move(state)) {}
Output::~Output() = default;
Output::Output(Output&&) noexcept = default;
Output& Output::operator=(Output&&) noexcept = default;

absl::StatusOr<Output> Output::Create(const std::string& path, bool compress) {
  auto state = std::make_unique<State>();
  state->path = path;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    state->fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    const std::string temporary = TemporaryName(path);
    state->fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (state->fd >= 0) state->temporary = temporary;
  }
  if (state->fd < 0) return absl::ErrnoToStatus(errno, path);
  if (compress) {
    state->compressor.reset(ZSTD_createCCtx());
    if (state->compressor == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory"));
    ZSTD_CCtx_setParameter(state->compressor.get(), ZSTD_c_compressionLevel, kCompressionLevel);
    ZSTD_CCtx_setParameter(state->compressor.get(), ZSTD_c_checksumFlag, 1);
  }
  return Output(std::move(state));
}

Output Output::ToBytes(std::string& bytes) {
  auto state = std::make_unique<State>();
  state->memory = &bytes;
  return Output(std::move(state));
}

bool Output::compresses() const {
  return state_->compressor != nullptr;
}

absl::Status Output::Write(std::string_view bytes) {
  State& s = *state_;
  if (s.memory != nullptr) {
    s.memory->append(bytes);
    return absl::OkStatus();
  }
  if (s.compressor != nullptr) return s.Compress(bytes, ZSTD_e_continue);
  if (s.buffer.size() + bytes.size() < kBufferBytes) {
    s.buffer.append(bytes);
    return absl::OkStatus();
  }
  if (absl::Status status = s.WriteRaw(s.buffer); !status.ok()) return status;
  s.buffer.clear();
  return s.WriteRaw(bytes);
}

absl::Status Output::Commit() {
  State& s = *state_;
  if (s.memory != nullptr) return absl::OkStatus();
  absl::Status status = s.compressor != nullptr ? s.Compress({}, ZSTD_e_end) : s.WriteRaw(s.buffer);
  if (!status.ok()) return status;
  s.buffer.clear();
  // Some filesystems report a failed write only here.
  const int closed = close(s.fd);
  s.fd = -1;
  if (closed != 0) return absl::ErrnoToStatus(errno, s.path);
  if (s.temporary.empty()) return absl::OkStatus();
  if (std::rename(s.temporary.c_str(), s.path.c_str()) != 0) return absl::ErrnoToStatus(errno, s.path);
  s.temporary.clear();
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
