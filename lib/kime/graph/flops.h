// What a batch asks of a model at least: the measure that a benchmark holds a run against. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "kime/graph/graph.h"

namespace kime {

/// The useful floating-point operations of a batch given as its cu, markers and mcu (a checked Batch's): 2 rows k n for each gemm over
/// the rows there are, with the last layer counted as the graph computes it, and 4 head_width for each visible pair of query and key
/// in each head. Norms, activations and the like are left out.
[[nodiscard]] double useful_flops(const Graph& graph, std::span<const std::uint32_t> cu, std::span<const std::uint32_t> markers,
                                  std::span<const std::uint32_t> mcu);

}  // namespace kime
