// The C interface: handles are allocators over whichever backend was asked for, with a policy chosen at run time; every
// call checks what it is given, and no exception leaves.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daxcache/allocator.h"
#include "daxcache/daxcache.h"
#include "daxcache/file_locks.h"
#include "daxcache/fuse.h"
#include "daxcache/journal.h"
#include "daxcache/mmap_backend.h"
#include "daxcache/policies/any_policy.h"
#include "daxcache/shmem_backend.h"
#include "daxcache/version.h"

namespace daxcache {
namespace {

using P = AnyPolicy<HashIndex>;

// --- what the caller gives -------------------------------------------------------------------------------------------

// A struct of a program that may be older or newer than this library: what is missing has its default, and what is not
// known here must not be asked for.
template <class Options>
int Take(const Options* given, Options& options) {
  if (given == nullptr || given->size < sizeof(std::size_t)) return -EINVAL;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Options); i < given->size; ++i) {
    if (bytes[i] != 0) return -E2BIG;
  }
  std::memcpy(static_cast<void*>(&options), given, std::min(given->size, sizeof(Options)));
  return 0;
}

FileIdentity IdentityOf(const daxcache_identity& identity) {
  return {identity.word[0], identity.word[1], identity.word[2]};
}

// The caller's functions may answer as C functions like to: a positive errno would be taken for success elsewhere.
int Answer(int result) {
  return result > 0 ? -EIO : result;
}

struct SendShmem {
  int (*send)(void* context, const void* message, std::size_t bytes, int fd);
  void* context;

  int operator()(std::span<const std::byte, ShmemMessage::kBytes> message, int fd) const {
    return Answer(send(context, message.data(), message.size(), fd));
  }
};

// `map` and `unmap` of the caller's.
template <bool kOver>
class CallbackBackend {
 public:
  static constexpr bool kMapsOver = kOver;

  explicit CallbackBackend(const daxcache_options& options)
      : context_(options.context), map_(options.map), unmap_(options.unmap) {}

  int Map(const MapRequest& request) {
    const daxcache_extent window{request.window.offset, request.window.length};
    return Answer(map_(context_, &window, request.fd, request.file_offset, request.writable));
  }
  int Unmap(std::span<const Extent> extents) {
    constexpr std::size_t kBatch = 64;
    daxcache_extent batch[kBatch];
    int first_error = 0;
    for (; !extents.empty(); extents = extents.subspan(std::min(extents.size(), kBatch))) {
      const std::size_t size = std::min(extents.size(), kBatch);
      for (std::size_t i = 0; i < size; ++i) batch[i] = {extents[i].offset, extents[i].length};
      const int error = Answer(unmap_(context_, batch, size));
      if (first_error == 0) first_error = error;
    }
    return first_error;
  }
  void* address() const { return nullptr; }

 private:
  void* context_;
  int (*map_)(void*, const daxcache_extent*, int, std::uint64_t, int);
  int (*unmap_)(void*, const daxcache_extent*, std::size_t);
};

// --- allocators, whatever their backend ------------------------------------------------------------------------------

// Opens a file by its identity; see MappingAllocator::Restore.
using Opener = std::function<int(const FileIdentity& identity, bool writable, bool* close)>;

class AnyReader {
 public:
  virtual ~AnyReader() = default;
  virtual bool Pin(const FileRange& range, const Touch& touch, Pinned* pinned) = 0;
};

