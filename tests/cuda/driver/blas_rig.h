// Verified products over the fakes, and what tests say about them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kime/backend/cuda/blas_products.h"
#include "kime/backend/cuda/devices.h"
#include "kime/backend/cuda/stream.h"
#include "tests/cuda/driver/rig.h"
#include "tests/cuda/fake/fake_cublaslt.h"

namespace kime::test {

inline FakeBlasConfig algorithms(std::vector<FakeAlgorithm> all) {
  FakeBlasConfig config;
  config.algorithms = std::move(all);
  return config;
}
inline FakeAlgorithm summing(std::function<FakeSum(const FakeOutput&)> how) {
  FakeAlgorithm algorithm;
  algorithm.sum = std::move(how);
  return algorithm;
}

inline cuda::ProductShape small_shape(cuda::ProductType type = cuda::ProductType::f16, cuda::ProductOut out = cuda::ProductOut::narrow) {
  return {.type = type, .out = out, .n = 24, .k = 64, .ld_a = 72, .ld_c = 32};
}

/// A device of the fake driver's with a stream. When it ends, nothing is left and no rule was broken.
class BlasRig {
 public:
  explicit BlasRig(FakeBlasConfig blas_config = {}, FakeCudaConfig cuda_config = {})
      : fake(std::move(cuda_config)), blas(std::move(blas_config)) {
    const auto& api = FakeCuda::api();
    REQUIRE(api.init(0) == Code::success);
    context = std::make_shared<cuda::DeviceContext>(std::make_shared<const cuda::DriverApi>(api), get(cuda::find_devices(api)).devices[0]);
    stream = get(cuda::Stream::make(0, context));
    options.workspace_bytes = 4096;
    options.always = {1, 64, 200};
  }
  BlasRig(const BlasRig&) = delete;
  BlasRig& operator=(const BlasRig&) = delete;
  ~BlasRig() {
    stream = nullptr;
    const bool alive = context->alive();
    context = nullptr;
    CHECK(blas.objects() == 0);
    if (alive) {
      CHECK(fake.used_bytes(0) == 0);
      CHECK(fake.handles() == 0);
    }
    CHECK(fake.violations() == std::vector<std::string>());
  }

  [[nodiscard]] Result<std::unique_ptr<cuda::Products>> open(std::shared_ptr<cuda::ProductVerdicts> with = nullptr) {
    return cuda::Products::open(context, cuda::start_blas(FakeBlas::api()), with ? with : std::make_shared<cuda::ProductVerdicts>(),
                                options);
  }
  /// Which of the fake's algorithms is taken for rows of 32 and 128 and those of the options; none: none is.
  [[nodiscard]] std::optional<std::size_t> choice(const cuda::ProductShape& shape) {
    const auto products = get(open());
    return index(get(products->choose(shape, kRows, stream->handle())));
  }
  [[nodiscard]] static std::optional<std::size_t> index(const cuda::VerifiedProduct* product) {
    return product == nullptr ? std::nullopt : std::optional<std::size_t>(product->algo().data[1]);
  }
  [[nodiscard]] std::size_t matmuls() { return fake.calls("cublasLtMatmul"); }

  static constexpr std::array<std::size_t, 3> kRows = {128, 32, 128};
  FakeCuda fake;
  FakeBlas blas;
  std::shared_ptr<cuda::DeviceContext> context;
  std::unique_ptr<cuda::Stream> stream;
  cuda::ProductOptions options;
};

}  // namespace kime::test
