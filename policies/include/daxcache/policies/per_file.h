// A wrapper over any policy: only files that suit the rules use the window, and files and groups of files have quotas
// of slots (daxcache/file_rules.h). Which range is given up is still the wrapped policy's choice. Accesses to files
// that are not admitted take the path without DAX; the wrapped policy never hears of them.
//
//   per-file:base=arc,min=32K,hot=2/10s,include=/usr/**,quota=10,quota=64@/home/**
//
// Quotas. A file or group that holds as many slots as it may gets a new range only for one of its own. Where nothing is
// free, so that there has to be a victim anyhow, the victim is the wrapped policy's choice among its ranges. Where
// something is free the access bypasses the window: taking the free slot would break the quota, and reclaiming while
// slots are free is not for a policy to ask. (So in a window that a worker keeps partly free, as Linux's does, a quota
// is a limit and not a small window of its own.) A driver with several set-ups under way at once can pass a quota by as
// many; then whoever is over it is admitted no more and gives up ranges first.
//
// A driver that follows files (`kSeesFiles`) tells of them:
//
//   bool UsesWindow(FileId)                  may the file use the window? Instantiates it if it has no inode
//   void OnNonDax(const Touch&)              an access to a file that may not
//   bool OnOpen(FileId, size)                true: its inode was evicted and instantiated again: return its ranges
//   bool OnClose(FileId)                     true: its inode is evicted now: return its ranges
//   void OnEvict(FileId)                     its inode went away: deleted, or pruned
//
// and gives the paths in `Options::files`. A driver that does not asks Admit, which does the same for a file's first
// access; then answers never change.
//
// Time: the wrapped policy's; a miss at a quota O(slots), since other ranges are walked past. Space: 4 bytes a slot and
// FileRules' 16 (or more) a file.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daxcache/access.h"
#include "daxcache/file_rules.h"
#include "daxcache/ids.h"
#include "daxcache/policies/options.h"
#include "daxcache/policy.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// The rules as options of a policy.
struct PerFileRules : FileRuleOptions {
  // By FileId: what the driver knows of the files. Borrowed; must outlive the policy. A file that is not there has no
  // path and no size.
  std::span<const FileFacts> files;

  static constexpr auto Fields() {
    using Field = OptionField<PerFileRules>;
    return std::array{
        Field{"min", "SIZE", "smallest file that may use the window", &SetSize<&FileRuleOptions::min_size>},
        Field{"max", "SIZE", "largest file that may use the window", &SetSize<&FileRuleOptions::max_size>},
        Field{"include", "GLOB", "only files whose path matches one of these", &AddGlob<&FileRuleOptions::include>,
              true},
        Field{"exclude", "GLOB", "no file whose path matches one of these", &AddGlob<&FileRuleOptions::exclude>, true},
        Field{"hot", "N/TIME", "only files accessed N times within TIME (2/10s)", &SetHotness<&FileRuleOptions::hot>},
        Field{"cold", "N/TIME", "a hot file stays hot while accessed N times within TIME",
              &SetHotness<&FileRuleOptions::cold>},
        Field{"quota", "N[@GLOB]", "at most N slots a file, or for all files together that match", &AddQuota, true},
    };
  }

 private:
  template <auto Member>
  static absl::Status SetSize(PerFileRules& rules, std::string_view value) {
    const absl::StatusOr<ByteSize> size = ByteSize::Parse(value);
    if (size.ok()) rules.*Member = *size;
    return size.status();
  }
  template <auto Member>
  static absl::Status AddGlob(PerFileRules& rules, std::string_view value) {
    (rules.*Member).emplace_back(value);
    return ValidateGlob(value);
  }
  template <auto Member>
  static absl::Status SetHotness(PerFileRules& rules, std::string_view value) {
    const absl::StatusOr<Hotness> hotness = Hotness::Parse(value);
    if (hotness.ok()) rules.*Member = *hotness;
    return hotness.status();
  }
  static absl::Status AddQuota(PerFileRules& rules, std::string_view value) {
    const std::size_t at = value.find('@');
    std::uint32_t slots = 0;
    if (absl::Status status = ParseNumber(value.substr(0, at), slots); !status.ok()) return status;
    if (slots == 0) return absl::InvalidArgumentError("expected at least 1 slot, got 0");
    if (at != std::string_view::npos) {
      rules.group_quotas.push_back({.glob = std::string(value.substr(at + 1)), .slots = slots});
      return rules.group_quotas.back().Validate();
    }
    if (rules.file_quota != 0) return absl::InvalidArgumentError("the quota of each file is given twice");
    rules.file_quota = slots;
    return absl::OkStatus();
  }
};

template <class BaseOptions>
struct PerFileOptions : PerFileRules {
  BaseOptions base;

  [[nodiscard]] absl::Status Validate() const {
    if (absl::Status status = FileRuleOptions::Validate(); !status.ok()) return status;
    return base.Validate();
  }
};

template <class Base_>
class PerFilePolicy {
 public:
  using Base = Base_;
  using Index = typename Base::Index;
  using Key = typename Base::Key;
  using Options = PerFileOptions<typename Base::Options>;
  static constexpr std::string_view kName = "per-file";
  static constexpr std::string_view kSummary = "any other (base=…), for the files that suit rules and within quotas";
  static constexpr Repeats kRepeats = Repeats::kEach;  // hotness counts them
  static constexpr bool kNeedsTime = true;
  static constexpr bool kNeedsNextUse = requires { requires Base::kNeedsNextUse; };
  static constexpr bool kSeesFiles = true;

