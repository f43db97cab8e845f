// Whole models as launches of the CUDA kernels, run over the shim: against the float64 reference, and the same bits whatever the bucket,
// the batch and the device's size.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "kernels/cuda/params.h"
#include "kime/backend/cuda/lowering.h"
#include "kime/graph/builder.h"
#include "kime/graph/rope.h"
#include "kime/runtime/io_layout.h"
#include "tests/cuda/shim/launch.h"
#include "tests/cuda/shim/memory.h"
#include "tests/support/reference_model.h"
#include "tests/support/results.h"

namespace kime::test {
namespace {

using Catch::Matchers::Contains;
using cuda::Region;
using cuda::shim::Buffer;

/// Weights as a device has them, in registered memory.
class HostSink final : public cuda::WeightSink {
 public:
  explicit HostSink(std::size_t bytes) : memory(bytes), piece_(kPiece) {}
  Result<std::byte*> room() override { return piece_.data(); }
  Status send(std::size_t offset, std::size_t bytes) override {
    std::copy_n(piece_.data(), bytes, memory.data() + offset);
    return {};
  }
  Buffer<std::byte> memory;

 private:
  std::vector<std::byte> piece_;
};

// Fills a vector, which may be empty, with what stands at an address.
template <class T>
void take(const std::byte* from, std::vector<T>& to) {
  std::copy_n(from, to.size() * sizeof(T), reinterpret_cast<std::byte*>(to.data()));
}

/// A model, ready to run batches over the shim.
class Shimmed {
 public:
  Shimmed(const ModelConfig& config, const RandomWeights& weights, Precision precision)
      : graph_(build_graph(config, precision)),
        layout_(get(cuda::WeightLayout::make(graph_, weights.source()))),
        weights_(layout_.bytes()) {
    ok(cuda::load_weights(weights.source(), graph_, layout_, weights_));
  }

  [[nodiscard]] Outputs run(const Batch& batch, const Bucket& bucket, unsigned processors, std::uint64_t seed = 1,
                            const cuda::LibraryTakes& library = {}) {
    const auto code = get(cuda::BucketCode::compile(graph_, bucket));
    const cuda::LoweredGraph lowered = cuda::lower(graph_, layout_, code, processors, library);
    Buffer<std::byte> arena(code.arena_bytes());
    const BatchLayout in(bucket);
    Buffer<std::byte> inputs(in.bytes);
    const auto put = [&](std::size_t offset, const auto& values) {
      if (!values.empty()) {
        std::memcpy(inputs.data() + offset, values.data(), values.size_bytes());
      }
    };
    put(in.ids, batch.ids);
    put(in.cu, batch.cu);
    put(in.markers, batch.markers);
    put(in.mcu, batch.mcu);
    put(in.qtype, batch.qtype);
    const ScoreLayout out(bucket);
    Buffer<std::byte> outputs(out.bytes);
    std::vector<std::unique_ptr<Buffer<float>>> cosines;
    std::vector<std::unique_ptr<Buffer<float>>> sines;
    for (const auto& rope : lowered.ropes) {
      const RopeAngles angles(rope.theta, rope.head_width);
      auto& cosine = *cosines.emplace_back(std::make_unique<Buffer<float>>(bucket.tokens * angles.half()));
      auto& sine = *sines.emplace_back(std::make_unique<Buffer<float>>(bucket.tokens * angles.half()));
      angles.fill(0, bucket.tokens, cosine.data(), sine.data());
    }
    const auto at = [&](const cuda::Ref& ref) -> const void* {
      switch (ref.region) {
        case Region::weights:
          return weights_.memory.data() + ref.offset;
        case Region::inputs:
          return inputs.data() + ref.offset;
        case Region::outputs:
          return outputs.data() + ref.offset;
        case Region::cosine:
          return cosines[ref.offset]->data();
        case Region::sine:
          return sines[ref.offset]->data();
        case Region::arena:
          break;
      }
      return arena.data() + ref.offset;
    };
    const auto launch = [&](cuda::KernelLaunch each) {
      for (const auto& pointer : each.pointers) {
        const void* address = at(pointer.to);
        std::memcpy(each.params.data() + pointer.at, &address, sizeof(address));
      }
      const auto* kernel = cuda::shim::find_kernel(each.kernel);
      INFO(each.kernel);
      REQUIRE(kernel != nullptr);
      REQUIRE(kernel->params_bytes == each.params.size());
      kernel->launch({each.grid[0], each.grid[1], 1}, {each.threads, 1, 1}, each.shared_bytes, each.params.data(), seed);
    };
    launch(cuda::set_counts(code, {batch.ids.size(), batch.seqs(), batch.markers.size()}));
    for (const auto& step : lowered.steps) {
      if (const auto* product = std::get_if<cuda::ProductLaunch>(&step)) {
        multiply(*product, at(product->a), at(product->w), const_cast<void*>(at(product->c)));
      } else {
        launch(std::get<cuda::KernelLaunch>(step));
      }
    }
    CHECK(arena.intact());
    CHECK(outputs.intact());
    Outputs scores;
    scores.logits.resize(batch.markers.size());
    scores.act.resize(batch.seqs());
    take(outputs.data() + out.logits, scores.logits);
    take(outputs.data() + out.act, scores.act);
    return scores;
  }

