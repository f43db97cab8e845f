#include "kime/graph/costs.h"

#include <algorithm>
#include <optional>

#include "kime/graph/planner.h"

namespace kime {

namespace {

constexpr double kFloat = 4;      // bytes
constexpr double kEmbedding = 2;  // bytes of an embedding's element

double element_bytes(Precision precision) {
  switch (precision) {
    case Precision::bf16:
    case Precision::f16:
      return 2;
    case Precision::int8:
      return 1;
    case Precision::f32:
      break;
  }
  return kFloat;
}

// The keys of a sequence of `length` that the query at `position` sees.
std::uint64_t visible(std::uint64_t position, std::uint64_t length, std::optional<std::uint32_t> reach) {
  if (!reach) {
    return length;
  }
  const std::uint64_t before = std::min<std::uint64_t>(position, *reach);
  const std::uint64_t after = std::min<std::uint64_t>(length - 1 - position, *reach);
  return before + 1 + after;
}

struct Counter {
  const Graph& graph;
  std::span<const std::uint32_t> cu;
  std::span<const std::uint32_t> markers;
  std::span<const std::uint32_t> mcu;

  [[nodiscard]] std::size_t seqs() const { return cu.empty() ? 0 : cu.size() - 1; }
  [[nodiscard]] std::size_t rows(ValueId id) const {
    return row_count(graph.values[id].rows, {cu.empty() ? 0 : cu.back(), seqs(), markers.size()});
  }
  // Bytes of so many rows of a looked-up table, of which no more are read than there are.
  [[nodiscard]] double looked_up(WeightId table, std::size_t rows, double element) const {
    const auto& shape = graph.weights[table].shape;
    return static_cast<double>(std::min(rows, shape[0])) * static_cast<double>(shape[1]) * element;
  }

  OpCost operator()(const Embed& op) const { return {0, looked_up(op.table, rows(op.out), kEmbedding)}; }

  OpCost operator()(const LayerNorm& op) const {
    const double vectors = op.bias ? 2 : 1;
    return {0, rows(op.in) == 0 ? 0 : vectors * graph.values[op.in].width * kFloat};
  }

  OpCost operator()(const Gemm& op) const {
    const std::size_t m = rows(op.in);
    if (m == 0) {
      return {};
    }
    const double elements = static_cast<double>(graph.values[op.in].width) * static_cast<double>(op.count);
    return {2.0 * static_cast<double>(m) * elements, elements * element_bytes(op.precision) + (op.bias ? op.count * kFloat : 0)};
  }

  OpCost operator()(const Attention& op) const {
    const bool picks = graph.values[op.q].rows == Rows::picks;
    std::uint64_t pairs = 0;
    for (std::size_t s = 0; s < seqs(); ++s) {
      const std::uint64_t length = cu[s + 1] - cu[s];
      if (length == 0) {
        continue;
      }
      if (picks) {
        pairs += visible(0, length, op.reach);
        for (std::size_t m = mcu[s]; m < mcu[s + 1]; ++m) {
          pairs += visible(markers[m], length, op.reach);
        }
      } else if (!op.reach) {
        pairs += length * length;
      } else {
        for (std::uint64_t i = 0; i < length; ++i) {
          pairs += visible(i, length, op.reach);
        }
      }
    }
    return {4.0 * static_cast<double>(pairs) * op.head_width * op.heads, 0};
  }

  OpCost operator()(const AddType& op) const { return {0, looked_up(op.table, seqs(), kFloat)}; }
  OpCost operator()(const GatherPicks& /*op*/) const { return {}; }
  OpCost operator()(const GatherMarkers& /*op*/) const { return {}; }
  OpCost operator()(const ActFeatures& /*op*/) const { return {}; }
};

}  // namespace

std::vector<OpCost> op_costs(const Graph& graph, std::span<const std::uint32_t> cu, std::span<const std::uint32_t> markers,
                             std::span<const std::uint32_t> mcu) {
  const Counter counter{graph, cu, markers, mcu};
  std::vector<OpCost> costs;
  costs.reserve(graph.ops.size());
  for (const Op& op : graph.ops) {
    costs.push_back(std::visit(counter, op));
  }
  return costs;
}

double flops_for(const Op& op, const Speeds& speeds) {
  const auto* gemm = std::get_if<Gemm>(&op);
  return gemm == nullptr || gemm->precision == Precision::f32 ? speeds.f32_flops : speeds.flops;
}

double least_seconds(const Graph& graph, std::span<const OpCost> costs, const Speeds& speeds) {
  double seconds = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    seconds += std::max(costs[i].bytes / speeds.bytes, costs[i].flops / flops_for(graph.ops[i], speeds));
  }
  return seconds;
}

}  // namespace kime
