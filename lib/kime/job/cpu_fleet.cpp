#include "kime/backend/cpu/cpu_driver.h"
#include "kime/job/device_fleet.h"

namespace kime {

Result<std::unique_ptr<Fleet>> make_cpu_fleet(const CpuFleetOptions& cpu, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                              FleetOptions options) {
  static_assert(Driver<CpuDriver>);
  RuntimeConfig<CpuDriver> config;
  config.driver.threads = cpu.threads;
  config.driver.virtual_cpus = cpu.virtual_cpus;
  config.driver.streams = cpu.streams;
  config.streams = cpu.streams;
  auto fleet = DeviceFleet<CpuDriver>::make(config, models, stage, std::move(options));
  if (!fleet) {
    return std::move(fleet).error();
  }
  return std::unique_ptr<Fleet>(*std::move(fleet));
}

}  // namespace kime
