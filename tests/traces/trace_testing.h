// What the tests of traces share: traces from text, files that go away, and compressed bytes.
#pragma once

#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "daxcache/traces/builtin.h"
#include "daxcache/traces/output.h"
#include "gtest/gtest.h"

namespace daxcache {

// A file of the repository.
inline std::string SourcePath(std::string_view path) {
  return std::string(DAXCACHE_SOURCE_DIR "/") + std::string(path);
}

// gMock's string matchers do not take Abseil's string_view.
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// A trace from its lines after the header.
inline Trace FromText(std::string_view lines) {
  absl::StatusOr<Trace> trace = ReadTraceFromBytes("text", "daxtrace 1\n" + std::string(lines));
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : Trace();
}

// A trace as the bytes of a format.
inline std::string ToBytes(const Trace& trace, const Format& format) {
  std::string bytes;
  Output output = Output::ToBytes(bytes);
  const absl::Status written = format.write(trace, output);
  EXPECT_TRUE(written.ok()) << written;
  return bytes;
}

inline std::string Compressed(std::string_view bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

// A folder for one test, removed at its end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "daxcache-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace daxcache
