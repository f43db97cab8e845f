// Where the CUDA driver is looked for.
#pragma once

#include <cstdlib>

#include "kime/backend/cuda/cuda_driver.h"

namespace kime {

/// The libraries that the driver's package and the CUDA Toolkit install. For tests only, KIME_CUDA_DRIVER and KIME_CUBLASLT name others:
/// libraries with the same functions, which need no GPU.
[[nodiscard]] inline CudaDriver::Config cuda_config() {
  CudaDriver::Config config;
  if (const char* name = std::getenv("KIME_CUDA_DRIVER"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.libcuda = name;
  }
  if (const char* name = std::getenv("KIME_CUBLASLT"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.cublaslt = {name};
  }
  return config;
}

}  // namespace kime
