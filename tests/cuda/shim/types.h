// CUDA's own types as kernels name them, for the host.
#pragma once

#include <bit>
#include <cstdint>

struct uint3 {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};
struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

/// IEEE binary16 by its bits.
struct __half {
  std::uint16_t bits;
};
/// The upper half of a binary32.
struct __nv_bfloat16 {
  std::uint16_t bits;
};

namespace kime::cuda::shim {

/// To the nearest, ties to even; past the largest finite number to infinity.
[[nodiscard]] inline __half half_of(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = word >> 16 & 0x8000U;
  const std::uint32_t magnitude = word & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {static_cast<std::uint16_t>(0x7FFFU)};  // as cvt.rn.f16.f32 gives it
  }
  if (magnitude >= 0x477FF000U) {  // 65520 and more
    return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  }
  if (magnitude < 0x38800000U) {  // below the smallest normal number: in units of 2^-24, which float addition rounds to
    const float units = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(units) - 0x3F000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
}

[[nodiscard]] inline float float_of(__half value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) {
    return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  }
  if (magnitude < 0x400U) {
    const float units = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(units));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
}

[[nodiscard]] inline __nv_bfloat16 bfloat16_of(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>(0x7FFFU)};
  }
  return {static_cast<std::uint16_t>((word + 0x7FFFU + (word >> 16 & 1U)) >> 16)};
}

[[nodiscard]] inline float float_of(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace kime::cuda::shim
