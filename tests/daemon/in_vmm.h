// The arrangement of libkrun, crosvm and dragonball: the daemon is a part of the VMM. The guest's threads hand their
// messages to the adapter themselves, and the allocator maps into the process's own window.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "daemon/guest_vm.h"
#include "daemon/share.h"
#include "daxcache/allocator.h"
#include "daxcache/faulty_backend.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "gtest/gtest.h"

namespace daxcache::testing_ {

using InVmmBackend = FaultyBackend<MmapBackend>;
using InVmmAllocator = MappingAllocator<LinuxPolicy<HashIndex>, InVmmBackend>;

// The VMM's handler of SIGBUS: what lies past the end of a file is repaired. Any other fault is one of the library's,
// such as a gap in the window, and ends the test.
class FaultHandler {
 public:
  explicit FaultHandler(InVmmAllocator* allocator) {
    allocator_ = allocator;
    faults_ = 0;
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGBUS, &action, &before_), 0);
  }
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler() {
    sigaction(SIGBUS, &before_, nullptr);
    allocator_ = nullptr;
  }
  static std::uint64_t faults() { return faults_.load(); }

 private:
  static void OnBusError(int number, siginfo_t* info, void*) {
    faults_.fetch_add(1);
    InVmmAllocator* const allocator = allocator_.load();
    if (allocator == nullptr || allocator->RepairFault(info->si_addr) != 0) signal(number, SIG_DFL);
  }
  static inline std::atomic<InVmmAllocator*> allocator_{nullptr};
  static inline std::atomic<std::uint64_t> faults_{0};
  struct sigaction before_ {};
};

class InVmm final : public Link {
 public:
  // `options.window` is the size of the window.
  InVmm(const Share& share, const AllocatorOptions& options, FaultOptions faults = {})
      : allocator_(InVmmAllocator::Create(options, {},
                                          InVmmBackend(MmapBackend::Create(options.window).value(), std::move(faults)))
                       .value()),
        daemon_(*allocator_, share),
        handler_(allocator_.get()) {}

  int Call(std::uint64_t unique, std::span<const std::byte> request) override {
    std::array<std::byte, FuseOutHeader::kBytes> reply;
    if (daemon_.Handle(request, reply) != static_cast<std::ptrdiff_t>(reply.size())) return -EPROTO;
    const auto header = Decode<FuseOutHeader>(reply);
    EXPECT_EQ(header.unique, unique);
    EXPECT_EQ(header.len, reply.size());
    return header.error;
  }
  void Post(std::span<const std::byte> request) override {
    std::array<std::byte, FuseOutHeader::kBytes> reply;
    EXPECT_LE(daemon_.Handle(request, reply), 0);
  }

  std::byte* base() const { return static_cast<std::byte*>(allocator_->backend().address()); }
  InVmmAllocator& allocator() { return *allocator_; }
  Daemon<InVmmAllocator>& daemon() { return daemon_; }

 private:
  std::unique_ptr<InVmmAllocator> allocator_;
  Daemon<InVmmAllocator> daemon_;
  FaultHandler handler_;
};

}  // namespace daxcache::testing_
