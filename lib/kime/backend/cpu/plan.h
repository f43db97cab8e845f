// A graph made concrete for one bucket: steps with their weights resolved and their values placed in the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/rope.h"
#include "kime/base/error.h"
#include "kime/base/memory.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// What the plans of one executor share, since only one of them runs at a time: the arena of values, scratch for each worker, and the
/// indices of the batch in hand. It has room for the largest plan; pages that no batch reaches cost nothing.
class Workspace {
 public:
  /// Room for `workers` workers.
  explicit Workspace(std::size_t workers) : state_(std::make_unique<State>()) { state_->workers = workers; }

  /// Grows to these sizes at least; what it held is lost. Errors: `device` without memory.
  Status grow(std::size_t arena_bytes, std::size_t scratch_floats, const Bucket& bucket);

 private:
  friend class Plan;
  friend class Runner;
  // Behind a pointer, so that plans can hold on to it while the workspace moves.
  struct State {
    std::size_t workers = 1;
    Pages arena;
    Pages scratch;
    std::size_t scratch_floats = 0;         ///< Of each worker.
    std::vector<std::uint32_t> tokens;      ///< The token of each pick, or kNoToken.
    std::vector<std::uint32_t> query_rows;  ///< The picks, sequence by sequence: sequence s has its own from s + mcu[s] on.
    std::vector<std::uint32_t> positions;   ///< Where each of these stands in its sequence.
  };
  static constexpr std::uint32_t kNoToken = UINT32_MAX;

  std::unique_ptr<State> state_;
};

/// A value in the arena.
struct Matrix {
  std::size_t offset = 0;  ///< In floats.
  std::size_t width = 0;
  Rows rows = Rows::tokens;
};

struct EmbedStep {
  const std::byte* table = nullptr;
  kernels::Element element = kernels::Element::f32;
  Matrix out;
};
struct NormStep {
  Matrix in;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float eps = 0;
  Matrix out;
};
struct GemmStep {
  kernels::Gemm gemm;  ///< All but a and c.
  Matrix in;
  Matrix out;
};
struct AttentionStep {
  kernels::Attention attention;  ///< What is the same for each sequence and head.
  std::size_t heads = 0;
  Matrix q;  ///< q, k and v from the first head's column on.
  Matrix k;
  Matrix v;
  Matrix out;
};
struct PicksStep {
  Matrix in;
  Matrix out;
};
struct MarkersStep {
  Matrix in;
  Matrix out;
};
struct TypeStep {
  const float* table = nullptr;
  Matrix value;
};
struct FeaturesStep {
  Matrix hidden;
  Matrix logits;
  Matrix out;
};
using Step = std::variant<EmbedStep, NormStep, GemmStep, AttentionStep, PicksStep, MarkersStep, TypeStep, FeaturesStep>;

class Weights;

class Plan {
 public:
  /// Places a graph's values for `bucket` in the workspace, which it grows, and resolves the weights.
  /// Errors: `unsupported` for a bucket of 2^32 rows or more, `device` without memory.
  static Result<Plan> lower(const Weights& weights, const Graph& graph, const Bucket& bucket, Workspace& workspace);

  /// What it was made for.
  [[nodiscard]] const Bucket& bucket() const { return bucket_; }
  /// How many steps it has; for profiling.
  [[nodiscard]] std::size_t size() const { return steps_.size(); }

 private:
  friend class Lowering;
  friend class Runner;

  Bucket bucket_;
  std::vector<Step> steps_;
  Matrix logits_;
  Matrix act_;
  std::vector<std::shared_ptr<RopeTable>> ropes_;
  Workspace::State* state_ = nullptr;
};

}  // namespace kime::cpu
