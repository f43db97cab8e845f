// What verification refuses: algorithms that go wrong, each in one way, at one place.
#include <algorithm>

#include "kime/backend/cuda/blas_probe.h"
#include "tests/cuda/driver/blas_rig.h"

namespace kime::test {

namespace {

using cuda::ProductOut;
using cuda::ProductType;
using Where = std::function<bool(const FakeOutput&)>;

struct Fault {
  const char* name;
  Where where;
};

// Where an algorithm leaves the way it sums elsewhere.
const std::vector<Fault>& places() {
  static const std::vector<Fault> all = {
      {"few rows", [](const FakeOutput& at) { return at.rows == 1; }},
      {"one bucket", [](const FakeOutput& at) { return at.rows == 128; }},
      {"the most rows", [](const FakeOutput& at) { return at.rows == 200; }},
      {"a tile's second row", [](const FakeOutput& at) { return at.row % 64 == 1; }},
      {"a tile's last row", [](const FakeOutput& at) { return at.row % 64 == 63; }},
      {"a large tile's last row", [](const FakeOutput& at) { return at.row == 127; }},
      {"odd rows", [](const FakeOutput& at) { return at.row % 2 == 1; }},
      {"the last row", [](const FakeOutput& at) { return at.rows > 1 && at.row + 1 == at.rows; }},
      {"the last tile, which is partial", [](const FakeOutput& at) { return at.rows == 200 && at.row >= 192; }},
      {"a tile in the middle", [](const FakeOutput& at) { return at.rows == 200 && at.row >= 64 && at.row < 128; }},
      {"one row of one bucket", [](const FakeOutput& at) { return at.rows == 200 && at.row == 77; }},
      {"the last columns of one bucket", [](const FakeOutput& at) { return at.rows == 64 && at.column >= 16; }},
  };
  return all;
}

}  // namespace

TEST_CASE("blas: sums that are the same everywhere are taken, in whatever order they are") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const auto out = GENERATE(ProductOut::narrow, ProductOut::added);
  for (const auto how : {FakeSum::forward, FakeSum::backward, FakeSum::halves, FakeSum::blocks}) {
    INFO(small_shape(type, out).text() << ", sum " << static_cast<int>(how));
    BlasRig rig(algorithms({summing([how](const FakeOutput&) { return how; })}));
    CHECK(rig.choice(small_shape(type, out)) == 0U);
  }
}

TEST_CASE("blas: a sum that is another at some place is refused, and the next algorithm taken") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const auto out = GENERATE(ProductOut::narrow, ProductOut::added);
  const auto how = GENERATE(FakeSum::backward, FakeSum::halves, FakeSum::blocks, FakeSum::nothing);
  for (const auto& fault : places()) {
    INFO(small_shape(type, out).text() << ", " << fault.name << ", sum " << static_cast<int>(how));
    BlasRig rig(algorithms({summing([&](const FakeOutput& at) { return fault.where(at) ? how : FakeSum::forward; }), {}}));
    CHECK(rig.choice(small_shape(type, out)) == 1U);
  }
}

TEST_CASE("blas: each single row of a bucket is tried with what shows it") {
  for (std::size_t row = 60; row < 60 + cuda::Probe::kRows; ++row) {
    INFO(row);
    BlasRig rig(algorithms(
        {summing([=](const FakeOutput& at) { return at.rows == 128 && at.row == row ? FakeSum::halves : FakeSum::forward; }), {}}));
    CHECK(rig.choice(small_shape(ProductType::bf16)) == 1U);
  }
}

TEST_CASE("blas: one output that is another is found out where it is not rounded to a narrow type") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const auto how = GENERATE(FakeSum::backward, FakeSum::halves, FakeSum::blocks);
  BlasRig rig(algorithms(
      {summing([=](const FakeOutput& at) { return at.rows == 128 && at.row == 90 && at.column == 5 ? how : FakeSum::forward; }), {}}));
  CHECK(rig.choice(small_shape(type, ProductOut::added)) == 1U);
}

TEST_CASE("blas: subnormal operands that are zero in some buckets are found out") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const auto out = GENERATE(ProductOut::narrow, ProductOut::added);
  INFO(small_shape(type, out).text());
  BlasRig rig(algorithms({summing([](const FakeOutput& at) { return at.rows == 128 ? FakeSum::flushed : FakeSum::forward; }), {}}));
  CHECK(rig.choice(small_shape(type, out)) == 1U);
}

