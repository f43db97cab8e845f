// Matrix products of 16-bit elements on tensor cores.
//
// Each output is one chain of mma.m16n8k16 over k in steps of 16 from +0, whatever the tile: both tiles, every place in them and every
// number of rows give the same bits.
#pragma once

#include "kernels/cuda/gemm.cuh"

namespace kime::cuda {

/// One row's two results in each of two neighbouring tiles of 8 columns.
template <class T, GemmEpilogue kEpilogue>
__device__ __forceinline__ void write_pair(const GemmParams& p, unsigned row, unsigned rows, unsigned column, const float (&x)[4],
                                           unsigned lane) {
  const bool there = row < rows;
  const std::size_t at = std::size_t{there ? row : 0} * p.ld_c;
  if constexpr (kEpilogue == GemmEpilogue::wide || kEpilogue == GemmEpilogue::add) {
    float* const c = static_cast<float*>(p.c) + at;
#pragma unroll
    for (unsigned tile = 0; tile < 2; ++tile) {
      const unsigned first = column + tile * 8 + lane % 4 * 2;
      if (!there || first >= p.width) {
        continue;
      }
      float2 y = make_float2(x[tile * 2], x[tile * 2 + 1]);
      if (p.ld_c % 2 == 0 && first + 2 <= p.width) {
        float2* const to = reinterpret_cast<float2*>(c + first);
        if (kEpilogue == GemmEpilogue::add) {
          const float2 before = load_global(to);
          y = make_float2(before.x + y.x, before.y + y.y);
        }
        store_global(to, y);
        continue;
      }
      store_global(c + first, kEpilogue == GemmEpilogue::add ? load_global(c + first) + y.x : y.x);
      if (first + 1 < p.width) {
        store_global(c + first + 1, kEpilogue == GemmEpilogue::add ? load_global(c + first + 1) + y.y : y.y);
      }
    }
  } else {
    store_pair(static_cast<T*>(p.c) + at, column, p.width, p.ld_c % 4 == 0, there, x, lane);
  }
}

template <class T, class Block, GemmEpilogue kEpilogue>
__device__ __forceinline__ void gemm_mma(const GemmParams& p) {
  constexpr unsigned kTilesDown = Block::kWarpRows / 16;
  constexpr unsigned kTilesAcross = Block::kWarpColumns / 8;
  const unsigned rows = real_rows(p.counts, p.rows);
  const unsigned row0 = blockIdx.y * Block::kSide;
  const unsigned column0 = blockIdx.x * Block::kSide;
  if (row0 >= rows) {
    return;
  }
  const unsigned warp = threadIdx.x / kWarpSize;
  const unsigned warp_row0 = warp / Block::kAcross * Block::kWarpRows;
  const unsigned warp_column0 = warp % Block::kAcross * Block::kWarpColumns;
  float sums[kTilesDown][kTilesAcross][4] = {};
  over_k<T, Block>(p, row0, rows, column0, [&](const SharedPtr<T>& a_tile, const SharedPtr<T>& w_tile) {
#pragma unroll
    for (unsigned chunk = 0; chunk < kGemmChunks; chunk += 2) {
      std::uint32_t a[kTilesDown][4];
#pragma unroll
      for (unsigned i = 0; i < kTilesDown; ++i) {
        load_a<kGemmChunks>(a[i], a_tile, warp_row0 + i * 16, chunk, lane());
      }
#pragma unroll
      for (unsigned j = 0; j < kTilesAcross; j += 2) {
        std::uint32_t b[2][2];
        load_b<kGemmChunks>(b[0], b[1], w_tile, warp_column0 + j * 8, chunk, lane());
#pragma unroll
        for (unsigned i = 0; i < kTilesDown; ++i) {
          mma_16816(sums[i][j], a[i], b[0], Type<T>());
          mma_16816(sums[i][j + 1], a[i], b[1], Type<T>());
        }
      }
    }
  });

  // A lane has rows g and g + 8 of each tile, two columns of each.
  constexpr unsigned kTilesEach = kEpilogue == GemmEpilogue::geglu ? 4 : 2;  // that two tiles of outputs come from
#pragma unroll
  for (unsigned i = 0; i < kTilesDown; ++i) {
#pragma unroll
    for (unsigned j = 0; j < kTilesAcross; j += kTilesEach) {
      const unsigned column = column0 + warp_column0 + j * 8;
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        float x[4];
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          const unsigned tile = e / 2;
          const unsigned at = half * 2 + e % 2;
          if constexpr (kEpilogue == GemmEpilogue::geglu) {
            x[e] = gelu_f32(sums[i][j + tile * 2][at]) * sums[i][j + tile * 2 + 1][at];
          } else {
            x[e] = finish<kEpilogue>(sums[i][j + tile][at], p, column + tile * 8 + lane() % 4 * 2 + e % 2);
          }
        }
        const unsigned row = row0 + warp_row0 + i * 16 + half * 8 + lane() / 4;
        write_pair<T, kEpilogue>(p, row, rows, kEpilogue == GemmEpilogue::geglu ? column / 2 : column, x, lane());
      }
    }
  }
}

using SmallMma = GemmBlock<GemmTile::small, 2, 2>;
using LargeMma = GemmBlock<GemmTile::large, 2, 2>;

}  // namespace kime::cuda

#define KIME_GEMM_MMA(T, name, Block, epilogue)                                                     \
  KIME_KERNEL(kime_gemm_##name##_##epilogue, kime::cuda::GemmParams, kime::cuda::Block::kThreads) { \
    kime::cuda::gemm_mma<T, kime::cuda::Block, kime::cuda::GemmEpilogue::epilogue>(p);              \
  }
#define KIME_GEMM_MMA_TILE(T, name, Block) \
  KIME_GEMM_MMA(T, name, Block, linear)    \
  KIME_GEMM_MMA(T, name, Block, relu)      \
  KIME_GEMM_MMA(T, name, Block, gelu)      \
  KIME_GEMM_MMA(T, name, Block, geglu)     \
  KIME_GEMM_MMA(T, name, Block, wide)      \
  KIME_GEMM_MMA(T, name, Block, add)
// All kernels of a type.
#define KIME_GEMMS_MMA(T, name)                 \
  KIME_GEMM_MMA_TILE(T, name##_small, SmallMma) \
  KIME_GEMM_MMA_TILE(T, name##_large, LargeMma)
