// Global memory as kernels see it: buffers that are registered, outside of which nothing may be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace kime::cuda::shim {

/// A piece of memory that kernels may read, and perhaps write.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writable = false;
};

/// Registers memory for as long as it lives, so that launches which begin meanwhile may touch it. Any thread. Pieces do not overlap.
class Registration {
 public:
  Registration(const void* memory, std::size_t bytes, bool writable);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::uintptr_t begin_;
};

/// What is registered now, by address.
[[nodiscard]] std::vector<Range> registered();

/// A registered array for tests, with sentinels on both sides so that a write that is not checked shows too. It begins `shift` elements
/// past a multiple of 256 bytes (as an allocation of CUDA's begins on one) and is filled with 0xFF: NaNs, and indices far outside.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size, std::size_t shift = 0, bool writable = true)
      : size_(size), storage_((size + shift) * sizeof(T) + 2 * kGuard + kAlign, std::byte{kSentinel}) {
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    data_ = reinterpret_cast<T*>((first + kAlign - 1) / kAlign * kAlign + shift * sizeof(T));
    std::memset(static_cast<void*>(data_), 0xFF, size * sizeof(T));
    registration_ = std::make_unique<Registration>(data_, size * sizeof(T), writable);
  }
  /// What kernels read only.
  explicit Buffer(std::span<const T> values, std::size_t shift = 0) : Buffer(values.size(), shift, false) {
    if (!values.empty()) {
      std::memcpy(static_cast<void*>(data_), values.data(), values.size() * sizeof(T));
    }
  }
  explicit Buffer(const std::vector<T>& values, std::size_t shift = 0) : Buffer(std::span<const T>(values), shift) {}

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<T> span() { return {data_, size_}; }
  [[nodiscard]] T& operator[](std::size_t i) { return data_[i]; }
  /// No sentinel has changed.
  [[nodiscard]] bool intact() const {
    const std::byte* begin = reinterpret_cast<const std::byte*>(data_);
    const std::byte* end = begin + size_ * sizeof(T);
    for (const std::byte& b : storage_) {
      if ((&b < begin || &b >= end) && b != std::byte{kSentinel}) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::size_t kAlign = 256;
  static constexpr unsigned char kSentinel = 0xA5;

  std::size_t size_;
  std::vector<std::byte> storage_;
  T* data_ = nullptr;
  std::unique_ptr<Registration> registration_;
};

}  // namespace kime::cuda::shim
