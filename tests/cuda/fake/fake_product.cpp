#include "tests/cuda/fake/fake_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/cuda/shim/types.h"

namespace kime::test {

namespace {

namespace shim = cuda::shim;

template <class T>
T at(const std::byte* memory, std::size_t index) {
  T value;
  std::memcpy(&value, memory + index * sizeof(T), sizeof(T));
  return value;
}

std::vector<float> floats(cuda::BlasType type, const std::byte* matrix, std::size_t rows, std::size_t columns, std::size_t leading) {
  std::vector<float> all(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t index = row * leading + i;
      all[row * columns + i] =
          type == cuda::BlasType::f16 ? shim::float_of(at<__half>(matrix, index)) : shim::float_of(at<__nv_bfloat16>(matrix, index));
    }
  }
  return all;
}

float chain(const float* a, const float* w, std::size_t begin, std::size_t end) {
  float sum = 0;
  for (std::size_t i = begin; i < end; ++i) {
    sum += a[i] * w[i];
  }
  return sum;
}

float sum_of(FakeSum how, const float* a, const float* w, std::size_t k, float smallest) {
  float sum = 0;
  switch (how) {
    case FakeSum::backward:
      for (std::size_t i = k; i-- > 0;) {
        sum += a[i] * w[i];
      }
      return sum;
    case FakeSum::halves:
      return chain(a, w, 0, k / 2) + chain(a, w, k / 2, k);
    case FakeSum::blocks:
      for (std::size_t i = 0; i < k; i += 16) {
        sum += chain(a, w, i, std::min(i + 16, k));
      }
      return sum;
    case FakeSum::flushed:
      for (std::size_t i = 0; i < k; ++i) {
        sum += std::abs(a[i]) < smallest || std::abs(w[i]) < smallest ? 0.0F : a[i] * w[i];
      }
      return sum;
    case FakeSum::short_:
      return chain(a, w, 0, k - 1);
    default:
      return chain(a, w, 0, k);
  }
}

template <class T>
void put(std::byte* memory, std::size_t index, T value) {
  std::memcpy(memory + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

void FakeProduct::compute(const std::byte* a, const std::byte* w, std::byte* c) const {
  const auto left = floats(type, a, m, k, ld_a);
  const auto right = floats(type, w, n, k, ld_w);
  const float smallest = type == cuda::BlasType::f16 ? 0x1p-14F : std::numeric_limits<float>::min();
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      const FakeSum how = algorithm->sum ? algorithm->sum({m, row, column}) : FakeSum::forward;
      if (how == FakeSum::nothing) {
        continue;
      }
      float sum = sum_of(how, left.data() + row * k, right.data() + column * k, k, smallest);
      const std::size_t index = row * ld_c + column;
      if (out == cuda::BlasType::f32) {
        sum += added ? at<float>(c, index) : 0.0F;
        put(c, index, sum);
      } else if (out == cuda::BlasType::f16) {
        put(c, index, shim::half_of(sum));
      } else {
        put(c, index, shim::bfloat16_of(sum));
      }
    }
  }
}

}  // namespace kime::test
