// Must not compile: a hook that is spelt wrong is an error where the policy is used, not a hook that is never called.
// With DAXCACHE_SPELT_RIGHT it does compile, so that it fails for no other reason.
#include <string_view>

#include "daxcache/policies/queue_policy.h"
#include "daxcache/window.h"

template <class Index_>
class Mine {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  static constexpr std::string_view kName = "mine";
  static constexpr std::string_view kSummary = "a policy";
  static constexpr daxcache::Repeats kRepeats = daxcache::Repeats::kNone;
  struct Options {
    absl::Status Validate() const { return absl::OkStatus(); }
  };
  Mine(const Options&, const typename Index::Space&, std::uint32_t) {}
  void OnResize(std::uint32_t) {}
  void OnMap(daxcache::SlotId, const Key&, const daxcache::Touch&) {}
#ifdef DAXCACHE_SPELT_RIGHT
  void OnHit(daxcache::SlotId, const daxcache::Touch&) {}
#else
  void OnHits(daxcache::SlotId, const daxcache::Touch&) {}
#endif
  void OnMiss(const Key&, const daxcache::Touch&) {}
  bool Admit(const Key&, const daxcache::Touch&, std::uint32_t) {
    return true;
  }
  void OnUnmap(daxcache::SlotId, const Key&, daxcache::Unmap) {}
  daxcache::SlotId Victim(const daxcache::Incoming<Key>*, const auto&) {
    return daxcache::kNoSlot;
  }
  absl::Status CheckInvariants() const {
    return absl::OkStatus();
  }
};

int main() {
  const daxcache::Window<Mine<daxcache::HashIndex>> window({}, {.slots = 1}, {});
  return static_cast<int>(window.free_slots()) - 1;
}
