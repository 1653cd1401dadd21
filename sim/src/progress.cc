// See daxcache/sim/progress.h.
#include "daxcache/sim/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace daxcache {
inline namespace v0 {

Progress::Progress(std::string what)
    : what_(std::move(what)), started_(std::chrono::steady_clock::now()), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(double share) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - started_ < std::chrono::seconds(2) || (visible_ && now - shown_ < std::chrono::milliseconds(100))) return;
  std::fprintf(stderr, "\r\033[K%s: %3.0f %%", what_.c_str(), share * 100);
  std::fflush(stderr);
  visible_ = true;
  shown_ = now;
}

}  // namespace v0
}  // namespace daxcache
