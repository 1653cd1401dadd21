// Which files may use the window: rules about a file's size, its path and how hot it is, and quotas of slots for files
// and groups of files. What `FUSE_ATTR_DAX` is decided by; used by the `per-file` policy and by a daemon's allocator.
//
// As in Linux (mount option dax=inode), the answer is asked for when a file's inode is instantiated, and holds until
// the inode is evicted. Size and path are looked at then and never in between: a file that outgrows a rule keeps its
// answer. Hotness changes on the way, at accesses (time that merely passes cools nothing). A changed answer marks the
// inode don't-cache, which changes nothing at first: the inode is evicted at the last close, its ranges go back, and
// the next open instantiates it with the answer of that moment. A mark is never taken back.
//
//   FileRules rules({.min_size = ByteSize(32 << 10), .hot = {.accesses = 2, .within = absl::Seconds(10)}});
//   rules.OnOpen(file, path, size);          // true: evicted and instantiated again: return its ranges
//   rules.Admitted(file);                    // FUSE_ATTR_DAX
//   rules.OnAccess(file, now);
//   if (rules.OnClose(file)) …               // that was the last close of a marked inode: return its ranges
//
// Traces do not always have opens or closes. Until the first close is seen, every open counts as finding the file
// closed. A file that is accessed or closed without having been opened is instantiated all the same (`OnInstantiate`,
// by the caller), since mappings outlive closes and traces begin in the middle.
//
// Cost: every call O(1), but for instantiation, which matches the path against every pattern. Memory: 16 bytes a file,
// and 8 · hot.accesses more with hotness, which remembers that many times; files are numbered densely by the caller,
// and nothing allocates but the tables' growth with that number. Not thread-safe.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daxcache/glob.h"
#include "daxcache/ids.h"
#include "daxcache/units.h"

