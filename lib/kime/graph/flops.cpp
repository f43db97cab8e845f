#include "kime/graph/flops.h"

#include "kime/graph/costs.h"

namespace kime {

double useful_flops(const Graph& graph, std::span<const std::uint32_t> cu, std::span<const std::uint32_t> markers,
                    std::span<const std::uint32_t> mcu) {
  double flops = 0;
  for (const OpCost& cost : op_costs(graph, cu, markers, mcu)) {
    flops += cost.flops;
  }
  return flops;
}

}  // namespace kime
