// The FUSE messages that concern the DAX window, as bytes and as structs: SETUPMAPPING, REMOVEMAPPING, FORGET,
// BATCH_FORGET, INIT, DESTROY, and the DAX flag in a file's attributes. No allocator, no transport; a daemon reads what
// a guest sent, a guest (in tests) writes it. `daxcache/fuse.h` turns these messages into calls of the allocator.
//
//   if (bytes.size() < FuseInHeader::kBytes) …
//   const auto header = Decode<FuseInHeader>(bytes.first<FuseInHeader::kBytes>());
//
// All numbers are little endian, and no struct is laid over bytes: what a guest sends lies at any address (the entries
// of a REMOVEMAPPING stand 4 bytes behind a multiple of 8), and may change while it is looked at. So each field is
// loaded by itself, once. Sizes are in the types: a span that is too short does not compile.
//
// The layouts are those of Linux's include/uapi/linux/fuse.h, protocol 7.31 (SETUPMAPPING) to 7.38 (extensions behind
// the body). Cost: some loads; nothing allocates but the functions that make whole requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace daxcache {
inline namespace v0 {

// --- numbers ---------------------------------------------------------------------------------------------------------

// A little endian number at any address, whatever the host's byte order.
template <class T>
T LoadLittleEndian(std::span<const std::byte, sizeof(T)> bytes) {
  std::make_unsigned_t<T> value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<std::make_unsigned_t<T>>((static_cast<std::uint64_t>(value) << 8) |
                                                 std::to_integer<std::uint64_t>(bytes[i]));
  }
  return static_cast<T>(value);
}

template <class T>
void StoreLittleEndian(T value, std::span<std::byte, sizeof(T)> bytes) {
  auto rest = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(rest & 0xff);
    rest >>= 8;
  }
}

namespace internal {

// What `Fields` of a message is called with: they take its fields in the order in which they lie.
class LittleEndianLoader {
 public:
  explicit LittleEndianLoader(const std::byte* at) : at_(at) {}
  template <class T>
  void operator()(T& field) {
    field = LoadLittleEndian<T>(std::span<const std::byte, sizeof(T)>(at_, sizeof(T)));
    at_ += sizeof(T);
  }

 private:
  const std::byte* at_;
};

class LittleEndianStorer {
 public:
  explicit LittleEndianStorer(std::byte* at) : at_(at) {}
  template <class T>
  void operator()(const T& field) {
    StoreLittleEndian<T>(field, std::span<std::byte, sizeof(T)>(at_, sizeof(T)));
    at_ += sizeof(T);
  }

 private:
  std::byte* at_;
};

}  // namespace internal

// A message or a part of one: its fields are listed once, for both directions.
template <class Message>
[[nodiscard]] Message Decode(std::span<const std::byte, Message::kBytes> bytes) {
  Message message;
  Message::Fields(message, internal::LittleEndianLoader(bytes.data()));
  return message;
}

template <class Message>
void Encode(const Message& message, std::span<std::byte, Message::kBytes> bytes) {
  Message::Fields(message, internal::LittleEndianStorer(bytes.data()));
}

// --- headers ---------------------------------------------------------------------------------------------------------

// Those that are looked at here. Any other number is a message for the rest of the daemon.
enum class FuseOpcode : std::uint32_t {
  kLookup = 1,
  kForget = 2,  // no reply
  kGetattr = 3,
  kSetattr = 4,
  kSymlink = 6,
  kMknod = 8,
  kMkdir = 9,
  kLink = 13,
  kInit = 26,
  kCreate = 35,
  kDestroy = 38,
  kBatchForget = 42,  // no reply
  kSetupMapping = 48,
  kRemoveMapping = 49,
};

struct FuseInHeader {
  static constexpr std::size_t kBytes = 40;

  std::uint32_t len = 0;  // of the whole message: header, body, extensions
  std::uint32_t opcode = 0;
  std::uint64_t unique = 0;  // the reply bears the same
  std::uint64_t nodeid = 0;  // the inode
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t pid = 0;
  std::uint16_t total_extlen = 0;  // of what stands behind the body, in units of 8 bytes
  std::uint16_t padding = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.len), io(self.opcode), io(self.unique), io(self.nodeid);
    io(self.uid), io(self.gid), io(self.pid), io(self.total_extlen), io(self.padding);
  }
  friend constexpr bool operator==(const FuseInHeader&, const FuseInHeader&) = default;
};

struct FuseOutHeader {
  static constexpr std::size_t kBytes = 16;

  std::uint32_t len = 0;
  std::int32_t error = 0;  // 0 or negative errno
  std::uint64_t unique = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.len), io(self.error), io(self.unique);
  }
  friend constexpr bool operator==(const FuseOutHeader&, const FuseOutHeader&) = default;
};

// --- mappings --------------------------------------------------------------------------------------------------------

