#include <dlfcn.h>

#include "kime/job/cuda_config.h"
#include "kime/job/device_fleet.h"

namespace kime {

std::unique_ptr<KindFleet> make_cuda_fleet(StreamStrategy streams, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                           FleetOptions options) {
  static_assert(Driver<CudaDriver>);
  return std::make_unique<DeviceFleet<CudaDriver>>(RuntimeConfig<CudaDriver>{cuda_config(), streams}, models, stage, std::move(options));
}

bool cuda_driver_is_there() {
  void* handle = dlopen(cuda_config().libcuda.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    dlclose(handle);  // what it counted, no more
  }
  return handle != nullptr;
}

}  // namespace kime
