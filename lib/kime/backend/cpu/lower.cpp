// From a graph and a bucket to a plan.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kime/backend/cpu/plan.h"
#include "kime/backend/cpu/weights.h"
#include "kime/graph/planner.h"

namespace kime::cpu {

namespace {

kernels::Activation activation(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return kernels::Activation::gelu;
    case Activation::relu:
      return kernels::Activation::relu;
    case Activation::geglu:
      return kernels::Activation::geglu;
    case Activation::none:
      break;
  }
  return kernels::Activation::none;
}

// Grows a block that holds nothing worth keeping.
Status grow_pages(Pages& pages, std::size_t bytes) {
  if (pages.size() >= bytes) {
    return {};
  }
  pages = Pages();  // first, so that both are never there at once
  auto grown = Pages::make(bytes);
  if (!grown) {
    return std::move(grown).error();
  }
  pages = *std::move(grown);
  return {};
}

}  // namespace

Status Workspace::grow(std::size_t arena_bytes, std::size_t scratch_floats, const Bucket& bucket) {
  State& state = *state_;
  if (auto grown = grow_pages(state.arena, arena_bytes); !grown) {
    return grown;
  }
  state.scratch_floats = std::max(state.scratch_floats, (scratch_floats + 15) / 16 * 16);  // each worker's on a cache line of its own
  if (auto grown = grow_pages(state.scratch, state.scratch_floats * sizeof(float) * state.workers); !grown) {
    return grown;
  }
  const std::size_t picks = bucket.seqs + bucket.markers;
  if (state.tokens.size() < picks) {
    state.tokens.resize(picks);
    state.query_rows.resize(picks);
    state.positions.resize(picks);
  }
  return {};
}

// Turns each op into a step.
class Lowering {
 public:
  Lowering(const Weights& weights, const Graph& graph, const Bucket& bucket)
      : weights_(weights), graph_(graph), extent_{bucket.tokens, bucket.seqs, bucket.markers}, arena_(plan_arena(graph, extent_)) {
    plan_.bucket_ = bucket;
  }

  Result<Plan> lower(Workspace& workspace) && {
    for (const Op& op : graph_.ops) {
      std::visit(*this, op);
    }
    if (error_) {
      return *std::move(error_);
    }
    plan_.logits_ = matrix(graph_.logits);
    plan_.act_ = matrix(graph_.act);
    if (auto grown = workspace.grow(arena_.bytes, scratch_floats_, plan_.bucket_); !grown) {
      return std::move(grown).error();
    }
    return std::move(plan_);
  }

  void operator()(const Embed& op) {
    plan_.steps_.emplace_back(EmbedStep{weights_.table(op.table), weights_.element(op.table), matrix(op.out)});
  }

  void operator()(const LayerNorm& op) {
    const float* bias = op.bias ? weights_.vector(*op.bias) : nullptr;
    plan_.steps_.emplace_back(NormStep{matrix(op.in), weights_.vector(op.weight), bias, op.eps, matrix(op.out)});
  }

  void operator()(const Gemm& op) {
    const PackedRows& rows = weights_.packed(op);
    GemmStep step;
    step.in = matrix(op.in);
    step.out = matrix(op.out);
    step.gemm.lda = step.in.width;
    step.gemm.b = weights_.data(rows);
    step.gemm.n = rows.n;
    step.gemm.k = rows.k;
    step.gemm.bias = op.bias ? weights_.vector(*op.bias) + op.first : nullptr;
    step.gemm.activation = activation(op.activation);
    step.gemm.accumulate = op.accumulate;
    step.gemm.ldc = step.out.width;
    step.gemm.f = rows.geglu ? step.out.width : 0;
    plan_.steps_.emplace_back(step);
  }

  void operator()(const Attention& op) {
    AttentionStep step;
    step.heads = op.heads;
    step.q = matrix(op.q, op.q_column);
    step.k = matrix(op.k, op.k_column);
    step.v = matrix(op.v, op.v_column);
    step.out = matrix(op.out);
    step.attention.ldq = step.q.width;
    step.attention.ldk = step.k.width;
    step.attention.ldv = step.v.width;
    step.attention.ldo = step.out.width;
    step.attention.head_width = op.head_width;
    step.attention.reach = op.reach ? *op.reach : SIZE_MAX;
    step.attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(op.head_width)));
    if (op.theta) {
      auto rope = weights_.ropes().get(*op.theta, op.head_width, extent_.tokens);
      if (!rope) {
        error_ = std::move(rope).error();
        return;
      }
      step.attention.cosine = (*rope)->cosine();
      step.attention.sine = (*rope)->sine();
      if (std::ranges::find(plan_.ropes_, *rope) == plan_.ropes_.end()) {
        plan_.ropes_.push_back(*rope);
      }
    }
    scratch_floats_ = std::max(scratch_floats_, kernels::attention_scratch(extent_.tokens, op.head_width));
    plan_.steps_.emplace_back(step);
  }

  void operator()(const GatherPicks& op) { plan_.steps_.emplace_back(PicksStep{matrix(op.in), matrix(op.out)}); }
  void operator()(const GatherMarkers& op) { plan_.steps_.emplace_back(MarkersStep{matrix(op.in), matrix(op.out)}); }
  void operator()(const AddType& op) { plan_.steps_.emplace_back(TypeStep{weights_.vector(op.table), matrix(op.value)}); }
  void operator()(const ActFeatures& op) { plan_.steps_.emplace_back(FeaturesStep{matrix(op.hidden), matrix(op.logits), matrix(op.out)}); }

 private:
  [[nodiscard]] Matrix matrix(ValueId id, std::size_t column = 0) const {
    return {arena_.offsets[id] / sizeof(float) + column, graph_.values[id].width, graph_.values[id].rows};
  }

  const Weights& weights_;
  const Graph& graph_;
  Extent extent_;
  ArenaPlan arena_;
  std::size_t scratch_floats_ = 0;
  std::optional<Error> error_;
  Plan plan_;
};

Result<Plan> Plan::lower(const Weights& weights, const Graph& graph, const Bucket& bucket, Workspace& workspace) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (bucket.tokens > kMost || bucket.seqs > kMost || bucket.markers > kMost - bucket.seqs) {
    return Error(ErrorKind::unsupported, fmt::format("a bucket of {} tokens, {} sequences and {} markers; rows are counted in 32 bits",
                                                     bucket.tokens, bucket.seqs, bucket.markers));
  }
  auto plan = Lowering(weights, graph, bucket).lower(workspace);
  if (plan) {
    plan->state_ = workspace.state_.get();
  }
  return plan;
}

}  // namespace kime::cpu
