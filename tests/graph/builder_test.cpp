// What the builder makes of configurations.
#include "kime/graph/builder.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

namespace kime {
namespace {

ModelConfig config(std::size_t layers, std::size_t head_layers) {
  ModelConfig config{.vocab = 50, .hidden = 128, .intermediate = 90, .heads = 4, .layers = {}};
  config.window = 33;
  config.head_layers = head_layers;
  for (std::size_t i = 0; i < layers; ++i) {
    config.layers.push_back({i % 2 == 0});
  }
  return config;
}

template <class T>
std::vector<T> ops_of(const Graph& graph) {
  std::vector<T> ops;
  for (const Op& op : graph.ops) {
    if (const T* found = std::get_if<T>(&op)) {
      ops.push_back(*found);
    }
  }
  return ops;
}

std::size_t tokens_gemms(const Graph& graph) {
  std::size_t count = 0;
  for (const Gemm& op : ops_of<Gemm>(graph)) {
    count += graph.values[op.in].rows == Rows::tokens ? 1 : 0;
  }
  return count;
}

TEST_CASE("every op reads what an earlier one wrote, and shapes agree") {
  for (const std::size_t layers : {1U, 2U, 5U}) {
    for (const std::size_t head_layers : {0U, 1U, 2U, 3U, 4U}) {
      CAPTURE(layers, head_layers);
      const Graph graph = build_graph(config(layers, head_layers));
      std::set<ValueId> written;
      for (const Op& op : graph.ops) {
        const Uses used = uses(op);
        for (const ValueId value : used.reads) {
          CHECK(written.contains(value));
        }
        CHECK((!used.in_place || written.contains(used.writes)));
        written.insert(used.writes);
      }
      for (const Gemm& op : ops_of<Gemm>(graph)) {
        CHECK(graph.values[op.in].width == graph.weights[op.weight].shape[1]);
        CHECK(graph.values[op.out].width == (op.activation == Activation::geglu ? op.count / 2 : op.count));
        CHECK(graph.values[op.in].rows == graph.values[op.out].rows);
      }
      CHECK(graph.values[graph.logits].rows == Rows::markers);
      CHECK(graph.values[graph.logits].width == 1);
      CHECK(graph.values[graph.act].rows == Rows::seqs);
      CHECK(graph.values[graph.act].width == 2);
    }
  }
}

TEST_CASE("the weights are those of the checkpoint, each used once and whole") {
  for (const std::size_t head_layers : {0U, 1U, 4U}) {
    const ModelConfig model = config(3, head_layers);
    const Graph graph = build_graph(model);
    const auto specs = expected_tensors(model);
    REQUIRE(graph.weights.size() == specs.size());
    std::map<WeightId, std::size_t> rows;
    for (const Gemm& op : ops_of<Gemm>(graph)) {
      rows[op.weight] += op.count;
      if (op.bias) {
        rows[*op.bias] += op.count;
      }
    }
    for (const LayerNorm& op : ops_of<LayerNorm>(graph)) {
      rows[op.weight] += graph.values[op.in].width;
      if (op.bias) {
        rows[*op.bias] += graph.values[op.in].width;
      }
    }
    rows[ops_of<Embed>(graph).at(0).table] += model.vocab;
    rows[ops_of<AddType>(graph).at(0).table] += ModelConfig::types;
    for (WeightId i = 0; i < specs.size(); ++i) {
      CAPTURE(specs[i].name);
      CHECK(graph.weights[i].name == specs[i].name);
      CHECK(graph.weights[i].shape == specs[i].shape);
      CHECK(rows[i] == specs[i].shape[0]);
    }
  }
}

TEST_CASE("the last layer looks at all tokens for keys and values, at the picks for the rest") {
  for (const std::size_t head_layers : {0U, 1U, 2U}) {
    CAPTURE(head_layers);
    const Graph graph = build_graph(config(3, head_layers));
    const auto attention = ops_of<Attention>(graph);
    REQUIRE(attention.size() == 3 + head_layers);
    for (std::size_t i = 0; i < attention.size(); ++i) {
      const bool last = i + 1 == attention.size();
      CHECK(graph.values[attention[i].q].rows == (last ? Rows::picks : Rows::tokens));
      CHECK(graph.values[attention[i].out].rows == (last ? Rows::picks : Rows::tokens));
      CHECK(graph.values[attention[i].k].rows == Rows::tokens);
    }
    // Four gemms a layer, of which the last has only that of its keys and values over all tokens.
    CHECK(tokens_gemms(graph) == 4 * (attention.size() - 1) + 1);
  }
}

TEST_CASE("the first of a single layer gathers its rows once") {
  const Graph graph = build_graph(config(1, 0));
  CHECK(ops_of<GatherPicks>(graph).size() == 1);  // there is no norm between the residual and the projection
}

TEST_CASE("a precision is that of encoder and head; scorer and act head stay in float32") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(name_of(precision));
    const Graph graph = build_graph(config(3, 2), precision);
    std::size_t narrow = 0;
    for (const Gemm& gemm : ops_of<Gemm>(graph)) {
      const std::string& name = graph.weights[gemm.weight].name;
      const bool wide = name.starts_with("scorer") || name.starts_with("act_head");
      CHECK(gemm.precision == (wide ? Precision::f32 : precision));
      narrow += gemm.precision == precision && !wide ? 1 : 0;
    }
    CHECK(narrow == 4 * 5 + 1);  // the last layer has its queries apart
  }
}

TEST_CASE("attention follows the layer's pattern") {
  const ModelConfig model = config(2, 1);
  const auto attention = ops_of<Attention>(build_graph(model));
  REQUIRE(attention.size() == 3);
  CHECK(!attention[0].reach);
  CHECK(attention[0].theta == model.theta_full);
  CHECK(attention[0].heads == 4);
  CHECK(attention[0].head_width == 32);
  CHECK(attention[1].reach == 16U);  // half of 33, rounded down
  CHECK(attention[1].theta == model.theta_local);
  CHECK(!attention[2].reach);
  CHECK(!attention[2].theta);
  CHECK(attention[2].heads == 2);
  CHECK(attention[2].head_width == 64);
}

}  // namespace
}  // namespace kime
