#include "tests/engine/counting.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#ifdef KIME_SANITIZED  // a sanitizer has its own allocator
#define KIME_COUNTS 0
#else
#define KIME_COUNTS 1
#endif

namespace kime::test {
namespace {
std::atomic<std::size_t> count{0};
}  // namespace

bool counts_allocations() {
  return KIME_COUNTS != 0;
}
std::size_t allocations() {
  return count;
}

}  // namespace kime::test

#if KIME_COUNTS

// glibc's own entry points under the names that programs use. operator new comes through malloc or aligned_alloc.
extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t number, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  ++kime::test::count;
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  ++kime::test::count;
  return __libc_calloc(number, size);
}
void* realloc(void* block, std::size_t size) noexcept {
  ++kime::test::count;
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  ++kime::test::count;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++kime::test::count;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  ++kime::test::count;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
  ++kime::test::count;
  // The raw call returns the address, or -1 with errno set: what mmap returns.
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}

}  // extern "C"

#endif
