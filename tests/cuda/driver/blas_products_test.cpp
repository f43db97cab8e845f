// Products that are chosen once and run often: in captures, from several threads, with every call made to fail.
#include "kime/backend/cuda/blas_products.h"

#include <cstring>
#include <thread>

#include "kime/backend/cuda/blas_probe.h"
#include "tests/cuda/driver/blas_rig.h"

namespace kime::test {

namespace {

using cuda::ProductOut;
using cuda::ProductShape;

// Operands of a shape on the device: the probe's, for 32 rows.
class Operands {
 public:
  static constexpr std::size_t kRows = 32;
  Operands(BlasRig& rig, const ProductShape& shape) : rig_(rig), shape_(shape), probe_(shape) {
    at.a = upload(probe_.a().data(), probe_.a().size() * 2);
    at.w = upload(probe_.w().data(), probe_.w().size() * 2);
    c_.resize(kRows * shape.ld_c * shape.out_bytes(), std::byte{0x5A});
    if (shape.out == ProductOut::added) {
      std::memcpy(c_.data(), probe_.added_to().data(), c_.size());
    }
    at.c = upload(c_.data(), c_.size());
    slabs_.push_back(get(cuda::Slab::on_device(rig.context, rig.options.workspace_bytes, 256)));
    workspace = {slabs_.back().address(), rig.options.workspace_bytes};
  }
  /// What is in c's columns is the product, for each row but the one of garbage; what is between its rows is as it was.
  bool good() {
    const auto before = c_;
    const auto& api = FakeCuda::api();
    REQUIRE(api.memcpy_dtoh_async(c_.data(), at.c, c_.size(), rig_.stream->handle()) == Code::success);
    REQUIRE(api.stream_synchronize(rig_.stream->handle()) == Code::success);
    bool all = true;
    const std::size_t stride = shape_.ld_c * shape_.out_bytes();
    const std::size_t used = shape_.n * shape_.out_bytes();
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::byte* out = c_.data() + row * stride;
      all = all && (cuda::Probe::is_garbage(row) || probe_.is_product(row, out));
      all = all && std::memcmp(out + used, before.data() + row * stride + used, stride - used) == 0;
    }
    return all;
  }

  cuda::ProductOperands at;
  cuda::Workspace workspace;

 private:
  cuda::DeviceAddress upload(const void* from, std::size_t bytes) {
    slabs_.push_back(get(cuda::Slab::on_device(rig_.context, bytes, 256)));
    REQUIRE(FakeCuda::api().memcpy_htod_async(slabs_.back().address(), from, bytes, rig_.stream->handle()) == Code::success);
    return slabs_.back().address();
  }

  BlasRig& rig_;
  ProductShape shape_;
  cuda::Probe probe_;
  std::vector<std::byte> c_;
  std::vector<cuda::Slab> slabs_;
};

std::string trouble(const Status& status) {
  return status ? "" : status.error().text();
}

}  // namespace

TEST_CASE("blas: a product that was chosen is computed, in each type and form") {
  const auto type = GENERATE(cuda::ProductType::f16, cuda::ProductType::bf16);
  const auto out = GENERATE(ProductOut::narrow, ProductOut::added);
  BlasRig rig;
  const auto products = get(rig.open());
  const auto shape = small_shape(type, out);
  const auto* product = get(products->choose(shape, BlasRig::kRows, rig.stream->handle()));
  REQUIRE(product != nullptr);
  Operands operands(rig, shape);
  ok(products->run(*product, rig.stream->handle(), operands.at, Operands::kRows, operands.workspace));
  CHECK(operands.good());
}

TEST_CASE("blas: run can be captured, and makes, allocates and loads nothing") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto* product = get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  Operands operands(rig, small_shape());
  const auto& api = FakeCuda::api();
  const auto stream = rig.stream->handle();
  const std::size_t objects = rig.blas.objects();
  const std::size_t allocations = rig.fake.calls("cuMemAlloc");
  REQUIRE(api.stream_begin_capture(stream, cuda::CaptureMode::thread_local_) == Code::success);
  for (const std::size_t rows : {32U, 1U, 32U}) {
    ok(products->run(*product, stream, operands.at, rows, operands.workspace));
  }
  cuda::GraphHandle graph = nullptr;
  cuda::GraphExecHandle exec = nullptr;
  REQUIRE(api.stream_end_capture(stream, &graph) == Code::success);
  CHECK(rig.blas.objects() == objects);
  CHECK(rig.fake.calls("cuMemAlloc") == allocations);
  REQUIRE(api.graph_instantiate(&exec, graph, 0) == Code::success);
  REQUIRE(api.graph_launch(exec, stream) == Code::success);
  CHECK(operands.good());
  CHECK(api.graph_exec_destroy(exec) == Code::success);
  CHECK(api.graph_destroy(graph) == Code::success);
}

