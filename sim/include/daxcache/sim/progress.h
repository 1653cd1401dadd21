// A line on standard error that says how far a long job is: only on a terminal, and only once two seconds have passed.
#pragma once

#include <chrono>
#include <string>

namespace daxcache {
inline namespace v0 {

class Progress {
 public:
  // `what` stands in front of the percentage: "reading kbuild.trace.zst".
  explicit Progress(std::string what);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` done, 0 to 1. One thread at a time.
  void Update(double share);

 private:
  std::string what_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point shown_;
  bool terminal_;
  bool visible_ = false;
};

}  // namespace v0
}  // namespace daxcache
