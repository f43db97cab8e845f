// The loader, and what it finds.
#include "kime/backend/cuda/library.h"

#include "kime/backend/cuda/errors.h"
#include "tests/cuda/driver/rig.h"

namespace kime::test {

namespace {

// The fake's exports, less some.
cuda::Symbols symbols(std::vector<std::string> without = {}) {
  return [without = std::move(without)](const char* name) -> void* {
    return std::ranges::find(without, name) == without.end() ? FakeCuda::symbol(name) : nullptr;
  };
}

std::string resolve(const cuda::Symbols& from) {
  return why(cuda::resolve_driver(from, "libtest.so"));
}

}  // namespace

TEST_CASE("the driver is resolved through either form of cuGetProcAddress") {
  const FakeCuda fake;
  for (const auto& without : {std::vector<std::string>(), {"cuGetProcAddress"}, {"cuGetProcAddress_v2"}}) {
    auto driver = get(cuda::resolve_driver(symbols(without), "libtest.so"));
    CHECK(driver.version == 12080);
    CHECK(driver.api.mem_alloc == FakeCuda::api().mem_alloc);
    CHECK(driver.api.graph_launch == FakeCuda::api().graph_launch);
  }
  CHECK(resolve(symbols({"cuGetProcAddress", "cuGetProcAddress_v2"})) == "the NVIDIA driver lacks the function cuGetProcAddress");
  CHECK(resolve(symbols({"cuDriverGetVersion"})) == "libtest.so is no CUDA driver: it lacks cuDriverGetVersion");
}

TEST_CASE("a driver that is too old is not asked for its functions") {
  FakeCudaConfig config;
  config.version = 12030;
  FakeCuda fake(config);
  CHECK(resolve(symbols()) == "the NVIDIA driver is too old: it has CUDA 12.3, and kime needs 12.4");
  CHECK(why(CudaDriver::open(over_fake())) == "the NVIDIA driver is too old: it has CUDA 12.3, and kime needs 12.4");
  CHECK(fake.calls("cuInit") == 0);
}

TEST_CASE("each function that is missing is named") {
  const auto name = GENERATE(as<std::string>(), "cuInit", "cuGetErrorName", "cuGraphInstantiateWithFlags", "cuMemcpyPeerAsync");
  FakeCudaConfig config;
  config.without = {name};
  const FakeCuda fake(config);
  CHECK(resolve(symbols()) == "the NVIDIA driver lacks the function " + name + " of CUDA 12.4");
}

TEST_CASE("a driver whose first calls fail") {
  FakeCuda fake;
  fake.fail("cuDriverGetVersion", 1, Code::unknown);
  CHECK(resolve(symbols()) == "the NVIDIA driver does not say its version: error 999");
  fake.fail("cuDriverGetVersion", 1, Code::unknown);
  CHECK(why(CudaDriver::open(over_fake())) == "cuDriverGetVersion: CUDA_ERROR_UNKNOWN: unknown error");
  fake.fail("cuInit", 1, Code::no_device);
  CHECK(resolve(symbols()) == "the NVIDIA driver finds no device (cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected)");
  fake.fail("cuInit", 1, Code::unknown);
  fake.fail("cuGetErrorString", 1, Code::invalid_value);
  CHECK(resolve(symbols()) == "the NVIDIA driver does not start (cuInit: CUDA_ERROR_UNKNOWN)");
  fake.fail("cuInit", 1, Code::unknown);
  fake.fail("cuGetErrorName", 1, Code::invalid_value);
  CHECK(resolve(symbols()) == "the NVIDIA driver does not start (cuInit: error 999)");
  fake.fail("cuDeviceGetCount", 1, Code::unknown);
  CHECK(why(CudaDriver::open(over_fake())) == "cuDeviceGetCount: CUDA_ERROR_UNKNOWN: unknown error");
}

TEST_CASE("libraries are opened by name") {
  CHECK(why(cuda::open_driver("libno-such.so.1")) == "there is no NVIDIA driver: libno-such.so.1 was not found");
  CHECK_THAT(why(cuda::open_driver(KIME_FAKE_CUBLASLT)), Contains("is no CUDA driver: it lacks cuDriverGetVersion"));
  const auto driver = get(cuda::open_driver(KIME_FAKE_LIBCUDA));  // a fake of its own, beside this binary's
  CHECK(driver.version == 12080);
  CHECK(driver.api.init != FakeCuda::api().init);
  CHECK(get(cuda::find_devices(driver.api)).devices.size() == 1);
  const auto found = get(cuda::find_cublaslt({"libno-such.so.13", KIME_FAKE_CUBLASLT}));
  CHECK(found.name == KIME_FAKE_CUBLASLT);
  CHECK(found.version == "12.8.5");
  CHECK(why(cuda::find_cublaslt({"libno-such.so.13", "libno-such.so.12"})) ==
        "there is no cuBLASLt: none of libno-such.so.13, libno-such.so.12 was found");
}

TEST_CASE("devices and their properties") {
  auto config = gpus(2);
  config.gpus[1] = {
      .name = "Fake Big", .major = 12, .minor = 0, .memory_bytes = std::size_t{8} << 30, .context_bytes = 1000, .multiprocessors = 132};
  Rig rig(config);
  REQUIRE(rig.driver->num_devices() == 2);
  CHECK(rig.fake.calls("cuDevicePrimaryCtxRetain") == 0);
  const auto known = rig.driver->properties(1);
  CHECK(known.kind == "cuda");
  CHECK(known.name == "Fake Big");
  CHECK(known.cores == 132);
  CHECK(known.memory_bytes == std::size_t{8} << 30);
  CHECK(known.memory_used_bytes == 1000);
  CHECK(known.bits_class == "cuda Fake Big, compute capability 12.0, cuBLASLt 12.8.5");
  CHECK(known.facts["compute_capability"] == "12.0");
  CHECK(known.facts["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  CHECK(known.facts["pci_bus_id"] == "0000:1b:00.0");
  CHECK(known.facts["driver"]["cuda"] == "12.8");
  CHECK(known.speed_hint > rig.driver->properties(0).speed_hint);
  CHECK(rig.driver->limits(1) == HardwareLimits{.bucket_tokens = {}, .threads_per_group = 1024, .group_memory_bytes = 232448});
  CHECK(rig.driver->caps(1).graphs);
  CHECK(rig.driver->suggested_streams(1, {}) == 2);
  CHECK(rig.driver->suggested_streams(1, {StreamStrategy::Kind::cores, 0}) == 8);
  CHECK(rig.driver->suggested_streams(1, {StreamStrategy::Kind::number, 3}) == 3);
  CHECK(rig.driver->shares_memory(1, 1));
  CHECK_FALSE(rig.driver->shares_memory(0, 1));
  CHECK(rig.driver->debug_info(1)["context"] == true);
  CHECK(rig.driver->left_out().empty());
}

TEST_CASE("a device that is too old or cannot be asked is left out, and the others are used") {
  auto config = gpus(3);
  config.gpus[0].minor = 5;
  config.gpus[0].major = 7;
  FakeCuda fake(config);
  for (const auto* function :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetPCIBusId", "cuDeviceGetAttribute", "cuDeviceTotalMem"}) {
    INFO(function);
    fake.fail(function, std::string(function) == "cuDeviceGetAttribute" ? 8 : 2, Code::invalid_device);  // six questions a device
    const auto driver = get(CudaDriver::open(over_fake()));
    CHECK(driver->num_devices() == 1);
    REQUIRE(driver->left_out().size() == 2);
    CHECK(driver->left_out()[0].why == "compute capability 7.5, and kime needs 8.0");
    CHECK(driver->left_out()[1].why == std::string(function) + ": CUDA_ERROR_INVALID_DEVICE: invalid device ordinal");
    CHECK(driver->debug_info(0)["cuda_number"] == 2);
  }
}

TEST_CASE("memory in use that cannot be told") {
  Rig rig;
  rig.fake.fail("cuMemGetInfo", 1, Code::unknown);
  const auto known = rig.driver->properties(0);
  CHECK(known.memory_used_bytes == 0);
  CHECK(known.facts["memory_error"] == "cuMemGetInfo: CUDA_ERROR_UNKNOWN: unknown error");
}

}  // namespace kime::test
