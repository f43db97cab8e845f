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

// Lanes [0, n) of a, +0 in the rest.
HWY_INLINE F16 Keep16(F16 a, std::size_t n) {
  HWY_ALIGN float t[16];
  Store16(a, t);
  return LoadN16(t, n);
}

// One row, in these steps, each lane its own chain over the blocks of 16 columns, columns past the width counting as +0:
//   1. sum[l] = ((x[l] + x[l + 16]) + x[l + 32]) + ...;  mean = Sum16(sum) / width
//   2. d = x - mean;  square[l] = fma(d, d, square[l]);  variance = Sum16(square) / width
//   3. scale = 1 / sqrt(variance + eps)
//   4. out = (x - mean) * scale * weight, or fma((x - mean) * scale, weight, bias)
// A chain starts at +0, so a sum is never -0 and the missing columns' +0 changes nothing.
inline void LayerNormRow(const float* in, std::size_t width, const float* weight, const float* bias, float eps, float* out) {
  const float count = static_cast<float>(width);
  F16 sum = Zero16();
  for (std::size_t i = 0; i < width; i += 16) {
    sum = Add(sum, LoadN16(in + i, width - i));
  }
  const F16 mean = Set16(Sum16(sum) / count);
  F16 square = Zero16();
  for (std::size_t i = 0; i < width; i += 16) {
    const F16 d = Keep16(Sub(LoadN16(in + i, width - i), mean), width - i);
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