class AnyAllocator {
 public:
  virtual ~AnyAllocator() = default;
  virtual int SetUp(const SetUpRequest& request) = 0;
  virtual int Remove(std::span<const Extent> extents) = 0;
  virtual int RemoveAll() = 0;
  virtual int Evict(FileId file) = 0;
  virtual int OnSizeChanged(FileId file, std::uint64_t size, int fd) = 0;
  virtual int Map(const MapFileRequest& request, Pinned* pinned) = 0;
  virtual void Unpin(const Pinned& pinned) = 0;
  virtual std::unique_ptr<AnyReader> MakeReader() = 0;  // null: there are too many
  virtual int RepairFault(void* host_address) noexcept = 0;
  virtual absl::Status Grow(std::uint32_t ranges) = 0;
  virtual absl::Status Shrink(std::uint32_t ranges) = 0;
  virtual bool Tick(std::int64_t now_ns) = 0;
  virtual bool UsesDax(FileId file, std::string_view path, std::uint64_t size) = 0;
  virtual FileTable& files() = 0;
  virtual std::vector<std::byte> Save() const = 0;
  virtual absl::Status Restore(std::span<const std::byte> snapshot, const Opener& open) = 0;
  virtual absl::Status Recover(const Journal& old, bool host_keeps, const Opener& open) = 0;
  virtual std::string Dump(std::uint32_t format, std::string_view labels) const = 0;
  virtual AllocatorStatistics statistics() const = 0;
  virtual void* address() = 0;
};

template <class Backend>
class AllocatorOver final : public AnyAllocator {
 public:
  using Allocator = MappingAllocator<P, Backend>;

  explicit AllocatorOver(std::unique_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  int SetUp(const SetUpRequest& request) override { return allocator_->SetUp(request); }
  int Remove(std::span<const Extent> extents) override { return allocator_->Remove(extents); }
  int RemoveAll() override { return allocator_->RemoveAll(); }
  int Evict(FileId file) override { return allocator_->Evict(file); }
  int OnSizeChanged(FileId file, std::uint64_t size, int fd) override {
    return allocator_->OnSizeChanged(file, size, fd);
  }
  int Map(const MapFileRequest& request, Pinned* pinned) override { return allocator_->Map(request, pinned); }
  void Unpin(const Pinned& pinned) override { allocator_->Unpin(pinned); }
  std::unique_ptr<AnyReader> MakeReader() override {
    auto reader = std::make_unique<ReaderOver>(*allocator_);
    if (!reader->ok()) return nullptr;
    return reader;
  }
  int RepairFault(void* host_address) noexcept override { return allocator_->RepairFault(host_address); }
  absl::Status Grow(std::uint32_t ranges) override { return allocator_->Grow(ranges); }
  absl::Status Shrink(std::uint32_t ranges) override { return allocator_->Shrink(ranges); }
  bool Tick(std::int64_t now_ns) override { return allocator_->Tick(now_ns); }
  bool UsesDax(FileId file, std::string_view path, std::uint64_t size) override {
    return allocator_->UsesDax(file, path, size);
  }
  FileTable& files() override { return allocator_->files(); }
  std::vector<std::byte> Save() const override { return allocator_->Save(); }
  absl::Status Restore(std::span<const std::byte> snapshot, const Opener& open) override {
    return allocator_->Restore(snapshot, open);
  }
  absl::Status Recover(const Journal& old, bool host_keeps, const Opener& open) override {
    return allocator_->Recover(old, host_keeps, open);
  }
  std::string Dump(std::uint32_t format, std::string_view labels) const override {
    std::string text;
    if (format == DAXCACHE_TEXT) allocator_->DumpText(&text);
    if (format == DAXCACHE_JSON) allocator_->DumpJson(&text);
    if (format == DAXCACHE_PROMETHEUS) allocator_->DumpPrometheus(&text, labels);
    return text;
  }
  AllocatorStatistics statistics() const override { return allocator_->statistics(); }
  void* address() override { return allocator_->backend().address(); }

 private:
  class ReaderOver final : public AnyReader {
   public:
    explicit ReaderOver(Allocator& allocator) : reader_(allocator) {}
    bool ok() const { return reader_.ok(); }
    bool Pin(const FileRange& range, const Touch& touch, Pinned* pinned) override {
      return reader_.Pin(range, touch, pinned);
    }

   private:
    typename Allocator::Reader reader_;
  };

  std::unique_ptr<Allocator> allocator_;
};

template <class Backend>
absl::StatusOr<std::unique_ptr<AnyAllocator>> MakeOver(const AllocatorOptions& options, const P::Options& policy,
                                                       Backend backend) {
  auto allocator = MappingAllocator<P, Backend>::Create(options, policy, std::move(backend));
  if (!allocator.ok()) return allocator.status();
  return std::make_unique<AllocatorOver<Backend>>(*std::move(allocator));
}

// --- options ---------------------------------------------------------------------------------------------------------

absl::StatusOr<AllocatorOptions> AllocatorOptionsOf(const daxcache_options& given) {
  constexpr std::uint64_t kKnown = DAXCACHE_LAZY_UNMAP | DAXCACHE_MAP_COUNT_WARN_ONLY |
                                   DAXCACHE_ONE_DESCRIPTOR_PER_FILE | DAXCACHE_CLAMP | DAXCACHE_PREFAULT |
                                   DAXCACHE_MAPS_OVER | DAXCACHE_JOURNAL_LEFT;
  if (given.flags & ~kKnown) {
    return absl::InvalidArgumentError(
        absl::StrCat("flags: expected those of enum daxcache_flags, got ", absl::Hex(given.flags)));
  }
  AllocatorOptions options;
  options.window = ByteSize(given.window_bytes);
  options.max_window = ByteSize(given.max_window_bytes);
  if (given.range_bytes != 0) {
    const absl::StatusOr<RangeSize> range = RangeSize::Create(ByteSize(given.range_bytes));
    if (!range.ok()) return range.status();
    options.range = *range;
  }
  options.seed = given.seed;
  options.lazy.enabled = given.flags & DAXCACHE_LAZY_UNMAP;
  if (given.max_kept != 0) {
    options.lazy.max_kept = static_cast<std::uint32_t>(std::min<std::uint64_t>(given.max_kept, options.lazy.max_kept));
  }
  if (given.idle_ns < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("idle_ns: expected a time that is not negative, got ", given.idle_ns));
  }
  if (given.idle_ns != 0) options.lazy.idle = absl::Nanoseconds(given.idle_ns);
  options.map_count.budget = given.map_budget;
  options.map_count.warn_only = given.flags & DAXCACHE_MAP_COUNT_WARN_ONLY;
  options.map_count.one_descriptor_per_file = given.flags & DAXCACHE_ONE_DESCRIPTOR_PER_FILE;
  options.clamp = given.flags & DAXCACHE_CLAMP;
  options.prefault = given.flags & DAXCACHE_PREFAULT;
  if (given.max_readers != 0) options.max_readers = given.max_readers;
  return options;
}

