#include "kime/job/cpu_config.h"
#include "kime/job/device_fleet.h"

namespace kime {

Result<std::unique_ptr<Fleet>> make_cpu_fleet(const CpuFleetOptions& cpu, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                              FleetOptions options) {
  static_assert(Driver<CpuDriver>);
  auto fleet = DeviceFleet<CpuDriver>::make(runtime_config(cpu), models, stage, std::move(options));
  if (!fleet) {
    return std::move(fleet).error();
  }
  return std::unique_ptr<Fleet>(*std::move(fleet));
}

}  // namespace kime
