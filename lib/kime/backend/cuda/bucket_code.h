// What a graph becomes for a bucket, before a device is known: which values are narrow, and where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"
#include "kime/graph/planner.h"

namespace kime::cuda {

/// A value as a matrix in memory.
struct PlacedValue {
  Rows rows = Rows::tokens;
  std::uint32_t width = 0;
  std::uint32_t ld = 0;  ///< Elements from one row to the next; rows begin on multiples of 16 bytes but in the outputs.
  DType type = DType::f32;
  bool in_outputs = false;          ///< It is a score: not in the arena.
  std::size_t offset = 0;           ///< In bytes.
  std::optional<std::size_t> twin;  ///< Where the arena holds the same value as BucketCode::narrow, for products that read it so.
};

/// Offsets in bytes of what a launch finds out about its batch: as IndexParams and AttentionTilesParams (kernels/cuda) have them.
struct BatchIndex {
  std::size_t counts = 0;
  std::size_t seq_of_token = 0;
  std::size_t seq_of_pick = 0;
  std::size_t pick_tokens = 0;
  std::size_t query_rows = 0;
  std::size_t query_positions = 0;
  std::size_t token_tiles = 0;
  std::size_t token_tile_count = 0;
  std::size_t pick_tiles = 0;
  std::size_t pick_tile_count = 0;
};

/// Residual streams, norms' inputs and what float32 products touch are float32; all else has the element type of the graph's narrow
/// products, if it has any.
class BucketCode {
 public:
  /// Errors: `unsupported`, by name: a precision, a graph or a size that the kernels have not.
  static Result<BucketCode> compile(const Graph& graph, const Bucket& bucket);

  [[nodiscard]] const Bucket& bucket() const { return bucket_; }
  [[nodiscard]] DType narrow() const { return narrow_; }
  [[nodiscard]] const PlacedValue& value(ValueId id) const { return values_[id]; }
  [[nodiscard]] const BatchIndex& index() const { return index_; }
  [[nodiscard]] std::size_t arena_bytes() const { return arena_bytes_; }
  /// The most rows that there may be of a kind.
  [[nodiscard]] std::size_t most_rows(Rows rows) const { return row_count(rows, {bucket_.tokens, bucket_.seqs, bucket_.markers}); }

 private:
  friend class BucketCodeMaker;

  Bucket bucket_;
  DType narrow_ = DType::f32;
  std::vector<PlacedValue> values_;
  BatchIndex index_;
  std::size_t arena_bytes_ = 0;
};

/// The norm that follows an embedding in place, as one kernel does both; null where op `op` is no embedding or has none.
[[nodiscard]] const LayerNorm* norm_of_embedding(const Graph& graph, std::size_t op);

}  // namespace kime::cuda
