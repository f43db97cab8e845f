#include "kime/base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace kime {

Pages::~Pages() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

Result<Pages> Pages::make(std::size_t bytes) {
  Pages pages;
  if (bytes == 0) {
    return pages;
  }
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) {
    return Error(ErrorKind::device, fmt::format("no {} bytes of memory: {}", bytes, std::strerror(errno)));
  }
  pages.data_ = static_cast<std::byte*>(block);
  pages.size_ = bytes;
  return pages;
}

}  // namespace kime
