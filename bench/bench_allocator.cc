// What the production allocator costs beside the mmap(2) itself, and what it saves. Each line is a figure, its limit,
// and how it was got; ratios are medians of paired runs, one after the other on the same core.
//
//   build/release/bin/bench_allocator [--trace FILE] [--rounds N]
//
// The trace, by default the kernel build that comes with the project, is for the guest's stream of set-ups and removals
// at 512 ranges. Exits with 1 if a figure is over its limit.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "daxcache/allocator.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/linux.h"
#include "daxcache/policies/lru.h"
#include "daxcache/sim/allocator_guest.h"
#include "daxcache/traces/builtin.h"
#include "daxcache/traces/range_stream.h"
#include "daxcache/virtual_backend.h"

namespace {

using namespace daxcache;

constexpr std::uint64_t kRange = 2 << 20;

bool all_within = true;

void Print(std::string_view name, double value, double limit, bool at_least, std::string_view how) {
  const bool within = at_least ? value >= limit : value <= limit;
  all_within = all_within && within;
  std::cout << std::left << std::setw(28) << name << std::right << std::fixed << std::setprecision(3) << std::setw(9)
            << value << (at_least ? "  >= " : "  <= ") << std::setw(7) << limit << (within ? "  ok   " : "  OVER ")
            << how << std::endl;
}

double Nanoseconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int MakeFile(std::uint64_t bytes) {
  const int fd = memfd_create("bench", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    std::cerr << "expected a file in memory of " << bytes << " bytes\n";
    std::exit(1);
  }
  return fd;
}

// A set-up over a held range, untouched and wholly inside its file, beside a bare mmap(MAP_FIXED) of the same. The
// slots of a window of 512 take turns in an order that no neighbours share, each between ranges of two sets of files of
// 16 MiB. The pairs are short, so that both halves see the same machine.
void SetUpBesideMmap(int rounds) {
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, MmapBackend>;
  constexpr std::uint64_t kSlots = 512;
  constexpr std::uint64_t kFileRanges = 8;
  constexpr std::uint64_t kFiles = 2 * kSlots / kFileRanges;
  std::vector<int> fds(kFiles);
  for (int& fd : fds) fd = MakeFile(kFileRanges * kRange);
  const auto allocator = Allocator::Create({.window = ByteSize(kSlots * kRange)}, {},
                                           MmapBackend::Create(ByteSize(kSlots * kRange)).value())
                             .value();
  std::vector<FileId> files(kFiles);
  for (std::uint64_t i = 0; i < kFiles; ++i) files[i] = allocator->files().Intern({1, i, 0});
  MmapBackend bare = MmapBackend::Create(ByteSize(kSlots * kRange)).value();
  std::byte* const base = static_cast<std::byte*>(bare.address());
  struct Request {
    std::uint64_t file;
    std::uint64_t file_offset;
    std::uint64_t window_offset;
  };
  std::vector<Request> requests[2];
  std::vector<std::uint64_t> order(kSlots);
  for (std::uint64_t i = 0; i < kSlots; ++i) order[i] = i;
  std::mt19937_64 random(1);
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::uint64_t i = 0; i < kSlots; ++i) {
      requests[turn].push_back({turn * kFiles / 2 + order[i] / kFileRanges, order[i] % kFileRanges * kRange, 0});
    }
    std::shuffle(order.begin(), order.end(), random);
    for (std::uint64_t i = 0; i < kSlots; ++i) requests[turn][i].window_offset = order[i] * kRange;
  }
  int failed = 0;
  const auto by_mmap = [&](std::span<const Request> some) {
    for (const Request& r : some) {
      failed += mmap(base + r.window_offset, kRange, PROT_READ, MAP_SHARED | MAP_FIXED, fds[r.file],
                     static_cast<off_t>(r.file_offset)) == MAP_FAILED;
    }
  };
  const auto by_allocator = [&](std::span<const Request> some) {
    for (const Request& r : some) {
      failed += allocator->SetUp({.file = files[r.file],
                                  .fd = fds[r.file],
                                  .file_offset = r.file_offset,
                                  .length = kRange,
                                  .window_offset = r.window_offset,
                                  .file_size = kFileRanges * kRange}) != 0;
    }
  };
  constexpr std::uint64_t kPair = 64;
  std::vector<double> ratios;
  std::vector<double> bare_ns;
  std::vector<double> more_ns;
  for (int round = 0; round < rounds + 2; ++round) {
    for (std::uint64_t at = 0; at < kSlots; at += kPair) {
      const std::span<const Request> some(&requests[round % 2][at], kPair);
      double times[2];
      for (int half = 0; half < 2; ++half) {
        const bool own = (half + round + static_cast<int>(at / kPair)) % 2 == 0;
        times[own] = Nanoseconds([&] { own ? by_allocator(some) : by_mmap(some); });
      }
      if (round < 2) continue;  // not everything is held yet
      ratios.push_back(times[1] / times[0]);
      bare_ns.push_back(times[0] / kPair);
      more_ns.push_back((times[1] - times[0]) / kPair);
    }
  }
  if (failed > 0) std::cerr << failed << " mappings failed\n";
  Print("set-up / mmap", Median(ratios), 1.05, false,
        "over a held range; a bare mmap takes " + std::to_string(static_cast<int>(Median(bare_ns))) + " ns, " +
            std::to_string(static_cast<int>(Median(more_ns))) + " less than a set-up");
  for (const int fd : fds) close(fd);
}

