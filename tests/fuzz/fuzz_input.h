// What the fuzzers share: the input, byte by byte, and how a property that does not hold is told.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace daxcache::testing_ {

inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Zeros behind its end.
class FuzzInput {
 public:
  explicit FuzzInput(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::uint8_t Next() {
    if (rest_.empty()) return 0;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }
  std::uint32_t Below(std::uint32_t n) { return Next() % n; }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace daxcache::testing_
