// A daemon's operations that call the integration: every request is answered once, with the errno that it is due.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daxcache_ops.h"

static int opened = -1;

static int open_inode(fuse_req_t req, fuse_ino_t ino, int open_flags) {
  (void)req;
  if (ino != 2) return -ENOENT;
  opened = open("/proc/self/exe", open_flags | O_CLOEXEC);
  return opened < 0 ? -errno : opened;
}

static int failures = 0;

static void expect(const struct fuse_req* req, int error, const char* what) {
  if (req->answered == 1 && req->error == error) return;
  fprintf(stderr, "%s: expected %d, answered %d times with %d\n", what, error, req->answered, req->error);
  ++failures;
}

int main(void) {
  enum { kRange = 2 << 20 };
  daxcache_options options;
  daxcache_options_init(&options);
  options.window_bytes = UINT64_C(1024) * kRange;
  daxcache_ops ops = {.open_inode = open_inode};
  char why[256];
  if (daxcache_create(&options, &ops.window, why, sizeof why) != 0) return fprintf(stderr, "%s\n", why), 1;

  struct fuse_req req = {0, 0};
  daxcache_ops_setupmapping(&ops, &req, 2, 0, kRange, kRange, DAXCACHE_READ, -1);
  expect(&req, 0, "set-up of an inode");
  if (fcntl(opened, F_GETFD) >= 0) ++failures;
  if (memcmp((const char*)daxcache_address(ops.window) + kRange, "\177ELF", 4) != 0) ++failures;

  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  req = (struct fuse_req){0, 0};
  daxcache_ops_setupmapping(&ops, &req, 2, 0, kRange, 0, 0, fd);
  expect(&req, 0, "set-up of an open file");
  if (fcntl(fd, F_GETFD) < 0) ++failures;
  close(fd);

  req = (struct fuse_req){0, 0};
  daxcache_ops_setupmapping(&ops, &req, 3, 0, kRange, 0, DAXCACHE_READ, -1);
  expect(&req, ENOENT, "no such inode");
  req = (struct fuse_req){0, 0};
  daxcache_ops_setupmapping(&ops, &req, 2, 0, kRange, UINT64_C(1024) * kRange, DAXCACHE_READ, -1);
  expect(&req, ERANGE, "past the end");
  req = (struct fuse_req){0, 0};
  daxcache_ops_setupmapping(&ops, &req, 2, 0, kRange, 0, UINT64_C(1) << 40, -1);
  expect(&req, EINVAL, "a flag that there is not");
  ops.read_only = 1;
  req = (struct fuse_req){0, 0};
  daxcache_ops_setupmapping(&ops, &req, 2, 0, kRange, 0, DAXCACHE_WRITE, -1);
  expect(&req, EROFS, "a write on a read-only share");

  struct fuse_removemapping_one entries[257];
  for (int i = 0; i < 257; ++i) entries[i] = (struct fuse_removemapping_one){(uint64_t)i * kRange, kRange};
  req = (struct fuse_req){0, 0};
  daxcache_ops_removemapping(&ops, &req, 257, entries);
  expect(&req, 0, "removal of 257");
  req = (struct fuse_req){0, 0};
  daxcache_ops_removemapping(&ops, &req, 0, entries);
  expect(&req, EINVAL, "removal of none");
  daxcache_statistics statistics;
  daxcache_statistics_init(&statistics);
  if (daxcache_get_statistics(ops.window, &statistics) != 0 || statistics.mapped != 0) ++failures;
  daxcache_destroy(ops.window);
  return failures;
}
