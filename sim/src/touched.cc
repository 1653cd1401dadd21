// See daxcache/sim/touched.h.
#include "daxcache/sim/touched.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/range_index.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {
namespace {

constexpr std::uint64_t kPageShift = 12;
constexpr std::uint64_t kMaxBitmapBytes = std::uint64_t{4} << 30;

// Sets bits [from, to] of a bitmap.
void SetBits(std::uint64_t* bits, std::uint64_t from, std::uint64_t to) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const std::uint64_t first = from / 64;
  const std::uint64_t last = to / 64;
  const std::uint64_t low = kAll << (from % 64);
  const std::uint64_t high = kAll >> (63 - to % 64);
  if (first == last) {
    bits[first] |= low & high;
    return;
  }
  bits[first] |= low;
  for (std::uint64_t word = first + 1; word < last; ++word) bits[word] = kAll;
  bits[last] |= high;
}

}  // namespace

absl::StatusOr<std::vector<std::uint32_t>> TouchedPages(const Trace& trace, const RangeStream& stream,
                                                        bool map_extending_writes) {
  const int shift = stream.range_size().shift();
  const std::uint64_t pages = stream.range_size().bytes() >> kPageShift;
  const std::uint64_t words_a_range = (pages + 63) / 64;
  if (stream.ranges() * words_a_range * 8 > kMaxBitmapBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("expected at most 4 GiB of bitmaps of touched pages, got ",
                                                     stream.ranges(), " ranges of ",
                                                     ByteSize(stream.range_size().bytes()).ToString()));
  }
  std::vector<std::uint64_t> bitmap(stream.ranges() * words_a_range);

  // Whether a write extends its file is known from the stream: the words of a record follow one another, and a word
  // that stands for several records names the first of them, so the word at or before a record is of its kind.
  const auto words = stream.words();
  const auto records = stream.records();
  const Trace::Columns& columns = trace.columns();
  std::uint32_t hint_number = 0;
  const auto number_of = [&](FileId file, std::uint64_t index) {
    if (hint_number < stream.ranges() && stream.range(hint_number) == FileRange{file, index}) return hint_number;
    const auto& indexes = stream.parts().range_indexes;
    const auto begin = indexes.begin() + stream.FirstRange(file);
    const auto end = indexes.begin() + stream.EndRange(file);
    const auto at = std::lower_bound(begin, end, index);
    if (at == end || *at != index) return kNoEntry;
    return hint_number = static_cast<std::uint32_t>(at - indexes.begin());
  };
  std::uint64_t word = 0;
  for (std::uint64_t record = 0; record < trace.size(); ++record) {
    const Op op = static_cast<Op>(columns.op[record]);
    if (!TouchesData(op)) continue;
    const std::uint64_t length = columns.length[record];
    if (length == 0) continue;
    while (word + 1 < words.size() && records[word + 1] <= record) ++word;
    if (!map_extending_writes && op == Op::kWrite && word < words.size() &&
        RangeStream::KindOf(words[word]) == RangeStream::kExtendingWrite) {
      continue;
    }
    const FileId file{static_cast<std::uint32_t>(columns.file[record])};
    const std::uint64_t offset = columns.offset[record];
    const std::uint64_t last_page = (offset + (length - 1)) >> kPageShift;
    for (std::uint64_t page = offset >> kPageShift; page <= last_page;) {
      const std::uint64_t index = page >> (shift - static_cast<int>(kPageShift));
      const std::uint64_t first = page & (pages - 1);
      const std::uint64_t end = std::min(pages - 1, first + (last_page - page));
      const std::uint32_t number = number_of(file, index);
      if (number == kNoEntry) {
        return absl::DataLossError(absl::StrCat("record ", record, ": expected range ", index, " of file ",
                                                ToIndex(file), " in the stored range stream, got none"));
      }
      SetBits(&bitmap[number * words_a_range], first, end);
      page += end - first + 1;
    }
  }

  std::vector<std::uint32_t> touched(stream.ranges());
  for (std::uint32_t number = 0; number < stream.ranges(); ++number) {
    for (std::uint64_t i = 0; i < words_a_range; ++i) {
      touched[number] += static_cast<std::uint32_t>(std::popcount(bitmap[number * words_a_range + i]));
    }
  }
  return touched;
}

}  // namespace v0
}  // namespace daxcache