  PerFilePolicy(const Options& options, const typename Index::Space& space, std::uint32_t max_slots)
      : base_(options.base, space, max_slots),
        facts_(options.files),
        rules_(options, options.files.size()),
        files_(max_slots, kNoFile) {}

  // --- the driver's news of files -----------------------------------------------------------------------------------

  bool UsesWindow(FileId file) {
    if (rules_.Admitted(file)) return true;
    if (rules_.Instantiated(file)) return false;
    const FileFacts facts = FactsOf(file);
    return rules_.OnInstantiate(file, facts.path, facts.size);
  }
  void OnNonDax(const Touch& touch) { rules_.OnAccess(touch.file, touch.time_ns); }
  bool OnOpen(FileId file, std::uint64_t size) { return rules_.OnOpen(file, FactsOf(file).path, size); }
  bool OnClose(FileId file) { return rules_.OnClose(file); }
  void OnEvict(FileId file) { rules_.OnEvict(file); }

  // --- the policy ---------------------------------------------------------------------------------------------------

  void OnResize(std::uint32_t slots) { base_.OnResize(slots); }
  void OnMap(SlotId slot, const Key& key, const Touch& touch) {
    files_[ToIndex(slot)] = touch.file;
    rules_.OnMap(touch.file);
    base_.OnMap(slot, key, touch);
  }
  void OnHit(SlotId slot, const Touch& touch) {
    rules_.OnAccess(touch.file, touch.time_ns);
    base_.OnHit(slot, touch);
  }
  void OnMiss(const Key&, const Touch& touch) { rules_.OnAccess(touch.file, touch.time_ns); }
  // The wrapped policy learns of the miss here, when it is known that it will be its business.
  bool Admit(const Key& key, const Touch& touch, std::uint32_t free_slots) {
    if (!UsesWindow(touch.file)) return false;
    switch (rules_.RoomFor(touch.file)) {
      case FileRules::Room::kFree: break;
      case FileRules::Room::kReplaceInFile:
      case FileRules::Room::kReplaceInGroup:
        if (free_slots > 0) return false;
        break;
      case FileRules::Room::kNone: return false;
    }
    base_.OnMiss(key, touch);
    return base_.Admit(key, touch, free_slots);
  }
  void OnUnmap(SlotId slot, const Key& key, Unmap why) {
    rules_.OnUnmap(files_[ToIndex(slot)]);
    files_[ToIndex(slot)] = kNoFile;
    base_.OnUnmap(slot, key, why);
  }
  void Prefetch(SlotId slot) const {
    if constexpr (requires { base_.Prefetch(slot); }) base_.Prefetch(slot);
  }

  SlotId Victim(const Incoming<Key>* incoming, const auto& candidates) {
    // A range of the incoming one's own file makes room in its group too.
    if (candidates.one_file()) return base_.Victim(incoming, candidates);
    if (incoming != nullptr) {
      const FileId file = incoming->touch.file;
      switch (rules_.RoomFor(file)) {
        case FileRules::Room::kReplaceInFile:
          return base_.Victim(incoming, Among(candidates, [=](FileId other) { return other == file; }));
        case FileRules::Room::kReplaceInGroup:
          return base_.Victim(incoming,
                              Among(candidates, [=, this](FileId other) { return rules_.SameGroup(file, other); }));
        case FileRules::Room::kFree:
        case FileRules::Room::kNone: break;
      }
    }
    if (rules_.AnyOver()) {
      const SlotId slot =
          base_.Victim(incoming, Among(candidates, [this](FileId other) { return rules_.Over(other); }));
      if (slot != kNoSlot) return slot;
    }
    return base_.Victim(incoming, candidates);
  }

  [[nodiscard]] absl::Status CheckInvariants() const {
    std::vector<FileId> mapped;
    for (const FileId file : files_) {
      if (file != kNoFile) mapped.push_back(file);
    }
    std::sort(mapped.begin(), mapped.end());
    for (std::size_t begin = 0, end = 0; begin < mapped.size(); begin = end) {
      while (end < mapped.size() && mapped[end] == mapped[begin]) ++end;
      if (rules_.slots(mapped[begin]) != end - begin) {
        return absl::InternalError(absl::StrCat("file ", ToIndex(mapped[begin]), " holds ", end - begin,
                                                " slots, recorded ", rules_.slots(mapped[begin])));
      }
    }
    if (absl::Status status = rules_.CheckInvariants(); !status.ok()) return status;
    return base_.CheckInvariants();
  }

  const Base& base() const { return base_; }
  const FileRules& rules() const { return rules_; }

 private:
  // The candidates whose file satisfies a condition.
  template <class Candidates, class Condition>
  class Only {
   public:
    Only(const PerFilePolicy& policy, const Candidates& candidates, const Condition& condition)
        : policy_(policy), candidates_(candidates), condition_(condition) {}
    bool operator()(SlotId slot) const { return condition_(policy_.files_[ToIndex(slot)]) && candidates_(slot); }
    bool one_file() const { return false; }
    SlotId LowestOffset() const { return kNoSlot; }

   private:
    const PerFilePolicy& policy_;
    const Candidates& candidates_;
    Condition condition_;
  };

  template <class Candidates, class Condition>
  Only<Candidates, Condition> Among(const Candidates& candidates, const Condition& condition) const {
    return {*this, candidates, condition};
  }

  FileFacts FactsOf(FileId file) const { return ToIndex(file) < facts_.size() ? facts_[ToIndex(file)] : FileFacts{}; }

  Base base_;
  std::span<const FileFacts> facts_;
  FileRules rules_;
  std::vector<FileId> files_;  // by slot: whose range it holds, kNoFile for none
};

}  // namespace v0
}  // namespace daxcache
