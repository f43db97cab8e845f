// Matrix products in float32: each output is one FMA chain over k in order from +0, the CPU's rule.
#pragma once

#include "kernels/cuda/gemm.cuh"

namespace kime::cuda {

// A warp is 4 x 8 lanes; a lane has every fourth row and every eighth column of the warp's tile, so that four (eight) neighbouring rows
// are read from shared memory at a time, and a packed GEGLU's a and g come to the same lane.
inline constexpr unsigned kLanesDown = 4;
inline constexpr unsigned kLanesAcross = 8;

template <class Block, GemmEpilogue kEpilogue>
__device__ __forceinline__ void gemm_fma(const GemmParams& p) {
  constexpr unsigned kDown = Block::kWarpRows / kLanesDown;
  constexpr unsigned kAcross = Block::kWarpColumns / kLanesAcross;
  const unsigned rows = real_rows(p.counts, p.rows);
  const unsigned row0 = blockIdx.y * Block::kSide;
  const unsigned column0 = blockIdx.x * Block::kSide;
  if (row0 >= rows) {
    return;
  }
  const unsigned warp = threadIdx.x / kWarpSize;
  const unsigned lane_row = warp / Block::kAcross * Block::kWarpRows + lane() / kLanesAcross;
  const unsigned lane_column = warp % Block::kAcross * Block::kWarpColumns + lane() % kLanesAcross;
  float sums[kDown][kAcross] = {};
  over_k<float, Block>(p, row0, rows, column0, [&](const SharedPtr<float>& a_tile, const SharedPtr<float>& w_tile) {
    constexpr unsigned kQuads = Block::kSide * kGemmChunks;
    const SharedPtr<float4> a_quads = shared_view<float4>(reinterpret_cast<std::byte*>(raw(a_tile)), kQuads);
    const SharedPtr<float4> w_quads = shared_view<float4>(reinterpret_cast<std::byte*>(raw(w_tile)), kQuads);
#pragma unroll
    for (unsigned chunk = 0; chunk < kGemmChunks; ++chunk) {
      float4 a[kDown];
#pragma unroll
      for (unsigned i = 0; i < kDown; ++i) {
        a[i] = a_quads[swizzled<kGemmChunks>(lane_row + i * kLanesDown, chunk)];
      }
#pragma unroll
      for (unsigned j = 0; j < kAcross; ++j) {
        const float4 w = w_quads[swizzled<kGemmChunks>(lane_column + j * kLanesAcross, chunk)];
#pragma unroll
        for (unsigned i = 0; i < kDown; ++i) {
          sums[i][j] = fma_f32(a[i].x, w.x, sums[i][j]);
          sums[i][j] = fma_f32(a[i].y, w.y, sums[i][j]);
          sums[i][j] = fma_f32(a[i].z, w.z, sums[i][j]);
          sums[i][j] = fma_f32(a[i].w, w.w, sums[i][j]);
        }
      }
    }
  });

  constexpr bool kGeglu = kEpilogue == GemmEpilogue::geglu;
#pragma unroll
  for (unsigned i = 0; i < kDown; ++i) {
    const unsigned row = row0 + lane_row + i * kLanesDown;
    if (row >= rows) {
      continue;
    }
    float* const c = static_cast<float*>(p.c) + std::size_t{row} * p.ld_c;
#pragma unroll
    for (unsigned j = 0; j < kAcross; j += kGeglu ? 2 : 1) {
      const unsigned packed = column0 + lane_column + j * kLanesAcross;
      const unsigned column = kGeglu ? packed / 16 * 8 + packed % 8 : packed;
      if (column >= p.width) {
        continue;
      }
      float x = 0.0F;
      if constexpr (kGeglu) {
        x = gelu_f32(sums[i][j]) * sums[i][j + 1];
      } else {
        x = finish<kEpilogue>(sums[i][j], p, packed);
      }
      store_global(c + column, kEpilogue == GemmEpilogue::add ? load_global(c + column) + x : x);
    }
  }
}

using SmallFma = GemmBlock<GemmTile::small, 4, 1>;
using LargeFma = GemmBlock<GemmTile::large, 4, 2>;

}  // namespace kime::cuda
