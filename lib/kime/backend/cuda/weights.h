// How weights lie in a device's memory, and their way there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kime/backend/cuda/elements.h"
#include "kime/graph/graph.h"

namespace kime::cuda {

/// Whether a gemm is computed in float32 by kime_linear_f32, which takes any widths and suits few outputs.
[[nodiscard]] constexpr bool is_linear(const Gemm& op) {
  constexpr std::uint32_t kFew = 8;
  return op.precision == Precision::f32 && op.count < kFew && !op.accumulate && op.activation != Activation::geglu;
}

/// The rows of a weight that a gemm multiplies by: [rows][ld] of `type`, both filled up with zeros, a geglu's rows in the kernels' order.
struct WeightMatrix {
  WeightId weight = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool geglu = false;
  DType type = DType::f32;
  std::size_t rows = 0;
  std::size_t k = 0;
  std::size_t ld = 0;
  std::size_t offset = 0;  ///< In bytes.

  [[nodiscard]] bool serves(const Gemm& op) const {
    return op.weight == weight && op.first == first && op.count == count && (op.activation == Activation::geglu) == geglu &&
           element_of(op.precision) == type;
  }
  /// Which row of the checkpoint's weight a row here is, or none: it is zeros.
  [[nodiscard]] std::optional<std::size_t> source(std::size_t row) const;
};

/// Offsets in bytes, each a multiple of 256: vectors, the table of types and embedding tables of their own, gemms' rows by what they serve.
class WeightLayout {
 public:
  /// Errors: `unsupported` for a precision that the kernels have not, naming it.
  static Result<WeightLayout> make(const Graph& graph, const TensorSource& tensors);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::span<const WeightMatrix> matrices() const { return matrices_; }
  [[nodiscard]] const WeightMatrix& matrix(const Gemm& op) const;
  /// A norm's weight, a bias or the table of types, as float32, filled up with zeros to whole rows.
  [[nodiscard]] std::size_t vector(WeightId weight) const { return vectors_[weight]; }
  /// An embedding table, as the checkpoint has it.
  [[nodiscard]] std::size_t table(WeightId weight) const { return tables_[weight]; }
  [[nodiscard]] DType table_type(WeightId weight) const { return types_[weight]; }

  static constexpr std::size_t kNone = SIZE_MAX;  ///< Of weights that have no such place.

 private:
  friend class WeightLayoutMaker;

  std::vector<WeightMatrix> matrices_;
  std::vector<std::size_t> vectors_;
  std::vector<std::size_t> tables_;
  std::vector<DType> types_;
  std::size_t bytes_ = 0;
};

/// Takes the weights piece by piece.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  static constexpr std::size_t kPiece = std::size_t{4} << 20;
  /// Room for a piece of so many bytes, until it is sent. Errors: `device`.
  virtual Result<std::byte*> room() = 0;
  /// Sends the first `bytes` of it to an offset in the weights' memory.
  virtual Status send(std::size_t offset, std::size_t bytes) = 0;
};

/// Reads and converts all weights, in order. Errors: the source's and the sink's.
Status load_weights(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, WeightSink& sink);

}  // namespace kime::cuda