 private:
  // What a library does: all of the bucket's rows, of which those past the real ones hold anything.
  static void multiply(const cuda::ProductLaunch& product, const void* a, const void* w, void* c) {
    const auto row = [&](const void* matrix, std::size_t at) {
      std::vector<float> values(product.k);
      const std::size_t bytes = product.k * size_of(product.type);
      cuda::convert_elements({static_cast<const std::byte*>(matrix) + at * size_of(product.type), bytes}, product.type,
                             reinterpret_cast<std::byte*>(values.data()), DType::f32);
      return values;
    };
    for (std::size_t i = 0; i < product.rows; ++i) {
      const auto x = row(a, i * product.ld_a);
      for (std::size_t j = 0; j < product.n; ++j) {
        const auto y = row(w, j * product.k);
        float sum = 0;
        for (std::size_t k = 0; k < product.k; ++k) {
          sum += x[k] * y[k];
        }
        const DType type = product.added ? DType::f32 : product.type;
        auto* to = static_cast<std::byte*>(c) + (i * product.ld_c + j) * size_of(type);
        if (product.added) {
          float before = 0;
          std::memcpy(&before, to, sizeof(before));
          sum += before;
        }
        cuda::convert_elements(std::as_bytes(std::span(&sum, 1)), DType::f32, to, type);
      }
    }
  }

  Graph graph_;
  cuda::WeightLayout layout_;
  HostSink weights_;
};

Bucket bucket_for(const Batch& batch) {
  return {batch.ids.size(), batch.seqs(), batch.markers.size()};
}

// In parts of the largest score: roundings of activations to the element type, which layers carry on.
double allowed(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return 100 * kUnit;
    case Precision::f16:
      return 0.003;
    default:
      return 0.03;
  }
}

std::vector<Precision> cuda_precisions() {
  std::vector<Precision> precisions;
  std::ranges::copy_if(kPrecisions, std::back_inserter(precisions), [](Precision p) { return cuda::element_of(p).has_value(); });
  return precisions;
}

}  // namespace

TEST_CASE("lowering: random models score as the float64 reference") {
#ifdef KIME_SANITIZED  // 6 s a model and precision
  constexpr std::uint64_t kModels = 2;
#else
  constexpr std::uint64_t kModels = 6;
#endif
  for (const Precision precision : cuda_precisions()) {
    for (std::uint64_t seed = 1; seed <= kModels; ++seed) {
      Random random(seed);
      const ModelConfig config = random_config(random);
      BatchBuffer buffer;
      for (std::size_t i = 1 + random.below(4); i != 0; --i) {
        push_record(buffer, random, config, 40);
      }
      const Batch batch = buffer.batch();
      CAPTURE(name_of(precision), seed, config.hidden, config.heads, config.intermediate, config.layers.size(), config.head_layers);
      const RandomWeights weights(config, seed, static_cast<DType>(random.below(3)));
      Shimmed model(config, weights, precision);
      const Outputs exact = model.run(batch, bucket_for(batch), 4);
      const double error = distance(exact, reference_model(config, weights, batch));
      CHECK(error < allowed(precision));
      const Bucket larger{batch.ids.size() + 100, batch.seqs() + 3, batch.markers.size() + 9};
      CHECK(exact == model.run(batch, larger, 1, seed + 1));
    }
  }
}