// Reads a policy's spec. What `per-file` says of files goes to the rules, since a daemon does not know its files before
// they are looked up, and its base is the policy; one that has to know the future is refused.
absl::StatusOr<PolicySpec> PolicyOf(const char* text, FileRuleOptions& rules) {
  absl::StatusOr<PolicySpec> spec = ParsePolicySpec(text == nullptr ? PolicySpec().text() : text);
  if (!spec.ok()) return spec;
  const absl::Status status = Dispatch<HashIndex>(*spec, [&]<class Named>(const typename Named::Options& options) {
    if constexpr (std::is_base_of_v<FileRuleOptions, typename Named::Options>) rules = options;
    if constexpr (NeedsNextUse<Named>) return spec->Error("it has to know the future, so it works in replay only");
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (spec->base().empty()) return spec;
  std::string base = spec->base();
  char separator = ':';
  for (const PolicySpec::Option& option : spec->options()) {
    const auto fields = PerFileRules::Fields();
    if (std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.name == option.key; }))
      continue;
    absl::StrAppend(&base, std::string(1, std::exchange(separator, ',')), option.key, "=", option.value);
  }
  return ParsePolicySpec(base);
}

absl::StatusOr<std::unique_ptr<AnyAllocator>> MakeAllocator(const daxcache_options& given,
                                                            const AllocatorOptions& options, const P::Options& policy) {
  switch (given.backend) {
    case DAXCACHE_BACKEND_MMAP: {
      const ByteSize whole = options.max_window.bytes() != 0 ? options.max_window : options.window;
      if (given.address != nullptr) return MakeOver(options, policy, MmapBackend::Adopt(given.address, whole));
      absl::StatusOr<MmapBackend> backend = MmapBackend::Create(whole);
      if (!backend.ok()) return absl::UnavailableError(backend.status().message());
      return MakeOver(options, policy, *std::move(backend));
    }
    case DAXCACHE_BACKEND_SHMEM:
      if (given.shmem_send == nullptr) return absl::InvalidArgumentError("shmem_send: expected a function, got none");
      return MakeOver(options, policy,
                      ShmemBackend(SendShmem{given.shmem_send, given.context}, {.shmid = given.shmem_id}));
    case DAXCACHE_BACKEND_CALLBACKS:
      if (given.map == nullptr || given.unmap == nullptr) {
        return absl::InvalidArgumentError("map, unmap: expected two functions");
      }
      if (given.flags & DAXCACHE_MAPS_OVER) return MakeOver(options, policy, CallbackBackend<true>(given));
      return MakeOver(options, policy, CallbackBackend<false>(given));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("backend: expected one of enum daxcache_backend, got ", given.backend));
  }
}

int ErrnoOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument: return -EINVAL;
    case absl::StatusCode::kResourceExhausted: return -ENOSPC;  // the map count
    default: return -ENOMEM;                                    // no addresses
  }
}

// What recovery comes to.
int RecoveryErrno(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss: return -EBADMSG;
    case absl::StatusCode::kFailedPrecondition: return -EBUSY;
    default: return -EIO;
  }
}

Opener OpenerOf(daxcache_open_file open_file, void* context) {
  return [=](const FileIdentity& identity, bool writable, bool* close) {
    const daxcache_identity named{{identity[0], identity[1], identity[2]}};
    int close_it = 0;
    const int fd = open_file(context, &named, writable, &close_it);
    *close = close_it != 0;
    return fd;
  };
}

JournalGeometry GeometryOf(const AllocatorOptions& options) {
  constexpr std::uint32_t kExtents = 1024;  // Linux makes none
  const ByteSize whole = options.max_window.bytes() != 0 ? options.max_window : options.window;
  return {.slots = static_cast<std::uint32_t>(whole.bytes() >> options.range.shift()),
          .extents = kExtents,
          .range_shift = static_cast<std::uint32_t>(options.range.shift())};
}

constexpr std::uint32_t kAccess = DAXCACHE_READ | DAXCACHE_WRITE;

daxcache_pin PinOf(const Pinned& pinned) {
  return {
      .slot = ToIndex(pinned.slot), .reserved = 0, .window_offset = pinned.window_offset, .address = pinned.address};
}

// --- the boundary ----------------------------------------------------------------------------------------------------

// Nothing is thrown at a C program: what Abseil and the standard library throw is that there is no memory, or no lock.
template <class Body>
auto Guarded(const Body& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EAGAIN;
  }
}

class FuseCallbacks {
 public:
  explicit FuseCallbacks(const daxcache_fuse_options& options) : options_(options) {}

  Resolved Resolve(std::uint64_t nodeid, bool writable) {
    daxcache_resolved resolved{};
    resolved.fd = -1;
    resolved.file_size = -1;
    const int error = options_.resolve(options_.context, nodeid, writable, &resolved);
    return {.error = Answer(error),
            .fd = resolved.fd,
            .owned = resolved.owned != 0,
            .identity = IdentityOf(resolved.identity),
            .size = resolved.file_size,
            .writable_allowed = resolved.may_write != 0};
  }
  void Forget(std::uint64_t nodeid, std::uint64_t count) {
    if (options_.forget != nullptr) options_.forget(options_.context, nodeid, count);
  }

 private:
  const daxcache_fuse_options options_;
};

}  // namespace
}  // namespace daxcache

// The handles.
struct daxcache_window {
  daxcache::FileLocks locks;
  daxcache::RangeSize range;
  void (*on_event)(void*, const daxcache_event*) = nullptr;
  void* event_context = nullptr;
  std::optional<daxcache::Journal> journal;
  bool journal_left = false;
  std::unique_ptr<daxcache::AnyAllocator> allocator;  // tells of events until it is gone
};

struct daxcache_reader {
  std::unique_ptr<daxcache::AnyReader> reader;
  daxcache::RangeSize range;
};

