// Fuzzes the FUSE adapter: the bytes are one request, cut into pieces as the first two bytes say, and answered by an
// allocator and a caller whose moods the third byte says. Beside what the sanitizers see: nothing is written behind the
// reply; the length, error and number of a reply are right; a refused message did nothing; the same request in one
// piece does the same; a REMOVEMAPPING carries out as many entries as it counts; owned descriptors are closed, borrowed
// ones are not.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daxcache/fuse.h"
#include "daxcache/mapping_requests.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace daxcache;
using daxcache::testing_::Require;

// What was asked of allocator and caller, as numbers in a row.
using Log = std::vector<std::uint64_t>;

class Allocator {
 public:
  Allocator(Log& log, int error) : log_(log), error_(error) {}

  int SetUp(const SetUpRequest& request) {
    Require(::fcntl(request.fd, F_GETFD) >= 0, "a descriptor that is closed");
    log_.insert(log_.end(), {1, ToIndex(request.file), request.file_offset, request.length, request.window_offset,
                             request.writable ? 1u : 0u});
    return error_;
  }
  int Remove(std::span<const Extent> extents) {
    for (const Extent& extent : extents) log_.insert(log_.end(), {2, extent.offset, extent.length});
    return error_;
  }
  int RemoveAll() {
    log_.push_back(3);
    return error_;
  }
  int Evict(FileId) { return error_; }
  FileTable& files() { return files_; }

 private:
  Log& log_;
  const int error_;
  FileTable files_;
};

class Caller {
 public:
  Caller(Log& log, const Resolved& answer, int borrowed) : log_(log), answer_(answer), borrowed_(borrowed) {}

  Resolved Resolve(std::uint64_t nodeid, bool writable) {
    log_.insert(log_.end(), {4, nodeid, writable ? 1u : 0u});
    Resolved resolved = answer_;
    if (resolved.fd >= 0) resolved.fd = given_ = resolved.owned ? ::dup(borrowed_) : borrowed_;
    resolved.identity = {nodeid, 0, 0};
    return resolved;
  }
  void Forget(std::uint64_t nodeid, std::uint64_t count) { log_.insert(log_.end(), {5, nodeid, count}); }

  int given() const { return given_; }

 private:
  Log& log_;
  const Resolved answer_;
  const int borrowed_;
  int given_ = -1;
};

// Carries out the request; returns what Handle returned, then the bytes of the reply as two numbers, then the log.
Log Run(std::span<const iovec> pieces, std::uint8_t mood) {
  static const int borrowed = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  constexpr std::array<int, 4> kErrors{0, -ENOMEM, -100000, 7};
  Log log;
  Allocator allocator(log, kErrors[mood % 4]);
  Caller caller(log,
                {.error = mood & 4 ? -ENOENT : 0,
                 .fd = mood & 8 ? -1 : 0,
                 .owned = (mood & 16) != 0,
                 .writable_allowed = (mood & 32) == 0},
                borrowed);
  FuseAdapter adapter(allocator, caller, {.read_only = (mood & 64) != 0});
  std::array<std::byte, 32> reply;
  reply.fill(std::byte{0x5a});
  const std::ptrdiff_t bytes = adapter.Handle(pieces, std::span(reply).first(mood & 128 ? 15 : 16));
  Require(bytes == 0 || bytes == 16 || bytes == -EINVAL || bytes == -EMSGSIZE, "a result that is not documented");
  for (std::size_t i = bytes == 16 ? 16 : 0; i < reply.size(); ++i) {
    Require(reply[i] == std::byte{0x5a}, "written where nothing is to be written");
  }
  if (bytes < 0) Require(log.empty(), "a message that was not answered did something");
  const auto header = Decode<FuseOutHeader>(std::span(reply).first<16>());
  if (bytes == 16) {
    Require(header.len == 16, "the reply's length");
    Require(header.error <= 0 && header.error > -512, "the reply's error");
  }
  Require(::fcntl(borrowed, F_GETFD) >= 0, "a borrowed descriptor was closed");
  if (caller.given() >= 0 && caller.given() != borrowed) {
    Require(::fcntl(caller.given(), F_GETFD) < 0, "an owned descriptor was not closed");
  }
  Log result{static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(header.error), header.unique};
  result.insert(result.end(), log.begin(), log.end());
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::uint8_t first = data[0];
  const std::uint8_t second = data[1];
  const std::uint8_t mood = data[2];
  std::vector<std::byte> request(size - 3);
  if (!request.empty()) std::memcpy(request.data(), data + 3, request.size());

  // A piece of `first` bytes, then pieces of `second` bytes, which may be none, each in memory of its own so that the
  // sanitizers see a byte too many.
  std::vector<std::vector<std::byte>> pieces;
  for (std::size_t at = 0; at < request.size();) {
    const std::size_t wanted = pieces.empty() ? first : second > 0 ? second : request.size();
    const std::size_t length = std::min(wanted, request.size() - at);
    pieces.emplace_back(request.begin() + static_cast<std::ptrdiff_t>(at),
                        request.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  std::vector<iovec> scattered;
  for (std::vector<std::byte>& piece : pieces) scattered.push_back({piece.data(), piece.size()});
  const iovec whole{request.data(), request.size()};
  const Log log = Run(std::span(&whole, 1), mood);
  Require(Run(scattered, mood) == log, "in pieces it is another request");

  // What was done follows from the request.
  if (request.size() < FuseInHeader::kBytes) return 0;
  const auto header = Decode<FuseInHeader>(std::span(request).first<FuseInHeader::kBytes>());
  if (log[0] == 16) Require(log[2] == header.unique, "the reply of another request");
  const auto opcode = static_cast<FuseOpcode>(header.opcode);
  if (log[0] == 16 && opcode == FuseOpcode::kRemoveMapping && log.size() > 3) {
    const auto count = LoadLittleEndian<std::uint32_t>(std::span(request).subspan<FuseInHeader::kBytes, 4>());
    Require(log.size() == 3 + std::size_t{3} * count, "not as many removals as counted");
  }
  if (log[0] == 16 && opcode == FuseOpcode::kSetupMapping && log.size() > 3) {
    const auto body = Decode<FuseSetupMapping>(std::span(request).subspan<FuseInHeader::kBytes, 40>());
    Require(log[3] == 4 && log[4] == header.nodeid, "another file");
    if (log.size() > 6) {
      Require(log.size() == 12 && log[8] == body.foffset && log[9] == body.len && log[10] == body.moffset,
              "another mapping");
    }
  }
  return 0;
}
