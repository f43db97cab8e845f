// What the act head sees of a record's logits.
#if defined(KIME_KERNELS_CPU_ACT_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_ACT_FEATURES_INL_H_
#undef KIME_KERNELS_CPU_ACT_FEATURES_INL_H_
#else
#define KIME_KERNELS_CPU_ACT_FEATURES_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

inline void ActFeatures(const float* logits, std::size_t k, float* features) {
  (void)logits;
  (void)k;
  (void)features;
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_ACT_FEATURES_INL_H_
