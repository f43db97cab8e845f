// The options that choose devices, and the fleet that they name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "kime/backend/cpu/weight_cache.h"
#include "kime/job/fleet.h"

namespace kime::app {

/// As given.
struct DeviceOptions {
  ThreadsOption threads;
  std::string devices = "all";
  std::optional<std::string> streams;
  std::size_t virtual_cpus = 0;
  double timeout = 0;
  bool reproducible = false;
  std::string cache;

  void add(CLI::App& command);
  /// Only those that say how devices are made, not which are used and how.
  void add_layout(CLI::App& command);
  /// How the CPU is divided. Errors: `input`, for --streams.
  [[nodiscard]] Result<CpuFleetOptions> cpu() const;
  /// Where packed weights are kept; null for nowhere. Troubles go to `notice`, if any.
  [[nodiscard]] std::shared_ptr<cpu::WeightCache> weight_cache(const std::function<void(const std::string&)>& notice) const;
};

/// The devices that `--devices` names, by ordinal; empty: all of them. Errors: `input`, naming what is not there.
Result<std::vector<std::size_t>> choose_devices(std::string_view list);

/// Loads checkpoints on the devices that the options name. Runs on CPUs add to `profile`, and their weights are kept in `cache`, if any.
/// Errors: `input` for the options; those of the fleet.
Result<std::unique_ptr<Fleet>> make_fleet(const DeviceOptions& options, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                          FleetOptions fleet, std::shared_ptr<cpu::WeightCache> cache,
                                          std::shared_ptr<cpu::Profile> profile = nullptr);

}  // namespace kime::app
