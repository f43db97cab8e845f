// The most FMAs a second that a core does, for benchmarks to hold the kernels against.
#if defined(KIME_KERNELS_CPU_FMA_PEAK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_FMA_PEAK_INL_H_
#undef KIME_KERNELS_CPU_FMA_PEAK_INL_H_
#else
#define KIME_KERNELS_CPU_FMA_PEAK_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// Chains enough that two FMA units of four cycles' latency never wait: 12 vectors or more, and as many registers as that are there.
inline double FmaPeak(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = kParts == 1 ? 16 : 6;
  F16 acc[kChains];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kChains; ++i) {
    acc[i] = Set16(static_cast<float>(i));
  }
  // x = x / 2 + 1 tends to 2: never a subnormal, never an infinity.
  const F16 half = Set16(0.5F);
  const F16 one = Set16(1.0F);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kChains; ++i) {
      acc[i] = MulAdd(acc[i], half, one);
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 1; i < kChains; ++i) {
    acc[0] = Add(acc[0], acc[i]);
  }
  *sink = Sum16(acc[0]);
  return 2.0 * 16.0 * static_cast<double>(kChains) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_FMA_PEAK_INL_H_
