// Epochs: how a thread looks at a table without a lock while another changes it. A reader announces that it is looking;
// whoever takes something out of the table waits, before reusing it, until every reader that may still see it has
// stopped looking once.
//
//   Epochs epochs(64);
//   const std::uint32_t me = epochs.Register();       // once a thread
//   epochs.Enter(me);  …look…  epochs.Leave(me);
//   …unlink…; epochs.WaitForReaders(); …reuse…        // elsewhere
//
// Cost: Enter one atomic exchange, Leave one store, both on a cache line of the reader's own. WaitForReaders looks at
// one line a reader, and yields while one stands still in an epoch: epochs are to be short, and nobody may wait in one.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

namespace daxcache {
inline namespace v0 {

class Epochs {
 public:
  static constexpr std::uint32_t kNoReader = std::numeric_limits<std::uint32_t>::max();

  explicit Epochs(std::uint32_t readers) : cells_(std::make_unique<Cell[]>(readers)), capacity_(readers) {}

  // kNoReader if there are as many readers as there is room for.
  std::uint32_t Register() {
    for (std::uint32_t reader = 0; reader < capacity_; ++reader) {
      bool taken = false;
      if (!cells_[reader].taken.compare_exchange_strong(taken, true)) continue;
      std::uint32_t used = used_.load();
      while (used <= reader && !used_.compare_exchange_weak(used, reader + 1)) {
      }
      return reader;
    }
    return kNoReader;
  }
  void Unregister(std::uint32_t reader) { cells_[reader].taken.store(false); }

  // An exchange and not a store, so that nothing the reader looks at afterwards is read before it is announced.
  void Enter(std::uint32_t reader) { cells_[reader].since.exchange(now_.load(std::memory_order_acquire)); }
  void Leave(std::uint32_t reader) { cells_[reader].since.store(0, std::memory_order_release); }

  // Everybody who was looking when this was called has stopped.
  void WaitForReaders() {
    const std::uint32_t used = used_.load();
    if (used == 0) return;
    const std::uint64_t now = now_.fetch_add(1) + 1;
    for (std::uint32_t reader = 0; reader < used; ++reader) {
      for (;;) {
        const std::uint64_t since = cells_[reader].since.load();
        if (since == 0 || since >= now) break;
        std::this_thread::yield();
      }
    }
  }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> since{0};  // the epoch in which the reader began to look; 0: it does not
    std::atomic<bool> taken{false};
  };
  std::unique_ptr<Cell[]> cells_;
  std::uint32_t capacity_;
  std::atomic<std::uint32_t> used_{0};  // one more than the highest reader that ever was
  std::atomic<std::uint64_t> now_{1};
};

}  // namespace v0
}  // namespace daxcache