TEST_CASE("blas: the fake punishes a first use inside a capture") {
  const FakeCuda fake;
  const FakeBlas blas;
  const auto& api = FakeCuda::api();
  cuda::ContextHandle context = nullptr;
  cuda::StreamHandle stream = nullptr;
  cuda::BlasHandle handle = nullptr;
  REQUIRE(api.init(0) == Code::success);
  REQUIRE(api.primary_ctx_retain(&context, 0) == Code::success);
  REQUIRE(api.ctx_set_current(context) == Code::success);
  REQUIRE(api.stream_create(&stream, cuda::kStreamNonBlocking) == Code::success);
  REQUIRE(api.stream_begin_capture(stream, cuda::CaptureMode::thread_local_) == Code::success);
  CHECK(FakeBlas::api().create(&handle) == cuda::BlasStatus::alloc_failed);
}

TEST_CASE("blas: choosing inside a capture is punished, and run of what was warmed by another process is not") {
  FakeCuda fake;
  FakeBlas blas;
  const auto& api = FakeCuda::api();
  REQUIRE(api.init(0) == Code::success);
  auto context =
      std::make_shared<cuda::DeviceContext>(std::make_shared<const cuda::DriverApi>(api), get(cuda::find_devices(api)).devices[0]);
  const auto stream = get(cuda::Stream::make(0, context));
  const auto products =
      get(cuda::Products::open(context, cuda::start_blas(FakeBlas::api()), std::make_shared<cuda::ProductVerdicts>(), {4096, {1, 64}}));
  REQUIRE(api.stream_begin_capture(stream->handle(), cuda::CaptureMode::thread_local_) == Code::success);
  CHECK_FALSE(products->choose(small_shape(), BlasRig::kRows, stream->handle()));
  CHECK_FALSE(fake.violations().empty());
}

TEST_CASE("blas: the choice does not follow the buckets, and each choice is verified for its own") {
  BlasRig rig(algorithms({summing([](const FakeOutput& at) { return at.rows == 500 ? FakeSum::halves : FakeSum::forward; }), {}}));
  const auto products = get(rig.open());
  const auto choice = [&](std::vector<std::size_t> rows) {
    return BlasRig::index(get(products->choose(small_shape(), rows, rig.stream->handle())));
  };
  CHECK(choice({4}) == 0U);
  CHECK(choice({300}) == 0U);
  CHECK(choice({4, 500}) == 1U);
  CHECK(rig.blas.asked().size() == 3);
  for (const auto& asked : rig.blas.asked()) {
    CHECK(asked.rows == 200);  // the most of those that are always verified
  }
}

TEST_CASE("blas: a choice that was made is looked up, whatever the order of the rows") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto* first = get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  const std::size_t matmuls = rig.matmuls();
  CHECK(matmuls > 0);
  const std::vector<std::size_t> same = {32, 128, 200};
  CHECK(get(products->choose(small_shape(), same, rig.stream->handle())) == first);
  CHECK(rig.matmuls() == matmuls);
  CHECK(get(products->choose(small_shape(cuda::ProductType::bf16), same, rig.stream->handle())) != first);
  CHECK(rig.matmuls() == 2 * matmuls);
}

TEST_CASE("blas: that no algorithm passes is looked up too") {
  BlasRig rig(algorithms({summing([](const FakeOutput& at) { return at.row == 0 ? FakeSum::halves : FakeSum::forward; })}));
  const auto products = get(rig.open());
  CHECK(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle())) == nullptr);
  const std::size_t matmuls = rig.matmuls();
  CHECK(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle())) == nullptr);
  CHECK(rig.matmuls() == matmuls);
}

