// Parameters and shapes of the kernels that go over rows, a warp each: embedding, norms, epilogues of products, gathers, small products.
// Matrices are row-major, `ld` elements from one row to the next. `void` data has the element type in the kernel's name: f32, f16, bf16.
#pragma once

#include "kernels/cuda/params.h"

namespace kime::cuda {

inline constexpr unsigned kRowsEach = 8;  ///< Rows of a block, a warp each.
inline constexpr unsigned kRowThreads = 32 * kRowsEach;
inline constexpr unsigned kColumnsEach = 512;  ///< Columns of a block of an epilogue.
inline constexpr unsigned kIndexThreads = 128;
inline constexpr unsigned kOutputsEach = 4;  ///< Output columns of a block of `linear`.

/// Of a kernel with a warp for each row, for at most `rows`.
[[nodiscard]] constexpr Shape row_shape(std::size_t rows) {
  return {blocks_for(rows, kRowsEach), 1, kRowThreads, 0};
}
/// Of an epilogue whose output is `width` wide.
[[nodiscard]] constexpr Shape epilogue_shape(std::size_t rows, std::size_t width) {
  return {blocks_for(rows, kRowsEach), blocks_for(width, kColumnsEach), kRowThreads, 0};
}
[[nodiscard]] constexpr Shape linear_shape(std::size_t rows, std::size_t outputs) {
  return {blocks_for(rows, kRowsEach), blocks_for(outputs, kOutputsEach), kRowThreads, 0};
}
/// A block for each sequence.
[[nodiscard]] constexpr Shape index_shape(std::size_t seqs) {
  return {blocks_for(seqs, 1), 1, kIndexThreads, 0};
}

/// kime_index: what else is known of tokens and picks once the batch is there.
struct IndexParams {
  const Counts* counts;
  const std::uint32_t* cu;       ///< seqs + 1
  const std::uint32_t* markers;  ///< markers
  const std::uint32_t* mcu;      ///< seqs + 1
  std::uint32_t* seq_of_token;   ///< tokens
  std::uint32_t* seq_of_pick;    ///< picks, by pick
  std::uint32_t* pick_tokens;    ///< picks, by pick: its token, or kNoToken.
  /// The picks of sequence s stand together from s + mcu[s] on, its first token's and then its markers':
  std::uint32_t* query_rows;       ///< picks, which pick it is,
  std::uint32_t* query_positions;  ///< picks, and where in its sequence it stands.
};

/// kime_embed_norm_<table>_<T>: stream = narrow = layer norm of table[id].
struct EmbedNormParams {
  const Counts* counts;
  const std::uint32_t* ids;
  const void* table;    ///< [vocabulary][width]
  const float* weight;  ///< width
  const float* bias;    ///< width, or null.
  float* stream;        ///< [tokens][width]
  void* narrow;         ///< The same as T, or null.
  std::uint32_t width;
  float eps;
};

/// kime_norm_<T>: out = layer norm of in. May run in place where T is f32.
struct NormParams {
  const Counts* counts;
  const float* in;
  const float* weight;
  const float* bias;  ///< Or null.
  void* out;
  std::uint32_t ld_in;
  std::uint32_t ld_out;
  std::uint32_t width;
  float eps;
  RowSet rows;
};

enum class Act : std::uint32_t { none, gelu, relu };

/// kime_bias_act_<in>_<out>: out = act(in + bias), or out += that (f32 only). May run in place where both types are the same.
struct BiasActParams {
  const Counts* counts;
  const void* in;
  const float* bias;  ///< Or null.
  void* out;
  std::uint32_t ld_in;
  std::uint32_t ld_out;
  std::uint32_t width;
  RowSet rows;
  Act act;
  std::uint32_t accumulate;  ///< 0 or 1.
};

/// kime_geglu_<in>_<out>: out = gelu(a) g, with a the first `width` columns of in and g the next.
struct GegluParams {
  const Counts* counts;
  const void* in;
  void* out;
  std::uint32_t ld_in;
  std::uint32_t ld_out;
  std::uint32_t width;  ///< Of out.
  RowSet rows;
};

/// kime_gather_picks_<T>: the rows of the picks' tokens; zeros where there is no token.
/// kime_gather_markers_<T>: of rows that are picks, the markers'.
struct GatherParams {
  const Counts* counts;
  const std::uint32_t* pick_tokens;  ///< gather_picks only.
  const void* in;
  void* out;
  std::uint32_t ld_in;
  std::uint32_t ld_out;
  std::uint32_t width;
};

/// kime_add_type: value[row] += table[type of the row's sequence].
struct AddTypeParams {
  const Counts* counts;
  const std::uint32_t* seq_of_row;  ///< seq_of_token or seq_of_pick, as `rows` says.
  const std::uint8_t* qtype;
  const float* table;  ///< [types][width]
  float* value;
  std::uint32_t ld;
  std::uint32_t width;
  RowSet rows;
};

/// kime_linear_f32: out = act(in weight^T + bias) in float32, for few outputs.
struct LinearParams {
  const Counts* counts;
  const float* in;
  const float* weight;  ///< [outputs][inputs]
  const float* bias;    ///< Or null.
  float* out;
  std::uint32_t ld_in;
  std::uint32_t ld_out;
  std::uint32_t inputs;
  std::uint32_t outputs;
  RowSet rows;
  Act act;
};

/// kime_act_features: out[s] = [hidden[s], p1, p1 - p2, H / ln k', k' / 255] of the sequence's logits, k of them, k' = max(k, 2); without
/// logits the four are 0, without tokens hidden is.
struct ActFeaturesParams {
  const Counts* counts;
  const std::uint32_t* cu;
  const std::uint32_t* mcu;
  const float* hidden;  ///< [picks][ld_hidden]
  const float* logits;  ///< markers
  float* out;           ///< [seqs][ld_out], width + 4 used.
  std::uint32_t ld_hidden;
  std::uint32_t ld_out;
  std::uint32_t width;
};

}  // namespace kime::cuda
