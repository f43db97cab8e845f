// Ops of a graph by what they are to its model, over all layers: for profiles. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kime/graph/graph.h"

namespace kime {

/// What an op is counted under: "embed", "norm", "attention window", "attention full", "other", and a gemm by its weight without layer
/// number: "gemm attn.Wqkv", "gemm mlp.Wi", "gemm head linear1", "gemm scorer".
[[nodiscard]] std::string op_group(const Graph& graph, const Op& op);

struct OpGroups {
  std::vector<std::string> names;     ///< In the order in which the graph has them first.
  std::vector<std::size_t> group_of;  ///< By op.
};
[[nodiscard]] OpGroups op_groups(const Graph& graph);

}  // namespace kime
