// The CPU: float32 kernels over packed weights. Satisfies the engine's Backend concept.
#pragma once

#include <atomic>
#include <cstddef>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/plan.h"
#include "kime/backend/cpu/weights.h"
#include "kime/base/caps.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/batch/batch.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"

namespace kime {

/// Streams are the callers' threads: each runs whole batches through all layers. While fewer runs are active than there are threads,
/// helpers of the backend's own take a share of each op; a batch's bits do not depend on it. Idle, it costs no CPU time.
class CpuBackend {
 public:
  using Weights = cpu::Weights;
  using Workspace = cpu::Workspace;
  using Plan = cpu::Plan;

  /// `threads` (at least 1) is how many threads compute at a time: callers of run() and helpers together, as long as no more than that
  /// many call at a time. The kernels are those of the best instruction set, unless told otherwise.
  explicit CpuBackend(std::size_t threads, const kernels::Table& kernels = kernels::table());

  [[nodiscard]] Caps caps() const { return {.name = "cpu", .threads = threads_}; }
  [[nodiscard]] const kernels::Table& kernels() const { return kernels_; }

  /// Errors: `unsupported` for a graph that the kernels do not run or tensors that are not its weights, `input` when the source fails,
  /// `device` without memory.
  [[nodiscard]] Result<Weights> upload(const TensorSource& tensors, const Graph& graph) const;
  [[nodiscard]] Result<Workspace> workspace(const Weights& weights) const;
  /// Errors: `unsupported` for a bucket that is too large, `device` without memory.
  [[nodiscard]] Result<Plan> lower(const Weights& weights, const Graph& graph, const Bucket& bucket, Workspace& workspace) const;
  /// Runs a checked batch. Errors: `no_bucket` when it does not fit the plan's.
  Status run(Plan& plan, const Batch& batch, Outputs& outputs) const;

 private:
  const kernels::Table& kernels_;
  std::size_t threads_;
  cpu::Crew crew_;
  mutable std::atomic<std::size_t> active_{0};  ///< Calls of run() that are under way.
};

}  // namespace kime
