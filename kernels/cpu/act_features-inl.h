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

// Logits [0, n), and -inf, of probability 0, in the lanes past them.
HWY_INLINE F16 LoadLogits16(const float* p, std::size_t n) {
  return Select(First16(n), LoadN16(p, n), Set16(-__builtin_inff()));
}

// The largest and the second largest of k >= 1 logits (k = 1: -inf; equal ones count each). Where a logit is NaN these are any.
struct Top2 {
  float first;
  float second;
};
inline Top2 FindTop2(const float* logits, std::size_t k) {
  F16 first = Set16(-__builtin_inff());
  F16 second = first;
  for (std::size_t i = 0; i < k; i += 16) {
    const F16 x = LoadLogits16(logits + i, k - i);
    second = Max(second, Select(Less(x, first), x, first));
    first = Max(first, x);
  }
  HWY_ALIGN float firsts[16];
  HWY_ALIGN float seconds[16];
  Store16(first, firsts);
  Store16(second, seconds);
  Top2 top{firsts[0], seconds[0]};
  for (std::size_t i = 1; i < 16; ++i) {
    const float low = firsts[i] < top.first ? firsts[i] : top.first;
    top.first = firsts[i] > top.first ? firsts[i] : top.first;
    top.second = low > top.second ? low : top.second;
    top.second = seconds[i] > top.second ? seconds[i] : top.second;
  }
  return top;
}

// With d = x - max, e = exp(d), S = Sum16 of the lanes' sums of e: p = e / S, so that p1 = 1 / S, and
//   H = -sum p ln p = sum p (ln S - d) = ln S - (sum e d) / S,
// two terms that are not negative, one logarithm, and no p stored however many options there are. Where e is 0, e d counts as 0, also for
// d = -inf: p ln p goes to 0 with p. Missing lanes are such. A NaN, or +inf, makes S a NaN and with it the first three features.
inline void ActFeatures(const float* logits, std::size_t k, float* features) {
  if (k == 0) {
    for (std::size_t i = 0; i < 4; ++i) {
      features[i] = 0;
    }
    return;
  }
  const Top2 top = FindTop2(logits, k);
  const F16 max = Set16(top.first);
  F16 sum = Zero16();
  F16 sum_ed = Zero16();
  for (std::size_t i = 0; i < k; i += 16) {
    const F16 d = Sub(LoadLogits16(logits + i, k - i), max);
    const F16 e = Exp(d);
    sum = Add(sum, e);
    sum_ed = MulAdd(e, Select(Less(Zero16(), e), d, Zero16()), sum_ed);
  }
  const float s = Sum16(sum);
  const float options = static_cast<float>(k < 2 ? 2 : k);
  // The scalars go through the lanes' functions, since libm's differ from machine to machine.
  HWY_ALIGN float t[16] = {s, options};
  Store16(Log(Load16(t)), t);
  const float log_s = t[0];
  const float log_options = t[1];
  Store16(Exp(Set16(top.second - top.first)), t);
  const float p1 = 1.0F / s;
  const float p2 = t[0] / s;
  features[0] = p1;
  features[1] = p1 - p2;
  features[2] = (log_s - Sum16(sum_ed) / s) / log_options;
  features[3] = options / 255.0F;
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_ACT_FEATURES_INL_H_
