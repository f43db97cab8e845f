// Everything that scores: the devices of all kinds, their streams, and the checkpoints on them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/base/tensor.h"
#include "kime/graph/graph.h"
#include "kime/job/lane.h"
#include "kime/job/stage.h"
#include "kime/runtime/strategy.h"
#include "kime/runtime/stream_queue.h"

namespace kime {

namespace cpu {
class Profile;
class WeightCache;
}  // namespace cpu

/// A checkpoint to be loaded; the tensors outlive the loading.
struct ModelToLoad {
  const TensorSource* tensors = nullptr;
  std::shared_ptr<const Graph> graph;
  std::size_t vocab = 0;
  std::size_t types = 0;
};

struct FleetOptions {
  std::vector<std::size_t> ordinals;               ///< Devices to use; all if empty.
  std::chrono::duration<double> timeout{0};        ///< How long a batch may take; 0 is for ever.
  bool reproducible = false;                       ///< Only devices of one class, the fastest.
  std::function<void(const std::string&)> notice;  ///< Hears of devices that fall out at the start, and of bits that may differ.
  /// Sees what streams do, on their threads.
  std::function<void(const std::string& stream, const TaskSpan&)> observe;
};

/// The streams of a fleet and what they share. Its lanes may be used by one thread each.
class Fleet {
 public:
  Fleet() = default;
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  virtual ~Fleet() = default;

  [[nodiscard]] std::span<const FleetDevice> devices() const { return devices_; }
  [[nodiscard]] std::span<const std::shared_ptr<Lane>> lanes() const { return lanes_; }
  /// How many checkpoints each record passes.
  [[nodiscard]] virtual std::size_t models() const = 0;
  /// Compiles for these buckets once, before the lanes are made ready for them.
  virtual Status prepare(std::span<const Bucket> wanted) = 0;
  /// For `--stats` and bug reports.
  [[nodiscard]] virtual nlohmann::json debug_info() = 0;
  /// A device hangs: its thread cannot be joined when the process ends.
  [[nodiscard]] virtual bool hangs() const = 0;

 protected:
  std::vector<FleetDevice> devices_;
  std::vector<std::shared_ptr<Lane>> lanes_;
};

/// How the CPU is divided.
struct CpuFleetOptions {
  std::size_t threads = 0;       ///< 0: as many as this process may use.
  std::size_t virtual_cpus = 0;  ///< 0: one device per NUMA node.
  StreamStrategy streams;
  std::shared_ptr<cpu::Profile> profile = nullptr;    ///< To which all devices add how long their ops take, if any.
  std::shared_ptr<cpu::WeightCache> cache = nullptr;  ///< Where packed weights are kept, if anywhere.
};

/// Loads the checkpoints on the CPU devices. Errors: what keeps the last device from starting.
Result<std::unique_ptr<Fleet>> make_cpu_fleet(const CpuFleetOptions& cpu, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                              FleetOptions options);

}  // namespace kime
