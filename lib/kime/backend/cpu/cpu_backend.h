// Cores that compute together: float32 kernels over packed weights. What a CPU device of the driver is made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/huge_pages.h"
#include "kime/backend/cpu/plan.h"
#include "kime/backend/cpu/profile.h"
#include "kime/backend/cpu/weight_cache.h"
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
  /// `threads` (at least 1) is how many threads compute at a time: callers of run() and helpers together, as long as no more than that
  /// many call at a time. The kernels are those of the best instruction set, unless told otherwise. Runs add to `profile`, and weights come
  /// from and go to `cache`, if any.
  explicit CpuBackend(std::size_t threads, const kernels::Table& kernels = kernels::table(),
                      std::shared_ptr<cpu::Profile> profile = nullptr, std::shared_ptr<cpu::WeightCache> cache = nullptr);

  [[nodiscard]] Caps caps() const { return {.name = "cpu", .threads = threads_}; }
  [[nodiscard]] const kernels::Table& kernels() const { return kernels_; }

  /// Errors: `unsupported` for a graph that the kernels do not run or tensors that are not its weights.
  static Result<cpu::WeightLayout> layout(const TensorSource& tensors, const Graph& graph,
                                          const kernels::Table& kernels = kernels::table());
  /// `memory` is zero before. Errors: `input` when the source fails, `device` without memory.
  [[nodiscard]] Status load(const TensorSource& tensors, const Graph& graph, const cpu::WeightLayout& layout, std::byte* memory) const;
  /// What a run of `code` needs.
  [[nodiscard]] std::size_t bytes(const cpu::Code& code) const { return code.bytes(threads_); }
  /// Errors: `device` without memory.
  [[nodiscard]] Result<cpu::Plan> link(const cpu::Weights& weights, const Graph& graph, const cpu::Code& code) const;
  /// Runs a checked batch in `memory`, bytes() of it: a logit for each marker, a pair for each sequence.
  /// Errors: `no_bucket` when the batch does not fit the plan's.
  Status run(const cpu::Plan& plan, const Batch& batch, std::byte* memory, float* logits, float* act) const;

 private:
  const kernels::Table& kernels_;
  std::size_t threads_;
  cpu::Crew crew_;
  std::shared_ptr<cpu::Profile> profile_;
  std::shared_ptr<cpu::WeightCache> cache_;
  mutable cpu::HugePages huge_pages_;
  mutable std::atomic<std::size_t> active_{0};  ///< Calls of run() that are under way.
};

}  // namespace kime
