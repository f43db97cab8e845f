// Parameters, names and shapes of attention and of the table of its tiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/params.h"

namespace kime::cuda {

/// Which queries a block takes: up to attention_queries(full) of them from `query0` on, of one sequence.
struct AttentionTile {
  std::uint32_t seq;
  std::uint32_t query0;
};

/// kime_attention_tiles: the tiles of a batch, sequence by sequence. Once a launch for each kind of queries.
struct AttentionTilesParams {
  const Counts* counts;
  const std::uint32_t* cu;   ///< seqs + 1
  const std::uint32_t* mcu;  ///< seqs + 1 where the queries are the picks, else null: they are all tokens.
  AttentionTile* tiles;      ///< attention_tiles(...) entries.
  std::uint32_t* tile_count;
  std::uint32_t queries_each;
};

/// kime_attention_<T>_<width>: softmax(rope(q) rope(k)^T scale) v within each sequence and head, for heads of at most `width` columns.
/// q, k, v and out stand at the first head's first column of the first row and begin, as their rows do, on multiples of 16 bytes (out: 8);
/// head h is h * head_width columns further on.
struct AttentionParams {
  const Counts* counts;
  const AttentionTile* tiles;
  const std::uint32_t* tile_count;
  const std::uint32_t* cu;
  const std::uint32_t* mcu;              ///< As for the tiles.
  const std::uint32_t* query_rows;       ///< As kime_index fills them, or null where the queries are all tokens.
  const std::uint32_t* query_positions;  ///< The same.
  const float* cosine;                   ///< [position][head_width / 2], 16-byte aligned, or null for no rope; likewise
  const float* sine;
  const void* q;  ///< T [tokens or picks][ld_q]
  const void* k;  ///< T [tokens][ld_k]
  const void* v;
  void* out;  ///< T, rows as q.
  std::uint32_t ld_q;
  std::uint32_t ld_k;
  std::uint32_t ld_v;
  std::uint32_t ld_out;
  std::uint32_t heads;
  std::uint32_t head_width;  ///< A multiple of 8.
  std::uint32_t reach;       ///< Key j is seen by the query at i when |i - j| <= reach; kFullReach: always.
  float scale;
};
inline constexpr std::uint32_t kFullReach = 0xFFFFFFFFU;

inline constexpr unsigned kTileThreads = 256;
inline constexpr unsigned kAttentionThreads = 256;
inline constexpr unsigned kWidestHead = 128;

/// Queries of a block and keys of a block of keys. `full` says that elements are f32.
[[nodiscard]] constexpr unsigned attention_queries(bool full) {
  return full ? 64 : 128;
}
[[nodiscard]] constexpr unsigned attention_keys(bool full) {
  return full ? 32 : 64;
}

/// The most tiles of a batch of so many query rows (tokens or picks) and sequences.
[[nodiscard]] constexpr std::size_t attention_tiles(bool full, std::size_t rows, std::size_t seqs) {
  return std::min(rows, rows / attention_queries(full) + seqs);
}
[[nodiscard]] constexpr Shape attention_tiles_shape() {
  return {1, 1, kTileThreads, 0};
}

/// The head width that kernels are compiled for and `head_width` is padded to; 0 where it is too wide or no multiple of 8.
[[nodiscard]] constexpr unsigned padded_head(std::size_t head_width) {
  if (head_width == 0 || head_width % 8 != 0 || head_width > kWidestHead) {
    return 0;
  }
  return head_width <= 96 ? (static_cast<unsigned>(head_width) + 31) / 32 * 32 : kWidestHead;
}

/// Between neighbouring rows of f32 in shared memory, in floats: a sixteenth of 128 bytes more, so that rows' same columns lie apart.
[[nodiscard]] constexpr unsigned padded_row(unsigned columns) {
  return columns + 4;
}

/// Queries, and for 16-bit elements two blocks each of keys and values, so that one comes while the other is used; for f32 one, and
/// weights.
[[nodiscard]] constexpr std::size_t attention_shared(bool full, unsigned width) {
  const std::size_t queries = attention_queries(full);
  const std::size_t keys = attention_keys(full);
  if (!full) {
    return (queries + 4 * keys) * width * 2;
  }
  return ((queries + 2 * keys) * padded_row(width) + queries * padded_row(attention_keys(full))) * sizeof(float);
}

/// Blocks go on to further tiles, so that a bucket's capacity costs no blocks without work: so many for each of the device's `processors`
/// leave enough of them to even out tiles of unequal cost. `shared_bytes` may pass 48 KiB: the driver has to allow it.
[[nodiscard]] constexpr Shape attention_shape(bool full, unsigned width, std::size_t tiles, std::size_t heads, unsigned processors) {
  constexpr std::size_t kBlocksEach = 16;
  return {static_cast<unsigned>(std::max<std::size_t>(1, std::min(tiles * heads, processors * kBlocksEach))), 1, kAttentionThreads,
          attention_shared(full, width)};
}

/// `type` is f32, f16 or bf16; `width` padded_head().
[[nodiscard]] inline std::string attention_name(const char* type, unsigned width) {
  return std::string("kime_attention_") + type + "_" + std::to_string(width);
}

}  // namespace kime::cuda