TEST_CASE("blas: what is no product is refused, though it is the same everywhere") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const auto out = GENERATE(ProductOut::narrow, ProductOut::added);
  INFO(small_shape(type, out).text());
  for (const auto how : {FakeSum::short_, FakeSum::nothing}) {
    BlasRig rig(algorithms({summing([how](const FakeOutput&) { return how; }), {}}));
    CHECK(rig.choice(small_shape(type, out)) == 1U);
  }
}

TEST_CASE("blas: split k, a reduction, a large workspace or a bad state is left out without a trial") {
  std::vector<FakeAlgorithm> bad(5);
  bad[0].split_k = 2;
  bad[1].reduction = 1;
  bad[2].workspace_bytes = 4097;
  bad[3].state = cuda::BlasStatus::not_supported;
  bad[4].split_k = -1;
  BlasRig rig(algorithms(bad));
  CHECK(rig.choice(small_shape()) == std::nullopt);
  CHECK(rig.matmuls() == 0);
  REQUIRE(rig.blas.asked().size() == 1);
  const FakeAsked& asked = rig.blas.asked()[0];
  CHECK(asked.rows == 200);
  CHECK(asked.workspace_bytes == 4096);
  CHECK(asked.reduction_mask == 0);
  CHECK(asked.alignments == std::vector<std::uint32_t>{16, 16, 16, 16});
}

TEST_CASE("blas: an algorithm must be taken, and compute, for all numbers of rows") {
  for (const std::size_t refused : {1U, 32U, 200U}) {
    std::vector<FakeAlgorithm> all(3);
    all[0].takes = [=](std::size_t rows) { return rows != refused; };
    all[1].computes = [=](std::size_t rows) { return rows != refused; };
    BlasRig rig(algorithms(all));
    CHECK(rig.choice(small_shape()) == 2U);
  }
}

TEST_CASE("blas: a workspace that is just large enough will do") {
  FakeAlgorithm wants;
  wants.workspace_bytes = 4096;
  BlasRig rig(algorithms({wants}));
  CHECK(rig.choice(small_shape()) == 0U);
}

TEST_CASE("blas: none passes where all are bad, or there is none") {
  const auto by_rows = summing([](const FakeOutput& at) { return at.rows > 64 ? FakeSum::halves : FakeSum::forward; });
  const auto by_place = summing([](const FakeOutput& at) { return at.row % 8 == 7 ? FakeSum::halves : FakeSum::forward; });
  {
    BlasRig rig(algorithms({by_rows, by_place}));
    CHECK(rig.choice(small_shape()) == std::nullopt);
  }
  BlasRig rig(algorithms({}));
  CHECK(rig.choice(small_shape()) == std::nullopt);
}

TEST_CASE("blas: odd shapes pass") {
  for (const auto& [n, k] : {std::pair(8U, 8U), std::pair(8U, 16U), std::pair(40U, 24U), std::pair(256U, 136U)}) {
    for (const auto out : {ProductOut::narrow, ProductOut::added}) {
      const cuda::ProductShape shape{.type = ProductType::bf16, .out = out, .n = n, .k = k, .ld_a = k, .ld_c = n};
      INFO(shape.text());
      BlasRig rig;
      CHECK(rig.choice(shape) == 0U);
    }
  }
}

TEST_CASE("blas: the probe has outliers that cancel, subnormal numbers and one row of garbage") {
  const auto type = GENERATE(ProductType::f16, ProductType::bf16);
  const cuda::ProductShape shape{.type = type, .out = ProductOut::narrow, .n = 16, .k = 64, .ld_a = 64, .ld_c = 16};
  const cuda::Probe probe(shape);
  CHECK(cuda::Probe(shape).a() == probe.a());
  const int mantissa = type == ProductType::f16 ? 10 : 7;
  const auto subnormal = [&](std::uint16_t bits) { return (bits & 0x7FFF) != 0 && (bits & 0x7FFF) >> mantissa == 0; };
  std::size_t outliers = 0;
  std::size_t subnormals = 0;
  std::size_t garbage = 0;
  for (std::size_t row = 0; row < cuda::Probe::kRows; ++row) {
    const std::uint16_t* a = probe.a().data() + row * 64;
    outliers += a[63] == (a[0] ^ 0x8000) && (a[0] & 0x7FFF) > (a[1] & 0x7FFF) ? 1 : 0;
    subnormals += std::all_of(a, a + 64, subnormal) ? 1 : 0;
    garbage += cuda::Probe::is_garbage(row) ? 1 : 0;
  }
  CHECK(outliers == 27);
  CHECK(subnormals == 5);
  CHECK(garbage == 1);
  CHECK(probe.w()[0] == probe.w()[63]);
  CHECK(std::all_of(probe.w().begin() + 3 * 64, probe.w().begin() + 4 * 64, subnormal));
}

}  // namespace kime::test
