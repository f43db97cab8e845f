// cuBLASLt as a library: what it must export, and both fakes opened as a process opens the real ones.
#include "kime/backend/cuda/blas_library.h"

#include "tests/cuda/driver/blas_rig.h"

namespace kime::test {

namespace {

// The fake's exports, less some.
cuda::Symbols exports(std::vector<std::string> without = {}) {
  return [without = std::move(without)](const char* wanted) {
    void* found = nullptr;
    cuda::for_each_blas_function(FakeBlas::api(), [&](std::string_view name, auto member) {
      if (name == wanted && std::ranges::find(without, name) == without.end()) {
        found = reinterpret_cast<void*>(member);
      }
    });
    return found;
  };
}

}  // namespace

TEST_CASE("blas library: each function that is missing is named") {
  const auto whole = get(cuda::resolve_blas(exports(), "libtest.so"));
  CHECK(whole.version == "12.8.5");
  CHECK(whole.api.matmul == FakeBlas::api().matmul);
  CHECK(why(cuda::resolve_blas(exports({"cublasLtMatmul"}), "libtest.so")) == "libtest.so lacks the function cublasLtMatmul");
  CHECK(why(cuda::resolve_blas(exports({"cublasLtCreate", "cublasLtMatmulAlgoCheck"}), "libtest.so")) ==
        "libtest.so lacks the functions cublasLtCreate, cublasLtMatmulAlgoCheck");
}

TEST_CASE("blas library: one that is gone cannot be loaded") {
  CHECK_THAT(why(cuda::open_blas({"libno-such.so.13", "13.0.0"})),
             Catch::Matchers::StartsWith("cuBLASLt cannot be loaded: libno-such.so.13"));
}

TEST_CASE("blas library: both fakes, opened as libraries, work on the same streams") {
  const auto driver = get(cuda::open_driver(KIME_FAKE_LIBCUDA));
  const auto found = get(cuda::find_cublaslt({KIME_FAKE_CUBLASLT}));
  auto library = get(cuda::open_blas(found));
  CHECK(library.version == found.version);
  const auto context = std::make_shared<cuda::DeviceContext>(std::make_shared<const cuda::DriverApi>(driver.api),
                                                             get(cuda::find_devices(driver.api)).devices[0]);
  const auto stream = get(cuda::Stream::make(0, context));
  const auto products = get(cuda::Products::open(context, std::move(library), std::make_shared<cuda::ProductVerdicts>(), {4096, {1, 64}}));
  CHECK(get(products->choose(small_shape(), BlasRig::kRows, stream->handle())) != nullptr);
}

}  // namespace kime::test
