#include "kime/backend/cpu/cpu_backend.h"

#include <algorithm>

#include "kime/backend/cpu/check.h"
#include "kime/backend/cpu/fp_scope.h"
#include "kime/backend/cpu/runner.h"

namespace kime {

namespace {

class ActiveRun {
 public:
  explicit ActiveRun(std::atomic<std::size_t>& active) : active_(active) { active_.fetch_add(1, std::memory_order_relaxed); }
  ActiveRun(const ActiveRun&) = delete;
  ActiveRun& operator=(const ActiveRun&) = delete;
  ~ActiveRun() { active_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t>& active_;
};

}  // namespace

CpuBackend::CpuBackend(std::size_t threads, const kernels::Table& kernels)
    : kernels_(kernels), threads_(std::max<std::size_t>(threads, 1)), crew_(threads_) {
}

Result<CpuBackend::Weights> CpuBackend::upload(const TensorSource& tensors, const Graph& graph) const {
  if (auto checked = cpu::check(graph, tensors); !checked) {
    return std::move(checked).error();
  }
  const cpu::FpScope fp;
  return Weights::load(tensors, graph, kernels_, crew_, threads_);
}

Result<CpuBackend::Workspace> CpuBackend::workspace(const Weights& /*weights*/) const {
  return Workspace(threads_);
}

Result<CpuBackend::Plan> CpuBackend::lower(const Weights& weights, const Graph& graph, const Bucket& bucket, Workspace& workspace) const {
  const cpu::FpScope fp;
  return Plan::lower(weights, graph, bucket, workspace);
}

Status CpuBackend::run(Plan& plan, const Batch& batch, Outputs& outputs) const {
  if (!plan.bucket().holds(batch.ids.size(), batch.seqs(), batch.markers.size())) {
    return Error(ErrorKind::no_bucket, "the plan's bucket does not hold the batch");
  }
  const cpu::FpScope fp;
  const ActiveRun active(active_);
  cpu::Runner(kernels_, {crew_, active_, threads_}, plan, batch).run(outputs);
  return {};
}

}  // namespace kime
