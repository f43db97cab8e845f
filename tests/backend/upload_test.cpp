// What the CPU refuses, and how weights reach it.
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "tests/backend/runs.h"

namespace kime::test {
namespace {

ModelConfig small_config() {
  ModelConfig config{.vocab = 20, .hidden = 24, .intermediate = 33, .heads = 3, .layers = {{true}, {false}}};
  config.head_layers = 1;
  return config;
}

std::string refusal(const ModelConfig& config) {
  const RandomWeights weights(config, 1);
  auto uploaded = CpuBackend::layout(weights.source(), build_graph(config));
  REQUIRE(!uploaded);
  CHECK(uploaded.error().kind() == ErrorKind::unsupported);
  return uploaded.error().message();
}

TEST_CASE("head widths that the kernels lack are refused by number") {
  ModelConfig config = small_config();
  config.heads = 6;
  CHECK(refusal(config) == "attention heads of 4 columns; the CPU runs multiples of 8 up to 128");
  config.hidden = 144;
  config.heads = 1;
  CHECK(refusal(config) == "attention heads of 144 columns; the CPU runs multiples of 8 up to 128");
  config.hidden = 36;
  config.heads = 3;
  CHECK(refusal(config) == "attention heads of 12 columns; the CPU runs multiples of 8 up to 128");
}

TEST_CASE("the head's width is checked like the encoder's") {
  ModelConfig config = small_config();
  config.hidden = 200;  // three heads of 66 2/3
  config.heads = 5;
  CHECK(refusal(config) == "attention heads of 66 columns; the CPU runs multiples of 8 up to 128");
  config.hidden = 208;  // three heads of 69 1/3
  config.heads = 2;
  CHECK(refusal(config) == "attention heads of 69 columns; the CPU runs multiples of 8 up to 128");
  config.hidden = 217;
  config.heads = 1;
  config.head_layers = 0;
  CHECK(refusal(config) == "attention heads of 217 columns; the CPU runs multiples of 8 up to 128");
  config.head_layers = 1;
  config.hidden = 216;  // three heads of 72
  config.heads = 27;
  const RandomWeights weights(config, 1);
  CHECK(CpuBackend::layout(weights.source(), build_graph(config)));
}

TEST_CASE("rows that are too long for int8 are refused by number") {
  ModelConfig config = small_config();
  config.intermediate = 16392;
  const RandomWeights weights(config, 1);
  CHECK(CpuBackend::layout(weights.source(), build_graph(config, Precision::bf16)));
  const auto refused = CpuBackend::layout(weights.source(), build_graph(config, Precision::int8));
  REQUIRE(!refused);
  CHECK(refused.error().text() == "unsupported: 16392 columns of encoder.layers.0.mlp.Wo.weight in int8; the most are 16384");
}

TEST_CASE("f16 is no precision of the CPU's") {
  const ModelConfig config = small_config();
  const RandomWeights weights(config, 1);
  const auto refused = CpuBackend::layout(weights.source(), build_graph(config, Precision::f16));
  REQUIRE(!refused);
  CHECK(refused.error().text() == "unsupported: products of encoder.layers.0.attn.Wqkv.weight in f16; the CPU has f32, bf16 and int8");
}

TEST_CASE("heads that do not fill the width are refused") {
  ModelConfig config = small_config();
  config.hidden = 28;
  config.heads = 3;  // of 9, one column left over
  config.hidden = 26;
  CHECK(refusal(config) == "3 attention heads of 8 columns for a width of 26");
}

TEST_CASE("tensors that are not the graph's are refused by name") {
  const ModelConfig config = small_config();
  const Graph graph = build_graph(config);
  RandomWeights weights(config, 1);
  auto missing = CpuBackend::layout(HostTensors(weights.tensors().subspan(1)), graph);
  REQUIRE(!missing);
  CHECK(missing.error().text() == "unsupported: " + std::to_string(graph.weights.size() - 1) + " tensors for a graph of " +
                                      std::to_string(graph.weights.size()) + " weights");
  static constexpr std::size_t kShape[] = {21, 24};
  weights.tensors()[0].shape = kShape;
  auto misshapen = CpuBackend::layout(weights.source(), graph);
  REQUIRE(!misshapen);
  CHECK(misshapen.error().text() == "unsupported: encoder.embeddings.tok_embeddings.weight has shape [21, 24], the graph's has [20, 24]");
}

TEST_CASE("a source that fails part way gives its error") {
  const ModelConfig config = small_config();
  for (const std::size_t index : {0U, 1U, 2U, 7U}) {
    RandomWeights weights(config, 1);
    auto& bytes = weights.tensors()[index].bytes;
    bytes = bytes.first(bytes.size() - 4);
    auto uploaded = Loaded::load(weights.source(), build_graph(config), 3);
    REQUIRE(!uploaded);
    CHECK(uploaded.error().kind() == ErrorKind::input);
    CHECK_THAT(uploaded.error().message(), Catch::StartsWith("tensor " + std::to_string(index) + " has "));
  }
}

TEST_CASE("the same values in F32, F16 and BF16 give the same bits") {
  const ModelConfig config = small_config();
  Random random(3);
  BatchBuffer buffer;
  push_record(buffer, random, config, 30);
  push_record(buffer, random, config, 30);
  std::vector<float> want;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const RandomWeights weights(config, 4, dtype);
    const auto loaded = Loaded::load(config, weights, 2);
    const Outputs outputs = loaded->run(buffer.batch());
    REQUIRE(outputs.logits.size() == buffer.batch().markers.size());
    if (dtype == DType::f32) {
      want = outputs.logits;
    }
    CHECK(first_difference(outputs.logits, want).empty());
  }
}

TEST_CASE("buckets past 32 bits are refused by number") {
  const ModelConfig config = small_config();
  const RandomWeights weights(config, 1);
  const auto loaded = Loaded::load(config, weights, 1);
  auto plan = loaded->plan({std::size_t{1} << 32, 1, 1});
  REQUIRE(!plan);
  CHECK(plan.error().text() == "unsupported: a bucket of 4294967296 tokens, 1 sequences and 1 markers; rows are counted in 32 bits");
  // One that is merely huge costs no memory until a batch reaches it.
  CHECK(loaded->plan({std::size_t{1} << 24, 1000, 1000}));
}

TEST_CASE("a batch that is too large for its plan is refused, not run") {
  const ModelConfig config = small_config();
  const RandomWeights weights(config, 1);
  const auto loaded = Loaded::load(config, weights, 1);
  auto plan = loaded->plan({4, 1, 1});
  REQUIRE(plan);
  BatchBuffer buffer;
  REQUIRE(buffer.push(std::vector<std::uint32_t>(5, 1), {}, 0));
  Outputs outputs;
  const auto ran = loaded->run(*plan, buffer.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().kind() == ErrorKind::no_bucket);
}

}  // namespace
}  // namespace kime::test
