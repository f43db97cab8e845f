// Where the CUDA driver is looked for.
#pragma once

#include <cstdlib>

#include "kime/backend/cuda/cuda_driver.h"
#include "kime/backend/cuda/image.h"

namespace kime {

/// The libraries that the driver's package and the CUDA Toolkit install. For tests only, KIME_CUDA_DRIVER and KIME_CUBLASLT name others:
/// libraries with the same functions, which need no GPU. What such a driver is given as its kernels says nothing to it, so that a kime
/// without any can be tested.
[[nodiscard]] inline CudaDriver::Config cuda_config() {
  CudaDriver::Config config;
  const auto images = cuda::kernel_images();
  config.images = {images.begin(), images.end()};
  if (const char* name = std::getenv("KIME_CUDA_DRIVER"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.libcuda = name;
    if (images.empty()) {
      config.images = {"kernels of the other driver's own"};
    }
  }
  if (const char* name = std::getenv("KIME_CUBLASLT"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.cublaslt = {name};
  }
  return config;
}

}  // namespace kime
