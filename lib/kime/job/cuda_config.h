// Where the CUDA driver is looked for, and what it is given to run.
#pragma once

#include <cstdlib>

#include "kime/backend/cuda/cuda_driver.h"
#include "kime/backend/cuda/image.h"

namespace kime {

/// The libraries that the driver's package and the CUDA Toolkit install, and the kernels that were compiled in. For tests only,
/// KIME_CUDA_DRIVER and KIME_CUBLASLT name others: libraries with the same functions, which need no GPU.
[[nodiscard]] inline CudaDriver::Config cuda_config() {
  CudaDriver::Config config;
  const auto images = cuda::kernel_images();
  config.images.assign(images.begin(), images.end());
  if (const char* name = std::getenv("KIME_CUDA_DRIVER"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.libcuda = name;
    if (config.images.empty()) {
      static constexpr char kNone[] = "";
      config.images.push_back(kNone);  // such a library has kernels of its own
    }
  }
  if (const char* name = std::getenv("KIME_CUBLASLT"); name != nullptr) {  // NOLINT(concurrency-mt-unsafe): nothing sets it
    config.cublaslt = {name};
  }
  return config;
}

}  // namespace kime
