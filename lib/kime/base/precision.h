// The precisions that a model can be computed in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kime {

/// What the products of a gemm are made of. Sums, residual streams, norms, softmax, scorer and act head are float32 in each.
enum class Precision : std::uint8_t {
  f32,
  bf16,  ///< Weights and activations rounded to bfloat16, products summed in float32.
  f16,   ///< The same with float16: finer, and infinite from 65,520 on.
  int8,  ///< Weights as int8 with a scale per output, activations as int8 with a scale per token, products summed as integers.
};

inline constexpr std::array<Precision, 4> kPrecisions = {Precision::f32, Precision::bf16, Precision::f16, Precision::int8};

/// As the command line and documents say it: "f32", "bf16", "f16", "int8".
[[nodiscard]] constexpr std::string_view name_of(Precision precision) {
  constexpr std::array<std::string_view, 4> kNames = {"f32", "bf16", "f16", "int8"};
  return kNames[static_cast<std::size_t>(precision)];
}

/// The precision of that name, or none.
[[nodiscard]] constexpr std::optional<Precision> precision_of(std::string_view name) {
  for (const Precision precision : kPrecisions) {
    if (name == name_of(precision)) {
      return precision;
    }
  }
  return std::nullopt;
}

}  // namespace kime
