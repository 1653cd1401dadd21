// RangeStream::Build: two passes over the records. The first marks which ranges are touched and counts the words; then
// the ranges are numbered in order of (file, index); the second writes the words.
#include "daxcache/traces/range_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {
namespace {

// A few records that claim to touch petabytes must not take memory for them: a stream may have this many words in any
// case, and so many more for each record.
constexpr std::uint64_t kFreeWords = std::uint64_t{1} << 24;
constexpr std::uint64_t kWordsPerRecord = 512;

constexpr std::uint64_t kMaxTouches = std::uint64_t{1} << 40;
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

// Which ranges of which files are touched, and then their numbers: bitmaps of 512 ranges each. The first of every file
// is found by the file alone (most files are small), the others by hashing; so a sparse file of 2^63 bytes costs no
// more than what is touched of it, and a number is found by counting bits.
class RangeIndex {
 public:
  explicit RangeIndex(std::size_t files) : first_block_(files, kNoBlock) {}

  void Mark(std::uint32_t file, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t high = first >> kBlockBits; high <= last >> kBlockBits; ++high) {
      Block& block = blocks_[BlockFor(file, high)];
      const std::uint64_t from = std::max(first, high << kBlockBits) & (kBlockRanges - 1);
      const std::uint64_t to = std::min(last, (high << kBlockBits) | (kBlockRanges - 1)) & (kBlockRanges - 1);
      for (std::uint64_t word = from / 64; word <= to / 64; ++word) {
        std::uint64_t mask = ~std::uint64_t{0};
        if (word == from / 64) mask &= ~std::uint64_t{0} << (from % 64);
        if (word == to / 64) mask &= ~std::uint64_t{0} >> (63 - to % 64);
        distinct_ += static_cast<std::uint64_t>(std::popcount(mask & ~block.bits[word]));
        block.bits[word] |= mask;
      }
    }
  }

  std::uint64_t distinct() const { return distinct_; }

  // Numbers what was marked, in order of (file, index).
  void Number(std::vector<std::uint32_t>& range_files, std::vector<std::uint64_t>& range_indexes,
              std::vector<std::uint32_t>& first_range) {
    std::vector<std::uint32_t> order(blocks_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return std::pair(blocks_[a].file, blocks_[a].high) < std::pair(blocks_[b].file, blocks_[b].high);
    });
    range_files.reserve(distinct_);
    range_indexes.reserve(distinct_);
    first_range.reserve(first_block_.size() + 1);
    for (const std::uint32_t i : order) {
      Block& block = blocks_[i];
      while (first_range.size() <= block.file) first_range.push_back(static_cast<std::uint32_t>(range_files.size()));
      for (std::uint64_t word = 0; word < kBlockWords; ++word) {
        block.numbers[word] = static_cast<std::uint32_t>(range_files.size());
        for (std::uint64_t bits = block.bits[word]; bits != 0; bits &= bits - 1) {
          range_files.push_back(block.file);
          range_indexes.push_back((block.high << kBlockBits) |
                                  (word * 64 + static_cast<unsigned>(std::countr_zero(bits))));
        }
      }
    }
    while (first_range.size() <= first_block_.size()) {
      first_range.push_back(static_cast<std::uint32_t>(range_files.size()));
    }
  }

  std::uint32_t NumberOf(std::uint32_t file, std::uint64_t index) {
    const Block& block = blocks_[BlockFor(file, index >> kBlockBits)];
    const std::uint64_t word = (index & (kBlockRanges - 1)) / 64;
    const std::uint64_t below = block.bits[word] & ((std::uint64_t{1} << (index % 64)) - 1);
    return block.numbers[word] + static_cast<std::uint32_t>(std::popcount(below));
  }

 private:
  static constexpr int kBlockBits = 9;
  static constexpr std::uint64_t kBlockRanges = std::uint64_t{1} << kBlockBits;
  static constexpr std::uint64_t kBlockWords = kBlockRanges / 64;
  static constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

  struct Block {
    std::uint32_t file = 0;
    std::uint64_t high = 0;  // index >> kBlockBits
    std::array<std::uint64_t, kBlockWords> bits{};
    std::array<std::uint32_t, kBlockWords> numbers{};  // of the first range of each word of bits
  };

  std::uint32_t BlockFor(std::uint32_t file, std::uint64_t high) {
    if (high == 0) {
      std::uint32_t& block = first_block_[file];
      if (block == kNoBlock) block = NewBlock(file, high);
      return block;
    }
    if (file == last_file_ && high == last_high_) return last_block_;
    const auto [at, added] = other_blocks_.try_emplace(std::pair(file, high), 0);
    if (added) at->second = NewBlock(file, high);
    last_file_ = file;
    last_high_ = high;
    return last_block_ = at->second;
  }

  std::uint32_t NewBlock(std::uint32_t file, std::uint64_t high) {
    Block& block = blocks_.emplace_back();
    block.file = file;
    block.high = high;
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  }

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> first_block_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> other_blocks_;
  std::uint32_t last_file_ = 0;
  std::uint64_t last_high_ = 0;  // 0: nothing looked up yet, as high 0 is never looked up there
  std::uint32_t last_block_ = 0;
  std::uint64_t distinct_ = 0;
};

