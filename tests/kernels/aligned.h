// A zeroed float array on a 64-byte boundary, as packed weights and scratch want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kime::test {

class Aligned {
 public:
  explicit Aligned(std::size_t size, float fill = 0) : storage_(size + 15, fill), size_(size) {}

  [[nodiscard]] float* data() {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(storage_.data()) / sizeof(float) % 16;
    return storage_.data() + (16 - past) % 16;
  }
  [[nodiscard]] std::span<float> span() { return {data(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::vector<float> storage_;
  std::size_t size_ = 0;
};

}  // namespace kime::test
