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
#include <string_view>
#include <vector>

#include "kime/base/precision.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"
#include "kime/job/device_class.h"
#include "kime/job/lane.h"
#include "kime/job/stage.h"
#include "kime/runtime/strategy.h"
#include "kime/runtime/stream_queue.h"

namespace kime {

namespace cpu {
class Profile;
class WeightCache;
}  // namespace cpu

/// A checkpoint to be loaded.
struct ModelToLoad {
  const TensorSource* tensors = nullptr;  ///< They outlive the loading, and with `wider` the fleet.
  std::shared_ptr<const Graph> graph;
  std::size_t vocab = 0;
  std::size_t types = 0;
  /// The same in a precision of a wider range, if any: a record whose scores are no finite numbers is then scored again with it, by
  /// itself. Its weights are loaded when the first such record comes.
  std::shared_ptr<const Graph> wider = nullptr;
};

struct FleetOptions {
  std::vector<std::size_t> ordinals;               ///< Devices to use; all if empty.
  std::chrono::duration<double> timeout{0};        ///< How long a batch may take; 0 is for ever.
  Precision precision = Precision::f32;            ///< What the models' graphs are in, for people.
  std::function<void(const std::string&)> notice;  ///< Hears of devices that fall out at the start.
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

/// The devices of one kind: found first, started then, so that those to start can be chosen over all kinds.
class KindFleet : public Fleet {
 public:
  [[nodiscard]] virtual std::string_view kind() const = 0;  ///< "cpu"
  /// The devices that the options name, or all. Errors: `input` for one that is not there; `device` where there is none that works.
  virtual Result<std::vector<ClassedDevice>> find() = 0;
  /// Starts those of these ordinals, loads the checkpoints and makes the lanes. `first`: the number of its first device in the fleet that
  /// it is part of. A device that fails is left out with a notice. Errors: what kept the last one from starting.
  virtual Status start(std::span<const std::size_t> ordinals, std::size_t first) = 0;
};

/// How the CPU is divided.
struct CpuFleetOptions {
  std::size_t threads = 0;       ///< 0: as many as this process may use.
  std::size_t virtual_cpus = 0;  ///< 0: one device per NUMA node.
  StreamStrategy streams;
  std::shared_ptr<cpu::Profile> profile = nullptr;    ///< To which all devices add how long their ops take, if any.
  std::shared_ptr<cpu::WeightCache> cache = nullptr;  ///< Where packed weights are kept, if anywhere.
};

/// The checkpoints on the CPU's devices.
std::unique_ptr<KindFleet> make_cpu_fleet(const CpuFleetOptions& cpu, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                          FleetOptions options);
/// How CUDA devices are used.
struct CudaFleetOptions {
  StreamStrategy streams;
  std::string cache;  ///< The folder where it is kept which products have been verified; empty: nowhere.
};

/// The same on CUDA devices. Opens the driver when it looks for devices.
std::unique_ptr<KindFleet> make_cuda_fleet(const CudaFleetOptions& cuda, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                           FleetOptions options);
/// Whether this process has opened an NVIDIA driver's library: where it has not after it has looked for devices, there is none.
[[nodiscard]] bool cuda_driver_is_there();

}  // namespace kime
