// How the CPU's options become a configuration of its runtime.
#pragma once

#include "kime/backend/cpu/cpu_driver.h"
#include "kime/job/fleet.h"
#include "kime/runtime/multidev.h"

namespace kime {

[[nodiscard]] inline RuntimeConfig<CpuDriver> runtime_config(const CpuFleetOptions& cpu) {
  RuntimeConfig<CpuDriver> config;
  config.driver.threads = cpu.threads;
  config.driver.virtual_cpus = cpu.virtual_cpus;
  config.driver.streams = cpu.streams;
  config.driver.profile = cpu.profile;
  config.driver.cache = cpu.cache;
  config.streams = cpu.streams;
  return config;
}

}  // namespace kime
