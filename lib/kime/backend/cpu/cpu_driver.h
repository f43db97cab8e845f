// The CPU as devices of the runtime: one per NUMA node, or as many as asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/backend/cpu/topology.h"
#include "kime/base/memory.h"
#include "kime/runtime/driver.h"

namespace kime {

/// Satisfies the runtime's Driver concept. A stream's work is done by the stream's own thread as it is enqueued, with the help of the
/// device's other cores while fewer of its streams are at work: nothing is ever still under way when a call returns.
class CpuDriver {
 public:
  struct Config {
    std::size_t threads = 0;                          ///< In all; 0: as many as this process may use.
    std::size_t virtual_cpus = 0;                     ///< Devices to split them into; 0: one per NUMA node.
    StreamStrategy streams;                           ///< How many a device will have, which decides where they lie.
    bool share_memory = true;                         ///< Devices on one node use each other's weights in place; without it they copy them.
    std::shared_ptr<cpu::Profile> profile = nullptr;  ///< To which runs add, if any.
    std::shared_ptr<cpu::WeightCache> cache = nullptr;  ///< Where packed weights are kept, if anywhere.
    bool operator==(const Config&) const = default;
  };
  using Slab = Pages;
  using Layout = cpu::WeightLayout;
  using Code = cpu::Code;
  using Routine = cpu::Plan;
  struct Stream {
    std::size_t ordinal = 0;
    cpu::Placement placement;
  };
  static constexpr std::string_view kName = "cpu";

  /// Looks for nodes and cores. Errors: `input` for more devices than there may be.
  static Result<std::unique_ptr<CpuDriver>> open(const Config& config);

  [[nodiscard]] std::size_t num_devices() const { return plans_.size(); }
  [[nodiscard]] DeviceProperties properties(std::size_t ordinal) const;
  [[nodiscard]] HardwareLimits limits(std::size_t /*ordinal*/) const { return {}; }
  [[nodiscard]] Caps caps(std::size_t ordinal) const { return {.name = kName, .threads = plans_[ordinal].threads}; }
  [[nodiscard]] std::size_t suggested_streams(std::size_t ordinal, StreamStrategy strategy) const {
    return strategy.streams(plans_[ordinal].threads, StreamStrategy::Kind::cores);
  }
  [[nodiscard]] bool shares_memory(std::size_t a, std::size_t b) const {
    return a == b || (config_.share_memory && plans_[a].node == plans_[b].node);
  }
  [[nodiscard]] bool alive(std::size_t /*ordinal*/) const { return true; }  // what fails on a core fails for this time only
  [[nodiscard]] nlohmann::json debug_info(std::size_t ordinal) const;

  /// Zero bytes on pages that are touched by the thread that first uses them, and so lie on its node. Modes mean nothing here.
  Result<Slab> alloc(std::size_t ordinal, std::size_t bytes, std::size_t alignment, MemoryMode mode);
  Status zero(Stream& stream, Place<Slab> place, std::size_t bytes);
  Status copy_in(Stream& stream, Place<Slab> to, const void* from, std::size_t bytes);
  Status copy_out(Stream& stream, void* to, Place<Slab> from, std::size_t bytes);
  Status copy(Stream& stream, Place<Slab> to, Place<Slab> from, std::size_t bytes);

  Result<std::unique_ptr<Stream>> make_stream(std::size_t ordinal, std::size_t subordinal);
  void enter(Stream& stream, const std::function<void()>& body);
  Status record(Stream& /*stream*/, Ticket /*ticket*/) { return {}; }
  Result<bool> reached(Stream& /*stream*/, Ticket /*ticket*/) { return true; }
  Result<bool> finish(Stream& /*stream*/, Ticket /*ticket*/, Deadline /*deadline*/) { return true; }
  Status wait_for(Stream& /*stream*/, Stream& /*other*/, Ticket /*ticket*/) { return {}; }

  Result<Layout> layout(const Graph& graph, const TensorSource& tensors) { return CpuBackend::layout(tensors, graph); }
  Status load(Stream& stream, const Graph& graph, const Layout& layout, const TensorSource& tensors, Place<Slab> place);
  Result<Code> compile(const Graph& graph, const Bucket& bucket, const HardwareLimits& limits);
  [[nodiscard]] std::size_t arena_bytes(std::size_t ordinal, const Code& code) const { return code.bytes(plans_[ordinal].threads); }
  Result<Routine> link(std::size_t ordinal, const Graph& graph, const Layout& layout, const Code& code, Place<Slab> weights);
  Status run(Stream& stream, Routine& routine, const Places<Slab>& places, const Extent& counts);

 private:
  CpuDriver(Config config, cpu::CpuTopology topology, std::vector<cpu::CpuDevicePlan> plans);
  const CpuBackend& backend(std::size_t ordinal);

  Config config_;
  cpu::CpuTopology topology_;
  std::vector<cpu::CpuDevicePlan> plans_;
  std::mutex making_;
  std::vector<std::unique_ptr<CpuBackend>> backends_;  ///< Made on first use: they start threads.
};

}  // namespace kime
