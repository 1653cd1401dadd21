// What a virtiofs daemon puts between its request queue and the allocator: bytes of a FUSE request in, calls of the
// allocator, bytes of the reply out. No transport, no threads, no clock, no memory of its own: the daemon reads the
// queue, sees by the opcode that a message is one of these (`Handles`), and sends what `Handle` wrote.
//
//   struct Files {                                     // the daemon's own: what a nodeid is
//     Resolved Resolve(std::uint64_t nodeid, bool writable);
//     void Forget(std::uint64_t nodeid, std::uint64_t count);
//   };
//   FuseAdapter adapter(*allocator, files, {.read_only = share_is_read_only});
//   const std::ptrdiff_t bytes = adapter.Handle(request, reply);     // also from iovecs
//   if (bytes > 0) Send(reply.first(bytes));                         // 0: a message without reply
//
// The guest is not trusted. Any bytes are safe: each is read once, so that a guest that changes its request meanwhile
// gains nothing; lengths and counts are held against the bytes that are there before anything is done; offsets are
// passed on unchanged, and the allocator checks them against the window. A refusal is an errno in the reply:
//
//   EINVAL   the length in the header is more than there is; a body that is not exactly as long as its opcode (and, for
//            REMOVEMAPPING, its count) says; a count of 0; a flag that is neither READ nor WRITE
//   EROFS    WRITE on a share that is read-only
//   EACCES   WRITE to a file that may not be written
//   EBADF    the caller resolved the file, but gave no descriptor
//   ENFILE   as many files have numbers as there are numbers
//   EIO      an error from the caller or the allocator that is no errno of Linux
//   ENOSYS   any other opcode
//   and what `Resolve` and the allocator refuse with.
//
// What has no reply (FORGET, BATCH_FORGET) is decoded and handed to the caller, who counts; when a count is zero, the
// caller calls `Evict`. Descriptors: one that the caller gives as owned is closed once the allocator is done with it,
// whatever happened; a borrowed one never.
//
// Thread-safe if the allocator and the caller are: any number of threads call `Handle` at once. Cost: some tens of
// nanoseconds beside the calls; nothing allocates.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daxcache/file_locks.h"
#include "daxcache/file_table.h"
#include "daxcache/fuse_wire.h"
#include "daxcache/ids.h"
#include "daxcache/mapping_backend.h"
#include "daxcache/mapping_requests.h"
#include "daxcache/range.h"

