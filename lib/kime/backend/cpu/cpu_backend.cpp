#include "kime/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/cpu/fp_scope.h"
#include "kime/backend/cpu/check.h"
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

CpuBackend::CpuBackend(std::size_t threads, const kernels::Table& kernels, std::shared_ptr<cpu::Profile> profile,
                       std::shared_ptr<cpu::WeightCache> cache)
    : kernels_(kernels),
      threads_(std::max<std::size_t>(threads, 1)),
      crew_(threads_),
      profile_(std::move(profile)),
      cache_(std::move(cache)),
      huge_pages_(profile_ != nullptr) {
}

Result<cpu::WeightLayout> CpuBackend::layout(const TensorSource& tensors, const Graph& graph, const kernels::Table& kernels) {
  if (auto checked = cpu::check(graph, tensors); !checked) {
    return std::move(checked).error();
  }
  return cpu::WeightLayout(graph, tensors, kernels);
}

Status CpuBackend::load(const TensorSource& tensors, const Graph& graph, const cpu::WeightLayout& layout, std::byte* memory) const {
  const kernels::FpScope fp;
  const auto touched = cpu::touch_huge_pages(crew_, threads_, memory, layout.bytes());
  auto loaded = cache_ ? cache_->load(tensors, graph, layout, kernels_, crew_, threads_, memory)
                       : cpu::load_weights(tensors, graph, layout, kernels_, crew_, threads_, memory);
  if (loaded) {
    cpu::ask_for_huge_pages(memory, layout.bytes(), true);
    huge_pages_.add(memory, layout.bytes(), touched.each);
  }
  return loaded;
}

Result<cpu::Plan> CpuBackend::link(const cpu::Weights& weights, const Graph& graph, const cpu::Code& code) const {
  const kernels::FpScope fp;
  return cpu::Plan::link(weights, graph, code, threads_);
}

Status CpuBackend::run(const cpu::Plan& plan, const Batch& batch, std::byte* memory, float* logits, float* act) const {
  if (!plan.bucket().holds(batch.ids.size(), batch.seqs(), batch.markers.size())) {
    return Error(ErrorKind::no_bucket, "the plan's bucket does not hold the batch");
  }
  const kernels::FpScope fp;
  const ActiveRun active(active_);
  const auto begin = std::chrono::steady_clock::now();
  cpu::Runner(kernels_, {crew_, active_, threads_, profile_.get()}, plan, batch, memory).run(logits, act);
  huge_pages_.after_run(std::chrono::steady_clock::now() - begin);
  return {};
}

}  // namespace kime