namespace daxcache {
inline namespace v0 {

// What a driver that has all files in a table knows of one.
struct FileFacts {
  std::string_view path;
  std::uint64_t size = 0;  // bytes
};

// "n accesses within a time", as in "2/10s".
struct Hotness {
  static constexpr std::uint32_t kMaxAccesses = 256;

  std::uint32_t accesses = 0;  // 0: not asked for
  absl::Duration within;

  [[nodiscard]] static absl::StatusOr<Hotness> Parse(std::string_view text);
  [[nodiscard]] absl::Status Validate() const {
    if (accesses > kMaxAccesses ||
        (accesses > 0 && (within <= absl::ZeroDuration() || within > absl::Hours(1 << 20)))) {
      return absl::InvalidArgumentError(absl::StrCat("expected from 1 to ", kMaxAccesses,
                                                     " accesses within a time above 0, such as 2/10s, got ", accesses,
                                                     "/", absl::FormatDuration(within)));
    }
    return absl::OkStatus();
  }
};

// How many slots the files whose path matches a pattern may hold together, as in "64@/usr/lib/**".
struct GroupQuota {
  std::string glob;
  std::uint32_t slots = 0;

  [[nodiscard]] absl::Status Validate() const {
    if (slots == 0) return absl::InvalidArgumentError("expected a quota of at least 1 slot, got 0");
    return ValidateGlob(glob);
  }
};

struct FileRuleOptions {
  // A file is admitted if min_size <= size <= max_size …
  ByteSize min_size;
  ByteSize max_size{std::numeric_limits<std::uint64_t>::max()};
  // … and its path matches one of `include` (any path, if there is none) and none of `exclude` …
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // … and it is hot: its last accesses, so many of them, came within the time. With `cold`, a file that is hot stays so
  // while it satisfies `cold`, the weaker of the two: fewer accesses, a longer time, or both. Without it, one access
  // that comes late cools it.
  Hotness hot;
  Hotness cold;
  // The most slots any one file may hold; 0: no limit. And groups of files; a file belongs to the first that matches.
  std::uint32_t file_quota = 0;
  std::vector<GroupQuota> group_quotas;

  [[nodiscard]] absl::Status Validate() const;
};

class FileRules {
 public:
  // The options are valid (`Validate` said so). `files`: how many to make room for at once.
  explicit FileRules(FileRuleOptions options, std::size_t files = 0)
      : options_(std::move(options)),
        hot_ns_(absl::ToInt64Nanoseconds(options_.hot.within)),
        cold_ns_(absl::ToInt64Nanoseconds(options_.cold.within)),
        group_slots_(options_.group_quotas.size()) {
    Reserve(files);
  }

  // --- the life of a file -------------------------------------------------------------------------------------------

  // Asks the rules, and keeps the answer until OnEvict. True: the file may use the window.
  bool OnInstantiate(FileId file, std::string_view path, std::uint64_t size) {
    Reserve(ToIndex(file) + std::size_t{1});
    File& f = files_[ToIndex(file)];
    f.flags = static_cast<std::uint8_t>((f.flags & kHot) | kInstantiated);
    f.opens = 0;
    if (SuitsByPathAndSize(path, size)) f.flags |= kSuits;
    if (Wanted(f)) f.flags |= kAdmitted;
    JoinGroup(f, path);
    return f.flags & kAdmitted;
  }

  // Instantiates the file if need be. True: a marked inode was evicted since the file's last open, and this is a new
  // one; whatever the old one still has mapped goes back.
  bool OnOpen(FileId file, std::string_view path, std::uint64_t size) {
    Reserve(ToIndex(file) + std::size_t{1});
    File& f = files_[ToIndex(file)];
    if ((f.flags & kMarked) && (f.opens == 0 || !closes_)) {
      OnEvict(file);
      f.flags |= kReplaced;
    }
    const bool replaced = f.flags & kReplaced;
    if (!(f.flags & kInstantiated)) OnInstantiate(file, path, size);
    ++f.opens;
    return replaced;
  }

  // True: this was the last close of a marked inode, which is evicted now: its ranges go back.
  bool OnClose(FileId file) {
    closes_ = true;
    if (!Instantiated(file)) return false;
    File& f = files_[ToIndex(file)];
    if (f.opens > 0) --f.opens;  // a trace that begins in the middle has closes without opens
    if (f.opens > 0 || !(f.flags & kMarked)) return false;
    OnEvict(file);
    f.flags |= kReplaced;
    return true;
  }

  // The inode is evicted: unlinked, or its dentry pruned. How hot the file was is still known afterwards.
  void OnEvict(FileId file) {
    if (ToIndex(file) >= files_.size()) return;
    File& f = files_[ToIndex(file)];
    f.flags &= kHot;
    f.opens = 0;
  }

  // The file was read, written or faulted in, with the window or without. Accesses of a file that bear the same time
  // count once: they are the touches that one access makes in several ranges.
  void OnAccess(FileId file, std::int64_t time_ns) {
    if (options_.hot.accesses == 0) return;
    Reserve(ToIndex(file) + std::size_t{1});
    File& f = files_[ToIndex(file)];
    std::int64_t* const times = &times_[std::size_t{ToIndex(file)} * options_.hot.accesses];
    if (f.known == 0 || times[f.newest] != time_ns) {
      f.newest = static_cast<std::uint16_t>(f.newest + 1u < options_.hot.accesses ? f.newest + 1u : 0u);
      times[f.newest] = time_ns;
      if (f.known < options_.hot.accesses) ++f.known;
    }
    const bool stays = (f.flags & kHot) && options_.cold.accesses > 0;
    const bool hot = stays ? CameWithin(f, times, options_.cold.accesses, cold_ns_)
                           : CameWithin(f, times, options_.hot.accesses, hot_ns_);
    f.flags = static_cast<std::uint8_t>(hot ? f.flags | kHot : f.flags & ~kHot);
    if ((f.flags & kInstantiated) && Wanted(f) != ((f.flags & kAdmitted) != 0)) f.flags |= kMarked;
  }

  bool Instantiated(FileId file) const {
    return ToIndex(file) < files_.size() && (files_[ToIndex(file)].flags & kInstantiated);
  }
  // The answer that holds for the file's inode. False for a file that has none.
  bool Admitted(FileId file) const {
    return ToIndex(file) < files_.size() && (files_[ToIndex(file)].flags & kAdmitted);
  }
  // The inode is to be evicted at its last close.
  bool Marked(FileId file) const { return ToIndex(file) < files_.size() && (files_[ToIndex(file)].flags & kMarked); }

  // --- quotas -------------------------------------------------------------------------------------------------------

  enum class Room : std::uint8_t {
    kFree,            // below every quota
    kReplaceInFile,   // the file holds as many slots as it may: a new range must replace one of its own
    kReplaceInGroup,  // its group does: … one of the group's
    kNone,            // one of them holds more than it may, because several set-ups were under way at once
  };
  Room RoomFor(FileId file) const {
    const File f = ToIndex(file) < files_.size() ? files_[ToIndex(file)] : File{};
    if (IsOver(f)) return Room::kNone;
    if (options_.file_quota != 0 && f.slots == options_.file_quota) return Room::kReplaceInFile;
    if (f.group != 0 && group_slots_[f.group - 1] == options_.group_quotas[f.group - 1].slots) {
      return Room::kReplaceInGroup;
    }
    return Room::kFree;
  }
  bool Over(FileId file) const { return ToIndex(file) < files_.size() && IsOver(files_[ToIndex(file)]); }
  // Whether anyone is over a quota.
  bool AnyOver() const { return over_ > 0; }
  // Both files count against one group quota.
  bool SameGroup(FileId a, FileId b) const {
    const std::uint16_t group = ToIndex(a) < files_.size() ? files_[ToIndex(a)].group : 0;
    return group != 0 && ToIndex(b) < files_.size() && files_[ToIndex(b)].group == group;
  }

  // A slot was mapped for the file, or given up by it.
  void OnMap(FileId file) {
    Reserve(ToIndex(file) + std::size_t{1});
    File& f = files_[ToIndex(file)];
    if (++f.slots == options_.file_quota + 1 && options_.file_quota != 0) ++over_;
    if (f.group != 0) AddToGroup(f.group, 1);
  }
  void OnUnmap(FileId file) {
    File& f = files_[ToIndex(file)];
    if (f.slots-- == options_.file_quota + 1 && options_.file_quota != 0) --over_;
    if (f.group != 0) RemoveFromGroup(f.group, 1);
  }
  std::uint32_t slots(FileId file) const { return ToIndex(file) < files_.size() ? files_[ToIndex(file)].slots : 0; }

  const FileRuleOptions& options() const { return options_; }
  // Recounts the groups' slots and who is over. O(files).
  [[nodiscard]] absl::Status CheckInvariants() const;

 private:
  static constexpr std::uint8_t kInstantiated = 1;
  static constexpr std::uint8_t kSuits = 2;      // by path and size, when it was instantiated
  static constexpr std::uint8_t kAdmitted = 4;   // the answer that holds
  static constexpr std::uint8_t kMarked = 8;     // don't-cache
  static constexpr std::uint8_t kReplaced = 16;  // a marked inode was evicted since the last open
  static constexpr std::uint8_t kHot = 32;       // by `hot`, and not yet cold

  struct File {
    std::uint32_t opens = 0;
    std::uint32_t slots = 0;
    std::uint16_t group = 0;   // 0: none; else one more than its place in group_quotas
    std::uint16_t newest = 0;  // of the times remembered
    std::uint16_t known = 0;   // how many are
    std::uint8_t flags = 0;
  };
  static_assert(sizeof(File) == 16);

  void Reserve(std::size_t files) {
    if (files <= files_.size()) return;
    files_.resize(files);
    times_.resize(files * options_.hot.accesses);
  }

  bool SuitsByPathAndSize(std::string_view path, std::uint64_t size) const {
    if (size < options_.min_size.bytes() || size > options_.max_size.bytes()) return false;
    bool included = options_.include.empty();
    for (const std::string& glob : options_.include) included = included || GlobMatch(glob, path);
    if (!included) return false;
    for (const std::string& glob : options_.exclude) {
      if (GlobMatch(glob, path)) return false;
    }
    return true;
  }

  // What the rules would answer now, by what was looked at at instantiation and by how hot the file is.
  bool Wanted(const File& f) const { return (f.flags & kSuits) && (options_.hot.accesses == 0 || (f.flags & kHot)); }
  // The last `accesses` came within so many nanoseconds.
  bool CameWithin(const File& f, const std::int64_t* times, std::uint32_t accesses, std::int64_t within) const {
    if (f.known < accesses) return false;
    const std::uint32_t back = accesses - 1;
    const std::uint32_t first = f.newest >= back ? f.newest - back : f.newest + options_.hot.accesses - back;
    return times[f.newest] - times[first] <= within;
  }

  // A file that comes back under another name takes its slots along to another group.
  void JoinGroup(File& f, std::string_view path) {
    std::uint16_t group = 0;
    for (std::size_t i = 0; i < options_.group_quotas.size() && group == 0; ++i) {
      if (GlobMatch(options_.group_quotas[i].glob, path)) group = static_cast<std::uint16_t>(i + 1);
    }
    if (group == f.group) return;
    if (f.group != 0) RemoveFromGroup(f.group, f.slots);
    if (group != 0) AddToGroup(group, f.slots);
    f.group = group;
  }
  void AddToGroup(std::uint16_t group, std::uint32_t slots) {
    const std::uint32_t quota = options_.group_quotas[group - 1].slots;
    const std::uint32_t before = group_slots_[group - 1];
    group_slots_[group - 1] += slots;
    if (before <= quota && before + slots > quota) ++over_;
  }
  void RemoveFromGroup(std::uint16_t group, std::uint32_t slots) {
    const std::uint32_t quota = options_.group_quotas[group - 1].slots;
    const std::uint32_t before = group_slots_[group - 1];
    group_slots_[group - 1] -= slots;
    if (before > quota && before - slots <= quota) --over_;
  }
  bool IsOver(const File& f) const {
    return (options_.file_quota != 0 && f.slots > options_.file_quota) ||
           (f.group != 0 && group_slots_[f.group - 1] > options_.group_quotas[f.group - 1].slots);
  }

  FileRuleOptions options_;
  std::int64_t hot_ns_;
  std::int64_t cold_ns_;
  bool closes_ = false;     // a close has been seen
  std::uint32_t over_ = 0;  // files and groups that are over their quota
  std::vector<File> files_;
  std::vector<std::int64_t> times_;  // by file, `hot.accesses` each: a ring of the last times it was accessed
  std::vector<std::uint32_t> group_slots_;
};

inline absl::StatusOr<Hotness> Hotness::Parse(std::string_view text) {
  const absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("expected accesses/time such as 2/10s or 5/500ms, got \"", AbslView(text), "\""));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return error;
  Hotness hotness;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + slash, hotness.accesses);
  if (failed != std::errc() || end != text.data() + slash || hotness.accesses == 0) return error;
  if (!absl::ParseDuration(AbslView(text.substr(slash + 1)), &hotness.within)) return error;
  if (const absl::Status valid = hotness.Validate(); !valid.ok()) return valid;
  return hotness;
}