namespace daxcache {
namespace {

void Tell(void* context, const Event& event) {
  const auto* const window = static_cast<const daxcache_window*>(context);
  const daxcache_event told{.kind = static_cast<std::uint32_t>(event.kind),
                            .write = event.write,
                            .slot = ToIndex(event.slot),
                            .file = ToIndex(event.range.file),
                            .index = event.range.index};
  window->on_event(window->event_context, &told);
}
static_assert(static_cast<int>(EventKind::kHit) == DAXCACHE_EVENT_HIT &&
              static_cast<int>(EventKind::kReclaim) == DAXCACHE_EVENT_RECLAIM);

absl::Status Make(const daxcache_options& given, daxcache_window& window) {
  absl::StatusOr<AllocatorOptions> options = AllocatorOptionsOf(given);
  if (!options.ok()) return options.status();
  absl::StatusOr<PolicySpec> spec = PolicyOf(given.policy, options->rules);
  if (!spec.ok()) return spec.status();
  if (const absl::Status status = options->Validate(); !status.ok()) return status;
  window.range = options->range;
  window.on_event = given.on_event;
  window.event_context = given.event_context;
  if (given.on_event != nullptr) {
    options->on_event = &Tell;
    options->event_context = &window;
  }
  if (given.journal != nullptr) {
    const std::span memory(static_cast<std::byte*>(given.journal), given.journal_bytes);
    window.journal_left = given.flags & DAXCACHE_JOURNAL_LEFT;
    absl::StatusOr<Journal> journal = window.journal_left ? Journal::Open(memory, GeometryOf(*options))
                                                          : Journal::Create(memory, GeometryOf(*options));
    if (!journal.ok()) return absl::InvalidArgumentError(absl::StrCat("journal: ", journal.status().message()));
    options->journal = &window.journal.emplace(*std::move(journal));
  }
  auto allocator = MakeAllocator(given, *options, {.spec = *std::move(spec)});
  if (allocator.ok()) window.allocator = *std::move(allocator);
  return allocator.status();
}

}  // namespace
}  // namespace daxcache

struct daxcache_fuse {
  daxcache_fuse(daxcache_window& window, const daxcache_fuse_options& options)
      : callbacks(options),
        adapter(*window.allocator, callbacks, {.read_only = options.read_only != 0, .locks = &window.locks}) {}

  daxcache::FuseCallbacks callbacks;
  daxcache::FuseAdapter<daxcache::AnyAllocator, daxcache::FuseCallbacks> adapter;
};

extern "C" {

const char* daxcache_version(void) {
  return DAXCACHE_VERSION;
}

int daxcache_identify(int fd, daxcache_identity* identity, std::int64_t* size) {
  if (identity == nullptr) return -EINVAL;
  struct stat status;
  if (fstat(fd, &status) != 0) return -errno;
  *identity = {{static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino), 0}};
  if (size != nullptr) *size = status.st_size;
  return 0;
}

int daxcache_file_number(daxcache_window* window, const daxcache_identity* identity, std::uint32_t* file) {
  return daxcache::Guarded([&] {
    if (identity == nullptr || file == nullptr) return -EINVAL;
    const daxcache::FileId number = window->allocator->files().Intern(daxcache::IdentityOf(*identity));
    if (number == daxcache::kNoFile) return -ENFILE;
    *file = daxcache::ToIndex(number);
    return 0;
  });
}

int daxcache_create(const daxcache_options* options, daxcache_window** window, char* why, std::size_t why_bytes) {
  if (window == nullptr) return -EINVAL;
  *window = nullptr;
  const auto explain = [&](absl::string_view message) {
    if (why != nullptr && why_bytes > 0) why[message.copy(why, why_bytes - 1)] = '\0';
  };
  explain("");
  return daxcache::Guarded([&] {
    daxcache_options given;
    daxcache_options_init(&given);
    if (const int error = daxcache::Take(options, given); error != 0) {
      explain(error == -E2BIG ? "options that this version of the library does not have"
                              : "expected options that daxcache_options_init has begun");
      return error;
    }
    auto made = std::make_unique<daxcache_window>();
    const absl::Status status = daxcache::Make(given, *made);
    explain(status.message());
    if (status.ok()) *window = made.release();
    return daxcache::ErrnoOf(status);
  });
}

