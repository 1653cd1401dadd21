// The mapping allocator for programs that are not C++: a C11 interface, in libdaxcache.so and libdaxcache.a. One
// `daxcache_window` is the DAX window of one virtiofs share: what is mapped where in it, under which policy, and who
// maps.
//
//   daxcache_options options;
//   daxcache_options_init(&options);
//   options.window_bytes = UINT64_C(8) << 30;
//   options.policy = "lru";
//   daxcache_window* window = NULL;
//   char why[256];
//   int error = daxcache_create(&options, &window, why, sizeof why);     // 0 or a negative errno, and the reason
//   …
//   daxcache_destroy(window);                                            // unmaps everything
//
// A daemon that has FUSE requests as bytes gives them to a `daxcache_fuse`; one that has them decoded calls
// `daxcache_setup` and `daxcache_remove`. A program that chooses the places itself calls neither, but `daxcache_map`.
//
// Functions that return int return 0, or a negative errno; which, docs/embedding.md lists. None exits, prints, or
// throws. All may be called from any thread at once, but for `_destroy`. Pointers are borrowed for the call unless said
// otherwise.
//
// Structs begin with their size, which their `_init` fills in; all else it sets to what is usual, which is 0 unless
// said otherwise. So a program that was compiled for an older version keeps working with a newer library, and one for a
// newer version with an older library as long as it asks for nothing that is newer (E2BIG).
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): it is C.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// NOLINTEND(modernize-deprecated-headers)
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DAXCACHE_API __attribute__((visibility("default")))
#define DAXCACHE_CHECK __attribute__((warn_unused_result))
#else
#define DAXCACHE_API
#define DAXCACHE_CHECK
#endif

typedef struct daxcache_window daxcache_window;
typedef struct daxcache_fuse daxcache_fuse;
typedef struct daxcache_reader daxcache_reader;

// Of the library, not of this header: "MAJOR.MINOR.PATCH".
DAXCACHE_API const char* daxcache_version(void);

// --- files and places ------------------------------------------------------------------------------------------------

// Which file: device, inode and generation, or any token of the caller's that is the same for the same file, and
// another for any other.
typedef struct daxcache_identity {
  uint64_t word[3];
} daxcache_identity;

// Bytes of the window.
typedef struct daxcache_extent {
  uint64_t offset;
  uint64_t length;  // in daxcache_remove, UINT64_MAX: to the window's end
} daxcache_extent;

// The number that the window knows a file by, for the functions that want one: the same until the file is evicted, and
// then perhaps another file's. ENFILE: there are no more numbers.
DAXCACHE_API DAXCACHE_CHECK int daxcache_file_number(daxcache_window* window, const daxcache_identity* identity,
                                                     uint32_t* file);

// The identity (device and inode) and size of an open file, by fstat(2). Unique among files that are mapped, since a
// file that is mapped keeps its inode. `size` may be NULL.
DAXCACHE_API DAXCACHE_CHECK int daxcache_identify(int fd, daxcache_identity* identity, int64_t* size);

// --- the window ------------------------------------------------------------------------------------------------------

enum daxcache_backend {
  DAXCACHE_BACKEND_MMAP = 0,       // in this process: `address`, or reserved by the library
  DAXCACHE_BACKEND_SHMEM = 1,      // vhost-user SHMEM_MAP and SHMEM_UNMAP messages, sent by `shmem_send`
  DAXCACHE_BACKEND_CALLBACKS = 2,  // `map` and `unmap`
};

enum daxcache_flags {
  DAXCACHE_LAZY_UNMAP = 1 << 0,               // a removed range stays mapped until replaced, see max_kept and idle_ns
  DAXCACHE_MAP_COUNT_WARN_ONLY = 1 << 1,      // a window that can exceed the map count is not refused
  DAXCACHE_ONE_DESCRIPTOR_PER_FILE = 1 << 2,  // so that neighbouring ranges of a file are one VMA
  DAXCACHE_CLAMP = 1 << 3,                    // this daemon is the only writer of its files; needs an address
  DAXCACHE_PREFAULT = 1 << 4,                 // fill page tables at set-up
  DAXCACHE_MAPS_OVER = 1 << 5,                // CALLBACKS: `map` over what is mapped replaces it in one step, and
                                              // `unmap` takes any extents
  DAXCACHE_JOURNAL_LEFT = 1 << 6,             // `journal` is what an earlier process left: daxcache_recover
};

