// See allocations.h.
#include "allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace daxcache::testing_ {
namespace {

thread_local Allocations made;

void* Allocate(std::size_t bytes) noexcept {
  ++made.count;
  made.bytes += bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* AllocateOrThrow(std::size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Allocations AllocationsSoFar() {
  return made;
}

}  // namespace daxcache::testing_

void* operator new(std::size_t bytes) {
  return daxcache::testing_::AllocateOrThrow(bytes);
}
void* operator new[](std::size_t bytes) {
  return daxcache::testing_::AllocateOrThrow(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return daxcache::testing_::Allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return daxcache::testing_::Allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
