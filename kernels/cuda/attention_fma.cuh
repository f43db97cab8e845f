// Attention in float32, in one pass over the keys. Every chain is the CPU's: scores over the head's columns, outputs over the visible keys,
// weights' sums in 16 lanes by key; only its blocks of keys are shorter.
#pragma once

#include "kernels/cuda/attention.cuh"

namespace kime::cuda {

// 16 x 16 threads: one has four queries, every sixteenth key of a block, and two of every 32 columns of the output. A warp's queries are
// its own, so that weights pass through shared memory without a barrier.
inline constexpr unsigned kFmaRows = 4;
inline constexpr unsigned kFmaLanes = 16;
inline constexpr unsigned kFmaKeys = kKeysEach<true> / kFmaLanes;

template <unsigned kWidth>
struct FmaQueries {
  float out[kFmaRows][kWidth / kFmaLanes];
  KeyRange visible[kFmaRows];
  float maximum[kFmaRows];
  float sum[kFmaRows];
};

/// Scores of the thread's queries and keys of a block.
template <unsigned kWidth>
__device__ __forceinline__ void score(float (&s)[kFmaRows][kFmaKeys], const SharedPtr<float4>& queries, const SharedPtr<float4>& keys,
                                      unsigned query0) {
  using Rows = HeadRows<float, kWidth>;
#pragma unroll 2
  for (unsigned c = 0; c < kWidth / 4; ++c) {
    float4 q[kFmaRows];
#pragma unroll
    for (unsigned i = 0; i < kFmaRows; ++i) {
      q[i] = queries[Rows::chunk_at(query0 + i, c)];
    }
#pragma unroll
    for (unsigned j = 0; j < kFmaKeys; ++j) {
      const float4 k = keys[Rows::chunk_at(threadIdx.x % kFmaLanes + j * kFmaLanes, c)];
#pragma unroll
      for (unsigned i = 0; i < kFmaRows; ++i) {
        s[i][j] = fma_f32(q[i].x, k.x, s[i][j]);
        s[i][j] = fma_f32(q[i].y, k.y, s[i][j]);
        s[i][j] = fma_f32(q[i].z, k.z, s[i][j]);
        s[i][j] = fma_f32(q[i].w, k.w, s[i][j]);
      }
    }
  }
}

/// Scores to weights, in shared memory, with what that does to the sums.
template <unsigned kWidth>
__device__ __forceinline__ void weigh_fma(FmaQueries<kWidth>& state, float (&s)[kFmaRows][kFmaKeys], const SharedPtr<float>& weights,
                                          unsigned query0, unsigned key0, float scale) {
  const unsigned lane_key = threadIdx.x % kFmaLanes;
#pragma unroll
  for (unsigned i = 0; i < kFmaRows; ++i) {
    float larger = state.maximum[i];
#pragma unroll
    for (unsigned j = 0; j < kFmaKeys; ++j) {
      const unsigned key = key0 + lane_key + j * kFmaLanes;
      s[i][j] = key >= state.visible[i].begin && key < state.visible[i].end ? s[i][j] * scale : -infinity();
      larger = max_of(larger, s[i][j]);
    }
#pragma unroll
    for (int mask = kFmaLanes / 2; mask != 0; mask /= 2) {
      larger = max_of(larger, shuffle_xor(larger, mask));
    }
    const Decay decay = move_maximum(state.maximum[i], larger);
    state.sum[i] *= decay.factor;
#pragma unroll
    for (unsigned j = 0; j < kFmaKeys; ++j) {
      const float weight = exp_f32(s[i][j] - decay.base);
      state.sum[i] += weight;
      weights[(query0 + i) * kPaddedRow<kKeysEach<true>> + lane_key + j * kFmaLanes] = weight;
    }
#pragma unroll
    for (unsigned c = 0; c < kWidth / kFmaLanes; ++c) {
      state.out[i][c] *= decay.factor;
    }
  }
}

/// out += weights * values over the visible keys of a block.
template <unsigned kWidth>
__device__ __forceinline__ void add_values(FmaQueries<kWidth>& state, const SharedPtr<float4>& weights, const SharedPtr<float2>& values,
                                           unsigned query0, unsigned key0) {
  constexpr unsigned kQuads = kPaddedRow<kKeysEach<true>> / 4;
#pragma unroll 2
  for (unsigned quad = 0; quad < kKeysEach<true> / 4; ++quad) {
    float weight[kFmaRows][4];
#pragma unroll
    for (unsigned i = 0; i < kFmaRows; ++i) {
      Four<float>::unpack(weights[(query0 + i) * kQuads + quad], weight[i]);
    }
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned key = quad * 4 + e;
      float2 v[kWidth / 32];
#pragma unroll
      for (unsigned c = 0; c < kWidth / 32; ++c) {
        v[c] = values[key * (kPaddedRow<kWidth> / 2) + c * kFmaLanes + threadIdx.x % kFmaLanes];
      }
#pragma unroll
      for (unsigned i = 0; i < kFmaRows; ++i) {
        if (key0 + key >= state.visible[i].begin && key0 + key < state.visible[i].end) {
#pragma unroll
          for (unsigned c = 0; c < kWidth / 32; ++c) {
            state.out[i][c * 2] = fma_f32(weight[i][e], v[c].x, state.out[i][c * 2]);
            state.out[i][c * 2 + 1] = fma_f32(weight[i][e], v[c].y, state.out[i][c * 2 + 1]);
          }
        }
      }
    }
  }
}

