// What the packed form of a checkpoint's weights depends on, as one number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/weights.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// Raised when the kernels pack a weight differently, or a cache's file is laid out differently.
inline constexpr std::uint32_t kCacheFormat = 1;

/// 128 bits of XXH3, most significant byte first.
struct WeightKey {
  std::array<unsigned char, 16> bytes{};

  /// 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  bool operator==(const WeightKey&) const = default;
};

/// Two keys are equal when load_weights() makes the same bytes: of tensors with the same names, types, shapes and content, for the same
/// layout, kernels and arithmetic number. Reads all tensors once, in parallel; does not depend on the number of threads.
/// Errors: `input` when the source fails, `device` without memory for the pieces.
[[nodiscard]] Result<WeightKey> weight_key(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout,
                                           const kernels::Table& table, const Crew& crew, std::size_t threads);

}  // namespace kime::cpu
