// The names of things: files, tasks and slots are numbers of their own types, so that one cannot be passed where
// another is meant. All are dense (0, 1, 2 …), so that tables indexed by them are arrays.
#pragma once

#include <cstdint>
#include <limits>

namespace daxcache {
inline namespace v0 {

enum class FileId : std::uint32_t {};  // an inode; a path written anew after its file was deleted is a new file
enum class TaskId : std::uint32_t {};  // a process or thread of the guest
enum class SlotId : std::uint32_t {};  // a place in the window: slot s stands at window offset s * range size

inline constexpr FileId kNoFile{std::numeric_limits<std::uint32_t>::max()};
inline constexpr TaskId kNoTask{std::numeric_limits<std::uint32_t>::max()};
inline constexpr SlotId kNoSlot{std::numeric_limits<std::uint32_t>::max()};

constexpr std::uint32_t ToIndex(FileId id) {
  return static_cast<std::uint32_t>(id);
}
constexpr std::uint32_t ToIndex(TaskId id) {
  return static_cast<std::uint32_t>(id);
}
constexpr std::uint32_t ToIndex(SlotId id) {
  return static_cast<std::uint32_t>(id);
}

// The most slots a window can have (design limit, so that links of a slot fit 32 bits with room for marks).
inline constexpr std::uint32_t kMaxSlots = 1u << 24;

}  // namespace v0
}  // namespace daxcache
