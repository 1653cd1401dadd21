// What a replacement policy is: it orders slots, and names the one to give up. It sees keys, slots and accesses; never
// bytes, statistics, or a clock other than the times in the accesses. Every policy is a class template over the index
// (`HashIndex` or `DenseIndex`), so that those that remember keys can look them up the way the window does.
//
//   template <class Index_> class Mine {
//    public:
//     using Index = Index_;
//     using Key = typename Index::Key;
//     static constexpr std::string_view kName = "mine";
//     static constexpr std::string_view kSummary = "one line for --list-policies";
//     static constexpr Repeats kRepeats = Repeats::kNone;
//     struct Options { absl::Status Validate() const; };
//     Mine(const Options&, const typename Index::Space&, std::uint32_t max_slots);
//     void OnResize(std::uint32_t slots);                     // usable slots; called once before anything else
//     void OnMap(SlotId, const Key&, const Touch&);           // a range is now mapped here
//     void OnHit(SlotId, const Touch&);                       // … was accessed again
//     void OnMiss(const Key&, const Touch&);                  // not mapped; before Admit and Victim for that access
//     bool Admit(const Key&, const Touch&, std::uint32_t free_slots);   // false: the access bypasses the window
//     void OnUnmap(SlotId, const Key&, Unmap why);            // is given up
//     SlotId Victim(const Incoming<Key>* incoming, const auto& candidates);
//     absl::Status CheckInvariants() const;                   // recounts its lists
//   };
//
// `Victim` returns a slot for which `candidates(slot)` is true, or kNoSlot if there is none; `incoming` is the access
// that needs it, or null in background reclaim. It may reorder its lists, but the slot stays mapped until OnUnmap (the
// reclaim can fail). All methods are O(1) unless the policy's header says otherwise. Nothing allocates after
// construction.
//
// Beyond this, a policy may have the following; a driver asks for them with a requires-expression, and one that cannot
// give what a policy needs refuses the policy with an error:
//
//     static constexpr bool kNeedsNextUse = true;   // reads Touch::next_use
//     static constexpr bool kNeedsTime = true;      // reads Touch::time_ns
//     static constexpr bool kSeesFiles = true;      // wants to be told of opens, closes and evictions; see per_file.h
//     void Prefetch(SlotId) const;                  // fetches what OnHit of that slot will read
//
// Positions for `next_use` grow with the stream. Where a driver folds a run of touches of one range into one, the next
// use of the first touch is the run's own position (the range is used again at once), and the hit that stands for the
// rest of the run carries the next use after it; so a policy that needs next uses has kRepeats of kOnce at least.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "daxcache/access.h"
#include "daxcache/ids.h"
#include "daxcache/range_index.h"

namespace daxcache {
inline namespace v0 {

// How much of a run of touches of one range a policy needs to see: after the first touch of the run,
enum class Repeats : std::uint8_t {
  kNone,  // nothing: a repeated hit changes nothing
  kOnce,  // one hit: further ones change nothing
  kEach,  // every hit
};

enum class Unmap : std::uint8_t {
  kReclaimed,  // chosen by Victim
  kGone,       // its file, its bytes or its slot went away: not worth remembering
};

template <class Key>
struct Incoming {
  Key key;
  Touch touch;
};

// The slots a victim may be chosen from, as the window shows them to `Victim`. This is the shape; the window's own type
// is a template.
struct AnyCandidates {
  bool operator()(SlotId) const { return true; }
  bool one_file() const { return false; }          // true: all candidates are ranges of one file …
  SlotId LowestOffset() const { return kNoSlot; }  // … and this is the first of them by offset
  void Prefetch(SlotId) const {}                   // fetches what asking about that slot will read; may be missing
};

template <class P>
concept Policy = requires(P policy, const P constant, typename P::Key key, Touch touch, SlotId slot,
                          const Incoming<typename P::Key>* incoming, AnyCandidates candidates,
                          typename P::Options options, typename P::Index::Space space) {
  P(options, space, std::uint32_t{});
  { P::kName } -> std::convertible_to<std::string_view>;
  { P::kSummary } -> std::convertible_to<std::string_view>;
  { P::kRepeats } -> std::convertible_to<Repeats>;
  { options.Validate() } -> std::same_as<absl::Status>;
  policy.OnResize(std::uint32_t{});
  policy.OnMap(slot, key, touch);
  policy.OnHit(slot, touch);
  policy.OnMiss(key, touch);
  { policy.Admit(key, touch, std::uint32_t{}) } -> std::same_as<bool>;
  policy.OnUnmap(slot, key, Unmap::kGone);
  { policy.Victim(incoming, candidates) } -> std::same_as<SlotId>;
  { constant.CheckInvariants() } -> std::same_as<absl::Status>;
};

// The optional parts that a driver has to serve.
template <class P>
concept NeedsNextUse = requires {
  requires P::kNeedsNextUse;
};
template <class P>
concept NeedsTime = requires {
  requires P::kNeedsTime;
};
template <class P>
concept SeesFiles = requires {
  requires P::kSeesFiles;
};

}  // namespace v0
}  // namespace daxcache
