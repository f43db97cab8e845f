// The same models where cuBLASLt does products.
#include "tests/cuda/driver/gpu_fleet.h"

namespace kime::test {

namespace {

// The scores of one lane.
Outputs scores_of(GpuFleet& over, const BatchBuffer& buffer, std::size_t lane = 0) {
  Outputs scores;
  CHECK(GpuFleet::score(*over.fleet->lanes()[lane], buffer, scores).empty());
  return scores;
}

FakeBlasConfig with(std::vector<FakeAlgorithm> algorithms) {
  FakeBlasConfig config;
  config.algorithms = std::move(algorithms);
  return config;
}

// The second record of a batch, as if it had been alone.
Outputs second_of(const Outputs& scores, const Batch& batch) {
  return {{scores.logits.begin() + batch.mcu[1], scores.logits.begin() + batch.mcu[2]}, {scores.act[1]}};
}

}  // namespace

TEST_CASE("products: models score as the float64 reference, with the same bits in every bucket, device and stream") {
  for (const Precision precision : {Precision::f16, Precision::bf16}) {
    CAPTURE(name_of(precision));
    GpuFleet over(gpus(2), precision, 2, FakeBlasConfig());
    REQUIRE(over.error.empty());
    const BatchBuffer small = over.batch(1, 2);
    const Outputs scores = scores_of(over, small);
    CHECK(distance(scores, over.reference(small)) < 0.03);
    CHECK(over.fake.calls("cublasLtMatmul") > 0);
    for (std::size_t lane = 1; lane < 4; ++lane) {
      CHECK(scores_of(over, small, lane) == scores);
    }
    const BatchBuffer large = over.batch(1, 12);  // begins with the same records; another bucket
    REQUIRE(large.batch().ids.size() > 256);
    CHECK(second_of(scores_of(over, large), large.batch()) == second_of(scores, small.batch()));
  }
}

TEST_CASE("products: what was verified is not verified again, and a replay calls the library no more") {
  GpuFleet over(gpus(1), Precision::bf16, 1, FakeBlasConfig());
  REQUIRE(over.error.empty());
  const BatchBuffer buffer = over.batch(1, 2);
  const Outputs scores = scores_of(over, buffer);
  const std::size_t calls = over.fake.calls("cublasLtMatmul");
  CHECK(scores_of(over, buffer) == scores);
  CHECK(over.fake.calls("cublasLtMatmul") == calls);
  static_cast<void>(scores_of(over, over.batch(2, 12)));  // another bucket: its capture and no trial
  CHECK(over.fake.calls("cublasLtMatmul") - calls < 20);
}

TEST_CASE("products: an algorithm whose bits change with the rows is refused; the next one, or the kernels, take its place") {
  FakeAlgorithm fickle;
  fickle.sum = [](const FakeOutput& output) { return output.rows > 100 ? FakeSum::backward : FakeSum::forward; };
  FakeAlgorithm other;
  other.sum = [](const FakeOutput& /*output*/) { return FakeSum::halves; };
  const auto score = [](std::optional<FakeBlasConfig> library) {
    GpuFleet over(gpus(1), Precision::bf16, 1, std::move(library));
    REQUIRE(over.error.empty());
    return scores_of(over, over.batch(1, 3));
  };
  const Outputs by_kernels = score({});
  CHECK(score(with({fickle})) == by_kernels);
  CHECK(score(with({fickle, other})) == score(with({other})));
  CHECK(!(score(with({other})) == by_kernels));
}

TEST_CASE("products: a device says whether it computes whole buckets") {
  for (const bool library : {true, false}) {
    GpuFleet over(gpus(1), Precision::bf16, 1, library ? std::optional(FakeBlasConfig()) : std::nullopt);
    REQUIRE(over.error.empty());
    CHECK(over.fleet->devices()[0].padded == library);
  }
}

TEST_CASE("products: every call of the library that fails is an error of its own, and no wrong score") {
  Outputs want;
  for (const auto* function : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate", "cublasLtMatmulAlgoGetHeuristic",
                               "cublasLtMatmulAlgoCheck", "cublasLtMatmul"}) {
    for (const std::size_t nth : {std::size_t{1}, std::size_t{7}}) {
      INFO(function << " " << nth);
      GpuFleet over(gpus(1), Precision::bf16, 1, FakeBlasConfig());
      REQUIRE(over.error.empty());
      const BatchBuffer buffer = over.batch(1, 1);
      if (want.logits.empty()) {
        want = scores_of(over, buffer);
        continue;
      }
      over.faulty = true;
      over.fake.fail(function, nth, Code::out_of_memory);
      Outputs got;
      const std::string failure = GpuFleet::score(*over.fleet->lanes()[0], buffer, got);
      if (failure.empty()) {
        CHECK(got == want);
        CHECK(over.fake.calls(function) < nth);
      } else {
        CHECK_THAT(failure, Contains("cublasLt"));
      }
    }
  }
}

}  // namespace kime::test