inline constexpr std::uint64_t kSetupMappingWrite = 1 << 0;
inline constexpr std::uint64_t kSetupMappingRead = 1 << 1;

// Bytes [foffset, foffset + len) of the file that the header's nodeid names are to appear at moffset of the window.
// The reply is a header alone.
struct FuseSetupMapping {
  static constexpr std::size_t kBytes = 40;

  std::uint64_t fh = ~std::uint64_t{0};  // Linux sends ~0: the inode counts, not an open file
  std::uint64_t foffset = 0;
  std::uint64_t len = 0;
  std::uint64_t flags = 0;
  std::uint64_t moffset = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.fh), io(self.foffset), io(self.len), io(self.flags), io(self.moffset);
  }
  friend constexpr bool operator==(const FuseSetupMapping&, const FuseSetupMapping&) = default;
};

// A REMOVEMAPPING is the number of its entries, and directly behind it the entries. The reply is a header alone.
struct FuseRemoveMapping {
  static constexpr std::size_t kBytes = 4;

  std::uint32_t count = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.count);
  }
  friend constexpr bool operator==(const FuseRemoveMapping&, const FuseRemoveMapping&) = default;
};

struct FuseRemoveMappingEntry {
  static constexpr std::size_t kBytes = 16;

  std::uint64_t moffset = 0;
  std::uint64_t len = 0;  // ~0: all from moffset to the window's end

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.moffset), io(self.len);
  }
  friend constexpr bool operator==(const FuseRemoveMappingEntry&, const FuseRemoveMappingEntry&) = default;
};

// --- forgetting ------------------------------------------------------------------------------------------------------

// The guest drops so many of the references that replies to LOOKUP and its kin gave it to the header's nodeid.
struct FuseForget {
  static constexpr std::size_t kBytes = 8;

  std::uint64_t nlookup = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.nlookup);
  }
  friend constexpr bool operator==(const FuseForget&, const FuseForget&) = default;
};

// A BATCH_FORGET is the number of its entries and four unused bytes, and behind them the entries.
struct FuseBatchForget {
  static constexpr std::size_t kBytes = 8;

  std::uint32_t count = 0;
  std::uint32_t dummy = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.count), io(self.dummy);
  }
  friend constexpr bool operator==(const FuseBatchForget&, const FuseBatchForget&) = default;
};

struct FuseForgetEntry {
  static constexpr std::size_t kBytes = 16;

  std::uint64_t nodeid = 0;
  std::uint64_t nlookup = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.nodeid), io(self.nlookup);
  }
  friend constexpr bool operator==(const FuseForgetEntry&, const FuseForgetEntry&) = default;
};

// --- INIT ------------------------------------------------------------------------------------------------------------

// In `flags` of INIT. The flags above bit 31 stand in `flags2`, which counts only if kFuseInitExt is set.
inline constexpr std::uint64_t kFuseMapAlignment = std::uint64_t{1} << 26;
inline constexpr std::uint64_t kFuseInitExt = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kFuseHasInodeDax = std::uint64_t{1} << 33;

struct FuseInitIn {
  static constexpr std::size_t kBytes = 20;       // what is looked at …
  static constexpr std::size_t kWireBytes = 64;   // … of what protocols from 7.36 on send
  static constexpr std::size_t kShortBytes = 16;  // before 7.36: without flags2

  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t max_readahead = 0;
  std::uint32_t flags = 0;
  std::uint32_t flags2 = 0;

  std::uint64_t all_flags() const {
    return flags | (flags & kFuseInitExt ? static_cast<std::uint64_t>(flags2) << 32 : 0);
  }

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.major), io(self.minor), io(self.max_readahead), io(self.flags), io(self.flags2);
  }
  friend constexpr bool operator==(const FuseInitIn&, const FuseInitIn&) = default;
};

struct FuseInitOut {
  static constexpr std::size_t kBytes = 36;      // what is looked at …
  static constexpr std::size_t kWireBytes = 64;  // … of what is sent; the rest is left to later protocols

  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t max_readahead = 0;
  std::uint32_t flags = 0;
  std::uint16_t max_background = 0;
  std::uint16_t congestion_threshold = 0;
  std::uint32_t max_write = 0;
  std::uint32_t time_gran = 0;
  std::uint16_t max_pages = 0;
  std::uint16_t map_alignment = 0;  // log2 of bytes; counts with kFuseMapAlignment
  std::uint32_t flags2 = 0;

  template <class Self, class Io>
  static void Fields(Self& self, Io io) {
    io(self.major), io(self.minor), io(self.max_readahead), io(self.flags), io(self.max_background);
    io(self.congestion_threshold), io(self.max_write), io(self.time_gran), io(self.max_pages), io(self.map_alignment);
    io(self.flags2);
  }
  friend constexpr bool operator==(const FuseInitOut&, const FuseInitOut&) = default;
};

// --- attributes ------------------------------------------------------------------------------------------------------

