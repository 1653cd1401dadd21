// See daxcache_ops.h.
#include "daxcache_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// Tells what is to be mapped, and has it mapped. 0 or a negative errno.
static int set_up(const daxcache_ops* ops, int fd, uint64_t foffset, uint64_t len, uint64_t moffset, uint32_t access) {
  daxcache_setup_request request;
  daxcache_setup_request_init(&request);
  request.fd = fd;
  request.access = access;
  request.file_offset = foffset;
  request.length = len;
  request.window_offset = moffset;
  const int error = daxcache_identify(fd, &request.identity, &request.file_size);
  return error != 0 ? error : daxcache_setup(ops->window, &request);
}

void daxcache_ops_setupmapping(const daxcache_ops* ops, fuse_req_t req, fuse_ino_t ino, uint64_t foffset, uint64_t len,
                               uint64_t moffset, uint64_t flags, int fd) {
  const int writable = (flags & DAXCACHE_WRITE) != 0;
  int error = 0;
  if ((flags & ~(uint64_t)(DAXCACHE_READ | DAXCACHE_WRITE)) != 0) {
    error = -EINVAL;
  } else if (writable && ops->read_only) {
    error = -EROFS;
  } else if (fd >= 0) {
    error = set_up(ops, fd, foffset, len, moffset, (uint32_t)flags);
  } else {
    const int opened = ops->open_inode(req, ino, writable ? O_RDWR : O_RDONLY);
    if (opened < 0) {
      error = opened;
    } else {
      error = set_up(ops, opened, foffset, len, moffset, (uint32_t)flags);
      close(opened);
    }
  }
  fuse_reply_err(req, -error);  // which wants it positive
}

void daxcache_ops_removemapping(const daxcache_ops* ops, fuse_req_t req, unsigned num,
                                const struct fuse_removemapping_one* entries) {
  enum { kBatch = 256 };
  daxcache_extent batch[kBatch];
  int first_error = num == 0 ? -EINVAL : 0;
  while (num > 0) {
    const unsigned size = num < kBatch ? num : kBatch;
    for (unsigned i = 0; i < size; ++i) {
      batch[i].offset = entries[i].moffset;
      batch[i].length = entries[i].len;
    }
    const int error = daxcache_remove(ops->window, batch, size);
    if (first_error == 0) first_error = error;
    entries += size;
    num -= size;
  }
  fuse_reply_err(req, -first_error);
}
