// What both kinds of matrix product share: how tiles of both operands come into shared memory, and what becomes of a sum.
#pragma once

#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/params_gemm.h"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {

inline constexpr unsigned kGemmChunks = kGemmRowBytes / kChunkBytes;  // of a row in a stage

/// A block's tile of kSide x kSide outputs, by warps.
template <GemmTile kTile, unsigned kWarpsDown, unsigned kWarpsAcross>
struct GemmBlock {
  static constexpr unsigned kSide = gemm_side(kTile);
  static constexpr unsigned kStages = gemm_stages(kTile);
  static constexpr unsigned kDown = kWarpsDown;
  static constexpr unsigned kAcross = kWarpsAcross;
  static constexpr unsigned kThreads = kWarpsDown * kWarpsAcross * kWarpSize;
  static constexpr unsigned kWarpRows = kSide / kWarpsDown;
  static constexpr unsigned kWarpColumns = kSide / kWarpsAcross;
};

/// What a thread copies of one operand: a chunk of every kApart-th row from its first one on.
template <class T, class Block>
class GemmSource {
 public:
  static constexpr unsigned kApart = Block::kThreads / kGemmChunks;
  static constexpr unsigned kCopies = Block::kSide / kApart;

  /// Rows from row0 of a matrix with `rows` rows.
  __device__ __forceinline__ GemmSource(const void* matrix, std::size_t ld, unsigned row0, unsigned rows)
      : first_(static_cast<const T*>(matrix)),
        step_(kApart * ld),
        row_(threadIdx.x / kGemmChunks),
        rows_(rows - row0),
        column_(threadIdx.x % kGemmChunks * kPerChunk<T>) {
    first_ += std::size_t{row0 + row_} * ld + column_;
  }

  /// Columns from k0 on into a stage; zeros past the matrix's end.
  __device__ __forceinline__ void copy(const SharedPtr<T>& stage, unsigned k0, unsigned k, const T* anywhere) const {
#pragma unroll
    for (unsigned i = 0; i < kCopies; ++i) {
      const unsigned row = row_ + i * kApart;
      const bool inside = row < rows_ && k0 + column_ < k;
      cp_async_16(raw(stage + swizzled<kGemmChunks>(row, column_ / kPerChunk<T>) * kPerChunk<T>),
                  inside ? first_ + i * step_ + k0 : anywhere, inside);
    }
  }

 private:
  const T* first_;
  std::size_t step_;
  unsigned row_;
  unsigned rows_;
  unsigned column_;
};

/// Takes the block's tiles of a and w through shared memory, 64 bytes of k at a time, and calls multiply(a's tile, w's tile) for each in
/// order of k, between barriers.
template <class T, class Block, class Multiply>
__device__ __forceinline__ void over_k(const GemmParams& p, unsigned row0, unsigned rows, unsigned column0, const Multiply& multiply) {
  constexpr unsigned kColumns = kGemmRowBytes / sizeof(T);
  constexpr unsigned kElements = Block::kSide * kColumns;
  const SharedPtr<T> stages = shared_view<T>(dynamic_shared(), Block::kStages * 2 * kElements);
  const GemmSource<T, Block> a(p.a, p.ld_a, row0, rows);
  const GemmSource<T, Block> w(p.w, p.k, column0, p.n);
  const unsigned steps = (p.k + kColumns - 1) / kColumns;
  const auto copy = [&](unsigned step) {
    const SharedPtr<T> stage = stages + step % Block::kStages * 2 * kElements;
    a.copy(stage, step * kColumns, p.k, static_cast<const T*>(p.a));
    w.copy(stage + kElements, step * kColumns, p.k, static_cast<const T*>(p.w));
  };
#pragma unroll
  for (unsigned step = 0; step + 1 < Block::kStages; ++step) {
    if (step < steps) {
      copy(step);
    }
    cp_async_commit();
  }
  for (unsigned step = 0; step < steps; ++step) {
    cp_async_wait<Block::kStages - 2>();
    __syncthreads();  // this step's copies are there for all, and nobody reads the stage that the next copies go to
    if (step + Block::kStages - 1 < steps) {
      copy(step + Block::kStages - 1);
    }
    cp_async_commit();  // an empty group too, so that the count of groups under way stands for steps
    const SharedPtr<T> stage = stages + step % Block::kStages * 2 * kElements;
    multiply(stage, stage + kElements);
  }
}

/// A finished sum on its way out: bias, then activation.
template <GemmEpilogue kEpilogue>
__device__ __forceinline__ float finish(float sum, const GemmParams& p, unsigned column) {
  if (kEpilogue != GemmEpilogue::geglu && p.bias != nullptr && column < p.n) {
    sum += load_global(p.bias + column);
  }
  if constexpr (kEpilogue == GemmEpilogue::gelu) {
    return gelu_f32(sum);
  }
  if constexpr (kEpilogue == GemmEpilogue::relu) {
    return relu_f32(sum);
  }
  return sum;
}

}  // namespace kime::cuda
