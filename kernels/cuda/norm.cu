// Layer norms, alone and of embedding rows.
#include "kernels/cuda/norm.cuh"

#include "kernels/cuda/params_rows.h"

namespace kime::cuda {
namespace {

template <class Table, class T>
__device__ __forceinline__ void embed_norm(const EmbedNormParams& p) {
  const unsigned token = warp_row();
  if (token >= real_rows(p.counts, RowSet::tokens)) {
    return;
  }
  const std::size_t id = load_global(p.ids + token);
  const Table* row = static_cast<const Table*>(p.table) + id * p.width;
  float* const stream = p.stream + std::size_t{token} * p.width;
  T* const narrow = p.narrow == nullptr ? nullptr : static_cast<T*>(p.narrow) + std::size_t{token} * p.width;
  norm_row(row, p.width, p.weight, p.bias, p.eps, [&](unsigned column, unsigned count, const float(&y)[kChunk]) {
    store_chunk(stream + column, count, y);
    if (narrow != nullptr) {
      store_chunk(narrow + column, count, y);
    }
  });
}

template <class T>
__device__ __forceinline__ void norm(const NormParams& p) {
  const unsigned row = warp_row();
  if (row >= real_rows(p.counts, p.rows)) {
    return;
  }
  T* const out = static_cast<T*>(p.out) + std::size_t{row} * p.ld_out;
  norm_row(p.in + std::size_t{row} * p.ld_in, p.width, p.weight, p.bias, p.eps,
           [&](unsigned column, unsigned count, const float(&y)[kChunk]) { store_chunk(out + column, count, y); });
}

}  // namespace
}  // namespace kime::cuda

#define KIME_EMBED_NORM(table, T, name)                                                       \
  KIME_KERNEL(kime_embed_norm_##name, kime::cuda::EmbedNormParams, kime::cuda::kRowThreads) { \
    kime::cuda::embed_norm<table, T>(p);                                                      \
  }
KIME_EMBED_NORM(float, float, f32_f32)
KIME_EMBED_NORM(float, __half, f32_f16)
KIME_EMBED_NORM(float, __nv_bfloat16, f32_bf16)
KIME_EMBED_NORM(__half, float, f16_f32)
KIME_EMBED_NORM(__half, __half, f16_f16)
KIME_EMBED_NORM(__half, __nv_bfloat16, f16_bf16)
KIME_EMBED_NORM(__nv_bfloat16, float, bf16_f32)
KIME_EMBED_NORM(__nv_bfloat16, __half, bf16_f16)
KIME_EMBED_NORM(__nv_bfloat16, __nv_bfloat16, bf16_bf16)

KIME_KERNEL(kime_norm_f32, kime::cuda::NormParams, kime::cuda::kRowThreads) {
  kime::cuda::norm<float>(p);
}
KIME_KERNEL(kime_norm_f16, kime::cuda::NormParams, kime::cuda::kRowThreads) {
  kime::cuda::norm<__half>(p);
}
KIME_KERNEL(kime_norm_bf16, kime::cuda::NormParams, kime::cuda::kRowThreads) {
  kime::cuda::norm<__nv_bfloat16>(p);
}