// Calls sink.Touch(kind, file, first, last, record) for each record that touches ranges and sink.Event(kind, file,
// record) for each that changes a file as a whole, until one of them returns false. Here it is decided which writes
// extend their files.
template <class Sink>
void Walk(const Trace& trace, RangeSize range_size, Sink& sink) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(trace.files().size());
  for (const FileInfo& file : trace.files()) sizes.push_back(file.size);
  for (std::uint64_t i = 0; i < trace.size(); ++i) {
    const Access access = trace[i];
    const std::uint32_t file = ToIndex(access.file);
    const std::uint32_t record = static_cast<std::uint32_t>(i);
    switch (access.op) {
      case Op::kOpen:
        sizes[file] = (access.offset & 2) != 0 ? 0 : access.length;
        if ((access.offset & 2) != 0 && !sink.Event(RangeStream::kTruncate, file, record)) return;
        break;
      case Op::kTruncate:
        sizes[file] = access.length;
        if (!sink.Event(RangeStream::kTruncate, file, record)) return;
        break;
      case Op::kUnlink:
        if (!sink.Event(RangeStream::kUnlink, file, record)) return;
        break;
      case Op::kClose: break;
      case Op::kRead:
      case Op::kWrite:
      case Op::kMappedRead:
      case Op::kMappedWrite: {
        if (access.length == 0) break;
        auto kind = static_cast<RangeStream::Kind>(access.op);
        const std::uint64_t end = access.offset + access.length;
        if (access.op == Op::kWrite && end > sizes[file]) {
          kind = RangeStream::kExtendingWrite;
          sizes[file] = end;
        }
        if (!sink.Touch(kind, file, range_size.First(access.offset), range_size.Last(access.offset, access.length),
                        record)) {
          return;
        }
        break;
      }
    }
  }
}

// First pass.
struct Counter {
  RangeIndex& index;
  bool fold;
  std::uint64_t max_words;
  RangeStream::Parts& parts;
  std::uint64_t words = 0;
  absl::Status status;

  // The touch that a next one may be folded into.
  std::uint32_t last_file = 0;
  std::uint64_t last_index = kNone;
  RangeStream::Kind last_kind = RangeStream::kRead;
  std::uint32_t last_repeats = 0;

  bool Touch(RangeStream::Kind kind, std::uint32_t file, std::uint64_t first, std::uint64_t last, std::uint32_t) {
    const std::uint64_t count = last - first + 1;
    ++parts.accesses;
    parts.touches += count;
    if (kind == RangeStream::kExtendingWrite) {
      ++parts.extending_accesses;
      parts.extending_touches += count;
    }
    if (count > RangeStream::kMaxRanges) return TooManyRanges();
    if (parts.touches > kMaxTouches) {
      status = absl::OutOfRangeError("expected at most 2^40 touches of ranges, got more");
      return false;
    }
    const bool folds = fold && first == last_index && file == last_file && kind == last_kind &&
                       last_repeats < RangeStream::kMaxRepeats;
    words += count - (folds ? 1 : 0);
    last_repeats = count > 1 || !folds ? 1 : last_repeats + 1;
    last_file = file;
    last_index = last;
    last_kind = kind;
    if (words > max_words) return TooManyWords();
    index.Mark(file, first, last);
    return index.distinct() <= RangeStream::kMaxRanges || TooManyRanges();
  }

  bool Event(RangeStream::Kind, std::uint32_t, std::uint32_t) {
    last_index = kNone;
    return ++words <= max_words || TooManyWords();
  }

  bool TooManyRanges() {
    status = absl::OutOfRangeError(absl::StrCat("expected at most ", RangeStream::kMaxRanges,
                                                " distinct ranges, got more (try a larger range size)"));
    return false;
  }
  bool TooManyWords() {
    status = absl::ResourceExhaustedError(
        absl::StrCat("expected a range stream of at most ", max_words, " words, got more (try a larger range size)"));
    return false;
  }
};