void daxcache_destroy(daxcache_window* window) {
  delete window;
}

void* daxcache_address(const daxcache_window* window) {
  return window->allocator->address();
}

std::size_t daxcache_journal_bytes(const daxcache_options* options) {
  daxcache_options given;
  daxcache_options_init(&given);
  if (daxcache::Take(options, given) != 0) return 0;
  std::size_t bytes = 0;
  (void)daxcache::Guarded([&] {
    const absl::StatusOr<daxcache::AllocatorOptions> read = daxcache::AllocatorOptionsOf(given);
    if (read.ok() && read->Validate().ok()) bytes = daxcache::Journal::Bytes(daxcache::GeometryOf(*read));
    return 0;
  });
  return bytes;
}

int daxcache_recover(daxcache_window* window, int host_keeps, daxcache_open_file open_file, void* context) {
  return daxcache::Guarded([&] {
    if (open_file == nullptr || !window->journal_left) return -EINVAL;
    return daxcache::RecoveryErrno(
        window->allocator->Recover(*window->journal, host_keeps != 0, daxcache::OpenerOf(open_file, context)));
  });
}

ssize_t daxcache_save(const daxcache_window* window, void* buffer, std::size_t bytes) {
  return daxcache::Guarded([&]() -> ssize_t {
    if (buffer == nullptr && bytes > 0) return -EINVAL;
    const std::vector<std::byte> saved = window->allocator->Save();
    if (buffer != nullptr && saved.size() <= bytes) std::memcpy(buffer, saved.data(), saved.size());
    return static_cast<ssize_t>(saved.size());
  });
}

int daxcache_restore(daxcache_window* window, const void* saved, std::size_t bytes, daxcache_open_file open_file,
                     void* context) {
  return daxcache::Guarded([&] {
    if (saved == nullptr || open_file == nullptr) return -EINVAL;
    return daxcache::RecoveryErrno(window->allocator->Restore(std::span(static_cast<const std::byte*>(saved), bytes),
                                                              daxcache::OpenerOf(open_file, context)));
  });
}

ssize_t daxcache_dump(const daxcache_window* window, std::uint32_t format, const char* labels, char* buffer,
                      std::size_t bytes) {
  return daxcache::Guarded([&]() -> ssize_t {
    if (format > DAXCACHE_PROMETHEUS || (buffer == nullptr && bytes > 0)) return -EINVAL;
    const std::string text = window->allocator->Dump(format, labels == nullptr ? "" : labels);
    if (bytes > 0) buffer[text.copy(buffer, bytes - 1)] = '\0';
    return static_cast<ssize_t>(text.size());
  });
}

int daxcache_setup(daxcache_window* window, const daxcache_setup_request* request) {
  return daxcache::Guarded([&] {
    daxcache_setup_request given;
    daxcache_setup_request_init(&given);
    if (const int error = daxcache::Take(request, given); error != 0) return error;
    if (given.access & ~daxcache::kAccess) return -EINVAL;
    const daxcache::FileIdentity identity = daxcache::IdentityOf(given.identity);
    const auto lock = window->locks.Use(identity);
    const daxcache::FileId file = window->allocator->files().Intern(identity);
    if (file == daxcache::kNoFile) return -ENFILE;
    return window->allocator->SetUp({.file = file,
                                     .fd = given.fd,
                                     .file_offset = given.file_offset,
                                     .length = given.length,
                                     .window_offset = given.window_offset,
                                     .writable = (given.access & DAXCACHE_WRITE) != 0,
                                     .file_size = given.file_size,
                                     .time_ns = given.time_ns});
  });
}

int daxcache_remove(daxcache_window* window, const daxcache_extent* extents, std::size_t count) {
  return daxcache::Guarded([&] {
    if (extents == nullptr && count > 0) return -EINVAL;
    constexpr std::size_t kBatch = 256;
    daxcache::Extent batch[kBatch];
    int first_error = 0;
    while (count > 0) {
      const std::size_t size = std::min(count, kBatch);
      for (std::size_t i = 0; i < size; ++i) batch[i] = {extents[i].offset, extents[i].length};
      const int error = window->allocator->Remove(std::span<const daxcache::Extent>(batch, size));
      if (first_error == 0) first_error = error;
      extents += size;
      count -= size;
    }
    return first_error;
  });
}

