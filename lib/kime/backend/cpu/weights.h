// A checkpoint's weights in the form that the kernels read.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/rope.h"
#include "kime/base/error.h"
#include "kime/base/memory.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// The rows of a weight that gemms of a graph multiply by, packed (kernels.h says how).
struct PackedRows {
  WeightId weight = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool geglu = false;
  std::size_t n = 0;  ///< Packed columns.
  std::size_t k = 0;
  std::size_t offset = 0;  ///< Of the block of all weights, in bytes.

  [[nodiscard]] bool serves(const Gemm& gemm) const {
    return weight == gemm.weight && first == gemm.first && count == gemm.count && geglu == (gemm.activation == Activation::geglu);
  }
};

/// Where each weight of a graph lies in one block of memory, by the use that ops make of it.
struct WeightLayout {
  static constexpr std::size_t kNone = SIZE_MAX;

  std::vector<PackedRows> packed;
  std::vector<std::size_t> tables;   ///< By weight: bytes as the checkpoint has them (the embedding table), or kNone.
  std::vector<std::size_t> vectors;  ///< By weight: float32 elements (norms, biases, types), or kNone.
  std::size_t bytes = 0;
};

/// Immutable once made, but for the rope tables, which have their own lock; shared by all workspaces.
class Weights {
 public:
  /// Reads, converts and packs, in parallel and piece by piece, so that no second copy is ever in memory. The graph has been checked.
  /// Errors: `input` when the source fails, `device` without memory.
  static Result<Weights> load(const TensorSource& tensors, const Graph& graph, const kernels::Table& table, const Crew& crew,
                              std::size_t threads);

  /// The packed rows that `gemm`, an op of the graph they were loaded for, multiplies by; their memory is at data().
  [[nodiscard]] const PackedRows& packed(const Gemm& gemm) const;
  [[nodiscard]] const float* data(const PackedRows& rows) const { return floats(rows.offset); }
  /// A norm's weight, a bias or the table of types, as float32.
  [[nodiscard]] const float* vector(WeightId weight) const { return floats(layout_.vectors[weight]); }
  /// The embedding table and its element type.
  [[nodiscard]] const std::byte* table(WeightId weight) const { return memory_.data() + layout_.tables[weight]; }
  [[nodiscard]] kernels::Element element(WeightId weight) const { return elements_[weight]; }
  [[nodiscard]] RopeTables& ropes() const { return *ropes_; }
  /// The memory that they take.
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

 private:
  Weights() = default;
  [[nodiscard]] const float* floats(std::size_t offset) const { return reinterpret_cast<const float*>(memory_.data() + offset); }

  WeightLayout layout_;
  std::vector<kernels::Element> elements_;
  Pages memory_;
  std::unique_ptr<RopeTables> ropes_ = std::make_unique<RopeTables>();
};

}  // namespace kime::cpu
