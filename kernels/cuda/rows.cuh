// How a warp goes over a row: four columns a lane at a time, lane l at columns 4 l, 4 l + 128, ... Sums run along each lane's own columns
// and then over the lanes by one tree, so that they depend on nothing but the row.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/params.h"

namespace kime::cuda {

inline constexpr unsigned kChunk = 4;                  // columns of a lane at a time
inline constexpr unsigned kStep = kChunk * kWarpSize;  // of a warp
inline constexpr unsigned kHeld = 8;                   // chunks of a row that a lane keeps in registers: rows to 1024 are read once

__device__ __forceinline__ unsigned lane() {
  return threadIdx.x % kWarpSize;
}
/// The warp's row: there are blockDim.x / 32 of them in a block.
__device__ __forceinline__ unsigned warp_row() {
  return blockIdx.x * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
}
__device__ __forceinline__ unsigned real_rows(const Counts* counts, RowSet rows) {
  const unsigned seqs = load_global(&counts->seqs);
  switch (rows) {
    case RowSet::tokens:
      return load_global(&counts->tokens);
    case RowSet::seqs:
      return seqs;
    case RowSet::markers:
      return load_global(&counts->markers);
    case RowSet::picks:
      break;
  }
  return seqs + load_global(&counts->markers);
}

__device__ __forceinline__ float warp_sum(float v) {
  for (int mask = 16; mask != 0; mask /= 2) {
    v += shuffle_xor(v, mask);
  }
  return v;
}

/// Four elements of T as they lie in memory, for one access.
template <class T>
struct Four;
template <>
struct Four<float> {
  using Word = float4;
  static __device__ __forceinline__ void unpack(const Word& word, float (&v)[kChunk]) {
    v[0] = word.x;
    v[1] = word.y;
    v[2] = word.z;
    v[3] = word.w;
  }
  static __device__ __forceinline__ Word pack(const float (&v)[kChunk]) { return make_float4(v[0], v[1], v[2], v[3]); }
};
template <class T>
struct Four {
  using Word = uint2;
  static __device__ __forceinline__ void unpack(const Word& word, float (&v)[kChunk]) {
    const float2 low = unpack_pair<T>(word.x);
    const float2 high = unpack_pair<T>(word.y);
    v[0] = low.x;
    v[1] = low.y;
    v[2] = high.x;
    v[3] = high.y;
  }
  static __device__ __forceinline__ Word pack(const float (&v)[kChunk]) {
    return make_uint2(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]));
  }
};

template <class T>
__device__ __forceinline__ bool whole_words(const T* at) {
  return reinterpret_cast<std::uintptr_t>(at) % (kChunk * sizeof(T)) == 0;
}

/// Columns [0, 4) from `at` of which `count` are there, the others as 0.
template <class T>
__device__ __forceinline__ void load_chunk(const T* at, unsigned count, float (&v)[kChunk]) {
  if (count >= kChunk && whole_words(at)) {
    Four<T>::unpack(load_global(reinterpret_cast<const typename Four<T>::Word*>(at)), v);
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < kChunk; ++i) {
    v[i] = i < count ? to_float(load_global(at + i)) : 0.0F;
  }
}

template <class T>
__device__ __forceinline__ void store_chunk(T* at, unsigned count, const float (&v)[kChunk]) {
  if (count >= kChunk && whole_words(at)) {
    store_global(reinterpret_cast<typename Four<T>::Word*>(at), Four<T>::pack(v));
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < kChunk; ++i) {
    if (i < count) {
      store_global(at + i, from_float(v[i], Type<T>()));
    }
  }
}

}  // namespace kime::cuda
