// A program of somebody else's, in C: maps a file into a window through the installed header and library.
#include <daxcache/daxcache.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  daxcache_options options;
  daxcache_options_init(&options);
  options.window_bytes = 16 << 20;
  options.policy = "arc";
  daxcache_window* window = NULL;
  char why[256];
  if (daxcache_create(&options, &window, why, sizeof why) != 0) return fprintf(stderr, "%s\n", why), 1;

  const int self = open("/proc/self/exe", O_RDONLY);
  if (self < 0) return 1;
  daxcache_setup_request request;
  daxcache_setup_request_init(&request);
  request.fd = self;
  request.access = DAXCACHE_READ;
  request.length = 2 << 20;
  request.window_offset = 6 << 20;
  if (daxcache_identify(request.fd, &request.identity, &request.file_size) != 0) return 1;
  if (daxcache_setup(window, &request) != 0) return 1;
  close(self);  // the window keeps what it maps

  const int same = memcmp((const char*)daxcache_address(window) + (6 << 20), "\177ELF", 4) == 0;
  const daxcache_extent all = {0, UINT64_MAX};
  if (daxcache_remove(window, &all, 1) != 0) return 1;
  daxcache_destroy(window);
  printf("daxcache %s from C\n", daxcache_version());
  return same ? 0 : 1;
}
