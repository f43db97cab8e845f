#include "kime/backend/cuda/elements.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace kime::cuda {

namespace {

float float_of_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: the fraction in units of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | (exponent == 0x1FU ? 0x7F800000U : (exponent + 112) << 23) | fraction << 13);
}

std::uint16_t f16_of_float(float x) {
  const auto word = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = word >> 16 & 0x8000U;
  const std::uint32_t magnitude = word & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U);  // a NaN
  }
  if (magnitude >= 0x477FF000U) {  // 65520, from which on the nearest is an infinity
    return static_cast<std::uint16_t>(sign | 0x7C00U);
  }
  if (magnitude < 0x38800000U) {  // under 2^-14: adding 0.5 leaves the fraction in units of 2^-24, rounded
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t odd = magnitude >> 13 & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - (112U << 23) + 0xFFFU + odd) >> 13));
}

std::uint16_t bf16_of_float(float x) {
  const auto word = std::bit_cast<std::uint32_t>(x);
  if ((word & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<std::uint16_t>(word >> 16 | 0x40U);  // a NaN stays one
  }
  return static_cast<std::uint16_t>((word + 0x7FFFU + (word >> 16 & 1U)) >> 16);
}

template <class T>
T element_at(const std::byte* from, std::size_t i) {
  T element;
  std::memcpy(&element, from + i * sizeof(T), sizeof(T));
  return element;
}

// Calls body(i, x) for each element as a float.
template <class Body>
void each_float(std::span<const std::byte> from, DType type, const Body& body) {
  const std::size_t count = from.size() / size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    switch (type) {
      case DType::f32:
        body(i, element_at<float>(from.data(), i));
        break;
      case DType::f16:
        body(i, float_of_f16(element_at<std::uint16_t>(from.data(), i)));
        break;
      case DType::bf16:
        body(i, std::bit_cast<float>(std::uint32_t{element_at<std::uint16_t>(from.data(), i)} << 16));
        break;
    }
  }
}

}  // namespace

std::optional<DType> element_of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return DType::f32;
    case Precision::f16:
      return DType::f16;
    case Precision::bf16:
      return DType::bf16;
    case Precision::int8:
      break;
  }
  return std::nullopt;
}

const char* kernel_type(DType type) {
  switch (type) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f32:
      break;
  }
  return "f32";
}

void convert_elements(std::span<const std::byte> from, DType from_type, std::byte* to, DType to_type) {
  if (from_type == to_type) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  each_float(from, from_type, [&](std::size_t i, float x) {
    if (to_type == DType::f32) {
      std::memcpy(to + i * sizeof(x), &x, sizeof(x));
      return;
    }
    const std::uint16_t narrow = to_type == DType::f16 ? f16_of_float(x) : bf16_of_float(x);
    std::memcpy(to + i * sizeof(narrow), &narrow, sizeof(narrow));
  });
}

}  // namespace kime::cuda
