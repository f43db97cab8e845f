#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> count{0};
}  // namespace

std::size_t allocations() {
  return count;
}

void* operator new(std::size_t size) {
  ++count;
  if (void* block = std::malloc(size)) {
    return block;
  }
  throw std::bad_alloc();
}
// Replaced too, since a sanitizer's own would not match the delete below.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++count;
  return std::malloc(size);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