TEST_CASE("lowering: a record has the same bits alone and in company, on small devices and large ones") {
  ModelConfig config{.vocab = 50, .hidden = 128, .intermediate = 90, .heads = 2, .layers = {{true}, {false}}};
  config.window = 16;
  config.head_layers = 1;
  const RandomWeights weights(config, 5);
  for (const Precision precision : cuda_precisions()) {
    CAPTURE(name_of(precision));
    Shimmed model(config, weights, precision);
    Random random(11);
    BatchBuffer all;
    std::vector<BatchBuffer> each(4);
    for (auto& alone : each) {
      Random here(random.below(1000));
      Random there = here;
      push_record(alone, here, config, 150);
      push_record(all, there, config, 150);
    }
    const Batch together = all.batch();
    const Outputs scores = model.run(together, bucket_for(together), 1);
    for (std::size_t s = 0; s < each.size(); ++s) {
      const Batch batch = each[s].batch();
      const Outputs alone = model.run(batch, bucket_for(batch), 200);
      Outputs part;
      part.logits.assign(scores.logits.begin() + together.mcu[s], scores.logits.begin() + together.mcu[s + 1]);
      part.act = {scores.act[s]};
      CHECK(alone == part);
    }
  }
}

TEST_CASE("lowering: products of a library take the kernels' places, with biases and activations after them") {
  ModelConfig config{.vocab = 50, .hidden = 24, .intermediate = 21, .heads = 3, .layers = {{true}, {false}}};
  config.window = 16;
  config.head_layers = 2;  // biases, ReLU; keys and values apart in the last
  const RandomWeights weights(config, 5);
  for (const Precision precision : {Precision::f16, Precision::bf16}) {
    CAPTURE(name_of(precision));
    Shimmed model(config, weights, precision);
    Random random(11);
    BatchBuffer buffer;
    for (std::size_t i = 0; i < 3; ++i) {
      push_record(buffer, random, config, 30);
    }
    const Batch batch = buffer.batch();
    std::vector<cuda::ProductLaunch> asked;
    const auto takes = [&](const cuda::ProductLaunch& product) {
      asked.push_back(product);
      return true;
    };
    const Outputs scores = model.run(batch, {batch.ids.size() + 7, batch.seqs(), batch.markers.size()}, 4, 1, takes);
    CHECK(distance(scores, reference_model(config, weights, batch)) < allowed(precision));
    // Of each layer four but for the GEGLU's; of the head's first layer four, of its last one keys and values.
    CHECK(asked.size() == 2 * 3 + 4 + 1);
    CHECK(std::ranges::count_if(asked, &cuda::ProductLaunch::added) == 2 * 2 + 2);
    asked.clear();
    const auto refuses = [](const cuda::ProductLaunch& /*product*/) { return false; };
    CHECK(model.run(batch, bucket_for(batch), 4, 1, refuses) == model.run(batch, bucket_for(batch), 4));
  }
  Shimmed full(config, weights, Precision::f32);
  BatchBuffer buffer;
  REQUIRE(buffer.push(std::vector<std::uint32_t>{4, 5}, std::vector<std::uint32_t>{1}, 0));
  bool asked = false;
  static_cast<void>(full.run(buffer.batch(), {8, 1, 1}, 4, 1, [&](const cuda::ProductLaunch& /*product*/) { return asked = true; }));
  CHECK(!asked);  // float32 is the kernels' own
}

