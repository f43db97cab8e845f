// Tiles in shared memory as tensor cores read them, and the way of their results back to memory.
#pragma once

#include "kernels/cuda/device.h"

namespace kime::cuda {

inline constexpr unsigned kChunkBytes = 16;  // of one asynchronous copy, one row of a matrix of ldmatrix
template <class T>
inline constexpr unsigned kPerChunk = kChunkBytes / sizeof(T);

/// The place, in chunks, of a row's chunk in a tile whose rows have kRowChunks of them. Eight rows' same chunk lie in eight different
/// sixteenths of 128 bytes, so that ldmatrix meets no bank twice; so do the chunks that eight neighbouring threads copy.
template <unsigned kRowChunks>
__device__ __forceinline__ unsigned swizzled(unsigned row, unsigned chunk) {
  static_assert(kRowChunks % 4 == 0);
  return row * kRowChunks + (kRowChunks % 8 == 0 ? chunk ^ (row & 7U) : chunk ^ (row >> 1 & 3U));
}

/// The registers of the A operand: rows [row, row + 16), chunks [chunk, chunk + 2).
template <unsigned kRowChunks, class T>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4], const SharedPtr<T>& tile, unsigned row, unsigned chunk, unsigned lane) {
  ldmatrix_x4(a, raw(tile + swizzled<kRowChunks>(row + lane % 16, chunk + lane / 16) * kPerChunk<T>));
}

/// Of two B operands whose columns are rows [row, row + 8) and [row + 8, row + 16) of the tile.
template <unsigned kRowChunks, class T>
__device__ __forceinline__ void load_b(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const SharedPtr<T>& tile, unsigned row,
                                       unsigned chunk, unsigned lane) {
  std::uint32_t b[4];
  ldmatrix_x4(b, raw(tile + swizzled<kRowChunks>(row + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2) * kPerChunk<T>));
  first[0] = b[0];
  first[1] = b[1];
  second[0] = b[2];
  second[1] = b[3];
}

/// Of two B operands whose k runs over rows [row, row + 16) of the tile, and whose columns are those of the chunks `chunk`, `chunk + 1`.
template <unsigned kRowChunks, class T>
__device__ __forceinline__ void load_b_trans(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const SharedPtr<T>& tile, unsigned row,
                                             unsigned chunk, unsigned lane) {
  std::uint32_t b[4];
  ldmatrix_x4_trans(b, raw(tile + swizzled<kRowChunks>(row + lane % 16, chunk + lane / 16) * kPerChunk<T>));
  first[0] = b[0];
  first[1] = b[1];
  second[0] = b[2];
  second[1] = b[3];
}

/// One row of two neighbouring result tiles of 8 columns, from `column` on: each lane has columns 2 t and 2 t + 1 of both, with t its
/// place among the four lanes of the row. Two lanes swap what they have, so that each writes four neighbours and the four lanes a
/// sector of 32 bytes. Every lane of the warp calls it; `there` says whether the row exists.
template <class T>
__device__ __forceinline__ void store_pair(T* row, unsigned column, unsigned width, bool whole, bool there, const float (&x)[4],
                                           unsigned lane) {
  const std::uint32_t left = pack_pair<T>(x[0], x[1]);
  const std::uint32_t right = pack_pair<T>(x[2], x[3]);
  const bool odd = lane % 2 != 0;
  const std::uint32_t got = shuffle(odd ? left : right, static_cast<int>(lane ^ 1U));
  const std::uint32_t low = odd ? got : left;
  const std::uint32_t high = odd ? right : got;
  const unsigned first = column + (odd ? 8 : 0) + lane % 4 / 2 * 4;
  if (!there) {
    return;
  }
  if (whole && first + 4 <= width) {
    store_global(reinterpret_cast<uint2*>(row + first), make_uint2(low, high));
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    if (first + i < width) {
      const std::uint32_t word = i < 2 ? low : high;
      store_global(row + first + i, from_bits16(static_cast<std::uint16_t>(word >> (i % 2 * 16) & 0xFFFFU), Type<T>()));
    }
  }
}

}  // namespace kime::cuda