// `fuse_attr`, of which only the flags are looked at. They are its last four bytes.
inline constexpr std::size_t kFuseAttrBytes = 88;
inline constexpr std::uint32_t kFuseAttrDax = 1 << 1;
// Where it stands in the body of a reply: behind the node and its validity (LOOKUP, MKNOD, MKDIR, SYMLINK, LINK,
// CREATE, and each entry of a READDIRPLUS), or behind the validity alone (GETATTR, SETATTR).
inline constexpr std::size_t kFuseEntryAttrOffset = 40;
inline constexpr std::size_t kFuseAttrOutAttrOffset = 16;

inline bool HasDaxAttr(std::span<const std::byte, kFuseAttrBytes> attr) {
  return LoadLittleEndian<std::uint32_t>(attr.last<4>()) & kFuseAttrDax;
}

inline void SetDaxAttr(std::span<std::byte, kFuseAttrBytes> attr, bool dax) {
  const auto flags = LoadLittleEndian<std::uint32_t>(attr.last<4>());
  StoreLittleEndian<std::uint32_t>(dax ? flags | kFuseAttrDax : flags & ~kFuseAttrDax, attr.last<4>());
}

// --- whole requests, as a guest sends them ---------------------------------------------------------------------------

namespace internal {

template <class Message>
void Append(const Message& message, std::vector<std::byte>& bytes) {
  const std::size_t at = bytes.size();
  bytes.resize(at + Message::kBytes);
  Encode(message, std::span<std::byte, Message::kBytes>(bytes.data() + at, Message::kBytes));
}

inline std::vector<std::byte> BeginRequest(FuseOpcode opcode, std::uint64_t unique, std::uint64_t nodeid,
                                           std::size_t body) {
  std::vector<std::byte> bytes;
  bytes.reserve(FuseInHeader::kBytes + body);
  FuseInHeader header;
  header.len = static_cast<std::uint32_t>(FuseInHeader::kBytes + body);
  header.opcode = static_cast<std::uint32_t>(opcode);
  header.unique = unique;
  header.nodeid = nodeid;
  Append(header, bytes);
  return bytes;
}

}  // namespace internal

[[nodiscard]] inline std::vector<std::byte> SetupMappingRequest(std::uint64_t unique, std::uint64_t nodeid,
                                                                const FuseSetupMapping& body) {
  auto bytes = internal::BeginRequest(FuseOpcode::kSetupMapping, unique, nodeid, FuseSetupMapping::kBytes);
  internal::Append(body, bytes);
  return bytes;
}

[[nodiscard]] inline std::vector<std::byte> RemoveMappingRequest(std::uint64_t unique, std::uint64_t nodeid,
                                                                 std::span<const FuseRemoveMappingEntry> entries) {
  auto bytes = internal::BeginRequest(FuseOpcode::kRemoveMapping, unique, nodeid,
                                      FuseRemoveMapping::kBytes + entries.size() * FuseRemoveMappingEntry::kBytes);
  internal::Append(FuseRemoveMapping{.count = static_cast<std::uint32_t>(entries.size())}, bytes);
  for (const FuseRemoveMappingEntry& entry : entries) internal::Append(entry, bytes);
  return bytes;
}

[[nodiscard]] inline std::vector<std::byte> ForgetRequest(std::uint64_t unique, std::uint64_t nodeid,
                                                          std::uint64_t nlookup) {
  auto bytes = internal::BeginRequest(FuseOpcode::kForget, unique, nodeid, FuseForget::kBytes);
  internal::Append(FuseForget{.nlookup = nlookup}, bytes);
  return bytes;
}

[[nodiscard]] inline std::vector<std::byte> BatchForgetRequest(std::uint64_t unique,
                                                               std::span<const FuseForgetEntry> entries) {
  auto bytes = internal::BeginRequest(FuseOpcode::kBatchForget, unique, 0,
                                      FuseBatchForget::kBytes + entries.size() * FuseForgetEntry::kBytes);
  internal::Append(FuseBatchForget{.count = static_cast<std::uint32_t>(entries.size())}, bytes);
  for (const FuseForgetEntry& entry : entries) internal::Append(entry, bytes);
  return bytes;
}

// As protocols from 7.36 on send it.
[[nodiscard]] inline std::vector<std::byte> InitRequest(std::uint64_t unique, const FuseInitIn& body) {
  auto bytes = internal::BeginRequest(FuseOpcode::kInit, unique, 0, FuseInitIn::kWireBytes);
  internal::Append(body, bytes);
  bytes.resize(FuseInHeader::kBytes + FuseInitIn::kWireBytes);
  return bytes;
}

[[nodiscard]] inline std::vector<std::byte> DestroyRequest(std::uint64_t unique) {
  return internal::BeginRequest(FuseOpcode::kDestroy, unique, 0, 0);
}

}  // namespace v0
}  // namespace daxcache
