// A checkpoint's weights in the form that the kernels read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/rope.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// What multiplies in gemms of that precision; none in float32 ones.
[[nodiscard]] const kernels::Narrow* narrow_of(const kernels::Table& kernels, Precision precision);

/// The rows of a weight that gemms of a graph multiply by, packed (kernels.h says how).
struct PackedRows {
  WeightId weight = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool geglu = false;
  Precision precision = Precision::f32;
  const kernels::Narrow* narrow = nullptr;  ///< What multiplies them; none for float32.
  std::size_t n = 0;                        ///< Packed columns.
  std::size_t k = 0;
  std::size_t offset = 0;         ///< Of the block of all weights, in bytes.
  std::size_t scales_offset = 0;  ///< int8 only, as the next.
  std::size_t start_offset = 0;
  std::size_t channels_offset = 0;  ///< k factors of the activations, then k of the weights: their reciprocals.

  [[nodiscard]] bool serves(const Gemm& gemm) const {
    return weight == gemm.weight && first == gemm.first && count == gemm.count && geglu == (gemm.activation == Activation::geglu) &&
           precision == gemm.precision;
  }
};

/// Where each weight of a graph lies in one block of memory, by the use that ops make of it; and the rope tables that go with them, which
/// have their own lock. Immutable once made.
class WeightLayout {
 public:
  /// The graph and the tensors have been checked. The form of narrow weights is that of `kernels`.
  WeightLayout(const Graph& graph, const TensorSource& tensors, const kernels::Table& kernels);

  /// Of the block; it begins on a multiple of 64.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] kernels::Element element(WeightId weight) const { return elements_[weight]; }
  [[nodiscard]] RopeTables& ropes() const { return *ropes_; }
  /// All that the block's form depends on, as text: what lies where, and for which implementation.
  [[nodiscard]] std::string description() const;

 private:
  friend class LayoutMaker;
  friend class Loader;
  friend class Weights;
  static constexpr std::size_t kNone = SIZE_MAX;

  std::vector<PackedRows> packed_;
  std::vector<std::size_t> tables_;   ///< By weight: bytes as the checkpoint has them (the embedding table), or kNone.
  std::vector<std::size_t> vectors_;  ///< By weight: float32 elements (norms, biases, types), or kNone.
  std::vector<kernels::Element> elements_;
  std::size_t bytes_ = 0;
  std::shared_ptr<RopeTables> ropes_ = std::make_shared<RopeTables>();
};

/// Reads, converts and packs the weights to `memory`, layout.bytes() of it, in parallel and piece by piece, so that no second copy is ever
/// in memory. `memory` is zero before. Errors: `input` when the source fails, `device` without memory for the pieces.
[[nodiscard]] Status load_weights(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table,
                                  const Crew& crew, std::size_t threads, std::byte* memory);

/// A view of loaded weights.
class Weights {
 public:
  /// Both outlive it.
  Weights(const WeightLayout& layout, const std::byte* memory) : layout_(layout), memory_(memory) {}

  /// The packed rows that `gemm`, an op of the graph they were loaded for, multiplies by; their memory is at data().
  [[nodiscard]] const PackedRows& packed(const Gemm& gemm) const;
  /// float32 rows.
  [[nodiscard]] const float* data(const PackedRows& rows) const { return floats(rows.offset); }
  /// Narrow ones: all but the activations.
  [[nodiscard]] kernels::NarrowOperands operands(const PackedRows& rows) const {
    return {.kernel = rows.narrow,
            .b = memory_ + rows.offset,
            .b_scales = floats(rows.scales_offset),
            .channels = rows.precision == Precision::int8 ? floats(rows.channels_offset) : nullptr,
            .start = reinterpret_cast<const std::int32_t*>(memory_ + rows.start_offset)};
  }
  /// A norm's weight, a bias or the table of types, as float32.
  [[nodiscard]] const float* vector(WeightId weight) const { return floats(layout_.vectors_[weight]); }
  /// The embedding table and its element type.
  [[nodiscard]] const std::byte* table(WeightId weight) const { return memory_ + layout_.tables_[weight]; }
  [[nodiscard]] kernels::Element element(WeightId weight) const { return layout_.element(weight); }
  [[nodiscard]] RopeTables& ropes() const { return layout_.ropes(); }

 private:
  [[nodiscard]] const float* floats(std::size_t offset) const { return reinterpret_cast<const float*>(memory_ + offset); }

  const WeightLayout& layout_;
  const std::byte* memory_;
};

}  // namespace kime::cpu
