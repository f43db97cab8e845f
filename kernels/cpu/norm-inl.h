// Layer norm.
#if defined(KIME_KERNELS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_NORM_INL_H_
#undef KIME_KERNELS_CPU_NORM_INL_H_
#else
#define KIME_KERNELS_CPU_NORM_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// One row, in these steps; a lane's chain runs over the blocks of 16 columns and starts at +0:
//   1. sum[l] = ((0 + x[l]) + x[l + 16]) + ...;  mean = Sum16(sum) / width
//   2. d = x - mean;  square[l] = fma(d, d, square[l]) from 0;  variance = Sum16(square) / width
//   3. scale = 1 / sqrt(variance + eps)
//   4. out = ((x - mean) * scale) * weight, or with a bias fma((x - mean) * scale, weight, bias)
// In the last block the columns past the width add +0, which changes no lane: one that starts at +0 is never -0.
inline void LayerNormRow(const float* in, std::size_t width, const float* weight, const float* bias, float eps, float* out) {
  const float count = static_cast<float>(width);
  const std::size_t whole = width / 16 * 16;
  const std::size_t tail = width - whole;
  F16 sum = Zero16();
  for (std::size_t i = 0; i < whole; i += 16) {
    sum = Add(sum, Load16(in + i));
  }
  if (tail != 0) {
    sum = Add(sum, LoadN16(in + whole, tail));
  }
  const F16 mean = Set16(Sum16(sum) / count);

  F16 square = Zero16();
  for (std::size_t i = 0; i < whole; i += 16) {
    const F16 d = Sub(Load16(in + i), mean);
    square = MulAdd(d, d, square);
  }
  if (tail != 0) {
    const F16 d = Select(First16(tail), Sub(LoadN16(in + whole, tail), mean), Zero16());
    square = MulAdd(d, d, square);
  }
  const F16 variance = Set16(Sum16(square) / count);
  const F16 scale = Div(Set16(1.0F), Sqrt(Add(variance, Set16(eps))));

  for (std::size_t i = 0; i < width; i += 16) {
    const std::size_t n = width - i;
    const F16 normal = Mul(Sub(LoadN16(in + i, n), mean), scale);
    const F16 w = LoadN16(weight + i, n);
    StoreN16(bias == nullptr ? Mul(normal, w) : MulAdd(normal, w, LoadN16(bias + i, n)), out + i, n);
  }
}

inline void LayerNorm(const float* in, std::size_t ldi, std::size_t rows, std::size_t width, const float* weight, const float* bias,
                      float eps, float* out, std::size_t ldo) {
  for (std::size_t r = 0; r < rows; ++r) {
    LayerNormRow(in + r * ldi, width, weight, bias, eps, out + r * ldo);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_NORM_INL_H_
