// What each op of a model asks of a machine at least. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kime/graph/graph.h"

namespace kime {

struct OpCost {
  double flops = 0;  ///< Useful floating-point operations, as useful_flops counts them.
  double bytes = 0;  ///< Of weights that must be read once.
};

/// A machine's speeds, a second.
struct Speeds {
  double flops = 0;      ///< In the precision of the graph's gemms.
  double f32_flops = 0;  ///< For what stays in float32.
  double bytes = 0;      ///< Read from memory.
};

/// The cost of each op of the graph over a batch given as its cu, markers and mcu (a checked Batch's).
///
/// Bytes: a gemm's weight in its precision (4, 2, 1 bytes) and its bias; norms' weights and biases; the embedding rows that are looked
/// up, at the 2 bytes of a published checkpoint; type rows. An op without rows costs nothing. Activations are taken to stay in caches.
[[nodiscard]] std::vector<OpCost> op_costs(const Graph& graph, std::span<const std::uint32_t> cu, std::span<const std::uint32_t> markers,
                                           std::span<const std::uint32_t> mcu);

/// Which of a machine's speeds bounds an op's arithmetic.
[[nodiscard]] double flops_for(const Op& op, const Speeds& speeds);

/// The least seconds for ops of these costs, one after the other, each the longer of its reading and its arithmetic.
[[nodiscard]] double least_seconds(const Graph& graph, std::span<const OpCost> costs, const Speeds& speeds);

}  // namespace kime
