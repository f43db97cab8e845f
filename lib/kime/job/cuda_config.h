// Where the CUDA driver is looked for.
#pragma once

#include <cstdlib>

#include "kime/backend/cuda/cuda_driver.h"

namespace kime {

/// The libraries that the driver's package and the CUDA Toolkit install. For tests only, KIME_CUDA_DRIVER and KIME_CUBLASLT name others:
/// libraries with the same functions, which need no GPU.
[[nodiscard]] inline CudaDriver::Config cuda_config() {
  CudaDriver::Config config;
  if (const char* library = std::getenv("KIME_CUDA_DRIVER"); library != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.library = library;
  }
  if (const char* library = std::getenv("KIME_CUBLASLT"); library != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.cublaslt = {library};
  }
  return config;
}

}  // namespace kime
