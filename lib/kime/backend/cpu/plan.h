// A graph made concrete for one bucket: steps with their weights resolved and their values placed in the arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/rope.h"
#include "kime/base/error.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"
#include "kime/graph/planner.h"

namespace kime::cpu {

/// What of a plan is the same on every device: where its values lie.
struct Code {
  Bucket bucket;
  ArenaPlan arena;
  std::size_t scratch_floats = 0;  ///< Of each worker.
  std::size_t prepared_bytes = 0;  ///< Rows of narrow activations, in whatever form: of one gemm at a time, or of none.

  /// Errors: `unsupported` for a bucket of 2^32 rows or more.
  static Result<Code> compile(const Graph& graph, const Bucket& bucket);

  /// The memory that a run needs, for so many workers: the arena of values, each worker's scratch, prepared rows, their scales, the indices
  /// of the picks. It begins on a multiple of 64; pages that no batch reaches cost nothing.
  [[nodiscard]] std::size_t bytes(std::size_t workers) const { return picks_offset(workers) + 3 * picks() * sizeof(std::uint32_t); }
  [[nodiscard]] std::size_t picks() const { return bucket.seqs + bucket.markers; }
  [[nodiscard]] std::size_t prepared_offset(std::size_t workers) const { return arena.bytes + scratch_floats * sizeof(float) * workers; }
  [[nodiscard]] std::size_t scales_offset(std::size_t workers) const { return prepared_offset(workers) + prepared_bytes; }
  [[nodiscard]] std::size_t picks_offset(std::size_t workers) const { return scales_offset(workers) + rows() * sizeof(float); }
  /// The most rows that any value has.
  [[nodiscard]] std::size_t rows() const { return std::max<std::size_t>(bucket.tokens, picks()); }
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
  kernels::Gemm gemm;              ///< All but a and c.
  kernels::NarrowOperands narrow;  ///< All but a; without a kernel where the gemm is a float32 one.
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
  /// Places a graph's values as `code` says and resolves the weights. Errors: `device` without memory for a rope table.
  static Result<Plan> link(const Weights& weights, const Graph& graph, const Code& code, std::size_t workers);

  /// What it was made for.
  [[nodiscard]] const Bucket& bucket() const { return bucket_; }
  /// How many steps it has; for profiling.
  [[nodiscard]] std::size_t size() const { return steps_.size(); }

 private:
  friend class Linking;
  friend class Runner;

  Bucket bucket_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> ops_;  ///< By step: the op of the graph that it belongs to.
  Matrix logits_;
  Matrix act_;
  std::vector<std::shared_ptr<RopeTable>> ropes_;
  std::size_t scratch_offset_ = 0;  ///< In bytes.
  std::size_t scratch_floats_ = 0;  ///< Of each worker.
  std::size_t prepared_offset_ = 0;
  std::size_t scales_offset_ = 0;
  std::size_t picks_offset_ = 0;  ///< In bytes.
};

}  // namespace kime::cpu
