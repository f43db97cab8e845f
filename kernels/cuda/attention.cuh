// What attention does the same way for all elements: which keys a query sees, and how rows come into shared memory and are turned there.
#pragma once

#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/params_attention.h"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {

// As the host's functions have them; device code may not call those.
template <bool kFull>
inline constexpr unsigned kQueriesEach = attention_queries(kFull);
template <bool kFull>
inline constexpr unsigned kKeysEach = attention_keys(kFull);
template <unsigned kColumns>
inline constexpr unsigned kPaddedRow = padded_row(kColumns);
template <bool kFull, unsigned kWidth>
inline constexpr std::size_t kSharedBytes = attention_shared(kFull, kWidth);

inline constexpr unsigned kAttentionWarps = kAttentionThreads / kWarpSize;

inline constexpr unsigned kNoQuery = 0xFFFFFFFFU;

struct KeyRange {
  unsigned begin;
  unsigned end;
};

/// What a block does at a time: some queries of one head of one sequence.
struct AttentionTask {
  unsigned first;    ///< The sequence's first token.
  unsigned keys;     ///< Its tokens.
  unsigned query0;   ///< The first of the tile's queries.
  unsigned queries;  ///< Of the sequence: all there are.
  unsigned entry;    ///< Where its picks begin in query_rows.
  unsigned column;   ///< The head's.
};

__device__ __forceinline__ AttentionTask task_of(const AttentionParams& p, unsigned item) {
  const AttentionTile* const tile = p.tiles + item / p.heads;
  const unsigned seq = load_global(&tile->seq);
  AttentionTask task;
  task.first = load_global(p.cu + seq);
  task.keys = load_global(p.cu + seq + 1) - task.first;
  task.query0 = load_global(&tile->query0);
  task.queries = task.keys;
  task.entry = 0;
  if (p.query_rows != nullptr) {
    const unsigned marker0 = load_global(p.mcu + seq);
    task.queries = 1 + load_global(p.mcu + seq + 1) - marker0;
    task.entry = seq + marker0;
  }
  task.column = item % p.heads * p.head_width;
  return task;
}

/// The row of q and out that query `query` of the tile is, and its place in the sequence.
__device__ __forceinline__ unsigned row_of(const AttentionParams& p, const AttentionTask& task, unsigned query) {
  return p.query_rows == nullptr ? task.first + task.query0 + query : load_global(p.query_rows + task.entry + task.query0 + query);
}
__device__ __forceinline__ unsigned position_of(const AttentionParams& p, const AttentionTask& task, unsigned query) {
  return p.query_rows == nullptr ? task.query0 + query : load_global(p.query_positions + task.entry + task.query0 + query);
}

/// The place in its sequence of query `query` of the tile, or kNoQuery.
__device__ __forceinline__ unsigned place_of(const AttentionParams& p, const AttentionTask& task, unsigned query) {
  return task.query0 + query < task.queries ? position_of(p, task, query) : kNoQuery;
}
/// The keys that a query sees; none, and a beginning past all others, where there is no such query.
__device__ __forceinline__ KeyRange visible_keys(const AttentionParams& p, const AttentionTask& task, unsigned place) {
  if (place == kNoQuery) {
    return {task.keys, 0};
  }
  return {place > p.reach ? place - p.reach : 0, p.reach >= task.keys - place ? task.keys : place + p.reach + 1};
}

/// The keys that any of a warp's kRows queries from `query` on sees, the same in all its lanes.
template <unsigned kRows>
__device__ __forceinline__ KeyRange seen_by_warp(const AttentionParams& p, const AttentionTask& task, unsigned query) {
  KeyRange range = visible_keys(p, task, place_of(p, task, query + lane() % kRows));
#pragma unroll
  for (unsigned mask = kRows / 2; mask != 0; mask /= 2) {
    range.begin = min_of(range.begin, shuffle(range.begin, static_cast<int>(lane() ^ mask)));
    range.end = max_of(range.end, shuffle(range.end, static_cast<int>(lane() ^ mask)));
  }
  return range;
}

/// The blocks of keys that any warp's queries see, from what each warp's do. Every thread calls it; before the next call there must be a
/// barrier.
template <unsigned kKeys>
__device__ __forceinline__ KeyRange seen_blocks(const SharedPtr<std::uint32_t>& ranges, const KeyRange& warps) {
  const unsigned warp = threadIdx.x / kWarpSize;
  if (lane() == 0) {
    ranges[warp * 2] = warps.begin;
    ranges[warp * 2 + 1] = warps.end;
  }
  __syncthreads();
  KeyRange seen = warps;
  for (unsigned i = 0; i < kAttentionWarps; ++i) {
    seen.begin = min_of<unsigned>(seen.begin, ranges[i * 2]);
    seen.end = max_of<unsigned>(seen.end, ranges[i * 2 + 1]);
  }
  return {seen.begin / kKeys, (seen.end + kKeys - 1) / kKeys};
}