TEST_CASE("lowering: a batch of nothing, records without markers and records without tokens") {
  for (const std::size_t head_layers : {0U, 1U}) {
    ModelConfig config{.vocab = 9, .hidden = 16, .intermediate = 8, .heads = 2, .layers = {{true}}};
    config.head_layers = head_layers;
    CAPTURE(head_layers);
    const RandomWeights weights(config, 3);
    Shimmed model(config, weights, Precision::f32);
    BatchBuffer buffer;
    const auto check = [&] {
      const Batch batch = buffer.batch();
      CHECK(distance(model.run(batch, {8, 4, 4}, 4), reference_model(config, weights, batch)) < allowed(Precision::f32));
    };
    check();
    REQUIRE(buffer.push(std::vector<std::uint32_t>{}, {}, 1));
    check();
    REQUIRE(buffer.push(std::vector<std::uint32_t>{1, 2, 3}, {}, 2));
    check();
    REQUIRE(buffer.push(std::vector<std::uint32_t>{4, 5}, std::vector<std::uint32_t>{1}, 0));
    REQUIRE(buffer.push(std::vector<std::uint32_t>{}, {}, 0));
    check();
  }
}

TEST_CASE("lowering: what kernels have no form of is refused by name") {
  const auto refusal = [](const ModelConfig& config, Precision precision) {
    const auto code = cuda::BucketCode::compile(build_graph(config, precision), {8, 1, 1});
    return code ? "" : code.error().message();
  };
  ModelConfig config{.vocab = 9, .hidden = 16, .intermediate = 8, .heads = 1, .layers = {{true}}};
  CHECK(refusal(config, Precision::f32).empty());
  CHECK_THAT(refusal(config, Precision::int8), Contains("precision int8 on CUDA devices"));
  config.hidden = 20;
  CHECK_THAT(refusal(config, Precision::f32), Contains("attention heads 20 wide"));
  config.hidden = 256;
  CHECK_THAT(refusal(config, Precision::f32), Contains("attention heads 256 wide"));

  Graph graph;
  graph.weights = {{"table", {9, 16}}, {"weight", {16, 16}}};
  graph.values = {{Rows::tokens, 16}, {Rows::tokens, 16}, {Rows::tokens, 16}};
  const auto of = [&](std::vector<Op> ops) {
    graph.ops = std::move(ops);
    const auto code = cuda::BucketCode::compile(graph, {8, 1, 1});
    return code ? "" : code.error().message();
  };
  const LayerNorm norm{0, 1, std::nullopt, 1e-5F, 0};
  const Gemm gemm{0, 1, 0, 16, std::nullopt, Activation::none, false, 1, Precision::bf16};
  CHECK_THAT(of({Embed{0, 0}}), Contains("an embedding without a norm"));
  Gemm into = gemm;
  into.accumulate = true;
  into.in = 2;
  into.out = 0;
  CHECK_THAT(of({Embed{0, 0}, norm, into, gemm}), Contains("a product of value 0 after it has changed"));
  Gemm biased = gemm;
  biased.activation = Activation::geglu;
  biased.bias = 1;
  CHECK_THAT(of({Embed{0, 0}, norm, biased}), Contains("a GEGLU with a bias"));
  into.activation = Activation::relu;
  CHECK_THAT(of({Embed{0, 0}, norm, into}), Contains("an activation that is added"));
  Gemm relu = gemm;
  relu.activation = Activation::relu;
  CHECK_THAT(of({Embed{0, 0}, norm, relu, LayerNorm{1, 1, std::nullopt, 1e-5F, 2}}), Contains("a narrow product whose result is float32"));
  CHECK_THAT(of({Embed{0, 0}, norm, Attention{0, 0, 0, 0, 0, 0, 1, 16, {}, {}, 1}, gemm}), Contains("attention over float32"));
  graph.values[2].width = 20;
  CHECK_THAT(
      of({Embed{0, 0}, norm, LayerNorm{0, 1, std::nullopt, 1e-5F, 2}, Gemm{2, 1, 0, 16, {}, Activation::none, false, 1, Precision::bf16}}),
      Contains("products over 20 elements"));
}

}  // namespace kime::test