enum daxcache_event_kind {
  DAXCACHE_EVENT_HIT = 0,
  DAXCACHE_EVENT_MISS = 1,
  DAXCACHE_EVENT_BYPASS = 2,   // a miss that the policy did not admit
  DAXCACHE_EVENT_SETUP = 3,    // of a free place
  DAXCACHE_EVENT_UPGRADE = 4,  // from read-only to writable
  DAXCACHE_EVENT_REMOVE = 5,
  DAXCACHE_EVENT_RECLAIM = 6,  // for another range, or because the file or the place went away
};

typedef struct daxcache_event {
  uint32_t kind;   // enum daxcache_event_kind
  uint32_t write;  // not 0: of the access, or of the mapping
  uint32_t slot;   // window offset / range; UINT32_MAX for a miss and a bypass
  uint32_t file;   // its number
  uint64_t index;  // file offset / range
} daxcache_event;

typedef struct daxcache_options {
  size_t size;                // of this struct
  uint64_t flags;             // enum daxcache_flags
  uint64_t window_bytes;      // what the guest sees; a multiple of a page
  uint64_t max_window_bytes;  // 0: as window_bytes
  uint64_t range_bytes;       // 0: 2 MiB, as Linux has it
  uint64_t seed;              // of hashes: a random number where a guest may choose files and ranges
  // A spec, such as "lru"; NULL: "linux". With "per-file:base=lru,min=32K" the policy is the base, and the rest says
  // for which files daxcache_uses_dax answers yes.
  const char* policy;
  uint64_t map_budget;  // VMAs for this window; 0: vm.max_map_count less what the process has mapped
  uint64_t max_kept;    // DAXCACHE_LAZY_UNMAP: ranges kept at most; 0: any number
  int64_t idle_ns;      // … and for how long, at a daxcache_tick; 0: for ever

  uint32_t backend;  // enum daxcache_backend
  // MMAP: where the window is, max_window_bytes long, reserved by the caller; NULL: the library reserves it.
  void* address;
  // The context of the functions below. They are called by many threads at once, for places that do not overlap, and
  // return 0 or a negative errno.
  void* context;
  // SHMEM: sends the bytes, and with them the descriptor if it is not -1, and waits for the answer.
  int (*shmem_send)(void* context, const void* message, size_t bytes, int fd);
  uint8_t shmem_id;
  // CALLBACKS. After an error of `map`, what was mapped there is still there. `unmap` tries every extent, and returns
  // the first error.
  int (*map)(void* context, const daxcache_extent* window, int fd, uint64_t file_offset, int writable);
  int (*unmap)(void* context, const daxcache_extent* extents, size_t count);

  uint32_t max_readers;  // at once; 0: 64
  // Memory that outlives the process (a shared file or a memfd that somebody else holds), aligned to 64 bytes, of
  // daxcache_journal_bytes: every change is noted there before and after it is made. NULL: no journal. Kept until the
  // window's end.
  void* journal;
  size_t journal_bytes;
  // Told of every event, one after another, under a lock: it may not call the library.
  void (*on_event)(void* event_context, const daxcache_event* event);
  void* event_context;
} daxcache_options;

