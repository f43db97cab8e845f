#include "kime/job/cpu_config.h"
#include "kime/job/device_fleet.h"

namespace kime {

std::unique_ptr<KindFleet> make_cpu_fleet(const CpuFleetOptions& cpu, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                          FleetOptions options) {
  static_assert(Driver<CpuDriver>);
  return std::make_unique<DeviceFleet<CpuDriver>>(runtime_config(cpu), models, stage, std::move(options));
}

}  // namespace kime
