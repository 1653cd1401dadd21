// The low-level operations `setupmapping` and `removemapping` of the C virtiofsd (the branch of it with DAX), over
// libdaxcache. Add daxcache_ops.c to the daemon's sources, link with -ldaxcache, and let the daemon's operations call
// these:
//
//   static void lo_setupmapping(fuse_req_t req, fuse_ino_t ino, uint64_t foffset, uint64_t len, uint64_t moffset,
//                               uint64_t flags, struct fuse_file_info *fi) {
//     daxcache_ops_setupmapping(&lo_data(req)->dax, req, ino, foffset, len, moffset, flags,
//                               fi ? lo_fi_fd(req, fi) : -1);
//   }
//
// What the daemon had there (an open, a message to the VMM, a close) moves into `open_inode` and into the window's
// `map` and `unmap`, which send one message and return its answer. In lo_destroy call daxcache_remove_all, and where an
// inode loses its last reference daxcache_evict.
#pragma once

#include <fuse_lowlevel.h>  // the daemon's own: its folder has to be on the include path
#include <stdint.h>

#include "daxcache/daxcache.h"

typedef struct daxcache_ops {
  daxcache_window* window;
  int read_only;  // not 0: the share is
  // Opens the inode with O_RDONLY or O_RDWR: a descriptor, which is closed when the mapping is made, or a negative
  // errno.
  int (*open_inode)(fuse_req_t req, fuse_ino_t ino, int open_flags);
} daxcache_ops;

// Both answer the request. `fd` is the open file's, or -1 (Linux names none); it is not closed.
void daxcache_ops_setupmapping(const daxcache_ops* ops, fuse_req_t req, fuse_ino_t ino, uint64_t foffset, uint64_t len,
                               uint64_t moffset, uint64_t flags, int fd);
void daxcache_ops_removemapping(const daxcache_ops* ops, fuse_req_t req, unsigned num,
                                const struct fuse_removemapping_one* entries);
