// Where a writer puts a trace: a file that appears under its name only when it is whole (written beside it, then
// renamed), compressed by zstd if asked for. What is not a regular file (a pipe, /dev/stdout) is written directly.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace daxcache {
inline namespace v0 {

class Output {
 public:
  [[nodiscard]] static absl::StatusOr<Output> Create(const std::string& path, bool compress);
  // Appends to `bytes`, which must outlive it; never compressed.
  static Output ToBytes(std::string& bytes);
  ~Output();  // removes what was not committed
  Output(Output&&) noexcept;
  Output& operator=(Output&&) noexcept;

  [[nodiscard]] absl::Status Write(std::string_view bytes);
  bool compresses() const;
  // Flushes and gives the file its name.
  [[nodiscard]] absl::Status Commit();

 private:
  struct State;
  explicit Output(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace daxcache
