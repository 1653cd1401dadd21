// A backend that fails now and then, over one that does not: for tests of what is left after an error. Which calls fail
// is chosen by a seed, or by number; a call that fails does nothing, as `mmap` does.
//
//   FaultyBackend faulty(std::move(inner), {.one_in = 8, .errors = {ENOMEM, EINTR, EAGAIN}, .seed = 1});
//   faulty.FailNext(ENOMEM);
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "daxcache/mapping_backend.h"

namespace daxcache {
inline namespace v0 {

struct FaultOptions {
  std::uint32_t one_in = 0;  // each call fails with this chance; 0: none does
  std::vector<int> errors = {ENOMEM};
  std::uint64_t seed = 1;
};

template <MappingBackend Inner>
class FaultyBackend {
 public:
  static constexpr bool kMapsOver = Inner::kMapsOver;

  FaultyBackend(Inner inner, FaultOptions options)
      : inner_(std::move(inner)), state_(std::make_unique<State>(std::move(options))) {}

  int Map(const MapRequest& request) {
    if (const int error = Fault(); error != 0) return -error;
    return inner_.Map(request);
  }
  // Each extent may fail by itself.
  int Unmap(std::span<const Extent> extents) {
    int first_error = 0;
    for (const Extent& extent : extents) {
      const int fault = Fault();
      const int error = fault != 0 ? -fault : inner_.Unmap({&extent, 1});
      if (first_error == 0) first_error = error;
    }
    return first_error;
  }
  void* address() const { return inner_.address(); }
  int Renew(const Extent& extent) requires requires(Inner& i) { i.Renew(extent); }
  {
    if (const int error = Fault(); error != 0) return -error;
    return inner_.Renew(extent);
  }

  // The next `calls` calls fail with `error`, whatever the chance.
  void FailNext(int error, std::uint32_t calls = 1) {
    const std::lock_guard lock(state_->mutex);
    state_->next_error = error;
    state_->next_calls = calls;
  }
  void SetOneIn(std::uint32_t one_in) {
    const std::lock_guard lock(state_->mutex);
    state_->options.one_in = one_in;
  }
  std::uint64_t faults() const {
    const std::lock_guard lock(state_->mutex);
    return state_->faults;
  }
  Inner& inner() { return inner_; }

 private:
  struct State {
    explicit State(FaultOptions with) : options(std::move(with)), random(options.seed) {}
    std::mutex mutex;
    FaultOptions options;
    std::mt19937_64 random;
    int next_error = 0;
    std::uint32_t next_calls = 0;
    std::uint64_t faults = 0;
  };

  int Fault() {
    const std::lock_guard lock(state_->mutex);
    State& s = *state_;
    int error = 0;
    if (s.next_calls > 0) {
      --s.next_calls;
      error = s.next_error;
    } else if (s.options.one_in > 0 && !s.options.errors.empty() && s.random() % s.options.one_in == 0) {
      error = s.options.errors[s.random() % s.options.errors.size()];
    }
    if (error != 0) ++s.faults;
    return error;
  }

  Inner inner_;
  std::unique_ptr<State> state_;  // so that it can be moved
};

}  // namespace v0
}  // namespace daxcache
