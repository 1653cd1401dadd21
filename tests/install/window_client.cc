// A program of somebody else's: uses the window and a policy through the installed headers, and nothing of this tree.
#include <cstdio>

#include "daxcache/policies/lru.h"
#include "daxcache/units.h"
#include "daxcache/version.h"
#include "daxcache/window.h"

int main() {
  using daxcache::FileId;
  using daxcache::SlotId;
  const auto size = daxcache::ByteSize::Parse("16M");
  if (!size.ok()) return 1;
  const auto slots = static_cast<std::uint32_t>(size->bytes() / daxcache::RangeSize().bytes());
  const daxcache::WindowOptions options{.slots = slots};
  if (!options.Validate().ok()) return 1;
  daxcache::Window<daxcache::LruPolicy<daxcache::HashIndex>> window({}, options, {});
  int hits = 0;
  int reclaims = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const daxcache::FileRange key{FileId{1}, i % 10};
    const daxcache::Touch touch{.file = key.file, .op = daxcache::Op::kRead};
    if (window.Lookup(key, touch).kind == daxcache::LookupKind::kHit) {
      ++hits;
      continue;
    }
    SlotId slot = window.Take();
    if (slot == daxcache::kNoSlot) {
      slot = window.BeginReclaim(daxcache::Scope::Any(), key, touch);
      if (!window.CommitReclaimAndTake(slot)) return 1;
      ++reclaims;
    }
    if (!window.Bind(slot, key, touch).must_map || window.Commit(slot, touch)) return 1;
  }
  const absl::Status status = window.CheckInvariants();
  std::printf("daxcache %s: %u slots, %d hits, %d reclaims\n", DAXCACHE_VERSION, slots, hits, reclaims);
  // Ten ranges in a cycle through eight slots: the least recently used is always the next to be wanted.
  return status.ok() && slots == 8 && hits == 0 && reclaims == 32 ? 0 : 1;
}