TEST_CASE("blas: threads that choose the same shape verify it once") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto other = get(cuda::Stream::make(0, rig.context));
  const auto* alone = get(products->choose(small_shape(cuda::ProductType::bf16), BlasRig::kRows, rig.stream->handle()));
  CHECK(alone != nullptr);
  const std::size_t matmuls = rig.matmuls();
  rig.fake.hold();
  std::array<Result<const cuda::VerifiedProduct*>, 2> chosen = {nullptr, nullptr};
  std::thread first([&] { chosen[0] = products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()); });
  std::thread second([&] { chosen[1] = products->choose(small_shape(), BlasRig::kRows, other->handle()); });
  rig.fake.await_waiter();  // one of them is in the midst of it
  rig.fake.release();
  first.join();
  second.join();
  CHECK(get(chosen[0]) != nullptr);
  CHECK(get(chosen[0]) == get(chosen[1]));
  CHECK(rig.matmuls() == 2 * matmuls);
}

TEST_CASE("blas: a second device of the process takes over what the first has verified, and is warmed") {
  BlasRig rig;
  const auto verdicts = std::make_shared<cuda::ProductVerdicts>();
  const auto products = get(rig.open(verdicts));
  const auto* first = get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  const std::size_t matmuls = rig.matmuls();
  const auto more = get(rig.open(verdicts));
  const auto* second = get(more->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  CHECK(second->algo() == first->algo());
  CHECK(rig.matmuls() == matmuls + 5);  // each number of rows once
  CHECK(verdicts->counts().made == 1);
}

TEST_CASE("blas: each call that fails is an error by its own name, and the next choice succeeds") {
  struct Failing {
    const char* function;
    Code code;
    const char* says;
  };
  const auto failing = GENERATE(
      Failing{"cublasLtMatmulDescCreate", Code::out_of_memory, "device: cublasLtMatmulDescCreate: CUBLAS_STATUS_ALLOC_FAILED"},
      Failing{"cublasLtMatmulDescSetAttribute", Code::invalid_value, "device: cublasLtMatmulDescSetAttribute: CUBLAS_STATUS_INVALID_VALUE"},
      Failing{"cublasLtMatrixLayoutCreate", Code::out_of_memory, "device: cublasLtMatrixLayoutCreate: CUBLAS_STATUS_ALLOC_FAILED"},
      Failing{"cublasLtMatmulPreferenceCreate", Code::out_of_memory, "device: cublasLtMatmulPreferenceCreate: CUBLAS_STATUS_ALLOC_FAILED"},
      Failing{"cublasLtMatmulPreferenceSetAttribute", Code::invalid_value,
              "device: cublasLtMatmulPreferenceSetAttribute: CUBLAS_STATUS_INVALID_VALUE"},
      Failing{"cublasLtMatmulAlgoGetHeuristic", Code::invalid_value, "device: cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INVALID_VALUE"},
      Failing{"cublasLtMatmulAlgoConfigGetAttribute", Code::invalid_value,
              "device: cublasLtMatmulAlgoConfigGetAttribute: CUBLAS_STATUS_INVALID_VALUE"},
      Failing{"cublasLtMatmulAlgoCheck", Code::launch_out_of_resources, "device: cublasLtMatmulAlgoCheck: CUBLAS_STATUS_EXECUTION_FAILED"},
      Failing{"cublasLtMatmul", Code::launch_out_of_resources, "device: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"},
      Failing{"cuMemAlloc", Code::out_of_memory, "device: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"},
      Failing{"cuMemcpyHtoDAsync", Code::invalid_value, "device: cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE"},
      Failing{"cuMemcpyDtoHAsync", Code::invalid_value, "device: cuMemcpyDtoHAsync: CUDA_ERROR_INVALID_VALUE"},
      Failing{"cuMemcpyAsync", Code::invalid_value, "device: cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE"},
      Failing{"cuMemsetD8Async", Code::invalid_value, "device: cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE"},
      Failing{"cuStreamSynchronize", Code::invalid_value, "device: cuStreamSynchronize: CUDA_ERROR_INVALID_VALUE"});
  INFO(failing.function);
  BlasRig rig;
  const auto products = get(rig.open());
  const std::size_t before = rig.fake.calls(failing.function);
  rig.options.always = {1, 64};
  ok([&]() -> Status {  // how often a good choice makes the call
    const BlasRig* counted = &rig;
    auto chosen = products->choose(small_shape(), counted->kRows, rig.stream->handle());
    return chosen ? Status() : std::move(chosen).error();
  }());
  const std::size_t calls = rig.fake.calls(failing.function) - before;
  REQUIRE(calls > 0);
  const std::size_t used = rig.fake.used_bytes(0);
  const std::size_t objects = rig.blas.objects();
  const auto shape = small_shape(cuda::ProductType::bf16);
  for (const std::size_t nth : {std::size_t{1}, (calls + 1) / 2, calls}) {
    rig.fake.fail(failing.function, nth, failing.code);
    const auto failed = products->choose(shape, BlasRig::kRows, rig.stream->handle());
    REQUIRE_FALSE(failed);
    CHECK_THAT(failed.error().text(), Catch::Matchers::StartsWith(failing.says));
    CHECK(rig.fake.used_bytes(0) == used);
    CHECK(rig.blas.objects() == objects);
  }
  CHECK(get(products->choose(shape, BlasRig::kRows, rig.stream->handle())) != nullptr);
}

TEST_CASE("blas: a product that fails late is the device's error") {
  BlasRig rig;
  const auto products = get(rig.open());
  rig.fake.fail_late("cublasLtMatmul", 40, Code::illegal_address);
  const auto failed = products->choose(small_shape(), BlasRig::kRows, rig.stream->handle());
  REQUIRE_FALSE(failed);
  CHECK_THAT(failed.error().text(), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_FALSE(rig.context->alive());
}

TEST_CASE("blas: opening that fails") {
  BlasRig rig;
  rig.fake.fail("cublasLtCreate", 1, Code::out_of_memory);
  CHECK(why(rig.open()) == "cublasLtCreate: CUBLAS_STATUS_ALLOC_FAILED");
  rig.fake.fail("cuDriverGetVersion", 1, Code::unknown);
  CHECK_THAT(why(rig.open()), Contains("cuDriverGetVersion: CUDA_ERROR_UNKNOWN"));
}

TEST_CASE("blas: a status without a name is told by its number") {
  cuda::BlasApi api = FakeBlas::api();
  CHECK(cuda::blas_error(api, "cublasLtMatmul", static_cast<cuda::BlasStatus>(99)).text() == "device: cublasLtMatmul: status 99");
}

TEST_CASE("blas: shapes that have no product") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto says = [&](ProductShape shape) { return why(products->choose(shape, BlasRig::kRows, rig.stream->handle())); };
  auto shape = small_shape();
  shape.ld_a = 60;
  CHECK(says(shape) == "a product of f16 24x64, rows of 60 and 32, narrow: it is empty, or its rows overlap");
  shape = small_shape();
  shape.ld_c = 28;
  CHECK(says(shape) == "a product of f16 24x64, rows of 72 and 28, narrow: its rows are no multiples of 16 bytes");
  shape.out = ProductOut::added;
  CHECK(says(shape).empty());
  shape = small_shape();
  shape.k = 0;
  CHECK_THAT(says(shape), Contains("it is empty"));
  const std::vector<std::size_t> none = {0};
  CHECK_THAT(why(products->choose(small_shape(), none, rig.stream->handle())), Contains("with 0 rows"));
}

TEST_CASE("blas: run refuses what was not chosen, and says what the library says") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto* product = get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  const Operands operands(rig, small_shape());
  const auto run = [&](std::size_t rows, cuda::DeviceAddress more, std::size_t workspace) {
    auto at = operands.at;
    at.a += more;
    return trouble(products->run(*product, rig.stream->handle(), at, rows, {operands.workspace.address, workspace}));
  };
  const std::string begin = "device: a product of f16 24x64, rows of 72 and 32, narrow with ";
  CHECK(run(33, 0, 4096) == begin + "33 rows: it was not chosen for so many");
  CHECK(run(32, 8, 4096) == begin + "32 rows: an address is not aligned");
  CHECK(run(32, 0, 4095) == begin + "32 rows: its workspace has 4095 bytes, not 4096");
  CHECK(run(32, 0, 5000).empty());
  rig.fake.fail("cublasLtMatmul", 1, Code::launch_out_of_resources);
  CHECK(run(32, 0, 4096) == "device: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED");
}

TEST_CASE("blas: run on a thread that has no current context") {
  BlasRig rig;
  const auto products = get(rig.open());
  const auto* product = get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()));
  Operands operands(rig, small_shape());
  std::thread([&] { ok(products->run(*product, rig.stream->handle(), operands.at, 32, operands.workspace)); }).join();
  CHECK(operands.good());
}

}  // namespace kime::test
