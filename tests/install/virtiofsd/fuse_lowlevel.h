// As much of the C virtiofsd's low-level interface as an operation sees: to compile the integration where there is no
// virtiofsd.
#pragma once

#include <stdint.h>

typedef uint64_t fuse_ino_t;
struct fuse_req {
  int answered;
  int error;  // as replied: positive
};
typedef struct fuse_req* fuse_req_t;
struct fuse_removemapping_one {
  uint64_t moffset;
  uint64_t len;
};

static inline int fuse_reply_err(fuse_req_t req, int err) {
  ++req->answered;
  req->error = err;
  return 0;
}