namespace daxcache {
inline namespace v0 {

// What the caller knows of a nodeid that is to be mapped.
struct Resolved {
  int error = 0;               // negative errno: no such file, no more descriptors, … (the rest then does not count)
  int fd = -1;                 // open for reading; for writing too if that was asked for and is allowed
  bool owned = false;          // true: the adapter closes `fd`, also if there is an error
  FileIdentity identity = {};  // by which the allocator tells files apart
  std::int64_t size = -1;      // bytes, if known
  bool writable_allowed = false;
};

template <class C>
concept FuseCaller = requires(C& caller, std::uint64_t nodeid, bool writable, std::uint64_t count) {
  { caller.Resolve(nodeid, writable) } -> std::same_as<Resolved>;
  caller.Forget(nodeid, count);
};

template <class A>
concept FuseAllocator = requires(A& allocator, FileId file, std::span<const Extent> extents,
                                 const FileIdentity& identity) {
  {
    allocator.SetUp({.file = file,
                     .fd = int{},
                     .file_offset = std::uint64_t{},
                     .length = std::uint64_t{},
                     .window_offset = std::uint64_t{},
                     .writable = bool{},
                     .file_size = std::int64_t{},
                     .time_ns = std::int64_t{}})
    } -> std::same_as<int>;
  { allocator.Remove(extents) } -> std::same_as<int>;
  { allocator.RemoveAll() } -> std::same_as<int>;
  { allocator.Evict(file) } -> std::same_as<int>;
  { allocator.files().Intern(identity) } -> std::same_as<FileId>;
  { allocator.files().Find(identity) } -> std::same_as<FileId>;
};

// --- INIT ------------------------------------------------------------------------------------------------------------

struct FuseInitOptions {
  RangeSize range = {};       // of the window
  bool per_file_dax = false;  // the daemon sets FUSE_ATTR_DAX in attributes, file by file (or for all)
};

// Enters into the daemon's own reply to INIT what concerns the window. Nothing is entered that the guest did not offer.
//
// FUSE_MAP_ALIGNMENT, with map_alignment. Linux offers it if mounted with any `dax` option but never, and compares: an
// alignment of more than its range (2^21) fails the INIT, and every later request with ECONNREFUSED, while the mount
// itself has succeeded. Anything up to 21 is accepted and then forgotten, for Linux always maps whole 2 MiB at
// multiples of 2 MiB. So 21 is the most that is ever said, even for a window of larger ranges.
//
// FUSE_HAS_INODE_DAX. Linux offers it if mounted with dax=inode, the default. Without it in the reply such a guest uses
// DAX for no file at all, whatever their attributes say; with it, for those with FUSE_ATTR_DAX. A guest mounted with
// dax=always does not offer it, and looks at no attribute. The flag is the second bit of flags2, which Linux reads only
// if the reply has FUSE_INIT_EXT; a daemon that has not set that did not mean anything by its flags2.
inline void NegotiateDax(const FuseInitIn& in, const FuseInitOptions& options, FuseInitOut& out) {
  constexpr auto kAlignment = static_cast<std::uint32_t>(kFuseMapAlignment);
  constexpr auto kExt = static_cast<std::uint32_t>(kFuseInitExt);
  constexpr auto kInodeDax = static_cast<std::uint32_t>(kFuseHasInodeDax >> 32);
  const std::uint64_t offered = in.all_flags();
  if (offered & kFuseMapAlignment) {
    out.flags |= kAlignment;
    out.map_alignment = static_cast<std::uint16_t>(std::min(options.range.shift(), RangeSize().shift()));
  } else {
    out.flags &= ~kAlignment;
    out.map_alignment = 0;
  }
  if (!(out.flags & kExt)) out.flags2 = 0;
  if ((offered & kFuseHasInodeDax) && options.per_file_dax) {
    out.flags |= kExt;
    out.flags2 |= kInodeDax;
  } else {
    out.flags2 &= ~kInodeDax;
  }
}

// The same for a daemon that has its reply as bytes already: `request` and `reply` are whole messages. A reply that is
// an error stays as it is. 0, or a negative errno with the reply untouched: EINVAL if these are no INIT and its reply,
// EMSGSIZE if the reply is the short one of an old protocol, which has no room for it.
[[nodiscard]] inline int NegotiateDax(std::span<const std::byte> request, const FuseInitOptions& options,
                                      std::span<std::byte> reply) {
  constexpr std::size_t kShortest = FuseInHeader::kBytes + FuseInitIn::kShortBytes;
  if (request.size() < kShortest || reply.size() < FuseOutHeader::kBytes) return -EINVAL;
  const auto header = Decode<FuseInHeader>(request.first<FuseInHeader::kBytes>());
  if (header.opcode != static_cast<std::uint32_t>(FuseOpcode::kInit) || header.len < kShortest ||
      header.len > request.size()) {
    return -EINVAL;
  }
  const auto out_header = Decode<FuseOutHeader>(reply.first<FuseOutHeader::kBytes>());
  if (out_header.error != 0) return 0;
  if (reply.size() < FuseOutHeader::kBytes + FuseInitOut::kBytes) return -EMSGSIZE;
  std::array<std::byte, FuseInitIn::kBytes> body{};  // zeros where an old guest ends
  std::memcpy(body.data(), request.data() + FuseInHeader::kBytes,
              std::min<std::size_t>(body.size(), header.len - FuseInHeader::kBytes));
  const auto out_body = reply.subspan<FuseOutHeader::kBytes, FuseInitOut::kBytes>();
  auto out = Decode<FuseInitOut>(out_body);
  NegotiateDax(Decode<FuseInitIn>(body), options, out);
  Encode(out, out_body);
  return 0;
}

// --- attributes ------------------------------------------------------------------------------------------------------

// Sets or clears FUSE_ATTR_DAX in a whole reply to LOOKUP, MKNOD, MKDIR, SYMLINK, LINK, CREATE, GETATTR or SETATTR; for
// each entry of a READDIRPLUS, call the one in fuse_wire.h with its attributes. Linux reads the flag when it
// instantiates a regular file's inode, and keeps to it until the inode is evicted; a flag that has changed by then only
// marks the inode don't-cache. 0, or a negative errno with the reply untouched: EINVAL for another opcode or a reply
// that is too short; a reply that is an error is none.
[[nodiscard]] inline int SetDaxAttr(FuseOpcode opcode, std::span<std::byte> reply, bool dax) {
  if (reply.size() < FuseOutHeader::kBytes) return -EINVAL;
  std::size_t at = FuseOutHeader::kBytes;
  switch (opcode) {
    case FuseOpcode::kLookup:
    case FuseOpcode::kMknod:
    case FuseOpcode::kMkdir:
    case FuseOpcode::kSymlink:
    case FuseOpcode::kLink:
    case FuseOpcode::kCreate: at += kFuseEntryAttrOffset; break;
    case FuseOpcode::kGetattr:
    case FuseOpcode::kSetattr: at += kFuseAttrOutAttrOffset; break;
    default: return -EINVAL;
  }
  if (Decode<FuseOutHeader>(reply.first<FuseOutHeader::kBytes>()).error != 0) return 0;
  if (reply.size() < at + kFuseAttrBytes) return -EINVAL;
  SetDaxAttr(reply.subspan(at).first<kFuseAttrBytes>(), dax);
  return 0;
}

// --- requests --------------------------------------------------------------------------------------------------------

struct FuseOptions {
  bool read_only = false;  // the share is: a mapping for writing is refused with EROFS
  // Borrowed; for all that set up or evict files of one allocator to share. null: nobody else does.
  FileLocks* locks = nullptr;
};

namespace internal {

// The bytes of a request that lies in several pieces of guest memory: each is copied out once, and only once.
class FuseReader {
 public:
  explicit FuseReader(std::span<const iovec> pieces) : pieces_(pieces) {}

  // The next message or part of one. False: there is not so much left; nothing was read then that matters.
  template <class Message>
  [[nodiscard]] bool Read(Message& message) {
    std::array<std::byte, Message::kBytes> bytes;
    if (!Copy(bytes)) return false;
    message = Decode<Message>(bytes);
    return true;
  }

 private:
  bool Copy(std::span<std::byte> to) {
    while (!to.empty()) {
      if (pieces_.empty()) return false;
      const iovec& piece = pieces_.front();
      const std::size_t length = std::min(to.size(), piece.iov_len - at_);
      if (length > 0) std::memcpy(to.data(), static_cast<const std::byte*>(piece.iov_base) + at_, length);
      to = to.subspan(length);
      at_ += length;
      if (at_ == piece.iov_len) {
        pieces_ = pieces_.subspan(1);
        at_ = 0;
      }
    }
    // The compiler may not fetch from guest memory again what it has copied: it could be something else by now.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return true;
  }

  std::span<const iovec> pieces_;
  std::size_t at_ = 0;  // in the first of them
};

class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int fd) : fd_(fd) {}
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  ~OwnedDescriptor() {
    // Linux has released the number whatever close says: a second one could hit somebody else's.
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

// An error as a reply may bear it: Linux takes one below -511 or above 0 for a broken reply.
constexpr int ReplyError(int error) {
  return error <= 0 && error > -512 ? error : -EIO;
}

}  // namespace internal

template <FuseAllocator Allocator, FuseCaller Caller>
class FuseAdapter {
 public:
  // Both are borrowed, and outlive the adapter.
  FuseAdapter(Allocator& allocator, Caller& caller, FuseOptions options = {})
      : allocator_(allocator), caller_(caller), options_(options) {}

  // Which messages are for `Handle`; the others are for the rest of the daemon. DESTROY is for both: the guest also
  // forgets all nodes with it. INIT is the daemon's own, and `NegotiateDax` adds to its reply.
  static constexpr bool Handles(std::uint32_t opcode) {
    switch (static_cast<FuseOpcode>(opcode)) {
      case FuseOpcode::kSetupMapping:
      case FuseOpcode::kRemoveMapping:
      case FuseOpcode::kForget:
      case FuseOpcode::kBatchForget:
      case FuseOpcode::kDestroy: return true;
      default: return false;
    }
  }

  // The most that Handle writes, and what `reply` has to have room for.
  static constexpr std::size_t kReplyBytes = FuseOutHeader::kBytes;

  // Carries out one request. Returns the bytes of the reply; 0 for a message that has none; or a negative errno if
  // there was nothing to answer or no room to: then nothing was done. EINVAL: fewer bytes than a header, or a FORGET or
  // BATCH_FORGET that is malformed; EMSGSIZE: `reply` is too small. Bytes behind the length that the header names are
  // not of the message, and are not looked at. `time_ns` is what the events say, for policies and traces.
  std::ptrdiff_t Handle(std::span<const std::byte> request, std::span<std::byte> reply, std::int64_t time_ns = 0) {
    const iovec piece{const_cast<std::byte*>(request.data()), request.size()};  // only ever read
    return Handle(std::span<const iovec>(&piece, 1), reply, time_ns);
  }

  // The same for a request in pieces, cut anywhere.
  std::ptrdiff_t Handle(std::span<const iovec> request, std::span<std::byte> reply, std::int64_t time_ns = 0) {
    internal::FuseReader reader(request);
    FuseInHeader header;
    if (!reader.Read(header)) return -EINVAL;
    const auto opcode = static_cast<FuseOpcode>(header.opcode);
    const bool answered = opcode != FuseOpcode::kForget && opcode != FuseOpcode::kBatchForget;
    if (answered && reply.size() < kReplyBytes) return -EMSGSIZE;
    const int error = Dispatch(opcode, header, request, reader, time_ns);
    if (!answered) return error;
    Encode(FuseOutHeader{.len = kReplyBytes, .error = internal::ReplyError(error), .unique = header.unique},
           reply.first<kReplyBytes>());
    return kReplyBytes;
  }

  // SETUPMAPPING for a daemon that has decoded it already. 0 or a negative errno.
  [[nodiscard]] int SetUp(std::uint64_t nodeid, const FuseSetupMapping& request, std::int64_t time_ns = 0) {
    // 0 is what guests sent for reading before there was a flag for it.
    if (request.flags & ~(kSetupMappingRead | kSetupMappingWrite)) return -EINVAL;
    const bool writable = request.flags & kSetupMappingWrite;
    if (writable && options_.read_only) return -EROFS;
    const Resolved resolved = caller_.Resolve(nodeid, writable);
    const internal::OwnedDescriptor owned(resolved.owned ? resolved.fd : -1);
    if (resolved.error != 0) return internal::ReplyError(resolved.error);
    if (writable && !resolved.writable_allowed) return -EACCES;
    if (resolved.fd < 0) return -EBADF;
    const auto lock = locks().Use(resolved.identity);
    const FileId file = allocator_.files().Intern(resolved.identity);
    if (file == kNoFile) return -ENFILE;
    return allocator_.SetUp({.file = file,
                             .fd = resolved.fd,
                             .file_offset = request.foffset,
                             .length = request.len,
                             .window_offset = request.moffset,
                             .writable = writable,
                             .file_size = resolved.size,
                             .time_ns = time_ns});
  }

  // The last reference to a file was forgotten, or its last name removed: what it still has mapped is unmapped. A file
  // that never was mapped is none. 0 or a negative errno.
  [[nodiscard]] int Evict(const FileIdentity& identity) { return EvictFile(allocator_, locks(), identity); }

 private:
  // How many entries of a REMOVEMAPPING are handed to the allocator at once: as many as Linux ever sends (a page full).
  static constexpr std::size_t kBatch = 256;

  int Dispatch(FuseOpcode opcode, const FuseInHeader& header, std::span<const iovec> request,
               internal::FuseReader& reader, std::int64_t time_ns) {
    if (!Handles(header.opcode)) return -ENOSYS;
    if (header.len < FuseInHeader::kBytes || !HasBytes(request, header.len)) return -EINVAL;
    std::size_t body = header.len - FuseInHeader::kBytes;
    const std::size_t extensions = header.total_extlen * std::size_t{8};
    if (extensions > body) return -EINVAL;
    body -= extensions;
    switch (opcode) {
      case FuseOpcode::kSetupMapping: {
        FuseSetupMapping mapping;
        if (body != mapping.kBytes || !reader.Read(mapping)) return -EINVAL;
        return SetUp(header.nodeid, mapping, time_ns);
      }
      case FuseOpcode::kRemoveMapping: return RemoveMapping(body, reader);
      case FuseOpcode::kForget: {
        FuseForget forget;
        if (body != forget.kBytes || !reader.Read(forget)) return -EINVAL;
        caller_.Forget(header.nodeid, forget.nlookup);
        return 0;
      }
      case FuseOpcode::kBatchForget: return BatchForget(body, reader);
      case FuseOpcode::kDestroy: return allocator_.RemoveAll();
      default: return -ENOSYS;
    }
  }

  // Whether the pieces hold so many bytes. Guests choose how long pieces are: sums are by subtraction.
  static bool HasBytes(std::span<const iovec> pieces, std::size_t bytes) {
    for (const iovec& piece : pieces) {
      if (piece.iov_len >= bytes) return true;
      bytes -= piece.iov_len;
    }
    return bytes == 0;
  }

  // Whether a body is one `Head` and `count` times an `Entry`, and no byte more or less.
  template <class Head, class Entry>
  static bool IsListOf(std::size_t body, std::uint32_t count) {
    const std::size_t entries = body - Head::kBytes;
    return entries % Entry::kBytes == 0 && entries / Entry::kBytes == count;
  }

  // The count is checked against the body before the first entry is carried out, so a malformed message does nothing.
  // Each entry of a well-formed one is tried, whatever came of those before it: Linux only logs the error, and takes
  // all of them for free. The first error is the answer.
  int RemoveMapping(std::size_t body, internal::FuseReader& reader) {
    FuseRemoveMapping head;
    if (body < head.kBytes || !reader.Read(head)) return -EINVAL;
    if (head.count == 0 || !IsListOf<FuseRemoveMapping, FuseRemoveMappingEntry>(body, head.count)) return -EINVAL;
    int first_error = 0;
    std::array<Extent, kBatch> batch;
    for (std::uint32_t left = head.count; left > 0;) {
      const std::size_t size = std::min<std::size_t>(left, kBatch);
      for (std::size_t i = 0; i < size; ++i) {
        FuseRemoveMappingEntry entry;
        if (!reader.Read(entry)) return -EINVAL;  // cannot be: the bytes were counted
        batch[i] = {.offset = entry.moffset, .length = entry.len};
      }
      const int error = allocator_.Remove(std::span<const Extent>(batch).first(size));
      if (first_error == 0) first_error = error;
      left -= static_cast<std::uint32_t>(size);
    }
    return first_error;
  }

  int BatchForget(std::size_t body, internal::FuseReader& reader) {
    FuseBatchForget head;
    if (body < head.kBytes || !reader.Read(head)) return -EINVAL;
    if (!IsListOf<FuseBatchForget, FuseForgetEntry>(body, head.count)) return -EINVAL;
    for (std::uint32_t left = head.count; left > 0; --left) {
      FuseForgetEntry entry;
      if (!reader.Read(entry)) return -EINVAL;  // cannot be: the bytes were counted
      caller_.Forget(entry.nodeid, entry.nlookup);
    }
    return 0;
  }

  FileLocks& locks() { return options_.locks != nullptr ? *options_.locks : own_locks_; }

  Allocator& allocator_;
  Caller& caller_;
  const FuseOptions options_;
  FileLocks own_locks_;
};

}  // namespace v0
}  // namespace daxcache
