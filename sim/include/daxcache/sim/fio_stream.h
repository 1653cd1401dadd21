// The I/Os of one process of a fio job, one after the other, as fio chooses them: the same count, bytes and files, and,
// where fio's own random generator does not decide, the same offsets. Seeds are the job's randseed and the process's
// number. docs/fio.md tells what differs.
//
//   FioStream stream(job, process);
//   for (TimedIo io; stream.Next(io);) …
//
// Time: O(1) an I/O (with the random map amortized); nothing allocates after construction. Space: an eighth of a byte a
// block of each file for the random map.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daxcache/access.h"
#include "daxcache/sim/fio_job.h"
#include "daxcache/sim/timed_io.h"
#include "daxcache/traces/generators.h"

namespace daxcache {
inline namespace v0 {

// Which blocks of a file have not been accessed in this pass. A block that has is replaced by the next that has not.
class FioRandomMap {
 public:
  FioRandomMap() = default;
  explicit FioRandomMap(std::uint64_t blocks)
      : blocks_(blocks), free_((blocks + 63) / 64), any_((free_.size() + 63) / 64) {
    Reset();
  }

  bool empty() const { return left_ == 0; }
  void Reset() {
    std::fill(free_.begin(), free_.end(), ~std::uint64_t{0});
    std::fill(any_.begin(), any_.end(), ~std::uint64_t{0});
    if (blocks_ % 64 != 0) free_.back() = (std::uint64_t{1} << (blocks_ % 64)) - 1;
    if (free_.size() % 64 != 0) any_.back() = (std::uint64_t{1} << (free_.size() % 64)) - 1;
    left_ = blocks_;
  }
  // The first free block from `block` on, and past the end from 0 on; there is one.
  std::uint64_t NextFree(std::uint64_t block) const {
    const std::uint64_t word = block / 64;
    const std::uint64_t here = free_[word] & (~std::uint64_t{0} << (block % 64));
    if (here != 0) return word * 64 + static_cast<std::uint64_t>(std::countr_zero(here));
    std::uint64_t at = word + 1;
    for (;;) {
      if (at >= free_.size()) at = 0;
      const std::uint64_t words = any_[at / 64] & (~std::uint64_t{0} << (at % 64));
      if (words != 0) {
        at = at / 64 * 64 + static_cast<std::uint64_t>(std::countr_zero(words));
        return at * 64 + static_cast<std::uint64_t>(std::countr_zero(free_[at]));
      }
      at = (at / 64 + 1) * 64;
    }
  }
  // Takes up to `count` free blocks from `block` on, which is free; how many there were.
  std::uint64_t Take(std::uint64_t block, std::uint64_t count) {
    std::uint64_t taken = 0;
    for (; taken < count && block < blocks_; ++taken, ++block) {
      const std::uint64_t bit = std::uint64_t{1} << (block % 64);
      if (!(free_[block / 64] & bit)) break;
      free_[block / 64] &= ~bit;
      if (free_[block / 64] == 0) any_[block / 4096] &= ~(std::uint64_t{1} << (block / 64 % 64));
    }
    left_ -= taken;
    return taken;
  }

 private:
  std::uint64_t blocks_ = 0;
  std::uint64_t left_ = 0;
  std::vector<std::uint64_t> free_;
  std::vector<std::uint64_t> any_;  // by word of free_: it has a free block
};

class FioStream final : public IoSource {
 public:
  FioStream(const FioJob& job, std::uint32_t process)
      : random_(job.seed * 0x9e3779b97f4a7c15u + process),
        kind_(job.distribution.kind),
        parameter_(job.distribution.parameter),
        zones_(job.distribution.zones),
        is_random_(job.random),
        read_percent_(job.read_percent),
        sequence_(job.sequence),
        identical_(job.identical_sequence),
        block_range_(job.block_range),
        blocks_{job.blocks[0], job.blocks[1]},
        unit_(job.MinBlock()),
        map_(job.random && job.random_map && kind_ == FioDistribution::Kind::kRandom && job.sequence <= 1) {
    std::uint64_t bytes = 0;
    Random sizes(job.seed * 31 + 7 + process);
    for (std::uint32_t i = 0; i < job.Files(); ++i) {
      File file;
      file.offset = job.offset + job.offset_increment * process;
      file.size = job.file_size[0] > 0 ? job.file_size[0] + (job.file_size[1] > job.file_size[0]
                                                                 ? sizes.Below(job.file_size[1] - job.file_size[0] + 1)
                                                                 : 0)
                                       : job.size / job.Files();
      if (job.file_size[0] > 0) file.size -= std::min(file.size, file.offset);
      file.blocks = file.size / unit_;
      if (map_) file.map = FioRandomMap(file.blocks);
      bytes += file.blocks * unit_;
      files_.push_back(std::move(file));
    }
    const std::uint64_t pass = job.io_size > 0 ? job.io_size : job.size > 0 ? std::min(job.size, bytes) : bytes;
    left_ = job.time_based ? ~std::uint64_t{0} : pass;
    pass_ = pass;
    passes_ = job.time_based ? 0 : job.loops - 1;
    wraps_ = job.time_based || job.io_size > bytes;
    live_ = static_cast<std::uint32_t>(files_.size());
    if (kind_ == FioDistribution::Kind::kZipf || kind_ == FioDistribution::Kind::kPareto) PrepareZipf();
  }

  // How large each file has to be for this process, bytes.
  std::vector<std::uint64_t> FileSizes() const {
    std::vector<std::uint64_t> sizes;
    for (const File& file : files_) sizes.push_back(file.offset + file.size);
    return sizes;
  }

  // False: the process has done all its I/O.
  bool Next(TimedIo& io) override {
    for (;;) {
      if (left_ < unit_ || live_ == 0) {
        if (passes_ == 0 || pass_ < unit_) return false;
        --passes_;
        BeginPass();
      }
      File& file = files_[at_];
      const bool write = read_percent_ == 0 || (read_percent_ < 100 && random_.Below(100) >= read_percent_);
      std::uint64_t length = Length(write);
      if (length > left_) length = left_ / unit_ * unit_;
      std::uint64_t block = 0;
      if (file.done || !Place(file, write, block, length)) {
        if (!file.done) {
          file.done = true;
          --live_;
        }
        NextFile();
        continue;
      }
      io = {.op = write ? Op::kWrite : Op::kRead, .file = at_, .offset = file.offset + block * unit_, .length = length};
      left_ -= length;
      NextFile();
      return true;
    }
  }

 private:
  struct File {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t blocks = 0;    // of the least size
    std::uint64_t next[2] = {};  // bytes from `offset`: where the next sequential read, and write, goes
    std::uint64_t run = 0;       // I/Os of the present sequence done
    bool done = false;
    FioRandomMap map;
  };

  void NextFile() {
    if (files_.size() > 1 && ++at_ == files_.size()) at_ = 0;
  }
  void BeginPass() {
    left_ = pass_;
    live_ = static_cast<std::uint32_t>(files_.size());
    at_ = 0;
    for (File& file : files_) {
      file.next[0] = file.next[1] = 0;
      file.run = 0;
      file.done = false;
      if (map_) file.map.Reset();
    }
  }

  std::uint64_t Length(bool write) {
    const std::vector<FioBlock>& blocks = blocks_[write];
    if (blocks.size() == 1) return blocks.front().bytes;
    if (block_range_) {
      const std::uint64_t steps = (blocks[1].bytes - blocks[0].bytes) / unit_ + 1;
      return blocks[0].bytes + random_.Below(steps) * unit_;
    }
    double at = static_cast<double>(random_.Next() >> 11) * 0x1p-53 * 100;
    for (const FioBlock& block : blocks) {
      at -= block.percent;
      if (at < 0) return block.bytes;
    }
    return blocks.back().bytes;
  }

  // Where the next I/O of a file goes, in blocks from its offset; may shorten it. False: the file has had its pass.
  bool Place(File& file, bool write, std::uint64_t& block, std::uint64_t& length) {
    if (file.blocks == 0) return false;
    const std::uint64_t end = file.blocks * unit_;
    if (!is_random_ || (sequence_ > 1 && file.run > 0 && file.run < sequence_)) {
      std::uint64_t& next = file.next[is_random_ ? 0 : write];
      if (next + unit_ > end) {
        if (!is_random_ && !wraps_) return false;
        next = 0;
      }
      length = std::min(length, (end - next) / unit_ * unit_);
      block = next / unit_;
      if (!(is_random_ && identical_)) next += length;
      if (!is_random_) {
        next += sequence_;
      } else {
        ++file.run;
      }
      return true;
    }
    if (map_) {
      if (file.map.empty()) {
        if (!wraps_) return false;
        file.map.Reset();
      }
      block = file.map.NextFree(random_.Below(file.blocks));
      length = file.map.Take(block, std::max<std::uint64_t>(1, length / unit_)) * unit_;
      return true;
    }
    block = Drawn(file.blocks);
    length = std::min(length, (file.blocks - block) * unit_);
    file.next[0] = block * unit_ + (identical_ ? 0 : length);
    file.run = 1;
    return true;
  }

  std::uint64_t Drawn(std::uint64_t blocks) {
    using Kind = FioDistribution::Kind;
    switch (kind_) {
      case Kind::kRandom: break;
      case Kind::kZipf:
      case Kind::kPareto: {
        // Ranks are spread over the file, as fio spreads them by a hash.
        const std::uint64_t rank = kind_ == Kind::kZipf ? ZipfRank(blocks) : ParetoRank(blocks);
        std::uint64_t x = rank + 1;
        x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
        return (x ^ (x >> 32)) % blocks;
      }
      case Kind::kNormal: {
        // Box and Muller. Centred on the middle of the file.
        const double u = (static_cast<double>(random_.Next() >> 11) + 1) * 0x1p-53;
        const double v = static_cast<double>(random_.Next() >> 11) * 0x1p-53;
        const double z = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
        const double at = (0.5 + z * parameter_ / 100) * static_cast<double>(blocks);
        return static_cast<std::uint64_t>(std::clamp(at, 0.0, static_cast<double>(blocks - 1)));
      }
      case Kind::kZoned: {
        double at = Uniform() * 100;
        double from = 0;
        for (const FioDistribution::Zone& zone : zones_) {
          if (at < zone.access || &zone == &zones_.back()) {
            const double share = (from + Uniform() * zone.size) / 100;
            return std::min(blocks - 1, static_cast<std::uint64_t>(share * static_cast<double>(blocks)));
          }
          at -= zone.access;
          from += zone.size;
        }
        break;
      }
    }
    return random_.Below(blocks);
  }
  double Uniform() { return static_cast<double>(random_.Next() >> 11) * 0x1p-53; }

  // Zipf by rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996): no table, whatever the size.
  static double Integral(double x, double theta) {
    const double log_x = std::log(x);
    const double t = (1 - theta) * log_x;
    return (std::abs(t) > 1e-8 ? std::expm1(t) / t : 1 + t / 2) * log_x;
  }
  static double InverseIntegral(double y, double theta) {
    const double t = std::max(-1.0, y * (1 - theta));
    return std::exp((std::abs(t) > 1e-8 ? std::log1p(t) / t : 1 - t / 2) * y);
  }
  void PrepareZipf() {
    if (kind_ != FioDistribution::Kind::kZipf) return;
    lowest_ = Integral(1.5, parameter_) - 1;
    shortcut_ = 2 - InverseIntegral(Integral(2.5, parameter_) - std::pow(2, -parameter_), parameter_);
  }
  std::uint64_t ZipfRank(std::uint64_t blocks) {
    const double highest = Integral(static_cast<double>(blocks) + 0.5, parameter_);
    for (;;) {
      const double u = highest + Uniform() * (lowest_ - highest);
      const double x = InverseIntegral(u, parameter_);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(blocks));
      if (k - x <= shortcut_ || u >= Integral(k + 0.5, parameter_) - std::pow(k, -parameter_)) {
        return static_cast<std::uint64_t>(k) - 1;
      }
    }
  }
  // fio's: with h, a share of 1-h of the accesses goes to a share of h of the file.
  std::uint64_t ParetoRank(std::uint64_t blocks) {
    const double power = std::log(parameter_) / std::log(1 - parameter_);
    return std::min(blocks - 1, static_cast<std::uint64_t>(static_cast<double>(blocks) * std::pow(Uniform(), power)));
  }

  Random random_;
  FioDistribution::Kind kind_;
  double parameter_;
  double lowest_ = 0;
  double shortcut_ = 0;
  std::vector<FioDistribution::Zone> zones_;
  bool is_random_;
  std::uint32_t read_percent_;
  std::uint64_t sequence_;
  bool identical_;
  bool block_range_;
  std::vector<FioBlock> blocks_[2];
  std::uint64_t unit_;  // bytes of a block: the least length
  bool map_;            // each block once a pass
  bool wraps_ = false;  // files are gone through again until the bytes are moved
  std::vector<File> files_;
  std::uint32_t at_ = 0;    // the file whose turn it is
  std::uint32_t live_ = 0;  // files that have not had their pass
  std::uint64_t left_ = 0;  // bytes to move in this pass
  std::uint64_t pass_ = 0;
  std::uint32_t passes_ = 0;  // still to come
};

}  // namespace v0
}  // namespace daxcache
