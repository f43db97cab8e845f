// What the routines of a device share: kernels by name, tables of the rotary embedding.
#include "kime/backend/cuda/modules.h"
#include "kime/backend/cuda/rope_tables.h"
#include "kime/backend/cuda/stream.h"
#include "tests/cuda/driver/rig.h"

namespace kime::test {

namespace {

/// The first device of a fake, by itself.
struct Alone {
  FakeCuda fake;
  std::shared_ptr<cuda::DeviceContext> context;

  Alone() {
    auto started = get(cuda::start_driver(FakeCuda::api()));
    auto found = get(cuda::find_devices(started.api));
    context = std::make_shared<cuda::DeviceContext>(std::make_shared<const cuda::DriverApi>(started.api), found.devices[0]);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  ~Alone() {
    context.reset();
    CHECK(fake.handles() == 0);
    CHECK(fake.used_bytes(0) == 0);
    CHECK(fake.violations() == std::vector<std::string>());
  }
};

}  // namespace

TEST_CASE("modules: images are loaded once, kernels found once, and what they need set when it grows") {
  Alone gpu;
  gpu.fake.add_kernel("k", {{}, [](const FakeLaunch& /*launch*/) { return Code::success; }});
  cuda::Modules modules(gpu.context, {"one", "two"});
  CHECK(gpu.fake.calls("cuModuleLoadData") == 0);
  const auto first = get(modules.find("k", 100));
  CHECK(gpu.fake.calls("cuModuleLoadData") == 2);
  CHECK(get(modules.find("k", 50)) == first);
  CHECK(gpu.fake.calls("cuFuncSetAttribute") == 1);
  CHECK(get(modules.find("k", 60000)) == first);
  CHECK(gpu.fake.calls("cuFuncSetAttribute") == 2);
  CHECK(gpu.fake.calls("cuModuleGetFunction") == 1);
  CHECK(why(modules.find("none", 0)) == "cuModuleGetFunction of none: CUDA_ERROR_NOT_FOUND: named symbol not found");
  CHECK(gpu.fake.calls("cuModuleGetFunction") == 3);  // in both images
}

TEST_CASE("modules: a load or an attribute that fails says so, and the next attempt goes on") {
  Alone gpu;
  gpu.fake.add_kernel("k", {{}, [](const FakeLaunch& /*launch*/) { return Code::success; }});
  cuda::Modules modules(gpu.context, {"one", "two"});
  gpu.fake.fail("cuModuleLoadData", 2, Code::invalid_value);
  CHECK_THAT(why(modules.find("k", 0)), Contains("cuModuleLoadData: CUDA_ERROR_INVALID_VALUE"));
  gpu.fake.fail("cuFuncSetAttribute", 1, Code::invalid_value);
  CHECK_THAT(why(modules.find("k", 7)), Contains("cuFuncSetAttribute of k: CUDA_ERROR_INVALID_VALUE"));
  CHECK(why(modules.find("k", 7)).empty());
  CHECK(gpu.fake.calls("cuModuleLoadData") == 3);
}

TEST_CASE("rope tables: shared, made anew when more positions are asked for, and then kept by who has the old one") {
  Alone gpu;
  cuda::DeviceRopes ropes(gpu.context);
  const auto small = get(ropes.get(10000, 64, 10));
  CHECK(get(ropes.get(10000, 64, 4096)) == small);
  CHECK(get(ropes.get(10000, 32, 10)) != small);
  CHECK(get(ropes.get(160000, 64, 10)) != small);
  const auto large = get(ropes.get(10000, 64, 4097));
  CHECK(large != small);
  CHECK(large->positions == 8192);
  CHECK(get(ropes.get(10000, 64, 10)) == large);

  const RopeAngles angles(10000, 64);
  std::vector<float> cosine(8192 * 32);
  std::vector<float> sine(8192 * 32);
  angles.fill(0, 8192, cosine.data(), sine.data());
  auto stream = get(cuda::Stream::make(0, gpu.context));
  const auto read = [&](cuda::DeviceAddress from, std::size_t count) {
    std::vector<float> values(count);
    CHECK(gpu.context->api().memcpy_dtoh_async(values.data(), from, count * sizeof(float), stream->handle()) == Code::success);
    CHECK(gpu.context->api().stream_synchronize(stream->handle()) == Code::success);
    return values;
  };
  CHECK(read(large->cosine(), cosine.size()) == cosine);
  CHECK(read(large->sine(), sine.size()) == sine);
  cosine.resize(4096 * 32);
  CHECK(read(small->cosine(), cosine.size()) == cosine);
}

TEST_CASE("rope tables: a call that fails leaves nothing") {
  Alone gpu;
  cuda::DeviceRopes ropes(gpu.context);
  for (const auto* function : {"cuStreamCreate", "cuMemAlloc", "cuMemcpyHtoDAsync", "cuStreamSynchronize"}) {
    gpu.fake.fail(function, 1, Code::invalid_value);
    CHECK_THAT(why(ropes.get(10000, 64, 10)), Contains(std::string(function) + ": CUDA_ERROR_INVALID_VALUE"));
    CHECK(gpu.fake.used_bytes(0) == 0);
  }
  CHECK(why(ropes.get(10000, 64, 10)).empty());
}

}  // namespace kime::test
