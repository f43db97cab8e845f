// Properties of the arena planner, on random graphs and on models.
#include "kime/graph/planner.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "kime/graph/builder.h"

namespace kime {
namespace {

bool meet(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::vector<std::size_t> sizes(const Graph& graph, const Extent& extent, std::size_t alignment) {
  std::vector<std::size_t> sizes;
  for (const Value& value : graph.values) {
    const std::size_t bytes = row_count(value.rows, extent) * value.width * sizeof(float);
    sizes.push_back((bytes + alignment - 1) / alignment * alignment);
  }
  return sizes;
}

// The bytes alive at the op where most are: no arena can be smaller.
std::size_t peak(const Graph& graph, const Extent& extent, std::size_t alignment) {
  const auto lives = live_ranges(graph);
  const auto bytes = sizes(graph, extent, alignment);
  std::size_t peak = 0;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    std::size_t alive = 0;
    for (std::size_t value = 0; value < lives.size(); ++value) {
      alive += lives[value].first <= op && op <= lives[value].last ? bytes[value] : 0;
    }
    peak = std::max(peak, alive);
  }
  return peak;
}

// Empty when the plan keeps what planner.h promises, else what it breaks.
std::string broken(const Graph& graph, const Extent& extent, std::size_t alignment) {
  const ArenaPlan plan = plan_arena(graph, extent, alignment);
  const auto lives = live_ranges(graph);
  const auto bytes = sizes(graph, extent, alignment);
  if (plan.offsets.size() != graph.values.size()) {
    return "an offset for each value";
  }
  std::size_t sum = 0;
  std::size_t bound = 0;
  for (std::size_t a = 0; a < lives.size(); ++a) {
    std::size_t neighbours = 0;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      if (a == b || !meet(lives[a], lives[b])) {
        continue;
      }
      neighbours += bytes[b];
      if (plan.offsets[a] < plan.offsets[b] + bytes[b] && plan.offsets[b] < plan.offsets[a] + bytes[a]) {
        return "values " + std::to_string(a) + " and " + std::to_string(b) + " overlap";
      }
    }
    if (plan.offsets[a] % alignment != 0) {
      return "alignment";
    }
    if (plan.offsets[a] + bytes[a] > plan.bytes) {
      return "a value past the end";
    }
    sum += bytes[a];
    bound = std::max(bound, 2 * neighbours + bytes[a]);
  }
  if (plan.bytes > sum) {
    return "larger than all values side by side";
  }
  if (plan.bytes > bound) {
    return "the first-fit bound";
  }
  return plan.bytes < peak(graph, extent, alignment) ? "smaller than what is alive at once" : "";
}

Gemm gemm(ValueId in, ValueId out, bool accumulate) {
  Gemm op;
  op.in = in;
  op.out = out;
  op.accumulate = accumulate;
  return op;
}

// Chains of gemms that read any earlier value, some in place.
Graph random_graph() {
  Graph graph;
  const auto values = *rc::gen::inRange<std::uint32_t>(1, 40);
  for (std::uint32_t i = 0; i < values; ++i) {
    graph.values.push_back({static_cast<Rows>(*rc::gen::inRange(0, 4)), *rc::gen::inRange<std::uint32_t>(0, 300)});
    const bool accumulate = i != 0 && *rc::gen::inRange(0, 3) == 0;
    const ValueId in = i == 0 ? 0 : *rc::gen::inRange<ValueId>(0, i);
    graph.ops.emplace_back(gemm(in, accumulate ? *rc::gen::inRange<ValueId>(0, i) : i, accumulate));
  }
  graph.logits = *rc::gen::inRange<ValueId>(0, values);
  graph.act = *rc::gen::inRange<ValueId>(0, values);
  return graph;
}

TEST_CASE("values alive at once never overlap, and the arena stays within its bound") {
  CHECK(rc::check("random graphs", [] {
    const Graph graph = random_graph();
    const Extent extent{*rc::gen::inRange<std::size_t>(0, 500), *rc::gen::inRange<std::size_t>(0, 50),
                        *rc::gen::inRange<std::size_t>(0, 90)};
    const std::size_t alignment = std::size_t{1} << *rc::gen::inRange(2, 9);
    RC_ASSERT(broken(graph, extent, alignment).empty());
  }));
}

TEST_CASE("models take little more than what is alive at once") {
  for (const std::size_t head_layers : {0U, 1U, 2U, 4U}) {
    for (const std::size_t layers : {1U, 2U, 7U, 22U}) {
      ModelConfig config{.vocab = 50368, .hidden = 768, .intermediate = 1152, .heads = 12, .layers = {}};
      config.head_layers = head_layers;
      for (std::size_t i = 0; i < layers; ++i) {
        config.layers.push_back({i % 3 == 0});
      }
      const Graph graph = build_graph(config);
      for (const Extent extent : {Extent{32, 8, 32}, Extent{512, 128, 512}, Extent{16384, 1024, 8192}, Extent{}}) {
        CAPTURE(head_layers, layers, extent.tokens);
        CHECK(broken(graph, extent, 64).empty());
        CHECK(plan_arena(graph, extent).bytes <= peak(graph, extent, 64) * 5 / 4);
      }
    }
  }
}

TEST_CASE("a value lives from its first use to its last, an output to the end") {
  Graph graph;
  graph.values = {{Rows::tokens, 4}, {Rows::tokens, 4}, {Rows::tokens, 4}, {Rows::tokens, 4}};
  graph.ops = {Embed{0, 0}, gemm(0, 1, false), gemm(1, 0, true), gemm(0, 2, false), gemm(2, 3, false)};
  graph.logits = 1;
  graph.act = 3;
  const auto lives = live_ranges(graph);
  CHECK(lives[0].first == 0);
  CHECK(lives[0].last == 3);
  CHECK(lives[1].first == 1);
  CHECK(lives[1].last == 4);
  CHECK(lives[2].first == 3);
  CHECK(lives[2].last == 4);
}

TEST_CASE("rows are counted by their kind") {
  const Extent extent{100, 7, 20};
  CHECK(row_count(Rows::tokens, extent) == 100);
  CHECK(row_count(Rows::seqs, extent) == 7);
  CHECK(row_count(Rows::markers, extent) == 20);
  CHECK(row_count(Rows::picks, extent) == 27);
}

}  // namespace
}  // namespace kime
