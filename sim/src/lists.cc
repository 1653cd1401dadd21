// See daxcache/sim/lists.h.
#include "daxcache/sim/lists.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace daxcache {
inline namespace v0 {
namespace {

std::vector<std::string_view> SplitCommas(std::string_view text) {
  std::vector<std::string_view> items;
  for (;;) {
    const std::size_t comma = text.find(',');
    items.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

absl::StatusOr<std::vector<ByteSize>> ParseSizes(std::string_view text) {
  std::vector<ByteSize> sizes;
  for (const std::string_view item : SplitCommas(text)) {
    const std::size_t dots = item.find("..");
    if (dots == std::string_view::npos) {
      const auto size = ByteSize::Parse(item);
      if (!size.ok()) return size.status();
      sizes.push_back(*size);
      continue;
    }
    const auto from = ByteSize::Parse(item.substr(0, dots));
    const auto to = ByteSize::Parse(item.substr(dots + 2));
    for (const auto* end : {&from, &to}) {
      if (!end->ok()) return end->status();
    }
    if (from->bytes() == 0 || *from > *to) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a span that begins above 0 and does not fall, got \"", AbslView(item), "\""));
    }
    for (std::uint64_t bytes = from->bytes();; bytes *= 2) {
      sizes.emplace_back(bytes);
      if (bytes > to->bytes() / 2) break;
    }
  }
  return sizes;
}

}  // namespace v0
}  // namespace daxcache
