// Element types and weights on their way to a device.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda/device.h"
#include "kime/backend/cuda/elements.h"
#include "kime/backend/cuda/weights.h"
#include "kime/graph/builder.h"
#include "tests/support/random_model.h"
#include "tests/support/results.h"

namespace kime::test {
namespace {

using Catch::Matchers::Contains;

template <class From>
std::vector<std::byte> converted(const std::vector<From>& from, DType from_type, DType to_type) {
  std::vector<std::byte> to(from.size() * size_of(to_type));
  cuda::convert_elements(std::as_bytes(std::span(from)), from_type, to.data(), to_type);
  return to;
}

template <class T>
std::vector<T> elements_in(const std::vector<std::byte>& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

// The bits of x in a device's type, as the kernels' own conversion has them.
template <class T>
std::uint16_t by_kernels(float x) {
  return std::bit_cast<std::uint16_t>(cuda::from_float(x, cuda::Type<T>()));
}

class Discard final : public cuda::WeightSink {
 public:
  explicit Discard(std::size_t sends) : sends_(sends) {}
  Result<std::byte*> room() override { return piece_.data(); }
  Status send(std::size_t /*offset*/, std::size_t /*bytes*/) override {
    return sends_-- == 0 ? Status(Error(ErrorKind::device, "no more")) : Status();
  }

 private:
  std::size_t sends_;
  std::vector<std::byte> piece_ = std::vector<std::byte>(kPiece);
};

/// Weights of which one cannot be read.
class Torn final : public TensorSource {
 public:
  Torn(const TensorSource& whole, std::size_t bad) : whole_(whole), bad_(bad) {}
  [[nodiscard]] std::size_t size() const override { return whole_.size(); }
  [[nodiscard]] DType dtype(std::size_t index) const override { return whole_.dtype(index); }
  [[nodiscard]] std::span<const std::size_t> shape(std::size_t index) const override { return whole_.shape(index); }
  Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const override {
    return index == bad_ ? Status(Error(ErrorKind::input, "torn")) : whole_.read(index, offset, out);
  }

 private:
  const TensorSource& whole_;
  std::size_t bad_;
};

}  // namespace

TEST_CASE("elements: every f16 and bf16 is the same number as float32, and comes back") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  const auto f16 = elements_in<float>(converted(all, DType::f16, DType::f32));
  const auto bf16 = elements_in<float>(converted(all, DType::bf16, DType::f32));
  const auto f16_again = elements_in<std::uint16_t>(converted(f16, DType::f32, DType::f16));
  const auto bf16_again = elements_in<std::uint16_t>(converted(bf16, DType::f32, DType::bf16));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double exponent = (all[i] >> 10 & 31) == 0 ? 1.0 : static_cast<double>(all[i] >> 10 & 31);
    const double fraction = (all[i] & 1023) + ((all[i] >> 10 & 31) == 0 ? 0 : 1024);
    const double magnitude = (all[i] & 0x7C00) == 0x7C00 ? (fraction == 1024 ? HUGE_VAL : NAN) : fraction * std::exp2(exponent - 25);
    const double want = (all[i] & 0x8000) != 0 ? -magnitude : magnitude;
    const bool nan = std::isnan(want);
    wrong += nan ? !std::isnan(f16[i]) : std::bit_cast<std::uint64_t>(static_cast<double>(f16[i])) != std::bit_cast<std::uint64_t>(want);
    wrong += nan ? (f16_again[i] & 0x7FFF) <= 0x7C00 : f16_again[i] != all[i];
    wrong += std::isnan(bf16[i]) ? (bf16_again[i] & 0x7FFF) <= 0x7F80 : bf16_again[i] != all[i];
  }
  CHECK(wrong == 0);
}

TEST_CASE("elements: float32 is rounded as the kernels round it") {
  std::vector<float> values = {0.0F,     -0.0F,     65504.0F,        65519.99F,  65520.0F,  -65520.0F,    1e30F,
                               0x1p-24F, 0x1p-25F,  0x1.000002p-25F, 0x1.8p-24F, 0x1p-14F,  0x1.ffcp-15F, 0x1.ffep-15F,
                               1e-40F,   HUGE_VALF, -HUGE_VALF,      3.4e38F,    0x1.01p0F, 0x1.03p0F,    0x1.004p0F};
  Random random(17);
  for (std::size_t i = 0; i < 200000; ++i) {
    const auto word = static_cast<std::uint32_t>(random.below(std::size_t{1} << 32));
    values.push_back(std::bit_cast<float>(word));
    // Near f16's range, and often just between two of its numbers.
    values.push_back(std::bit_cast<float>((word & 0x8FFFFFFFU & ~(word % 3 == 0 ? 0xFFFU : 0U)) | 0x30000000U));
  }
  const auto f16 = elements_in<std::uint16_t>(converted(values, DType::f32, DType::f16));
  const auto bf16 = elements_in<std::uint16_t>(converted(values, DType::f32, DType::bf16));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      wrong += (f16[i] & 0x7FFF) <= 0x7C00 || (bf16[i] & 0x7FFF) <= 0x7F80;
    } else {
      wrong += f16[i] != by_kernels<__half>(values[i]) || bf16[i] != by_kernels<__nv_bfloat16>(values[i]);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("weights: what cannot be read or sent is an error, wherever it stands") {
  ModelConfig config{.vocab = 9, .hidden = 16, .intermediate = 8, .heads = 2, .layers = {{true}}};
  config.head_layers = 1;
  const RandomWeights weights(config, 1, DType::bf16);
  const HostTensors source = weights.source();
  const Graph graph = build_graph(config, Precision::f16);
  const auto layout = get(cuda::WeightLayout::make(graph, source));
  for (std::size_t bad = 0; bad < source.size(); ++bad) {
    Discard sink(SIZE_MAX);
    const auto loaded = cuda::load_weights(Torn(source, bad), graph, layout, sink);
    REQUIRE(!loaded);
    CHECK(loaded.error().message() == "torn");
  }
  std::size_t sends = 0;
  for (;; ++sends) {
    Discard sink(sends);
    const auto loaded = cuda::load_weights(source, graph, layout, sink);
    if (loaded) {
      break;
    }
    CHECK(loaded.error().message() == "no more");
  }
  CHECK(sends > source.size());  // queries, keys and values of the last layer apart
}

TEST_CASE("weights: what has no place on a device is refused by name") {
  ModelConfig config{.vocab = 9, .hidden = 16, .intermediate = 8, .heads = 2, .layers = {{true}}};
  const RandomWeights weights(config, 1);
  const auto refused = cuda::WeightLayout::make(build_graph(config, Precision::int8), weights.source());
  REQUIRE(!refused);
  CHECK_THAT(refused.error().text(), Contains("precision int8 on CUDA devices"));
}

}  // namespace kime::test