// Second pass: the same decisions, now written down.
struct Writer {
  RangeIndex& index;
  bool fold;
  std::uint32_t* words;
  std::uint8_t* repeats;
  std::uint32_t* records;
  std::uint64_t at = 0;
  std::uint64_t foldable = 0;  // one past the word that a next touch may be folded into; 0: none

  bool Touch(RangeStream::Kind kind, std::uint32_t file, std::uint64_t first, std::uint64_t last,
             std::uint32_t record) {
    std::uint32_t number = index.NumberOf(file, first);
    std::uint32_t word = (number << RangeStream::kKindBits) | kind;
    if (fold && foldable != 0 && words[foldable - 1] == word && repeats[foldable - 1] < RangeStream::kMaxRepeats) {
      ++repeats[foldable - 1];
    } else {
      Append(word, record);
    }
    // All ranges between first and last were marked, so their numbers follow on one another.
    for (std::uint64_t i = first; i < last; ++i) {
      word += 1u << RangeStream::kKindBits;
      Append(word, record);
    }
    foldable = at;
    return true;
  }

  bool Event(RangeStream::Kind kind, std::uint32_t file, std::uint32_t record) {
    Append((file << RangeStream::kKindBits) | kind, record);
    foldable = 0;
    return true;
  }

  void Append(std::uint32_t word, std::uint32_t record) {
    words[at] = word;
    repeats[at] = 1;
    records[at] = record;
    ++at;
  }
};

// An array without values, owned by `storage`; empty if there is no memory for it.
template <class T>
std::span<T> Allocate(std::uint64_t size, std::vector<std::shared_ptr<const void>>& storage) {
  T* data = new (std::nothrow) T[size];
  if (data == nullptr) return {};
  storage.push_back(std::shared_ptr<T[]>(data));
  return {data, size};
}

template <class T>
std::span<const T> Keep(std::vector<T> values, std::vector<std::shared_ptr<const void>>& storage) {
  auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  const std::span<const T> span(*kept);
  storage.push_back(std::move(kept));
  return span;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RangeStream>> RangeStream::Build(const Trace& trace, const Options& options) {
  if (const auto& stored = trace.stored_stream();
      stored != nullptr && stored->range_size() == options.range_size && stored->folded() == options.fold) {
    return stored;
  }
  if (absl::Status status = trace.CheckRecords(); !status.ok()) return status;
  if (trace.size() > std::numeric_limits<std::uint32_t>::max() || trace.files().size() > kMaxRanges) {
    return absl::OutOfRangeError(absl::StrCat("expected a trace of at most 2^32 - 1 records and 2^29 files, got ",
                                              trace.size(), " and ", trace.files().size()));
  }
  Parts parts;
  parts.range_size = options.range_size;
  parts.folded = options.fold;
  RangeIndex index(trace.files().size());
  Counter counter{.index = index,
                  .fold = options.fold,
                  .max_words = std::min(options.max_words, kFreeWords + kWordsPerRecord * trace.size()),
                  .parts = parts,
                  .status = {}};
  Walk(trace, options.range_size, counter);
  if (!counter.status.ok()) return counter.status;

  std::vector<std::uint32_t> range_files;
  std::vector<std::uint64_t> range_indexes;
  std::vector<std::uint32_t> first_range;
  index.Number(range_files, range_indexes, first_range);
  parts.range_files = Keep(std::move(range_files), parts.storage);
  parts.range_indexes = Keep(std::move(range_indexes), parts.storage);
  parts.first_range = Keep(std::move(first_range), parts.storage);

  const std::span words = Allocate<std::uint32_t>(counter.words, parts.storage);
  const std::span repeats = Allocate<std::uint8_t>(counter.words, parts.storage);
  const std::span records = Allocate<std::uint32_t>(counter.words, parts.storage);
  if (words.size() != counter.words || repeats.size() != counter.words || records.size() != counter.words) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a range stream of ", counter.words, " words"));
  }
  Writer writer{.index = index,
                .fold = options.fold,
                .words = words.data(),
                .repeats = repeats.data(),
                .records = records.data()};
  Walk(trace, options.range_size, writer);
  parts.words = words;
  parts.repeats = repeats;
  parts.records = records;
  return std::make_shared<const RangeStream>(std::move(parts));
}

}  // namespace v0
}  // namespace daxcache
