// What follows a matrix product: bias, activation, the sum into a residual stream, the gate of a GEGLU.
#include "kernels/cuda/activate.cuh"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {
namespace {

/// Calls body(column, count) for the lane's chunks of the block's columns.
template <class Body>
__device__ __forceinline__ void each_column(unsigned width, const Body& body) {
  const unsigned first = blockIdx.y * kColumnsEach;
  const unsigned last = min_of(width, first + kColumnsEach);
#pragma unroll
  for (unsigned i = 0; i < kColumnsEach; i += kStep) {
    const unsigned column = first + i + lane() * kChunk;
    if (column < last) {
      body(column, min_of(kChunk, last - column));
    }
  }
}

template <class In, class Out>
__device__ __forceinline__ void bias_act(const BiasActParams& p) {
  const unsigned row = warp_row();
  if (row >= real_rows(p.counts, p.rows)) {
    return;
  }
  const In* const in = static_cast<const In*>(p.in) + std::size_t{row} * p.ld_in;
  Out* const out = static_cast<Out*>(p.out) + std::size_t{row} * p.ld_out;
  each_column(p.width, [&](unsigned column, unsigned count) {
    float v[kChunk];
    float b[kChunk] = {};
    float before[kChunk] = {};
    load_chunk(in + column, count, v);
    if (p.bias != nullptr) {
      load_chunk(p.bias + column, count, b);
    }
    if (p.accumulate != 0) {
      load_chunk(out + column, count, before);
    }
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      const float y = activate(p.bias != nullptr ? v[i] + b[i] : v[i], p.act);
      v[i] = p.accumulate != 0 ? before[i] + y : y;
    }
    store_chunk(out + column, count, v);
  });
}

template <class In, class Out>
__device__ __forceinline__ void geglu(const GegluParams& p) {
  const unsigned row = warp_row();
  if (row >= real_rows(p.counts, p.rows)) {
    return;
  }
  const In* const in = static_cast<const In*>(p.in) + std::size_t{row} * p.ld_in;
  Out* const out = static_cast<Out*>(p.out) + std::size_t{row} * p.ld_out;
  each_column(p.width, [&](unsigned column, unsigned count) {
    float a[kChunk];
    float g[kChunk];
    load_chunk(in + column, count, a);
    load_chunk(in + p.width + column, count, g);
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      a[i] = gelu_f32(a[i]) * g[i];
    }
    store_chunk(out + column, count, a);
  });
}

}  // namespace
}  // namespace kime::cuda

#define KIME_EPILOGUES(In, Out, name)                                                     \
  KIME_KERNEL(kime_bias_act_##name, kime::cuda::BiasActParams, kime::cuda::kRowThreads) { \
    kime::cuda::bias_act<In, Out>(p);                                                     \
  }                                                                                       \
  KIME_KERNEL(kime_geglu_##name, kime::cuda::GegluParams, kime::cuda::kRowThreads) {      \
    kime::cuda::geglu<In, Out>(p);                                                        \
  }
KIME_EPILOGUES(float, float, f32_f32)
KIME_EPILOGUES(float, __half, f32_f16)
KIME_EPILOGUES(float, __nv_bfloat16, f32_bf16)
KIME_EPILOGUES(__half, __half, f16_f16)
KIME_EPILOGUES(__nv_bfloat16, __nv_bfloat16, bf16_bf16)
KIME_EPILOGUES(__half, float, f16_f32)
KIME_EPILOGUES(__nv_bfloat16, float, bf16_f32)