inline absl::Status FileRuleOptions::Validate() const {
  if (min_size > max_size) {
    return absl::InvalidArgumentError(absl::StrCat("expected a smallest size of at most the largest, ",
                                                   max_size.ToString(), ", got ", min_size.ToString()));
  }
  for (const auto* globs : {&include, &exclude}) {
    for (const std::string& glob : *globs) {
      if (absl::Status status = ValidateGlob(glob); !status.ok()) return status;
    }
  }
  for (const Hotness& hotness : {hot, cold}) {
    if (absl::Status status = hotness.Validate(); !status.ok()) return status;
  }
  if (cold.accesses > 0 && hot.accesses == 0) {
    return absl::InvalidArgumentError("cold: expected hot beside it, from which files cool down; got cold alone");
  }
  if (cold.accesses > 0 && (cold.accesses > hot.accesses || cold.within < hot.within)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected files to become cold by fewer accesses or a longer time than they become hot by (", hot.accesses, "/",
        absl::FormatDuration(hot.within), "), got ", cold.accesses, "/", absl::FormatDuration(cold.within)));
  }
  if (group_quotas.size() >= std::numeric_limits<std::uint16_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("expected fewer than 65535 quotas, got ", group_quotas.size()));
  }
  for (const GroupQuota& quota : group_quotas) {
    if (absl::Status status = quota.Validate(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

inline absl::Status FileRules::CheckInvariants() const {
  std::vector<std::uint32_t> slots(group_slots_.size());
  std::uint32_t over = 0;
  for (const File& f : files_) {
    if (f.group != 0) slots[f.group - 1] += f.slots;
    if (options_.file_quota != 0 && f.slots > options_.file_quota) ++over;
    if ((f.flags & (kAdmitted | kMarked)) && !(f.flags & kInstantiated)) {
      return absl::InternalError("a file without an inode has an answer");
    }
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] > options_.group_quotas[i].slots) ++over;
  }
  if (slots != group_slots_ || over != over_) {
    return absl::InternalError(absl::StrCat("counted ", over, " files and groups over their quota, recorded ", over_));
  }
  return absl::OkStatus();
}

}  // namespace v0
}  // namespace daxcache
