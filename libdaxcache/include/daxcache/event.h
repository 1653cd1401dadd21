// What happened, in the order in which it happened. Drivers turn the window's answers into events; statistics, logs and
// comparisons are computed from events and from nothing else, so that two drivers that emit the same events did the
// same.
#pragma once

#include <cstdint>
#include <string_view>

#include "daxcache/ids.h"
#include "daxcache/range.h"

namespace daxcache {
inline namespace v0 {

enum class EventKind : std::uint8_t {
  kHit,      // the range was mapped, and writable if it had to be
  kMiss,     // the range was not mapped
  kBypass,   // a miss that the policy did not admit: the access took the path without DAX
  kSetup,    // FUSE_SETUPMAPPING of a free slot
  kUpgrade,  // FUSE_SETUPMAPPING over the same slot, now writable
  kRemove,   // FUSE_REMOVEMAPPING of a slot
  kReclaim,  // a slot taken back from a range; `cause` says for whom
};

// Why a slot was given up.
enum class Cause : std::uint8_t {
  kNone,
  kBackground,  // the worker, because few were free
  kInline,      // an access that found nothing free, for itself
  kEvicted,     // its file went away, or its bytes did, or the host lost them
  kShrunk,      // the window became smaller
};

struct Event {
  EventKind kind = EventKind::kHit;
  Cause cause = Cause::kNone;
  bool write = false;     // of the access, or of the mapping
  bool repeated = false;  // kMiss: the range had been mapped before (not a cold miss)
  SlotId slot = kNoSlot;  // kNoSlot for kMiss and kBypass
  FileRange range;
  friend constexpr bool operator==(const Event&, const Event&) = default;
};

}  // namespace v0
}  // namespace daxcache