// Calls of the backend for what a Linux guest of `slots` ranges asks for while it runs the trace.
std::uint64_t CallsOfGuest(const RangeStream& stream, std::uint32_t slots, bool lazy) {
  using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, VirtualBackend<true>>;
  const auto allocator =
      Allocator::Create(
          {.window = ByteSize(slots * kRange), .lazy = {.enabled = lazy}, .map_count = {.budget = 1 << 20}}, {},
          VirtualBackend<true>())
          .value();
  if (AllocatorGuest<Allocator>(*allocator, slots).Run(stream, [](const Event&) {}) != 0) {
    std::cerr << "a mapping failed\n";
    std::exit(1);
  }
  const AllocatorStatistics s = allocator->statistics();
  return s.map_calls + s.unmap_calls;
}

void LazyBesideEager(const std::string& path) {
  const auto trace = ReadTrace(path);
  if (!trace.ok()) {
    std::cerr << trace.status().message() << "\n";
    std::exit(1);
  }
  const auto stream = RangeStream::Build(*trace, {});
  if (!stream.ok()) {
    std::cerr << stream.status().message() << "\n";
    std::exit(1);
  }
  const std::uint64_t eager = CallsOfGuest(**stream, 512, false);
  const std::uint64_t lazy = CallsOfGuest(**stream, 512, true);
  Print("lazy / eager, build", static_cast<double>(lazy) / static_cast<double>(eager), 0.55, false,
        std::to_string(lazy) + " of " + std::to_string(eager) + " calls, a Linux guest of 512 ranges");

  // A guest that takes the same ranges back into the same slots.
  const auto comes_back = [](bool keeps) {
    using Allocator = MappingAllocator<LinuxPolicy<HashIndex>, VirtualBackend<true>>;
    const auto allocator =
        Allocator::Create(
            {.window = ByteSize(64 * kRange), .lazy = {.enabled = keeps}, .map_count = {.budget = 1 << 20}}, {},
            VirtualBackend<true>())
            .value();
    for (int round = 0; round < 100; ++round) {
      for (std::uint64_t slot = 0; slot < 64; ++slot) {
        (void)allocator->SetUp({.file = FileId{7},
                                .fd = 3,
                                .file_offset = slot * kRange,
                                .length = kRange,
                                .window_offset = slot * kRange});
        const Extent entry{slot * kRange, kRange};
        (void)allocator->Remove({&entry, 1});
      }
    }
    const AllocatorStatistics s = allocator->statistics();
    return static_cast<double>(s.map_calls + s.unmap_calls);
  };
  Print("lazy / eager, coming back", comes_back(true) / comes_back(false), 0.1, false, "100 rounds over 64 ranges");
}

