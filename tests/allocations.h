// Counts what a test allocates: whatever links allocations.cc has every `new` of the program counted, by thread.
#pragma once

#include <cstddef>

namespace daxcache::testing_ {

struct Allocations {
  std::size_t count = 0;
  std::size_t bytes = 0;
};

// Of this thread, since it began.
Allocations AllocationsSoFar();

}  // namespace daxcache::testing_
