// The bytes of a trace, wherever they come from: a file, standard input or memory, and decompressed if they are a zstd
// file (known by its first bytes, never by its name). Every reader reads from one of these, so `.zst` works beneath
// every format. `LineReader` cuts it into lines for the text formats.
//
//   absl::StatusOr<Input> input = Input::Open("trace.zst");
//   LineReader lines(*input);
//   for (std::string_view line; lines.Next(line);) { … return lines.Expected("a number", line); }
//   if (!lines.status().ok()) return lines.status();
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace daxcache {
inline namespace v0 {

// Called about every MiB with the bytes of the file consumed so far (before decompression) and its size, 0 if unknown.
// Returning false gives up: the reader returns Cancelled.
using ReadProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// `text` in quotes, what does not print as \xNN, and cut after some 60 characters: for error messages of one line.
std::string Quoted(std::string_view text);

class Input {
 public:
  // A path, or "-" for standard input.
  [[nodiscard]] static absl::StatusOr<Input> Open(const std::string& path, ReadProgress progress = nullptr);
  // Reads from `bytes`, which must outlive it; `name` stands in error messages where a path would.
  [[nodiscard]] static absl::StatusOr<Input> FromBytes(std::string name, std::string_view bytes);
  ~Input();
  Input(Input&&) noexcept;
  Input& operator=(Input&&) noexcept;

  const std::string& name() const;
  bool compressed() const;

  // The first bytes, at most 4096; they are read again by Read. For sniffing.
  std::string_view head() const;
  // Puts the next bytes at `buffer` and returns how many: less than `size` only at the end.
  [[nodiscard]] absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size);

  // Everything that was not yet read, aligned to at least 64 bytes if nothing was: a plain file is mapped, all else is
  // read into memory.
  struct Whole {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> storage;  // owns the bytes
  };
  [[nodiscard]] absl::StatusOr<Whole> ReadAll();

 private:
  struct State;
  explicit Input(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Cuts an Input into lines. A line ends in LF; CRLF, a line over 1 MiB, and a last line without LF (a cut file could
// not be told from a whole one) are errors.
class LineReader {
 public:
  explicit LineReader(Input& input);
  ~LineReader();

  // The next line, without its LF, valid until the next call; false at the end and on an error.
  bool Next(std::string_view& line) {
    const char* const end = FindEnd();
    if (end == nullptr) return false;
    line = {at_, static_cast<std::size_t>(end - at_)};
    at_ = end + 1;
    ++number_;
    if (!line.empty() && line.back() == '\r') return CarriageReturn();
    return true;
  }

  const absl::Status& status() const { return status_; }
  std::uint64_t number() const { return number_; }  // of the line that Next returned last; 1 is the first

  // InvalidArgument: path:line: expected …, got "…".
  absl::Status Expected(std::string_view expected, std::string_view got) const;
  // The same with the message of an error that knows no place ("expected …, got …").
  absl::Status At(const absl::Status& error) const;

 private:
  const char* FindEnd();
  bool CarriageReturn();

  Input& input_;
  std::unique_ptr<char[]> buffer_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool at_end_of_input_ = false;
  std::uint64_t number_ = 0;
  absl::Status status_;
};

}  // namespace v0
}  // namespace daxcache
