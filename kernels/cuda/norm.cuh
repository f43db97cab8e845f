// The layer norm of a row, by a warp.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {

/// Calls body(column, count, v) for each chunk of the row that the lane has: those held, and then the rest, which is read anew.
template <class T, class Body>
__device__ __forceinline__ void each_chunk(const T* row, unsigned width, float (&held)[kHeld][kChunk], const Body& body) {
#pragma unroll
  for (unsigned j = 0; j < kHeld; ++j) {
    const unsigned column = j * kStep + lane() * kChunk;
    if (column < width) {
      body(column, min_of(kChunk, width - column), held[j]);
    }
  }
  for (unsigned column = kHeld * kStep + lane() * kChunk; column < width; column += kStep) {
    const unsigned count = min_of(kChunk, width - column);
    float v[kChunk];
    load_chunk(row + column, count, v);
    body(column, count, v);
  }
}

/// Calls put(column, count, v) with (x - mean) / sqrt(variance + eps) * weight + bias, of columns of the lane that are read no more after.
/// All lanes of the warp come. The variance is that of the deviations from the mean, in a second pass over the row.
template <class T, class Put>
__device__ __forceinline__ void norm_row(const T* row, unsigned width, const float* weight, const float* bias, float eps, const Put& put) {
  float held[kHeld][kChunk];
#pragma unroll
  for (unsigned j = 0; j < kHeld; ++j) {
    const unsigned column = j * kStep + lane() * kChunk;
    if (column < width) {
      load_chunk(row + column, min_of(kChunk, width - column), held[j]);
    }
  }
  const float columns = static_cast<float>(width);
  float sum = 0;
  each_chunk(row, width, held, [&](unsigned /*column*/, unsigned count, const float(&v)[kChunk]) {
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      sum += i < count ? v[i] : 0.0F;
    }
  });
  const float mean = warp_sum(sum) / columns;
  float squares = 0;
  each_chunk(row, width, held, [&](unsigned /*column*/, unsigned count, const float(&v)[kChunk]) {
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      const float d = i < count ? v[i] - mean : 0.0F;
      squares = fma_f32(d, d, squares);
    }
  });
  const float scale = 1.0F / sqrt_f32(warp_sum(squares) / columns + eps);
  each_chunk(row, width, held, [&](unsigned column, unsigned count, const float(&v)[kChunk]) {
    float w[kChunk];
    float b[kChunk] = {};
    float y[kChunk];
    load_chunk(weight + column, count, w);
    if (bias != nullptr) {
      load_chunk(bias + column, count, b);
    }
#pragma unroll
    for (unsigned i = 0; i < kChunk; ++i) {
      const float normal = (v[i] - mean) * scale;
      y[i] = bias != nullptr ? fma_f32(normal, w[i], b[i]) : normal * w[i];
    }
    put(column, count, y);
  });
}

}  // namespace kime::cuda
