#include "kime/graph/flops.h"

#include <algorithm>

#include "kime/graph/planner.h"

namespace kime {

namespace {

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

  double operator()(const Gemm& op) const {
    const std::size_t tokens = cu.empty() ? 0 : cu.back();
    const std::size_t rows = row_count(graph.values[op.in].rows, {tokens, seqs(), markers.size()});
    return 2.0 * static_cast<double>(rows) * static_cast<double>(graph.values[op.in].width) * static_cast<double>(op.count);
  }

  double operator()(const Attention& op) const {
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
    return 4.0 * static_cast<double>(pairs) * op.head_width * op.heads;
  }

  template <class Other>
  double operator()(const Other& /*op*/) const {
    return 0;
  }
};

}  // namespace

double useful_flops(const Graph& graph, std::span<const std::uint32_t> cu, std::span<const std::uint32_t> markers,
                    std::span<const std::uint32_t> mcu) {
  const Counter counter{graph, cu, markers, mcu};
  double flops = 0;
  for (const Op& op : graph.ops) {
    flops += std::visit(counter, op);
  }
  return flops;
}

}  // namespace kime
