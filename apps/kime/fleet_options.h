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
#include "kime/model/config.h"

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

/// What `--devices` names. A kind that is not there is not asked for; no ordinals are all of them.
struct DeviceChoice {
  std::optional<std::vector<std::size_t>> cpu;
  std::optional<std::vector<std::size_t>> cuda;
  bool named = true;  ///< By their names, and not by `all`.
};
/// Errors: `input`, for what is no name of a device, or stands twice.
Result<DeviceChoice> choose_devices(std::string_view list);

/// A checkpoint for a fleet, which it outlives.
struct ModelSource {
  const TensorSource* tensors = nullptr;
  const ModelConfig* config = nullptr;
};

/// Loads checkpoints on the devices that the options name. Runs on CPUs add to `profile`, and their weights are kept in `cache`, if any.
/// Errors: `input` for the options; those of the fleet.
Result<std::unique_ptr<Fleet>> make_fleet(const DeviceOptions& options, const PrecisionOption& precision,
                                          std::span<const ModelSource> models, const StageBuckets& stage, FleetOptions fleet,
                                          std::shared_ptr<cpu::WeightCache> cache, std::shared_ptr<cpu::Profile> profile = nullptr);

}  // namespace kime::app
