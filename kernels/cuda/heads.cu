// The end of a model, in float32: small products, and what the act head sees of a sequence's logits.
#include "kernels/cuda/activate.cuh"
#include "kernels/cuda/rows.cuh"

namespace kime::cuda {
namespace {

// A lane's own columns are one FMA chain from +0; then the lanes' tree, the bias, the activation.
__device__ __forceinline__ void linear(const LinearParams& p) {
  const unsigned row = warp_row();
  if (row >= real_rows(p.counts, p.rows)) {
    return;
  }
  const float* const in = p.in + std::size_t{row} * p.ld_in;
  const unsigned first = blockIdx.y * kOutputsEach;
  float sums[kOutputsEach] = {};
  for (unsigned column = lane() * kChunk; column < p.inputs; column += kStep) {
    const unsigned count = min_of(kChunk, p.inputs - column);
    float x[kChunk];
    load_chunk(in + column, count, x);
#pragma unroll
    for (unsigned o = 0; o < kOutputsEach; ++o) {
      if (first + o < p.outputs) {
        float w[kChunk];
        load_chunk(p.weight + std::size_t{first + o} * p.inputs + column, count, w);
#pragma unroll
        for (unsigned i = 0; i < kChunk; ++i) {
          sums[o] = i < count ? fma_f32(x[i], w[i], sums[o]) : sums[o];
        }
      }
    }
  }
#pragma unroll
  for (unsigned o = 0; o < kOutputsEach; ++o) {
    float y = warp_sum(sums[o]);
    if (first + o < p.outputs && lane() == 0) {
      y = p.bias != nullptr ? y + load_global(p.bias + first + o) : y;
      store_global(p.out + std::size_t{row} * p.ld_out + first + o, activate(y, p.act));
    }
  }
}

/// The largest and the second largest of some numbers (equal ones count each). Where one is NaN these are any.
struct Top2 {
  float first;
  float second;
};
__device__ __forceinline__ Top2 top2_of_warp(const float* logits, unsigned k) {
  Top2 top{-infinity(), -infinity()};
  for (unsigned i = lane(); i < k; i += kWarpSize) {
    const float x = load_global(logits + i);
    top.second = max_of(top.second, min_of(top.first, x));
    top.first = max_of(top.first, x);
  }
  for (int mask = 16; mask != 0; mask /= 2) {
    const float first = shuffle_xor(top.first, mask);
    const float second = shuffle_xor(top.second, mask);
    top.second = max_of(min_of(top.first, first), max_of(top.second, second));
    top.first = max_of(top.first, first);
  }
  return top;
}

// With d = x - max, e = exp(d) and S the sum of e: p1 = 1 / S and H = ln S - (sum e d) / S, two terms that are not negative. Where e is 0,
// e d counts as 0, also for d = -inf. A NaN, or +inf, makes S a NaN and with it the first three features.
__device__ __forceinline__ void act_features(const float* logits, unsigned k, float (&features)[kChunk]) {
  const Top2 top = top2_of_warp(logits, k);
  float sum = 0;
  float sum_ed = 0;
  for (unsigned i = lane(); i < k; i += kWarpSize) {
    const float d = load_global(logits + i) - top.first;
    const float e = exp_f32(d);
    sum += e;
    sum_ed = fma_f32(e, 0.0F < e ? d : 0.0F, sum_ed);
  }
  sum = warp_sum(sum);
  sum_ed = warp_sum(sum_ed);
  const float options = static_cast<float>(max_of(k, 2U));
  features[0] = 1.0F / sum;
  features[1] = features[0] - exp_f32(top.second - top.first) / sum;
  features[2] = (log_f32(sum) - sum_ed / sum) / log_f32(options);
  features[3] = options / 255.0F;
}

__device__ __forceinline__ void act_features(const ActFeaturesParams& p) {
  const unsigned s = warp_row();
  if (s >= real_rows(p.counts, RowSet::seqs)) {
    return;
  }
  float* const out = p.out + std::size_t{s} * p.ld_out;
  const bool empty = load_global(p.cu + s) == load_global(p.cu + s + 1);
  for (unsigned column = lane(); column < p.width; column += kWarpSize) {
    store_global(out + column, empty ? 0.0F : load_global(p.hidden + std::size_t{s} * p.ld_hidden + column));
  }
  const unsigned first = load_global(p.mcu + s);
  const unsigned k = load_global(p.mcu + s + 1) - first;
  float features[kChunk] = {};
  if (k != 0) {
    act_features(p.logits + first, k, features);
  }
  if (lane() == 0) {
    store_chunk(out + p.width, kChunk, features);
  }
}

}  // namespace
}  // namespace kime::cuda

KIME_KERNEL(kime_linear_f32, kime::cuda::LinearParams, kime::cuda::kRowThreads) {
  kime::cuda::linear(p);
}
KIME_KERNEL(kime_act_features, kime::cuda::ActFeaturesParams, kime::cuda::kRowThreads) {
  kime::cuda::act_features(p);
}
