// exp, ln and the exact (erf) GELU: the CPU kernels' own sequences of correctly rounded operations, where their errors are derived. The
// toolkit's change with its version, and could not be tested on the host.
#pragma once

#include "kernels/cuda/device.h"

namespace kime::cuda {

// Adding it rounds a float of magnitude below 2^21 to an integer n, which then stands in the low bits of the sum, with the 126 of the
// exponent of 2^(n - 1) added.
inline constexpr float kRound = 0x1.8p23F + 126.0F;

__device__ __forceinline__ float infinity() {
  return float_of_bits(0x7F800000U);
}

// 2^(n + r), for shifted = n + kRound and |r| <= 0.5 or a little more; n from -126 (exactly 0) to 128.
__device__ __forceinline__ float pow2(float shifted, float r) {
  float twice = 0x1.41fb82p-12F;
  twice = fma_f32(twice, r, 0x1.5f3eacp-9F);
  twice = fma_f32(twice, r, 0x1.3b2d4ep-6F);
  twice = fma_f32(twice, r, 0x1.c6aee8p-4F);
  twice = fma_f32(twice, r, 0x1.ebfbdcp-2F);
  twice = fma_f32(twice, r, 0x1.62e430p0F);
  twice = fma_f32(twice, r, 2.0F);
  return twice * float_of_bits(bits_of(shifted) << 23);
}

// e^x; exactly 0 below -86.5. A NaN stays one. Error under 1.1 ulp.
__device__ __forceinline__ float exp_f32(float x) {
  const float shifted = fma_f32(x, 0x1.715476p0F, kRound);
  const float minus_n = kRound - shifted;
  const float r = fma_f32(x, 0x1.4ae0c0p-26F, fma_f32(x, 0x1.715476p0F, minus_n));
  const float y = x < -86.5F ? 0.0F : pow2(shifted, r);
  return 0x1.62e42ep6F < x ? infinity() : y;
}

// ln x of a finite, normal x > 0, or of infinity; a NaN stays one. Error under 1 ulp.
__device__ __forceinline__ float log_f32(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3F3504F3U) >> 23;  // relative to sqrt(1/2)
  const float e = static_cast<float>(exponent);
  const float f = float_of_bits(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0F;
  float p = 0x1.13755p-4F;
  p = fma_f32(p, f, -0x1.de4034p-4F);
  p = fma_f32(p, f, 0x1.e7768cp-4F);
  p = fma_f32(p, f, -0x1.fc346p-4F);
  p = fma_f32(p, f, 0x1.232d98p-3F);
  p = fma_f32(p, f, -0x1.555ab2p-3F);
  p = fma_f32(p, f, 0x1.99a53ep-3F);
  p = fma_f32(p, f, -0x1.000012p-2F);
  p = fma_f32(p, f, 0x1.555546p-2F);
  p = fma_f32(p, f, -0x1p-1F);
  const float low = fma_f32(f * f, p, e * 0x1.0bfbe8p-15F);
  const float y = fma_f32(e, 0x1.62ep-1F, f + low);
  return x < infinity() ? y : x;
}

__device__ __forceinline__ float relu_f32(float x) {
  return x < 0.0F ? 0.0F : x;  // a NaN stays one
}

// x Phi(x) as max(x, 0) + b Phi(b), with b = -|x|. Within 6.7e-8 max(1, |x|). A NaN stays one.
__device__ __forceinline__ float gelu_f32(float x) {
  const float below = float_of_bits(bits_of(x) | 0x80000000U);
  const float b = below < -12.95F ? -12.95F : below;
  float s = -0x1.59c6c2p-35F;
  s = fma_f32(s, b, -0x1.68f4bp-29F);
  s = fma_f32(s, b, -0x1.44a14cp-24F);
  s = fma_f32(s, b, -0x1.498862p-20F);
  s = fma_f32(s, b, -0x1.9e03d8p-17F);
  s = fma_f32(s, b, -0x1.4675fep-14F);
  s = fma_f32(s, b, -0x1.1db13ep-12F);
  s = fma_f32(s, b, 0x1.ec639ap-16F);
  s = fma_f32(s, b, 0x1.ca57ccp-8F);
  s = fma_f32(s, b, 0x1.ade636p-5F);
  s = fma_f32(s, b, -0x1.d63a82p-2F);
  s = fma_f32(s, b, 0x1.26aeep0F);
  const float shifted = fma_f32(b, s, kRound - 1.0F);
  const float r = fma_f32(b, s, (kRound - 1.0F) - shifted);
  return fma_f32(b, pow2(shifted, r), 0.0F < x ? x : 0.0F);
}

}  // namespace kime::cuda
