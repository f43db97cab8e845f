// Attention of 16-bit elements on tensor cores, in one pass over the keys: no matrix of scores in memory, a running maximum and sum a row
// (Dao 2023, arXiv:2307.08691).
//
// Keys come in blocks anchored at the sequence's first token, and queries in tiles of 16 likewise. Scores, weights' sums and outputs are
// float32; q and k are rounded once more after the rotary embedding, weights when they meet the values. A masked key's score is -inf
// whatever its k holds, its weight exactly 0; a block without a visible key changes no row. Rows past the sequence are zeros.
#pragma once

#include "kernels/cuda/attention.cuh"

namespace kime::cuda {

/// A warp's 16 queries from block to block; a lane has rows g and g + 8.
template <class T, unsigned kWidth>
struct MmaQueries {
  float out[kWidth / 8][4];
  unsigned place[2];  ///< In the sequence; the keys that they see take twice the registers.
  float maximum[2];
  float sum[2];
};

/// Scores of 64 keys from key0 on to weights, with what that does to the sums.
template <class T, unsigned kWidth, unsigned kTiles>
__device__ __forceinline__ void weigh(const AttentionParams& p, const AttentionTask& task, MmaQueries<T, kWidth>& state,
                                      float (&s)[kTiles][4], unsigned key0) {
#pragma unroll
  for (unsigned r = 0; r < 2; ++r) {
    const KeyRange visible = visible_keys(p, task, state.place[r]);
    float larger = state.maximum[r];
#pragma unroll
    for (unsigned j = 0; j < kTiles; ++j) {
#pragma unroll
      for (unsigned e = 0; e < 2; ++e) {
        const unsigned key = key0 + j * 8 + lane() % 4 * 2 + e;
        float& x = s[j][r * 2 + e];
        x = key >= visible.begin && key < visible.end ? x * p.scale : -infinity();
        larger = max_of(larger, x);
      }
    }
    larger = max_of(larger, shuffle_xor(larger, 1));
    larger = max_of(larger, shuffle_xor(larger, 2));
    const Decay decay = move_maximum(state.maximum[r], larger);
    float sum = state.sum[r] * decay.factor;
#pragma unroll
    for (unsigned j = 0; j < kTiles; ++j) {
#pragma unroll
      for (unsigned e = 0; e < 2; ++e) {
        float& x = s[j][r * 2 + e];
        x = exp_f32(x - decay.base);
        sum += x;
      }
    }
    state.sum[r] = sum;
#pragma unroll
    for (unsigned j = 0; j < kWidth / 8; ++j) {
      state.out[j][r * 2] *= decay.factor;
      state.out[j][r * 2 + 1] *= decay.factor;
    }
  }
}

/// One block of keys for a warp. Its queries are read anew for each: kept, they would cost a second block on the multiprocessor.
template <class T, unsigned kWidth>
__device__ __forceinline__ void attend_block(const AttentionParams& p, const AttentionTask& task, MmaQueries<T, kWidth>& state,
                                             const SharedPtr<T>& queries, unsigned query0, const SharedPtr<T>& keys,
                                             const SharedPtr<T>& values, unsigned key0) {
  constexpr unsigned kChunks = HeadRows<T, kWidth>::kChunks;
  constexpr unsigned kTiles = kKeysEach<false> / 8;
  float s[kTiles][4] = {};
#pragma unroll
  for (unsigned c = 0; c < kWidth / 16; ++c) {
    std::uint32_t a[4];
    load_a<kChunks>(a, queries, query0, c * 2, lane());
#pragma unroll
    for (unsigned j = 0; j < kTiles; j += 2) {
      std::uint32_t b[2][2];
      load_b<kChunks>(b[0], b[1], keys, j * 8, c * 2, lane());
      mma_16816(s[j], a, b[0], Type<T>());
      mma_16816(s[j + 1], a, b[1], Type<T>());
    }
  }
  weigh<T, kWidth>(p, task, state, s, key0);
#pragma unroll
  for (unsigned j = 0; j < kTiles; j += 2) {  // where a lane has scores of two tiles is where the A operand wants their weights
    const std::uint32_t a[4] = {pack_pair<T>(s[j][0], s[j][1]), pack_pair<T>(s[j][2], s[j][3]), pack_pair<T>(s[j + 1][0], s[j + 1][1]),
                                pack_pair<T>(s[j + 1][2], s[j + 1][3])};
#pragma unroll
    for (unsigned c = 0; c < kWidth / 8; c += 2) {
      std::uint32_t b[2][2];
      load_b_trans<kChunks>(b[0], b[1], values, j * 8, c, lane());
      mma_16816(state.out[c], a, b[0], Type<T>());
      mma_16816(state.out[c + 1], a, b[1], Type<T>());
    }
  }
}

template <class T, unsigned kWidth>
__device__ __forceinline__ void write_queries(const AttentionParams& p, const AttentionTask& task, MmaQueries<T, kWidth>& state,
                                              unsigned query0) {
#pragma unroll
  for (unsigned r = 0; r < 2; ++r) {
    float sum = state.sum[r];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    const float share = share_of(sum);
    const unsigned query = query0 + r * 8 + lane() / 4;
    const bool there = task.query0 + query < task.queries;
    const std::size_t row = there ? row_of(p, task, query) : 0;
    T* const out = static_cast<T*>(p.out) + row * p.ld_out + task.column;
#pragma unroll
    for (unsigned c = 0; c < kWidth / 8; c += 2) {
      const float x[4] = {state.out[c][r * 2] * share, state.out[c][r * 2 + 1] * share, state.out[c + 1][r * 2] * share,
                          state.out[c + 1][r * 2 + 1] * share};
      store_pair(out, c * 8, p.head_width, p.ld_out % 4 == 0, there, x, lane());
    }
  }
}

template <class T, unsigned kWidth>
__device__ __forceinline__ void attend_mma(const AttentionParams& p, const AttentionTask& task, const SharedPtr<std::uint32_t>& ranges) {
  constexpr unsigned kQueries = kQueriesEach<false>;
  constexpr unsigned kKeys = kKeysEach<false>;
  constexpr unsigned kWarpQueries = kQueries / kAttentionWarps;
  static_assert(kWarpQueries == 16);
  const SharedPtr<T> queries = shared_view<T>(dynamic_shared(), kSharedBytes<false, kWidth> / sizeof(T));
  const SharedPtr<T> blocks = queries + kQueries * kWidth;  // keys and values of an even block, then of an odd one

  const T* const q = static_cast<const T*>(p.q);
  const auto is_query = [&](unsigned row) { return task.query0 + row < task.queries; };
  const auto copy_block = [&](unsigned block) {
    const SharedPtr<T> to = blocks + block % 2 * 2 * kKeys * kWidth;
    const auto is_key = [&](unsigned row) { return block * kKeys + row < task.keys; };
    copy_rows<T, kWidth, kKeys>(
        to, p.head_width, q,
        [&](unsigned row) { return static_cast<const T*>(p.k) + (task.first + block * kKeys + row) * std::size_t{p.ld_k} + task.column; },
        is_key);
    copy_rows<T, kWidth, kKeys>(
        to + kKeys * kWidth, p.head_width, q,
        [&](unsigned row) { return static_cast<const T*>(p.v) + (task.first + block * kKeys + row) * std::size_t{p.ld_v} + task.column; },
        is_key);
    cp_async_commit();
  };

  const unsigned query0 = threadIdx.x / kWarpSize * kWarpQueries;
  const KeyRange warp_keys = seen_by_warp<kWarpQueries>(p, task, query0);
  const KeyRange seen = seen_blocks<kKeys>(ranges, warp_keys);
  MmaQueries<T, kWidth> state = {};
#pragma unroll
  for (unsigned r = 0; r < 2; ++r) {
    state.place[r] = place_of(p, task, query0 + r * 8 + lane() / 4);
    state.maximum[r] = -infinity();
  }
  if (seen.begin < seen.end) {
    copy_rows<T, kWidth, kQueries>(
        queries, p.head_width, q, [&](unsigned row) { return q + row_of(p, task, row) * std::size_t{p.ld_q} + task.column; }, is_query);
    copy_block(seen.begin);
  }
  for (unsigned block = seen.begin; block < seen.end; ++block) {
    const unsigned key0 = block * kKeys;
    const SharedPtr<T> keys = blocks + block % 2 * 2 * kKeys * kWidth;
    cp_async_wait<0>();
    __syncthreads();  // the block is there for all, and nobody reads the one before it
    if (block + 1 < seen.end) {
      copy_block(block + 1);
    }
    if (p.cosine != nullptr) {
      if (block == seen.begin) {
        turn_rows<T, kWidth, kQueries>(
            queries, p, [&](unsigned row) { return position_of(p, task, row); }, is_query);
      }
      turn_rows<T, kWidth, kKeys>(
          keys, p, [&](unsigned row) { return key0 + row; }, [&](unsigned row) { return key0 + row < task.keys; });
      __syncthreads();
    }
    if (key0 < warp_keys.end && key0 + kKeys > warp_keys.begin) {
      attend_block<T, kWidth>(p, task, state, queries, query0, keys, keys + kKeys * kWidth, key0);
    }
  }
  write_queries<T, kWidth>(p, task, state, query0);
}

template <class T, unsigned kWidth>
__device__ __forceinline__ void attention_mma(const AttentionParams& p) {
  KIME_SHARED_ARRAY(std::uint32_t, ranges, kAttentionWarps * 2);
  const unsigned items = load_global(p.tile_count) * p.heads;
  for (unsigned item = blockIdx.x; item < items; item += gridDim.x) {
    attend_mma<T, kWidth>(p, task_of(p, item), ranges);
    __syncthreads();  // shared memory is free for the next
  }
}

}  // namespace kime::cuda

// With so many blocks on a multiprocessor.
#define KIME_ATTENTION_MMA(T, name, width, blocks)                                                                          \
  KIME_KERNEL_BLOCKS(kime_attention_##name##_##width, kime::cuda::AttentionParams, kime::cuda::kAttentionThreads, blocks) { \
    kime::cuda::attention_mma<T, width>(p);                                                                                 \
  }
// All kernels of a type.
#define KIME_ATTENTIONS_MMA(T, name) \
  KIME_ATTENTION_MMA(T, name, 32, 2) \
  KIME_ATTENTION_MMA(T, name, 64, 2) \
  KIME_ATTENTION_MMA(T, name, 96, 1) \
  KIME_ATTENTION_MMA(T, name, 128, 1)