int daxcache_remove_all(daxcache_window* window) {
  return daxcache::Guarded([&] { return window->allocator->RemoveAll(); });
}

int daxcache_evict(daxcache_window* window, const daxcache_identity* identity) {
  return daxcache::Guarded([&] {
    if (identity == nullptr) return -EINVAL;
    return daxcache::EvictFile(*window->allocator, window->locks, daxcache::IdentityOf(*identity));
  });
}

int daxcache_map(daxcache_window* window, const daxcache_map_request* request, daxcache_pin* pin) {
  return daxcache::Guarded([&] {
    daxcache_map_request given;
    daxcache_map_request_init(&given);
    if (const int error = daxcache::Take(request, given); error != 0) return error;
    if (pin == nullptr || (given.access & ~daxcache::kAccess)) return -EINVAL;
    daxcache::Pinned pinned;
    const int error =
        window->allocator->Map({.file = daxcache::FileId{given.file},
                                .fd = given.fd,
                                .file_offset = given.file_offset,
                                .op = given.access & DAXCACHE_WRITE ? daxcache::Op::kWrite : daxcache::Op::kRead,
                                .file_size = given.file_size,
                                .time_ns = given.time_ns},
                               &pinned);
    if (error == 0) *pin = daxcache::PinOf(pinned);
    return error;
  });
}

void daxcache_unpin(daxcache_window* window, const daxcache_pin* pin) {
  (void)daxcache::Guarded([&] {
    window->allocator->Unpin(
        {.slot = daxcache::SlotId{pin->slot}, .window_offset = pin->window_offset, .address = pin->address});
    return 0;
  });
}

int daxcache_reader_create(daxcache_window* window, daxcache_reader** reader) {
  if (reader == nullptr) return -EINVAL;
  *reader = nullptr;
  return daxcache::Guarded([&] {
    auto made = std::make_unique<daxcache_reader>();
    made->reader = window->allocator->MakeReader();
    if (made->reader == nullptr) return -EAGAIN;
    made->range = window->range;
    *reader = made.release();
    return 0;
  });
}

void daxcache_reader_destroy(daxcache_reader* reader) {
  delete reader;
}

int daxcache_reader_pin(daxcache_reader* reader, std::uint32_t file, std::uint64_t file_offset, std::uint32_t access,
                        std::int64_t time_ns, daxcache_pin* pin) {
  return daxcache::Guarded([&] {
    if (pin == nullptr || (access & ~daxcache::kAccess)) return -EINVAL;
    const daxcache::Touch touch{.file = daxcache::FileId{file},
                                .op = access & DAXCACHE_WRITE ? daxcache::Op::kWrite : daxcache::Op::kRead,
                                .time_ns = time_ns};
    daxcache::Pinned pinned;
    if (!reader->reader->Pin({touch.file, file_offset >> reader->range.shift()}, touch, &pinned)) return 0;
    *pin = daxcache::PinOf(pinned);
    return 1;
  });
}

int daxcache_size_changed(daxcache_window* window, const daxcache_identity* identity, std::uint64_t file_size, int fd) {
  return daxcache::Guarded([&] {
    if (identity == nullptr) return -EINVAL;
    const daxcache::FileIdentity known = daxcache::IdentityOf(*identity);
    const auto lock = window->locks.Use(known);
    const daxcache::FileId file = window->allocator->files().Find(known);
    return file == daxcache::kNoFile ? 0 : window->allocator->OnSizeChanged(file, file_size, fd);
  });
}

int daxcache_repair_fault(daxcache_window* window, void* address) {
  return window->allocator->RepairFault(address);
}

int daxcache_grow(daxcache_window* window, std::uint32_t ranges) {
  return daxcache::Guarded([&] { return window->allocator->Grow(ranges).ok() ? 0 : -EINVAL; });
}

int daxcache_shrink(daxcache_window* window, std::uint32_t ranges) {
  return daxcache::Guarded([&] { return window->allocator->Shrink(ranges).ok() ? 0 : -EINVAL; });
}

