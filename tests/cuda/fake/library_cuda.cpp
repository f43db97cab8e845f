// The fake driver as a library, for tests of the binary. KIME_FAKE_CUDA, a JSON object, says what it is like:
//   {"log": FILE that gets a line when the library is opened, "version": 12080, "init": 100, "without": ["cuMemAlloc"],
//    "gpus": [{"name": "...", "capability": [9, 0], "memory_bytes": N}]}
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cuda/fake/fake_cublaslt.h"
#include "tests/cuda/fake/shim_kernels.h"

namespace kime::test {

namespace {

FakeCudaConfig from_environment() {
  FakeCudaConfig config;
  const char* text = std::getenv("KIME_FAKE_CUDA");
  const auto said = nlohmann::json::parse(text == nullptr ? "{}" : text);
  if (said.contains("log")) {
    std::ofstream(said["log"].get<std::string>(), std::ios::app) << "opened\n";
  }
  config.version = said.value("version", config.version);
  config.init = static_cast<cuda::Code>(said.value("init", 0U));
  config.without = said.value("without", config.without);
  if (said.contains("gpus")) {
    config.gpus.clear();
    for (const auto& gpu : said["gpus"]) {
      FakeGpu made;
      made.name = gpu.value("name", made.name);
      made.memory_bytes = gpu.value("memory_bytes", made.memory_bytes);
      made.context_bytes = std::size_t{300} << 20;
      if (gpu.contains("capability")) {
        made.major = gpu["capability"][0].get<int>();
        made.minor = gpu["capability"][1].get<int>();
      }
      config.gpus.push_back(std::move(made));
    }
  }
  return config;
}

// The driver, with the kernels' own sources for any image that is loaded.
class ShimDriver {
 public:
  ShimDriver() : fake_(with_shim(from_environment())) { add_shim_kernels(fake_); }

 private:
  FakeCuda fake_;
};
const ShimDriver driver;
const FakeBlas blas;

}  // namespace

}  // namespace kime::test

using kime::cuda::Code;
using kime::cuda::SymbolStatus;

extern "C" Code cuDriverGetVersion(int* version) {
  return kime::test::FakeCuda::api().driver_get_version(version);
}
extern "C" Code cuGetProcAddress(const char* symbol, void** found, int version, unsigned long long flags) {
  return reinterpret_cast<kime::cuda::OldGetProcAddress>(kime::test::FakeCuda::symbol("cuGetProcAddress"))(symbol, found, version, flags);
}
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is CUDA's
extern "C" Code cuGetProcAddress_v2(const char* symbol, void** found, int version, unsigned long long flags, SymbolStatus* status) {
  return reinterpret_cast<kime::cuda::GetProcAddress>(kime::test::FakeCuda::symbol("cuGetProcAddress_v2"))(symbol, found, version, flags,
                                                                                                           status);
}
// For the fake cuBLASLt's library, which works on this driver's streams.
extern "C" const kime::cuda::BlasApi* kime_fake_cublaslt() {
  return &kime::test::FakeBlas::api();
}
