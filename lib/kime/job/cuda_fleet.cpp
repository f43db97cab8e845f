#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "kime/job/cuda_config.h"
#include "kime/job/device_fleet.h"

namespace kime {

std::unique_ptr<KindFleet> make_cuda_fleet(const CudaFleetOptions& cuda, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                           FleetOptions options) {
  static_assert(Driver<CudaDriver>);
  RuntimeConfig<CudaDriver> config{cuda_config(), cuda.streams};
  config.driver.verdicts = std::make_shared<cuda::ProductVerdicts>(cuda.cache, options.notice);
  if (options.precision != Precision::f32) {  // float32 products are all kime's own, over the rows there are
    std::ranges::transform(stage.buckets, std::back_inserter(config.driver.product_rows), &Bucket::tokens);
  }
  return std::make_unique<DeviceFleet<CudaDriver>>(std::move(config), models, stage, std::move(options));
}

bool cuda_driver_is_there() {
  void* handle = dlopen(cuda_config().libcuda.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    dlclose(handle);  // what it counted, no more
  }
  return handle != nullptr;
}

}  // namespace kime
