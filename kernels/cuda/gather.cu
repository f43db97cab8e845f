// Which rows are whose: the index of a batch, and what moves rows about by it.
#include "kernels/cuda/params_rows.h"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {
namespace {

__device__ __forceinline__ void index(const IndexParams& p) {
  const unsigned s = blockIdx.x;
  const unsigned seqs = load_global(&p.counts->seqs);
  if (s >= seqs) {
    return;
  }
  const unsigned begin = load_global(p.cu + s);
  const unsigned end = load_global(p.cu + s + 1);
  for (unsigned token = begin + threadIdx.x; token < end; token += blockDim.x) {
    store_global(p.seq_of_token + token, s);
  }
  const unsigned first = load_global(p.mcu + s);
  const unsigned last = load_global(p.mcu + s + 1);
  if (threadIdx.x == 0) {
    store_global(p.seq_of_pick + s, s);
    store_global(p.pick_tokens + s, begin == end ? kNoToken : begin);
    store_global(p.query_rows + s + first, s);
    store_global(p.query_positions + s + first, 0U);
  }
  for (unsigned m = first + threadIdx.x; m < last; m += blockDim.x) {
    const unsigned position = load_global(p.markers + m);
    const unsigned pick = seqs + m;
    store_global(p.seq_of_pick + pick, s);
    store_global(p.pick_tokens + pick, begin + position);
    store_global(p.query_rows + s + 1 + m, pick);
    store_global(p.query_positions + s + 1 + m, position);
  }
}

template <class T>
__device__ __forceinline__ void copy_row(const T* in, T* out, unsigned width) {
  for (unsigned column = lane() * kChunk; column < width; column += kStep) {
    const unsigned count = min_of(kChunk, width - column);
    float v[kChunk] = {};
    if (in != nullptr) {
      load_chunk(in + column, count, v);
    }
    store_chunk(out + column, count, v);
  }
}

template <class T>
__device__ __forceinline__ void gather_picks(const GatherParams& p) {
  const unsigned pick = warp_row();
  if (pick >= real_rows(p.counts, RowSet::picks)) {
    return;
  }
  const unsigned token = load_global(p.pick_tokens + pick);
  const T* const in = token == kNoToken ? nullptr : static_cast<const T*>(p.in) + std::size_t{token} * p.ld_in;
  copy_row(in, static_cast<T*>(p.out) + std::size_t{pick} * p.ld_out, p.width);
}

template <class T>
__device__ __forceinline__ void gather_markers(const GatherParams& p) {
  const unsigned marker = warp_row();
  if (marker >= real_rows(p.counts, RowSet::markers)) {
    return;
  }
  const std::size_t pick = std::size_t{load_global(&p.counts->seqs)} + marker;
  copy_row(static_cast<const T*>(p.in) + pick * p.ld_in, static_cast<T*>(p.out) + std::size_t{marker} * p.ld_out, p.width);
}

__device__ __forceinline__ void add_type(const AddTypeParams& p) {
  const unsigned row = warp_row();
  if (row >= real_rows(p.counts, p.rows)) {
    return;
  }
  const unsigned seq = load_global(p.seq_of_row + row);
  const float* const type = p.table + std::size_t{load_global(p.qtype + seq)} * p.width;
  float* const value = p.value + std::size_t{row} * p.ld;
  for (unsigned column = lane() * kChunk; column < p.width; column += kStep) {
    const unsigned count = min_of(kChunk, p.width - column);
    float v[kChunk];
    float t[kChunk];
    load_chunk(value + column, count, v);
    load_chunk(type + column, count, t);
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      v[i] += t[i];
    }
    store_chunk(value + column, count, v);
  }
}

}  // namespace
}  // namespace kime::cuda

KIME_KERNEL(kime_set_counts, kime::cuda::SetCountsParams, 32) {
  if (threadIdx.x == 0) {
    kime::cuda::store_global(&p.to->tokens, p.counts.tokens);
    kime::cuda::store_global(&p.to->seqs, p.counts.seqs);
    kime::cuda::store_global(&p.to->markers, p.counts.markers);
  }
}
KIME_KERNEL(kime_index, kime::cuda::IndexParams, kime::cuda::kIndexThreads) {
  kime::cuda::index(p);
}
KIME_KERNEL(kime_add_type, kime::cuda::AddTypeParams, kime::cuda::kRowThreads) {
  kime::cuda::add_type(p);
}

#define KIME_GATHERS(T, name)                                                                  \
  KIME_KERNEL(kime_gather_picks_##name, kime::cuda::GatherParams, kime::cuda::kRowThreads) {   \
    kime::cuda::gather_picks<T>(p);                                                            \
  }                                                                                            \
  KIME_KERNEL(kime_gather_markers_##name, kime::cuda::GatherParams, kime::cuda::kRowThreads) { \
    kime::cuda::gather_markers<T>(p);                                                          \
  }
KIME_GATHERS(float, f32)
KIME_GATHERS(__half, f16)
KIME_GATHERS(__nv_bfloat16, bf16)