template <unsigned kWidth>
__device__ __forceinline__ void write_fma(const AttentionParams& p, const AttentionTask& task, const FmaQueries<kWidth>& state,
                                          unsigned query0) {
#pragma unroll
  for (unsigned i = 0; i < kFmaRows; ++i) {
    float sum = state.sum[i];
#pragma unroll
    for (int mask = kFmaLanes / 2; mask != 0; mask /= 2) {
      sum += shuffle_xor(sum, mask);
    }
    const float share = share_of(sum);
    if (task.query0 + query0 + i >= task.queries) {
      continue;
    }
    float* const out = static_cast<float*>(p.out) + row_of(p, task, query0 + i) * std::size_t{p.ld_out} + task.column;
#pragma unroll
    for (unsigned c = 0; c < kWidth / 32; ++c) {
      const unsigned column = c * 32 + threadIdx.x % kFmaLanes * 2;
      if (column < p.head_width) {
        store_global(reinterpret_cast<float2*>(out + column), make_float2(state.out[i][c * 2] * share, state.out[i][c * 2 + 1] * share));
      }
    }
  }
}

template <unsigned kWidth>
__device__ __forceinline__ void attend_fma(const AttentionParams& p, const AttentionTask& task, const SharedPtr<std::uint32_t>& ranges) {
  constexpr unsigned kQueries = kQueriesEach<true>;
  constexpr unsigned kKeys = kKeysEach<true>;
  constexpr unsigned kWarpQueries = kQueries / kAttentionWarps;
  constexpr unsigned kStride = kPaddedRow<kWidth>;
  static_assert(kFmaRows * kFmaLanes == kQueries && kWarpQueries == 2 * kFmaRows);
  const SharedPtr<float> queries = shared_view<float>(dynamic_shared(), kSharedBytes<true, kWidth> / sizeof(float));
  const SharedPtr<float> keys = queries + kQueries * kStride;
  const SharedPtr<float> values = keys + kKeys * kStride;
  const SharedPtr<float> weights = values + kKeys * kStride;
  const auto as_fours = [](const SharedPtr<float>& at, unsigned floats) {
    return shared_view<float4>(reinterpret_cast<std::byte*>(raw(at)), floats / 4);
  };

  const float* const q = static_cast<const float*>(p.q);
  const float* const k = static_cast<const float*>(p.k) + task.first * std::size_t{p.ld_k} + task.column;
  const float* const v = static_cast<const float*>(p.v) + task.first * std::size_t{p.ld_v} + task.column;
  const auto is_query = [&](unsigned row) { return task.query0 + row < task.queries; };

  const unsigned query0 = threadIdx.x / kFmaLanes * kFmaRows;
  const KeyRange warp_keys = seen_by_warp<kWarpQueries>(p, task, threadIdx.x / kWarpSize * kWarpQueries);
  const KeyRange seen = seen_blocks<kKeys>(ranges, warp_keys);
  FmaQueries<kWidth> state = {};
#pragma unroll
  for (unsigned i = 0; i < kFmaRows; ++i) {
    state.visible[i] = visible_keys(p, task, place_of(p, task, query0 + i));
    state.maximum[i] = -infinity();
  }
  if (seen.begin < seen.end) {
    copy_rows<float, kWidth, kQueries>(
        queries, p.head_width, q, [&](unsigned row) { return q + row_of(p, task, row) * std::size_t{p.ld_q} + task.column; }, is_query);
  }
  for (unsigned block = seen.begin; block < seen.end; ++block) {
    const unsigned key0 = block * kKeys;
    const auto is_key = [&](unsigned row) { return key0 + row < task.keys; };
    copy_rows<float, kWidth, kKeys>(
        keys, p.head_width, q, [&](unsigned row) { return k + (key0 + row) * std::size_t{p.ld_k}; }, is_key);
    copy_rows<float, kWidth, kKeys>(
        values, p.head_width, q, [&](unsigned row) { return v + (key0 + row) * std::size_t{p.ld_v}; }, is_key);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    if (p.cosine != nullptr) {
      if (block == seen.begin) {
        turn_rows<float, kWidth, kQueries>(
            queries, p, [&](unsigned row) { return position_of(p, task, row); }, is_query);
      }
      turn_rows<float, kWidth, kKeys>(
          keys, p, [&](unsigned row) { return key0 + row; }, is_key);
      __syncthreads();
    }
    if (key0 < warp_keys.end && key0 + kKeys > warp_keys.begin) {
      float s[kFmaRows][kFmaKeys] = {};
      score<kWidth>(s, as_fours(queries, kQueries * kStride), as_fours(keys, kKeys * kStride), query0);
      weigh_fma<kWidth>(state, s, weights, query0, key0, p.scale);
      __syncwarp();  // the warp's weights are there
      add_values<kWidth>(state, as_fours(weights, kQueries * kPaddedRow<kKeys>),
                         shared_view<float2>(reinterpret_cast<std::byte*>(raw(values)), kKeys * kStride / 2), query0, key0);
    }
    __syncthreads();  // keys, values and weights are free for the next block
  }
  write_fma<kWidth>(p, task, state, query0);
}

template <unsigned kWidth>
__device__ __forceinline__ void attention_fma(const AttentionParams& p) {
  KIME_SHARED_ARRAY(std::uint32_t, ranges, kAttentionWarps * 2);
  const unsigned items = load_global(p.tile_count) * p.heads;
  for (unsigned item = blockIdx.x; item < items; item += gridDim.x) {
    attend_fma<kWidth>(p, task_of(p, item), ranges);
    __syncthreads();  // shared memory is free for the next
  }
}

}  // namespace kime::cuda
