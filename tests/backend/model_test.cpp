// Whole models on the CPU against the float64 reference.
#include <catch2/catch.hpp>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/graph/builder.h"
#include "tests/backend/runs.h"
#include "tests/support/reference_model.h"

namespace kime::test {
namespace {

void check(const ModelConfig& config, std::uint64_t seed, DType dtype, const BatchBuffer& buffer, std::size_t threads) {
  CAPTURE(seed, config.hidden, config.heads, config.intermediate, config.layers.size(), config.window, config.head_layers);
  const RandomWeights weights(config, seed, dtype);
  const auto loaded = Loaded::load(config, weights, threads);
  const double error = distance(loaded->run(buffer.batch()), reference_model(config, weights, buffer.batch()));
  CHECK(error < 100 * kUnit);
}

TEST_CASE("random models score as the float64 reference") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const ModelConfig config = random_config(random);
    BatchBuffer buffer;
    for (std::size_t i = 1 + random.below(5); i != 0; --i) {
      push_record(buffer, random, config, 40);
    }
    check(config, seed, static_cast<DType>(random.below(3)), buffer, 1 + random.below(3));
  }
}

TEST_CASE("a long sequence scores as the float64 reference") {
  ModelConfig config{.vocab = 30, .hidden = 24, .intermediate = 20, .heads = 3, .layers = {{true}, {false}}};
  config.window = 32;
  config.head_layers = 1;
  Random random(7);
  BatchBuffer buffer;
  push_record(buffer, random, config, 5);
  std::vector<std::uint32_t> ids(700, 3);
  for (auto& id : ids) {
    id = static_cast<std::uint32_t>(random.below(config.vocab));
  }
  REQUIRE(buffer.push(ids, std::vector<std::uint32_t>{0, 699, 350, 350}, 1));
  check(config, 7, DType::f32, buffer, 3);
}

TEST_CASE("a batch of nothing, records without markers and records without tokens have their scores") {
  for (const std::size_t head_layers : {0U, 1U, 2U}) {
    ModelConfig config{.vocab = 9, .hidden = 16, .intermediate = 8, .heads = 2, .layers = {{true}, {false}}};
    config.head_layers = head_layers;
    CAPTURE(head_layers);
    BatchBuffer buffer;
    check(config, 3, DType::f32, buffer, 2);
    REQUIRE(buffer.push(std::vector<std::uint32_t>{}, {}, 1));
    check(config, 3, DType::f32, buffer, 2);
    REQUIRE(buffer.push(std::vector<std::uint32_t>{1, 2, 3}, {}, 2));
    check(config, 3, DType::f32, buffer, 2);
    REQUIRE(buffer.push(std::vector<std::uint32_t>{4, 5}, std::vector<std::uint32_t>{1}, 0));
    REQUIRE(buffer.push(std::vector<std::uint32_t>{}, {}, 0));
    check(config, 3, DType::f32, buffer, 2);
  }
}

}  // namespace
}  // namespace kime::test
