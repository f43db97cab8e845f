// Aligned, zeroed memory straight from the operating system.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "kime/base/error.h"

namespace kime {

/// A block of zero bytes, aligned to a page, owned and movable. Pages that are never touched cost no memory, so a block may be as
/// large as the largest bucket asks for.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  /// `bytes` zero bytes; 0 bytes make an empty block.
  /// Errors: `device` when the system refuses, with the number of bytes.
  static Result<Pages> make(std::size_t bytes);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<float> floats() const { return {reinterpret_cast<float*>(data_), size_ / sizeof(float)}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kime