static inline void daxcache_options_init(daxcache_options* options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

// Makes a window. On an error `*window` is NULL and `why`, if it is not NULL, says what was expected, cut to why_bytes.
// EINVAL: the options; ENOSPC: the window's ranges can exceed the map count; ENOMEM: no memory, or no addresses.
DAXCACHE_API DAXCACHE_CHECK int daxcache_create(const daxcache_options* options, daxcache_window** window, char* why,
                                                size_t why_bytes);

// Unmaps everything. Nobody calls it any more, and its `daxcache_fuse`s are gone. NULL is none.
DAXCACHE_API void daxcache_destroy(daxcache_window* window);

// Where the window begins in this address space; NULL if it is elsewhere.
DAXCACHE_API void* daxcache_address(const daxcache_window* window);

// --- life and death --------------------------------------------------------------------------------------------------

// How large a journal of a window of such options is; 0 if the options are none.
DAXCACHE_API size_t daxcache_journal_bytes(const daxcache_options* options);

// Opens a file again for recovery: a descriptor, which the library closes if *close_it is not 0, or a negative errno.
typedef int (*daxcache_open_file)(void* context, const daxcache_identity* identity, int writable, int* close_it);

// Goes on from the journal that an earlier process left (DAXCACHE_JOURNAL_LEFT), before anything else. If the host
// keeps its mappings (a VMM that lives on while its daemon is new), what was decided is taken over without a call; else
// all is mapped anew. The request that was never answered is the caller's to send again. EBADMSG: another window's
// journal; EBUSY: something is mapped already; EIO: some mappings could not be made again, all others were.
DAXCACHE_API DAXCACHE_CHECK int daxcache_recover(daxcache_window* window, int host_keeps, daxcache_open_file open_file,
                                                 void* context);

// Writes what is mapped into `buffer`, for daxcache_restore in another process. Returns the bytes that it takes; if
// that is more than `bytes`, nothing was written.
DAXCACHE_API ssize_t daxcache_save(const daxcache_window* window, void* buffer, size_t bytes);

// Maps all that was saved, in a window that has mapped nothing yet. All or nothing. EBADMSG: torn, or of another
// window; EBUSY, EIO: as above.
DAXCACHE_API DAXCACHE_CHECK int daxcache_restore(daxcache_window* window, const void* saved, size_t bytes,
                                                 daxcache_open_file open_file, void* context);

// --- the guest chooses the place -------------------------------------------------------------------------------------

enum daxcache_access {
  DAXCACHE_WRITE = 1,  // as FUSE_SETUPMAPPING has it
  DAXCACHE_READ = 2,
};

typedef struct daxcache_setup_request {
  size_t size;  // of this struct
  daxcache_identity identity;
  int fd;  // open for what `access` says; not closed
  uint32_t access;
  uint64_t file_offset;
  uint64_t length;
  uint64_t window_offset;
  int64_t file_size;  // bytes; -1: not known
  int64_t time_ns;    // of the caller's clock; 0: none
} daxcache_setup_request;

static inline void daxcache_setup_request_init(daxcache_setup_request* request) {
  memset(request, 0, sizeof *request);
  request->size = sizeof *request;
  request->fd = -1;
  request->file_size = -1;
}

// FUSE_SETUPMAPPING. What the place holds is replaced in one step; after an error it is still there.
DAXCACHE_API DAXCACHE_CHECK int daxcache_setup(daxcache_window* window, const daxcache_setup_request* request);

// FUSE_REMOVEMAPPING: tries every extent, and returns the first error. What is not mapped is no error.
DAXCACHE_API DAXCACHE_CHECK int daxcache_remove(daxcache_window* window, const daxcache_extent* extents, size_t count);

// FUSE_DESTROY, or a reset of the device.
DAXCACHE_API int daxcache_remove_all(daxcache_window* window);

// The file went away: its last FORGET, or its last name. What is pinned goes with the last daxcache_unpin. A file that
// never was mapped is none.
DAXCACHE_API int daxcache_evict(daxcache_window* window, const daxcache_identity* identity);

// --- the library chooses the place -----------------------------------------------------------------------------------

typedef struct daxcache_map_request {
  size_t size;           // of this struct
  uint32_t file;         // its number
  int fd;                // open for what `access` says; not closed
  uint64_t file_offset;  // of the access: its range is mapped whole
  uint32_t access;       // enum daxcache_access
  int64_t file_size;     // bytes; -1: not known
  int64_t time_ns;
} daxcache_map_request;

static inline void daxcache_map_request_init(daxcache_map_request* request) {
  memset(request, 0, sizeof *request);
  request->size = sizeof *request;
  request->fd = -1;
  request->file_size = -1;
}

// A range that stays where it is until it is unpinned.
typedef struct daxcache_pin {
  uint32_t slot;
  uint32_t reserved;
  uint64_t window_offset;  // of the range
  void* address;           // … in this address space, or NULL if the window is elsewhere
} daxcache_pin;

// Finds the range or maps it, in a free place or in that of the policy's victim, and pins it. EOPNOTSUPP: the policy
// does not admit it, access the file without the window; EBUSY: everything is pinned.
DAXCACHE_API DAXCACHE_CHECK int daxcache_map(daxcache_window* window, const daxcache_map_request* request,
                                             daxcache_pin* pin);
DAXCACHE_API void daxcache_unpin(daxcache_window* window, const daxcache_pin* pin);

// What a thread looks at the window with: it pins what is mapped already, without a lock. Its calls come one at a time.
// EAGAIN: there are max_readers.
DAXCACHE_API DAXCACHE_CHECK int daxcache_reader_create(daxcache_window* window, daxcache_reader** reader);
// Before the window's own end. NULL is none.
DAXCACHE_API void daxcache_reader_destroy(daxcache_reader* reader);

// 1: pinned, and writable if `access` says so; 0: it is not mapped, or not so: daxcache_map; or a negative errno.
DAXCACHE_API DAXCACHE_CHECK int daxcache_reader_pin(daxcache_reader* reader, uint32_t file, uint64_t file_offset,
                                                    uint32_t access, int64_t time_ns, daxcache_pin* pin);

// --- the ends of files -----------------------------------------------------------------------------------------------

// The file has `file_size` bytes now. Where it grew, ranges that had been given zero pages past the old end show the
// file again: mapped from `fd`, or if that is -1 from what is still mapped of them.
DAXCACHE_API int daxcache_size_changed(daxcache_window* window, const daxcache_identity* identity, uint64_t file_size,
                                       int fd);

// To be called where an access to the window faulted: from a handler of SIGBUS, or after KVM_RUN's EFAULT. Past the end
// of a file zero pages are put there: 0, try the access again. EFAULT: nothing is mapped there, or it is not in this
// address space; EIO: something else is wrong. Async-signal-safe.
DAXCACHE_API DAXCACHE_CHECK int daxcache_repair_fault(daxcache_window* window, void* address);

// --- the window's size and upkeep ------------------------------------------------------------------------------------

// By so many ranges, up to max_window_bytes. EINVAL: too many.
DAXCACHE_API DAXCACHE_CHECK int daxcache_grow(daxcache_window* window, uint32_t ranges);
DAXCACHE_API DAXCACHE_CHECK int daxcache_shrink(daxcache_window* window, uint32_t ranges);

// To be called now and then: unmaps what was kept for too long, and tries again what could not be unmapped. 1: there is
// more to do; 0: there is not.
DAXCACHE_API int daxcache_tick(daxcache_window* window, int64_t now_ns);

// --- which files use the window --------------------------------------------------------------------------------------

// Whether FUSE_ATTR_DAX is set in a file's attributes: 1, 0, or a negative errno. Asked at LOOKUP and GETATTR, and the
// same answer until the file is evicted.
DAXCACHE_API DAXCACHE_CHECK int daxcache_uses_dax(daxcache_window* window, const daxcache_identity* identity,
                                                  const char* path, uint64_t file_size);

// --- FUSE messages ---------------------------------------------------------------------------------------------------

// What the daemon knows of an inode that is to be mapped.
typedef struct daxcache_resolved {
  int fd;             // open for reading, and for writing if that was asked for and is allowed
  int owned;          // not 0: the library closes it, also if there is an error
  int may_write;      // not 0: the file may be written (else a mapping for writing is EACCES)
  int64_t file_size;  // bytes; -1: not known
  daxcache_identity identity;
} daxcache_resolved;

typedef struct daxcache_fuse_options {
  size_t size;    // of this struct
  int read_only;  // not 0: the share is; a mapping for writing is EROFS
  void* context;  // of the functions below, which are called by the threads that call daxcache_fuse_handle
  // 0, or a negative errno, which is the answer then. `resolved` is filled with: no descriptor, size not known.
  int (*resolve)(void* context, uint64_t nodeid, int writable, daxcache_resolved* resolved);
  // The guest dropped so many references. The daemon counts, and calls daxcache_evict when there are none.
  void (*forget)(void* context, uint64_t nodeid, uint64_t count);
} daxcache_fuse_options;

static inline void daxcache_fuse_options_init(daxcache_fuse_options* options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

// Several may stand before one window.
DAXCACHE_API DAXCACHE_CHECK int daxcache_fuse_create(daxcache_window* window, const daxcache_fuse_options* options,
                                                     daxcache_fuse** fuse);
DAXCACHE_API void daxcache_fuse_destroy(daxcache_fuse* fuse);

// Not 0 for the opcodes that daxcache_fuse_handle carries out: SETUPMAPPING, REMOVEMAPPING, FORGET, BATCH_FORGET and
// DESTROY. The others are for the rest of the daemon; so is DESTROY, too.
DAXCACHE_API int daxcache_fuse_handles(uint32_t opcode);

// Room that a reply needs.
#define DAXCACHE_FUSE_REPLY_BYTES 16

// Carries out one request, which may lie in several pieces. Any bytes are safe, also if the guest changes them
// meanwhile. Returns the bytes of the reply; 0 for a message that has none; or a negative errno if nothing was done and
// nothing can be answered (EINVAL: no header, or a malformed FORGET; EMSGSIZE: no room for the reply).
DAXCACHE_API ssize_t daxcache_fuse_handle(daxcache_fuse* fuse, const struct iovec* request, size_t pieces, void* reply,
                                          size_t reply_bytes, int64_t time_ns);

// Enters into the daemon's own reply to INIT what the window needs: FUSE_MAP_ALIGNMENT and, if `per_file` is not 0,
// FUSE_HAS_INODE_DAX, where the guest offered them. `request` and `reply` are whole messages. EINVAL: they are not;
// EMSGSIZE: the short reply of an old protocol.
DAXCACHE_API DAXCACHE_CHECK int daxcache_fuse_negotiate(const daxcache_window* window, const void* request,
                                                        size_t request_bytes, void* reply, size_t reply_bytes,
                                                        int per_file);

// Sets or clears FUSE_ATTR_DAX in the daemon's own reply to LOOKUP, GETATTR, SETATTR, CREATE, MKNOD, MKDIR, SYMLINK or
// LINK. EINVAL: another opcode, or a reply that is too short.
DAXCACHE_API DAXCACHE_CHECK int daxcache_fuse_set_dax(uint32_t opcode, void* reply, size_t reply_bytes, int dax);

// --- what there is ---------------------------------------------------------------------------------------------------

// What has happened since the window was made, and what there is now.
typedef struct daxcache_statistics {
  size_t size;           // of this struct
  uint64_t setups;       // set-ups of free places
  uint64_t upgrades;     // … from read-only to writable
  uint64_t removes;      // ranges that the guest removed
  uint64_t map_calls;    // of the backend
  uint64_t unmap_calls;  // … one a range
  uint64_t failed_calls;
  uint64_t found_kept;  // set-ups that found their range still mapped
  uint64_t refused;     // set-ups, for the map count
  uint64_t repairs;     // faults past the end of a file
  uint64_t evictions;   // of files
  uint64_t mapped;      // ranges, now
  uint64_t kept;        // … that the guest has removed
  uint64_t extents;     // mappings that are no whole ranges
  uint64_t vmas;        // of this window, at most
} daxcache_statistics;

static inline void daxcache_statistics_init(daxcache_statistics* statistics) {
  memset(statistics, 0, sizeof *statistics);
  statistics->size = sizeof *statistics;
}
DAXCACHE_API DAXCACHE_CHECK int daxcache_get_statistics(const daxcache_window* window, daxcache_statistics* statistics);

enum daxcache_format {
  DAXCACHE_TEXT = 0,
  DAXCACHE_JSON = 1,
  DAXCACHE_PROMETHEUS = 2,
};

// What there is as text, like snprintf: returns its length, and writes as much as there is room for, with a 0 behind
// it. `labels` go into each line's braces in Prometheus' format, as `share="root"`; NULL: none. EINVAL: no such format.
DAXCACHE_API ssize_t daxcache_dump(const daxcache_window* window, uint32_t format, const char* labels, char* buffer,
                                   size_t bytes);

#ifdef __cplusplus
}
#endif
