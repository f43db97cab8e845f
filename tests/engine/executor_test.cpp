// The executor's contract, on a backend that computes nothing and on the CPU.
#include "kime/engine/executor.h"

#include <catch2/catch.hpp>
#include <memory>

#include "kime/backend/cpu/cpu_driver.h"
#include "kime/engine/device_backend.h"
#include "kime/graph/builder.h"
#include "tests/engine/cpu_stream.h"
#include "tests/support/random_model.h"

namespace kime::test {
namespace {

// Writes down what it is asked for.
struct FakeBackend {
  struct Weights {};
  struct Workspace {};
  struct Plan {
    Bucket bucket;
    int runs = 0;
  };
  std::size_t too_large = SIZE_MAX;  ///< lower() refuses buckets of as many tokens.
  bool broken = false;               ///< run() fails.
  mutable std::vector<Bucket> lowered;

  static Caps caps() { return {.name = "fake"}; }
  static Result<Weights> upload(const TensorSource& /*tensors*/, const Graph& /*graph*/) { return Weights{}; }
  static Result<Workspace> workspace(const Weights& /*weights*/) { return Workspace{}; }
  Result<Plan> lower(const Weights& /*weights*/, const Graph& /*graph*/, const Bucket& bucket, Workspace& /*workspace*/) const {
    lowered.push_back(bucket);
    if (bucket.tokens >= too_large) {
      return Error(ErrorKind::device, "no memory");
    }
    return Plan{bucket};
  }
  Status run(Plan& plan, const Batch& batch, Outputs& outputs) const {
    if (broken) {
      return Error(ErrorKind::device, "gone");
    }
    ++plan.runs;
    outputs.logits.assign(batch.markers.size(), 0.5F);
    outputs.act.assign(batch.seqs(), {1.0F, 2.0F});
    return {};
  }
};
static_assert(Backend<FakeBackend>);
static_assert(Backend<DeviceBackend<CpuDriver>>);

constexpr Bucket kSmall{8, 2, 8};
constexpr Bucket kMany{8, 4, 8};
constexpr Bucket kLarge{16, 4, 16};
constexpr Bucket kStage[] = {kSmall, kMany, kLarge};

Executor<FakeBackend> executor_on(std::shared_ptr<FakeBackend> backend) {
  const Program<FakeBackend> program{std::move(backend), std::make_shared<const Graph>(), std::make_shared<const FakeBackend::Weights>(),
                                     10, 3};
  auto executor = Executor<FakeBackend>::make(program, "compat", kStage);
  REQUIRE(executor);
  return *std::move(executor);
}

BatchBuffer sequences(std::initializer_list<std::size_t> lengths) {
  BatchBuffer buffer;
  for (const std::size_t length : lengths) {
    REQUIRE(buffer.push(std::vector<std::uint32_t>(length, 1), std::vector<std::uint32_t>{0}, 0));
  }
  return buffer;
}

TEST_CASE("a batch runs in the first bucket that holds it, on a plan that is built once") {
  auto backend = std::make_shared<FakeBackend>();
  auto executor = executor_on(backend);
  CHECK(executor.warm().empty());
  Outputs outputs;
  const auto run = [&](std::initializer_list<std::size_t> lengths) {
    const BatchBuffer buffer = sequences(lengths);
    auto ran = executor.run(buffer.batch(), outputs);
    REQUIRE(ran);
    CHECK(outputs.logits.size() == lengths.size());
    CHECK(outputs.act.size() == lengths.size());
    return *ran;
  };
  CHECK(run({9, 7}) == kLarge);
  CHECK(run({4, 4}) == kSmall);
  CHECK(run({2, 2, 4}) == kMany);
  CHECK(run({8}) == kSmall);
  CHECK(run({}) == kSmall);
  CHECK(run({5, 5}) == kLarge);
  CHECK(backend->lowered == std::vector<Bucket>{kLarge, kSmall, kMany});
  CHECK(executor.warm() == backend->lowered);
  REQUIRE(executor.plans().size() == 3);
  CHECK(executor.plans()[0].plan->runs == 2);
  CHECK(executor.plans()[1].plan->runs == 3);
  CHECK(executor.plans()[2].plan->runs == 1);
  CHECK(executor.plans()[2].bucket == kMany);
  CHECK(&executor.backend() == backend.get());
}

TEST_CASE("prepare builds a plan once, and only for a bucket of the stage") {
  auto backend = std::make_shared<FakeBackend>();
  auto executor = executor_on(backend);
  CHECK(executor.prepare(kMany));
  CHECK(executor.prepare(kMany));
  CHECK(executor.prepare(kSmall));
  CHECK(backend->lowered == std::vector<Bucket>{kMany, kSmall});
  const auto unknown = executor.prepare({8, 3, 8});
  REQUIRE(!unknown);
  CHECK(unknown.error().text() == "unsupported: stage compat has no bucket of 8 tokens, 3 sequences and 8 markers");
  CHECK(executor.warm() == std::vector<Bucket>{kMany, kSmall});
}

TEST_CASE("a batch that no bucket holds gets the bucket message") {
  auto executor = executor_on(std::make_shared<FakeBackend>());
  Outputs outputs;
  const BatchBuffer long_one = sequences({17});
  auto ran = executor.run(long_one.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().kind() == ErrorKind::no_bucket);
  CHECK(ran.error().text() == "no compat bucket holds 17 tokens, 1 sequences and 1 markers");
  const BatchBuffer many = sequences({1, 1, 1, 1, 1});
  ran = executor.run(many.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().text() == "no compat bucket holds 5 tokens, 5 sequences and 5 markers");
}

TEST_CASE("a bad batch is refused before a bucket is looked for") {
  auto backend = std::make_shared<FakeBackend>();
  auto executor = executor_on(backend);
  Outputs outputs;
  BatchBuffer buffer;
  REQUIRE(buffer.push(std::vector<std::uint32_t>(100, 12), {}, 0));
  auto ran = executor.run(buffer.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().text() == "bad batch: token id 12 is past the vocabulary of 10");
  buffer.clear();
  REQUIRE(buffer.push(std::vector<std::uint32_t>(2, 1), {}, 3));
  ran = executor.run(buffer.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().text() == "bad batch: sequence 0 has type 3 of 3");
  CHECK(backend->lowered.empty());
}

TEST_CASE("what the backend reports comes through, and a plan that failed is tried again") {
  auto backend = std::make_shared<FakeBackend>();
  backend->too_large = 16;
  auto executor = executor_on(backend);
  Outputs outputs;
  const BatchBuffer large = sequences({10});
  for (int i = 0; i < 2; ++i) {
    auto ran = executor.run(large.batch(), outputs);
    REQUIRE(!ran);
    CHECK(ran.error().text() == "device: no memory");
  }
  CHECK(!executor.prepare(kLarge));
  CHECK(executor.warm().empty());
  CHECK(backend->lowered.size() == 3);
  backend->too_large = SIZE_MAX;
  CHECK(executor.run(large.batch(), outputs));
  backend->broken = true;
  auto ran = executor.run(large.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().text() == "device: gone");
}

TEST_CASE("the CPU gives the bucket message for a batch that is too large") {
  ModelConfig config{.vocab = 10, .hidden = 8, .intermediate = 8, .heads = 1, .layers = {{true}}};
  config.head_layers = 1;
  const RandomWeights weights(config, 1);
  CpuStream cpu(1);
  auto program = cpu.program(weights.source(), config);
  REQUIRE(program);
  const auto& table = BucketTable::compiled_in();
  auto executor = Executor<CpuStream::Backend>::make(*program, "compat", table.stage("compat"));
  REQUIRE(executor);
  BatchBuffer buffer;
  REQUIRE(buffer.push(std::vector<std::uint32_t>(20000, 1), std::vector<std::uint32_t>{1, 2, 3, 4}, 0));
  Outputs outputs;
  auto ran = executor->run(buffer.batch(), outputs);
  REQUIRE(!ran);
  CHECK(ran.error().text() == "no compat bucket holds 20000 tokens, 1 sequences and 4 markers");
  const BatchBuffer small = sequences({3, 4});
  auto fits = executor->run(small.batch(), outputs);
  REQUIRE(fits);
  CHECK(fits->tokens == 32);
  CHECK(outputs.logits.size() == 2);
  CHECK(executor->backend().caps().name == "cpu");
}

}  // namespace
}  // namespace kime::test