/// kRows rows of a head in shared memory: swizzled for tensor cores, or of f32 with gaps.
template <class T, unsigned kWidth>
struct HeadRows {
  static constexpr unsigned kChunks = kWidth / kPerChunk<T>;
  static constexpr bool kFull = sizeof(T) == 4;
  static constexpr unsigned kStride = kFull ? kPaddedRow<kWidth> : kWidth;
  using Word = typename Four<T>::Word;

  __device__ __forceinline__ static unsigned chunk_at(unsigned row, unsigned chunk) {
    return kFull ? row * (kStride / kPerChunk<T>)+chunk : swizzled<kChunks>(row, chunk);
  }
  /// Where four columns from a multiple of four on begin, in such fours.
  __device__ __forceinline__ static unsigned four_at(unsigned row, unsigned column) {
    constexpr unsigned kFours = kPerChunk<T> / 4;
    return chunk_at(row, column / kPerChunk<T>) * kFours + column / 4 % kFours;
  }
};

/// Begins the copy of `rows` rows of a head, `row_at(row)` saying where a row begins and `inside(row)` whether it exists; the others, and
/// columns past the head, become zeros.
template <class T, unsigned kWidth, unsigned kRows, class RowAt, class Inside>
__device__ __forceinline__ void copy_rows(const SharedPtr<T>& to, unsigned head_width, const T* anywhere, const RowAt& row_at,
                                          const Inside& inside) {
  using Rows = HeadRows<T, kWidth>;
#pragma unroll
  for (unsigned i = 0; i < kRows * Rows::kChunks / kAttentionThreads; ++i) {
    const unsigned at = i * kAttentionThreads + threadIdx.x;
    const unsigned row = at / Rows::kChunks;
    const unsigned chunk = at % Rows::kChunks;
    const bool there = inside(row) && chunk * kPerChunk<T> < head_width;
    cp_async_16(raw(to + Rows::chunk_at(row, chunk) * kPerChunk<T>), there ? row_at(row) + chunk * kPerChunk<T> : anywhere, there);
  }
}

/// The rotary embedding of rows that are in shared memory: low half lo cos - hi sin, high half hi cos + lo sin, in float32.
template <class T, unsigned kWidth, unsigned kRows, class PositionAt, class Inside>
__device__ __forceinline__ void turn_rows(const SharedPtr<T>& rows, const AttentionParams& p, const PositionAt& position_at,
                                          const Inside& inside) {
  using Rows = HeadRows<T, kWidth>;
  using Word = typename Rows::Word;
  constexpr unsigned kFours = kWidth / 8;  // of half a head
  const SharedPtr<Word> words = shared_view<Word>(reinterpret_cast<std::byte*>(raw(rows)), kRows * Rows::kStride / 4);
  const unsigned half = p.head_width / 2;
#pragma unroll 1
  for (unsigned at = threadIdx.x; at < kRows * kFours; at += kAttentionThreads) {
    const unsigned row = at / kFours;
    const unsigned column = at % kFours * 4;
    if (column >= half || !inside(row)) {
      continue;
    }
    const std::size_t turn = std::size_t{position_at(row)} * half + column;
    float lo[4];
    float hi[4];
    float cosine[4];
    float sine[4];
    Four<T>::unpack(words[Rows::four_at(row, column)], lo);
    Four<T>::unpack(words[Rows::four_at(row, half + column)], hi);
    Four<float>::unpack(load_global(reinterpret_cast<const float4*>(p.cosine + turn)), cosine);
    Four<float>::unpack(load_global(reinterpret_cast<const float4*>(p.sine + turn)), sine);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const float low = fma_f32(hi[i], -sine[i], lo[i] * cosine[i]);
      hi[i] = fma_f32(hi[i], cosine[i], lo[i] * sine[i]);
      lo[i] = low;
    }
    words[Rows::four_at(row, column)] = Four<T>::pack(lo);
    words[Rows::four_at(row, half + column)] = Four<T>::pack(hi);
  }
}

/// One step of a row's running maximum: what its scores are taken relative to (0 where it has seen no key, so that their weights are 0 and
/// not NaN), and what its sums so far are multiplied by.
struct Decay {
  float base;
  float factor;
};
__device__ __forceinline__ Decay move_maximum(float& maximum, float larger) {
  const float base = larger == -infinity() ? 0.0F : larger;
  const float factor = exp_f32(maximum - base);
  maximum = larger;
  return {base, factor};
}

/// 0 where no key was seen: a sequence without tokens.
__device__ __forceinline__ float share_of(float sum) {
  return sum == 0.0F ? 0.0F : 1.0F / sum;
}

}  // namespace kime::cuda