// Finding and pinning among 65,536 ranges, in random order.
void FindAndPin(int rounds) {
  using Allocator = MappingAllocator<LruPolicy<HashIndex>, VirtualBackend<true>>;
  constexpr std::uint32_t kRanges = 65536;
  constexpr std::uint32_t kLookups = 1 << 20;
  const auto allocator = Allocator::Create({.window = ByteSize(kRanges * kRange), .map_count = {.budget = 1 << 20}}, {},
                                           VirtualBackend<true>())
                             .value();
  for (std::uint32_t i = 0; i < kRanges; ++i) {
    Pinned pinned;
    if (allocator->Map({.file = FileId{i % 64}, .fd = 3, .file_offset = i / 64 * kRange}, &pinned) != 0) std::exit(1);
    allocator->Unpin(pinned);
  }
  std::vector<FileRange> wanted(kLookups);
  std::mt19937 random(5);
  for (FileRange& range : wanted) {
    const auto i = static_cast<std::uint32_t>(random() % kRanges);
    range = {FileId{i % 64}, i / 64};
  }
  std::atomic<std::uint64_t> missing{0};
  const auto find = [&](Allocator::Reader& reader, std::uint32_t from) {
    std::uint64_t none = 0;
    for (std::uint32_t i = 0; i < kLookups; ++i) {
      const Allocator::Reader::Epoch epoch(reader);
      none += reader.Find(wanted[(from + i) % kLookups]) == kNoSlot;
    }
    missing.fetch_add(none);
  };
  const auto find_in_one_epoch = [&](Allocator::Reader& reader) {
    std::uint64_t none = 0;
    for (std::uint32_t i = 0; i < kLookups; i += 64) {
      const Allocator::Reader::Epoch epoch(reader);
      for (std::uint32_t j = i; j < i + 64; ++j) none += reader.Find(wanted[j]) == kNoSlot;
    }
    missing.fetch_add(none);
  };
  const auto pin = [&](Allocator::Reader& reader) {
    std::uint64_t none = 0;
    for (const FileRange& range : wanted) {
      Pinned pinned;
      if (reader.Pin(range, {.file = range.file, .op = Op::kRead}, &pinned)) {
        reader.Unpin(pinned);
      } else {
        ++none;
      }
    }
    missing.fetch_add(none);
  };
  std::vector<double> one;
  std::vector<double> one_epoch;
  std::vector<double> speedup;
  std::vector<double> pins;
  Allocator::Reader reader(*allocator);
  Allocator::Reader other(*allocator);
  for (int round = 0; round < rounds; ++round) {
    const double alone = Nanoseconds([&] { find(reader, 0); });
    const double both = Nanoseconds([&] {
      std::thread second([&] { find(other, kLookups / 2); });
      find(reader, 0);
      second.join();
    });
    one.push_back(alone / kLookups);
    speedup.push_back(2 * alone / both);
    one_epoch.push_back(Nanoseconds([&] { find_in_one_epoch(reader); }) / kLookups);
    pins.push_back(Nanoseconds([&] { pin(reader); }) / kLookups);
  }
  if (missing > 0) std::cerr << missing << " ranges were not found\n";
  Print("Find, ns", Median(one), 25, false, "an epoch each, of 65,536 ranges");
  Print("Find, ns", Median(one_epoch), 25, false, "64 in an epoch");
  Print("Find, two threads / one", Median(speedup), 1.8, true, "needs two idle cores");
  Print("Pin and Unpin, ns", Median(pins), 60, false, "the policy hears of each (lru)");
}

}  // namespace

int main(int argc, char** argv) {
  std::string trace = "traces/data/kbuild.trace.zst";
  int rounds = 31;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace" && i + 1 < argc) {
      trace = argv[++i];
    } else if (flag == "--rounds" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      rounds = std::atoi(argv[++i]);
    } else {
      std::cerr << "usage: bench_allocator [--trace FILE] [--rounds N]\n";
      return 2;
    }
  }
  SetUpBesideMmap(rounds);
  FindAndPin(std::min(rounds, 11));
  LazyBesideEager(trace);
  return all_within ? 0 : 1;
}