int daxcache_tick(daxcache_window* window, std::int64_t now_ns) {
  return daxcache::Guarded([&] { return window->allocator->Tick(now_ns) ? 1 : 0; });
}

int daxcache_uses_dax(daxcache_window* window, const daxcache_identity* identity, const char* path,
                      std::uint64_t file_size) {
  return daxcache::Guarded([&] {
    if (identity == nullptr || path == nullptr) return -EINVAL;
    const daxcache::FileIdentity known = daxcache::IdentityOf(*identity);
    const auto lock = window->locks.Use(known);
    const daxcache::FileId file = window->allocator->files().Intern(known);
    if (file == daxcache::kNoFile) return -ENFILE;
    return window->allocator->UsesDax(file, path, file_size) ? 1 : 0;
  });
}

int daxcache_fuse_create(daxcache_window* window, const daxcache_fuse_options* options, daxcache_fuse** fuse) {
  if (fuse == nullptr) return -EINVAL;
  *fuse = nullptr;
  return daxcache::Guarded([&] {
    daxcache_fuse_options given;
    daxcache_fuse_options_init(&given);
    if (const int error = daxcache::Take(options, given); error != 0) return error;
    if (given.resolve == nullptr) return -EINVAL;
    *fuse = new daxcache_fuse(*window, given);
    return 0;
  });
}

void daxcache_fuse_destroy(daxcache_fuse* fuse) {
  delete fuse;
}

int daxcache_fuse_handles(std::uint32_t opcode) {
  return decltype(daxcache_fuse::adapter)::Handles(opcode);
}

ssize_t daxcache_fuse_handle(daxcache_fuse* fuse, const struct iovec* request, std::size_t pieces, void* reply,
                             std::size_t reply_bytes, std::int64_t time_ns) {
  return daxcache::Guarded([&]() -> ssize_t {
    if ((request == nullptr && pieces > 0) || (reply == nullptr && reply_bytes > 0)) return -EINVAL;
    return fuse->adapter.Handle(std::span(request, pieces), std::span(static_cast<std::byte*>(reply), reply_bytes),
                                time_ns);
  });
}

int daxcache_fuse_negotiate(const daxcache_window* window, const void* request, std::size_t request_bytes, void* reply,
                            std::size_t reply_bytes, int per_file) {
  if (request == nullptr || reply == nullptr) return -EINVAL;
  return daxcache::NegotiateDax(std::span(static_cast<const std::byte*>(request), request_bytes),
                                {.range = window->range, .per_file_dax = per_file != 0},
                                std::span(static_cast<std::byte*>(reply), reply_bytes));
}

int daxcache_fuse_set_dax(std::uint32_t opcode, void* reply, std::size_t reply_bytes, int dax) {
  if (reply == nullptr) return -EINVAL;
  return daxcache::SetDaxAttr(static_cast<daxcache::FuseOpcode>(opcode),
                              std::span(static_cast<std::byte*>(reply), reply_bytes), dax != 0);
}

int daxcache_get_statistics(const daxcache_window* window, daxcache_statistics* statistics) {
  return daxcache::Guarded([&] {
    if (statistics == nullptr || statistics->size < sizeof(std::size_t)) return -EINVAL;
    const daxcache::AllocatorStatistics counted = window->allocator->statistics();
    daxcache_statistics all;
    daxcache_statistics_init(&all);
    all.size = statistics->size;
    all.setups = counted.setups;
    all.upgrades = counted.upgrades;
    all.removes = counted.removes;
    all.map_calls = counted.map_calls;
    all.unmap_calls = counted.unmap_calls;
    all.failed_calls = counted.failed_calls;
    all.found_kept = counted.found_kept;
    all.refused = counted.refused;
    all.repairs = counted.repairs;
    all.evictions = counted.evictions;
    all.mapped = counted.mapped;
    all.kept = counted.kept;
    all.extents = counted.extents;
    all.vmas = counted.vmas;
    std::memcpy(statistics, &all, std::min(statistics->size, sizeof all));
    return 0;
  });
}

}  // extern "C"
