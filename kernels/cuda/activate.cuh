// The activations that parameters choose.
#pragma once

#include "kernels/cuda/math.cuh"
#include "kernels/cuda/params_rows.h"

namespace kime::cuda {

__device__ __forceinline__ float activate(float x, Act act) {
  if (act == Act::gelu) {
    return gelu_f32(x);
  }
  return act == Act::relu ? relu_f32(x) : x;
}

}  // namespace kime::cuda
