// What tests of CUDA kernels share: matrices in registered memory that end where their last row ends, and runs under several orders of the
// warps.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/params.h"
#include "tests/support/reference.h"

namespace kime::test {

inline constexpr std::uint64_t kSeeds[] = {1, 2, 3};

/// The part of a result that rounding to T may cost, and the least that it may.
template <class T>
struct Rounding {
  static constexpr double unit = 0;
  static constexpr double least = 0;
  static constexpr const char* name = "f32";
};
template <>
struct Rounding<__half> {
  static constexpr double unit = 0x1p-11;
  static constexpr double least = 0x1p-25;
  static constexpr const char* name = "f16";
};
template <>
struct Rounding<__nv_bfloat16> {
  static constexpr double unit = 0x1p-8;
  static constexpr double least = 0;
  static constexpr const char* name = "bf16";
};

template <class F>
void each_type(F test) {
  test(float());
  test(__half());
  test(__nv_bfloat16());
}

template <class T>
[[nodiscard]] float rounded(float x) {
  return cuda::to_float(cuda::from_float(x, cuda::Type<T>()));
}

/// Rows of `width` elements, `ld` apart, with NaN between; nothing is there past the last one. Its address is `shift` elements past an
/// aligned one.
template <class T>
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t width, std::size_t gap = 0, std::size_t shift = 0)
      : rows_(rows), width_(width), ld_(width + gap), buffer_(rows == 0 ? 0 : (rows - 1) * ld_ + width, shift) {}

  /// Fills it, from a generator of floats.
  template <class F>
  Matrix& fill(F next) {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c < width_; ++c) {
        (*this)(r, c) = cuda::from_float(next(), cuda::Type<T>());
      }
    }
    return *this;
  }

  [[nodiscard]] T& operator()(std::size_t row, std::size_t column) { return buffer_[row * ld_ + column]; }
  [[nodiscard]] float at(std::size_t row, std::size_t column) { return cuda::to_float((*this)(row, column)); }
  [[nodiscard]] std::vector<float> row(std::size_t r) {
    std::vector<float> values;
    for (std::size_t c = 0; c < width_; ++c) {
      values.push_back(at(r, c));
    }
    return values;
  }
  [[nodiscard]] T* data() { return buffer_.data(); }
  [[nodiscard]] std::uint32_t ld() const { return static_cast<std::uint32_t>(ld_); }
  [[nodiscard]] std::uint32_t width() const { return static_cast<std::uint32_t>(width_); }
  [[nodiscard]] std::size_t rows() const { return rows_; }

  /// Nothing but the first `rows` rows was written: not between them, not behind them, not outside.
  [[nodiscard]] bool untouched_but(std::size_t rows) {
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      const bool inside = i / ld_ < rows && i % ld_ < width_;
      std::uint16_t words[sizeof(T) / 2];
      std::memcpy(words, &buffer_[i], sizeof(T));
      for (const std::uint16_t word : words) {
        if (!inside && word != 0xFFFFU) {
          return false;
        }
      }
    }
    return buffer_.intact();
  }
  /// Bit by bit.
  [[nodiscard]] bool same_row(std::size_t r, Matrix& other, std::size_t other_row) {
    return std::memcmp(&(*this)(r, 0), &other(other_row, 0), width_ * sizeof(T)) == 0;
  }

 private:
  std::size_t rows_;
  std::size_t width_;
  std::size_t ld_;
  cuda::shim::Buffer<T> buffer_;
};

/// Counts in registered memory.
class DeviceCounts {
 public:
  DeviceCounts(std::size_t tokens, std::size_t seqs, std::size_t markers)
      : buffer_(std::vector<cuda::Counts>{
            {static_cast<std::uint32_t>(tokens), static_cast<std::uint32_t>(seqs), static_cast<std::uint32_t>(markers)}}) {}
  [[nodiscard]] const cuda::Counts* data() { return buffer_.data(); }

 private:
  cuda::shim::Buffer<cuda::Counts> buffer_;
};

template <class Params>
void run(const std::string& kernel, const cuda::Shape& shape, const Params& params, std::uint64_t seed) {
  cuda::shim::launch(kernel, {shape.grid_x, shape.grid_y, 1}, {shape.threads, 1, 1}, shape.shared_bytes, params, seed);
}

/// got is want within `allowed`, and the rounding to T of a number that is so far off.
template <class T>
[[nodiscard]] bool close(float got, double want, double allowed) {
  const double rounding = Rounding<T>::unit * (std::fabs(want) + allowed) + Rounding<T>::least;
  return std::fabs(static_cast<double>(got) - want) <= allowed + rounding;
}

}  // namespace kime::test
