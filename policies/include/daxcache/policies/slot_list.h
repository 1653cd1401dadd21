// A doubly linked list threaded through arrays indexed by slot: the order in which most policies keep slots. Several
// lists can share one set of links, since a slot is on one list at a time. 8 bytes a slot; every operation O(1).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/ids.h"

namespace daxcache {
inline namespace v0 {

// The links of `entries` entries and the heads of `lists` lists.
class SlotLists {
 public:
  explicit SlotLists(std::uint32_t entries, std::uint32_t lists = 1) : entries_(entries), links_(entries + lists) {
    for (std::uint32_t list = 0; list < lists; ++list) {
      Link& head = links_[entries + list];
      head.previous = head.next = entries + list;
    }
  }

  // The entry that stands first or last, or before or after `slot`; kNoSlot at the end.
  SlotId Front(std::uint32_t list = 0) const { return Entry(links_[entries_ + list].next); }
  SlotId Back(std::uint32_t list = 0) const { return Entry(links_[entries_ + list].previous); }
  SlotId Next(SlotId slot) const { return Entry(links_[ToIndex(slot)].next); }
  SlotId Previous(SlotId slot) const { return Entry(links_[ToIndex(slot)].previous); }

  void PushBack(SlotId slot, std::uint32_t list = 0) {
    const std::uint32_t head = entries_ + list;
    const std::uint32_t last = links_[head].previous;
    links_[ToIndex(slot)] = {.previous = last, .next = head};
    links_[last].next = ToIndex(slot);
    links_[head].previous = ToIndex(slot);
  }
  void Erase(SlotId slot) {
    const Link link = links_[ToIndex(slot)];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
  }
  void MoveToBack(SlotId slot, std::uint32_t list = 0) {
    Erase(slot);
    PushBack(slot, list);
  }
  void Prefetch(SlotId slot) const { __builtin_prefetch(&links_[ToIndex(slot)]); }

  // Walks a list both ways at once; `check(slot)` may add a condition. O(entries).
  template <class Check>
  [[nodiscard]] absl::Status CheckList(std::uint32_t list, std::uint32_t expected, const Check& check) const {
    std::uint32_t count = 0;
    std::uint32_t previous = entries_ + list;
    for (std::uint32_t at = links_[previous].next; at != entries_ + list; at = links_[at].next) {
      if (at >= entries_ || links_[at].previous != previous || ++count > expected) {
        return absl::InternalError(absl::StrCat("list ", list, " is broken at entry ", at));
      }
      if (!check(SlotId{at})) return absl::InternalError(absl::StrCat("entry ", at, " stands on list ", list));
      previous = at;
    }
    if (count != expected || links_[entries_ + list].previous != previous) {
      return absl::InternalError(absl::StrCat("list ", list, " holds ", count, " entries, recorded ", expected));
    }
    return absl::OkStatus();
  }

 private:
  struct Link {
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };
  SlotId Entry(std::uint32_t at) const { return at < entries_ ? SlotId{at} : kNoSlot; }

  std::uint32_t entries_;
  std::vector<Link> links_;  // the entries', then the lists' heads
};

}  // namespace v0
}  // namespace daxcache
