#include "tests/cuda/fake/shim_kernels.h"

#include <atomic>
#include <cstdio>

#include "tests/cuda/shim/launch.h"
#include "tests/cuda/shim/memory.h"

namespace kime::test {

namespace {

// Each launch runs its warps in another order.
std::uint64_t next_seed() {
  static std::atomic<std::uint64_t> launches{0};
  return ++launches;
}

cuda::Code run(const cuda::shim::Kernel& kernel, const FakeLaunch& launch) {
  const auto dim = [](const std::array<unsigned, 3>& size) { return dim3{size[0], size[1], size[2]}; };
  try {
    kernel.launch(dim(launch.grid), dim(launch.block), launch.shared_bytes, launch.parameters[0].data(), next_seed());
  } catch (const cuda::shim::Fault& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return cuda::Code::illegal_address;
  }
  return cuda::Code::success;
}

}  // namespace

FakeCudaConfig with_shim(FakeCudaConfig config) {
  config.on_memory = [](const void* memory, std::size_t bytes) -> std::shared_ptr<void> {
    return std::make_shared<cuda::shim::Registration>(memory, bytes, true);
  };
  return config;
}

void add_shim_kernels(FakeCuda& fake) {
  for (const auto* kernel : cuda::shim::kernels()) {
    fake.add_kernel(kernel->name, {{kernel->params_bytes}, [kernel](const FakeLaunch& launch) { return run(*kernel, launch); }});
  }
}

}  // namespace kime::test
