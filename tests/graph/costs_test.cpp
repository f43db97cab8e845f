#include "kime/graph/costs.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "kime/graph/builder.h"
#include "kime/graph/flops.h"
#include "kime/graph/op_groups.h"

namespace kime {
namespace {

ModelConfig small() {
  ModelConfig config{.vocab = 6, .hidden = 16, .intermediate = 24, .heads = 2, .layers = {{true}, {false}}};
  config.window = 4;
  config.head_layers = 1;
  return config;
}

// Two sequences of 5 and 3 tokens; 2 markers in the first.
const std::vector<std::uint32_t> kCu{0, 5, 8};
const std::vector<std::uint32_t> kMarkers{1, 4};
const std::vector<std::uint32_t> kMcu{0, 2, 2};

struct Sums {
  double flops = 0;
  double bytes = 0;
};
Sums group_sums(const Graph& graph, const std::string& name) {
  const auto costs = op_costs(graph, kCu, kMarkers, kMcu);
  Sums sums;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (op_group(graph, graph.ops[i]) == name) {
      sums.flops += costs[i].flops;
      sums.bytes += costs[i].bytes;
    }
  }
  return sums;
}

TEST_CASE("an op's bytes are its weights, in the precision of its gemm") {
  const double d = 16;
  for (const auto& [precision, element] :
       {std::pair(Precision::f32, 4.0), std::pair(Precision::bf16, 2.0), std::pair(Precision::f16, 2.0), std::pair(Precision::int8, 1.0)}) {
    const Graph graph = build_graph(small(), precision);
    CHECK(group_sums(graph, "gemm attn.Wqkv").bytes == 2 * element * 3 * d * d);
    CHECK(group_sums(graph, "gemm mlp.Wi").bytes == 2 * element * 48 * d);
    CHECK(group_sums(graph, "gemm head in_proj").bytes == element * 3 * d * d + 4 * 3 * d);
    CHECK(group_sums(graph, "gemm scorer").bytes == 4 * (d * d + d + d + 1));
    CHECK(group_sums(graph, "embed").bytes == 2 * 6 * d);  // 8 tokens look at no more than the 6 rows there are
    CHECK(group_sums(graph, "attention full").bytes == 0);
    CHECK(group_sums(graph, "other").bytes == 4 * 2 * d);
  }
}

TEST_CASE("costs add up to the useful operations, and an op without rows costs nothing") {
  const Graph graph = build_graph(small());
  const auto costs = op_costs(graph, kCu, kMarkers, kMcu);
  REQUIRE(costs.size() == graph.ops.size());
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0, [](double all, const OpCost& cost) { return all + cost.flops; });
  CHECK(sum == useful_flops(graph, kCu, kMarkers, kMcu));
  for (const OpCost& cost : op_costs(graph, std::vector<std::uint32_t>{0}, {}, std::vector<std::uint32_t>{0})) {
    CHECK(cost.flops == 0);
    CHECK(cost.bytes == 0);
  }
}

TEST_CASE("the least time takes the longer of reading and arithmetic, op by op") {
  const Graph graph = build_graph(small(), Precision::bf16);
  const auto costs = op_costs(graph, kCu, kMarkers, kMcu);
  const auto seconds = [&](double flops, double f32_flops, double bytes) { return least_seconds(graph, costs, {flops, f32_flops, bytes}); };
  constexpr double kFast = 1e300;
  double read = 0;
  double low = 0;
  double full = 0;
  double both = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto* gemm = std::get_if<Gemm>(&graph.ops[i]);
    const bool reduced = gemm != nullptr && gemm->precision == Precision::bf16;
    read += costs[i].bytes;
    (reduced ? low : full) += costs[i].flops;
    both += std::max(costs[i].bytes, costs[i].flops / (reduced ? 20 : 10));
  }
  CHECK(seconds(kFast, kFast, 1) == Approx(read));
  CHECK(seconds(1, kFast, kFast) == Approx(low));
  CHECK(seconds(kFast, 1, kFast) == Approx(full));
  CHECK(seconds(20, 10, 1) == Approx(both));
}

TEST_CASE("ops are grouped by what they are, over all layers") {
  const OpGroups groups = op_groups(build_graph(small()));
  const std::vector<std::string> names{"embed",
                                       "norm",
                                       "gemm attn.Wqkv",
                                       "attention full",
                                       "gemm attn.Wo",
                                       "gemm mlp.Wi",
                                       "gemm mlp.Wo",
                                       "attention window",
                                       "other",
                                       "gemm head in_proj",
                                       "gemm head out_proj",
                                       "gemm head linear1",
                                       "gemm head linear2",
                                       "gemm scorer",
                                       "gemm act_head"};
  CHECK(groups.names == names);
  CHECK(groups.group_of.size() == build_graph(small()).ops.size());
  CHECK(groups.group_of[0] == 0);
}

}  // namespace
}  // namespace kime
