#include "kime/graph/flops.h"

#include <catch2/catch.hpp>

#include "kime/graph/builder.h"

namespace kime {
namespace {

TEST_CASE("useful operations are those over real rows and visible pairs") {
  ModelConfig config{.vocab = 50, .hidden = 16, .intermediate = 24, .heads = 2, .layers = {{true}, {false}}};
  config.window = 4;
  config.head_layers = 1;
  const Graph graph = build_graph(config);
  // Two sequences of 5 and 3 tokens; 2 markers in the first.
  const std::vector<std::uint32_t> cu{0, 5, 8};
  const std::vector<std::uint32_t> markers{1, 4};
  const std::vector<std::uint32_t> mcu{0, 2, 2};
  const double d = 16;
  const double tokens = 8;
  const double picks = 4;
  const double encoder = 2 * 2 * tokens * (3 * d * d + d * d + 2 * 24 * d + 24 * d);
  const double head = 2 * tokens * 2 * d * d + 2 * picks * (d * d + d * d + 4 * d * d + 4 * d * d);
  const double scorer = 2 * 2 * (d * d + d);
  const double act = 2 * 2 * ((d + 4) * 256 + 256 * 2);
  const double full = 5 * 5 + 3 * 3;
  const double local = (3 + 4 + 5 + 4 + 3) + (3 + 3 + 3);
  const double last = 3 * 5 + 1 * 3;  // the first row and two markers see 5 keys each, the other first row 3
  CHECK(useful_flops(graph, cu, markers, mcu) == encoder + head + scorer + act + 4 * d * (full + local + last));
}

TEST_CASE("the pruned layer of a windowed encoder counts what its picks see") {
  ModelConfig config{.vocab = 50, .hidden = 8, .intermediate = 8, .heads = 1, .layers = {{false}}};
  config.window = 2;
  config.head_layers = 0;
  const Graph graph = build_graph(config);
  const std::vector<std::uint32_t> cu{0, 0, 4};
  const std::vector<std::uint32_t> markers{2};
  const std::vector<std::uint32_t> mcu{0, 0, 1};
  const double gemms = 2.0 * (4 * 2 * 64) + 2.0 * 3 * (64 + 64 + 2 * 64 + 64) + 2.0 * (64 + 8) + 2.0 * 2 * (12 * 256 + 256 * 2);
  CHECK(useful_flops(graph, cu, markers, mcu) == gemms + 4 * 8 * (2 + 3));
  CHECK(useful_flops(graph, std::vector<std::uint32_t>{0}, {}, std::vector<std::uint32_t>{0}) == 0);
}

}  // namespace
}  // namespace kime
