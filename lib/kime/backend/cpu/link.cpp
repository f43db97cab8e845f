// From a graph and a bucket to code, and from code to a plan.
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

// Of a prepared row of k elements, in bytes, in the form that takes the most.
std::size_t widest_row(std::size_t k) {
  constexpr std::size_t kStep = 64;
  return (k + kStep - 1) / kStep * kStep * sizeof(float);
}

}  // namespace

Result<Code> Code::compile(const Graph& graph, const Bucket& bucket) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (bucket.tokens > kMost || bucket.seqs > kMost || bucket.markers > kMost - bucket.seqs) {
    return Error(ErrorKind::unsupported, fmt::format("a bucket of {} tokens, {} sequences and {} markers; rows are counted in 32 bits",
                                                     bucket.tokens, bucket.seqs, bucket.markers));
  }
  Code code;
  code.bucket = bucket;
  code.arena = plan_arena(graph, {bucket.tokens, bucket.seqs, bucket.markers});
  for (const Op& op : graph.ops) {
    if (const auto* attention = std::get_if<Attention>(&op)) {
      code.scratch_floats = std::max(code.scratch_floats, kernels::attention_scratch(bucket.tokens, attention->head_width));
    }
    if (const auto* gemm = std::get_if<Gemm>(&op); gemm != nullptr && gemm->precision != Precision::f32) {
      code.prepared_bytes = std::max(code.prepared_bytes, code.rows() * widest_row(graph.values[gemm->in].width));
    }
  }
  code.scratch_floats = (code.scratch_floats + 15) / 16 * 16;  // each worker's on a cache line of its own
  return code;
}

// Turns each op into a step.
class Linking {
 public:
  Linking(const Weights& weights, const Graph& graph, const Code& code) : weights_(weights), graph_(graph), code_(code) {}

  Result<Plan> link(std::size_t workers) && {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      std::visit(*this, graph_.ops[i]);
      plan_.ops_.resize(plan_.steps_.size(), static_cast<std::uint32_t>(i));
    }
    if (error_) {
      return *std::move(error_);
    }
    plan_.logits_ = matrix(graph_.logits);
    plan_.act_ = matrix(graph_.act);
    plan_.bucket_ = code_.bucket;
    plan_.scratch_offset_ = code_.arena.bytes;
    plan_.scratch_floats_ = code_.scratch_floats;
    plan_.prepared_offset_ = code_.prepared_offset(workers);
    plan_.scales_offset_ = code_.scales_offset(workers);
    plan_.picks_offset_ = code_.picks_offset(workers);
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
    if (rows.narrow == nullptr) {
      step.gemm.b = weights_.data(rows);
    } else {
      step.narrow = weights_.operands(rows);
    }
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
      auto rope = weights_.ropes().get(*op.theta, op.head_width, code_.bucket.tokens);
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
    plan_.steps_.emplace_back(step);
  }

  void operator()(const GatherPicks& op) { plan_.steps_.emplace_back(PicksStep{matrix(op.in), matrix(op.out)}); }
  void operator()(const GatherMarkers& op) { plan_.steps_.emplace_back(MarkersStep{matrix(op.in), matrix(op.out)}); }
  void operator()(const AddType& op) { plan_.steps_.emplace_back(TypeStep{weights_.vector(op.table), matrix(op.value)}); }
  void operator()(const ActFeatures& op) { plan_.steps_.emplace_back(FeaturesStep{matrix(op.hidden), matrix(op.logits), matrix(op.out)}); }

 private:
  [[nodiscard]] Matrix matrix(ValueId id, std::size_t column = 0) const {
    return {code_.arena.offsets[id] / sizeof(float) + column, graph_.values[id].width, graph_.values[id].rows};
  }

  const Weights& weights_;
  const Graph& graph_;
  const Code& code_;
  std::optional<Error> error_;
  Plan plan_;
};

Result<Plan> Plan::link(const Weights& weights, const Graph& graph, const Code& code, std::size_t workers) {
  return Linking(weights, graph, code).link(workers);
}

}  // namespace kime::cpu
