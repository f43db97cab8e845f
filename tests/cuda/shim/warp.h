// What a warp does as one: shuffles, ldmatrix, mma.
#pragma once

#include <cstdint>

#include "tests/cuda/shim/block.h"

namespace kime::cuda::shim {

[[nodiscard]] inline unsigned lane_id() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp;
}

/// What lane `from` brings; all lanes call it.
[[nodiscard]] float exchange(float value, unsigned from, const char* name);

/// ldmatrix of `count` matrices (2 or 4), transposed or not; `row` is what this lane names.
void load_matrices(std::uint32_t* registers, unsigned count, const void* row, bool transposed);

/// mma.m16n8k16 with float32 sums.
template <class T>
void multiply(float* d, const std::uint32_t* a, const std::uint32_t* b);

}  // namespace kime::cuda::shim
