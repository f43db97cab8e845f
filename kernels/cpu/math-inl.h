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

// The scalar target would repeat each operation sixteen times at every place that uses one of these functions, at a great cost in compile
// time under sanitizers; there they are called.
#undef KIME_MATH_INLINE
#if HWY_TARGET == HWY_SCALAR
#define KIME_MATH_INLINE inline HWY_NOINLINE
#else
#define KIME_MATH_INLINE HWY_INLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

using FloatBits = hn::RebindToSigned<Tag>;

// The polynomial ((y x + c0) x + c1) x + ...
template <class... C>
HWY_INLINE F16 Horner(F16 x, float y0, C... c) {
  F16 y = Set16(y0);
  ((y = MulAdd(y, x, Set16(c))), ...);
  return y;
}

// Adding kRound rounds a float of magnitude below 2^21 to an integer n, which then stands in the low bits of the sum, with the 126 of the
// exponent of 2^(n - 1) added.
inline constexpr float kRound = 0x1.8p23F + 126.0F;

// 2^(n + r), for shifted = n + kRound and |r| <= 0.5 or a little more: twice 2^r from a polynomial (error 2^-29), times 2^(n - 1), whose
// bits are those of `shifted` moved up. n is -125 to 128, so that no subnormal arises and only what is past the largest float overflows;
// n = -126 gives exactly 0. A NaN in r stays one, whatever the scale. 2^0 is exactly 1.
KIME_MATH_INLINE F16 Pow2(F16 shifted, F16 r) {
  const F16 twice = Horner(r, 0x1.41fb82p-12F, 0x1.5f3eacp-9F, 0x1.3b2d4ep-6F, 0x1.c6aee8p-4F, 0x1.ebfbdcp-2F, 0x1.62e430p0F, 2.0F);
  const F16 scale = Map([](Vec v) HWY_ATTR { return hn::BitCast(Tag(), hn::ShiftLeft<23>(hn::BitCast(FloatBits(), v))); }, shifted);
  return Mul(twice, scale);
}

// e^x as 2^(x log2 e). Below -86.5 it is exactly 0: from -86.99 down n would leave Pow2's range, and a softmax has no use for a weight of
// 2^-125. It is infinite where rounding makes it so, above 0x1.62e42ep6 (88.72284). A NaN stays a NaN. Error under 1.1 ulp.
KIME_MATH_INLINE F16 Exp(F16 x) {
  const F16 log2e = Set16(0x1.715476p0F);
  const F16 log2e_rest = Set16(0x1.4ae0c0p-26F);
  const F16 shifted = MulAdd(x, log2e, Set16(kRound));
  const F16 minus_n = Sub(Set16(kRound), shifted);
  const F16 r = MulAdd(x, log2e_rest, MulAdd(x, log2e, minus_n));
  const F16 y = Select(Less(x, Set16(-86.5F)), Zero16(), Pow2(shifted, r));
  return Select(Less(Set16(0x1.62e42ep6F), x), Set16(__builtin_inff()), y);
}

// ln x = e ln 2 + ln(1 + f), with 1 + f = x / 2^e in [sqrt(1/2), sqrt(2)); ln(1 + f) = f + f^2 P(f), P of degree 9 (error 2^-30). ln 2 is
// split so that e times its upper part is exact. Error under 1 ulp. ln(+-0) = -inf, ln of a negative number is NaN, a NaN stays one.
KIME_MATH_INLINE F16 Log(F16 x) {
  const M16 tiny = Less(x, Set16(0x1p-126F));
  const F16 normal = Select(tiny, Mul(x, Set16(0x1p23F)), x);
  F16 e;
  F16 f;
  for (std::size_t i = 0; i < kParts; ++i) {
    const FloatBits di;
    const auto bits = hn::BitCast(di, normal.v[i]);
    const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));  // Relative to sqrt(1/2).
    e.v[i] = hn::ConvertTo(Tag(), exponent);
    f.v[i] = hn::BitCast(Tag(), hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  }
  e = Sub(e, Select(tiny, Set16(23.0F), Zero16()));
  f = Sub(f, Set16(1.0F));
  const F16 p = Horner(f, 0x1.13755p-4F, -0x1.de4034p-4F, 0x1.e7768cp-4F, -0x1.fc346p-4F, 0x1.232d98p-3F, -0x1.555ab2p-3F, 0x1.99a53ep-3F,
                       -0x1.000012p-2F, 0x1.555546p-2F, -0x1p-1F);
  const F16 low = MulAdd(Mul(f, f), p, Mul(e, Set16(0x1.0bfbe8p-15F)));
  const F16 y = MulAdd(e, Set16(0x1.62ep-1F), Add(f, low));
  const F16 infinity = Set16(__builtin_inff());
  const F16 positive = Select(Less(x, infinity), y, x);
  const F16 other = Select(Less(x, Zero16()), Set16(__builtin_nanf("")), Sub(x, infinity));
  return Select(Less(Zero16(), x), positive, other);
}

// gelu(x) = x Phi(x) = max(x, 0) + b Phi(b), with b = -|x|. log2 of the tail Phi(b) is close to a parabola, so Phi(b) = 2^(b S(b) - 1)
// with S a polynomial of degree 11: no division, and no cancellation, so that for negative x too the error is small beside the result.
// S is fitted on [-13, 0] to an error of 2e-9 in b Phi(b), or 1e-3 of it where that is less, which is a float's rounding or less where it
// matters. At -12.95, where the tail nears the smallest normal float, the exponent is the one that Pow2 makes an exact 0, and b stops
// there: beyond, gelu is x or 0, also for infinities. All in all within 6.7e-8 max(1, |x|) (a
// float's own rounding is 6e-8). A NaN stays a NaN; gelu(-0) is +0.
KIME_MATH_INLINE F16 Gelu(F16 x) {
  const F16 limit = Set16(-12.95F);
  const F16 below = Map([](Vec v) HWY_ATTR { return hn::Or(v, hn::SignBit(Tag())); }, x);
  const F16 b = Select(Less(below, limit), limit, below);  // Of these two a NaN is the second.
  const F16 s = Horner(b, -0x1.59c6c2p-35F, -0x1.68f4bp-29F, -0x1.44a14cp-24F, -0x1.498862p-20F, -0x1.9e03d8p-17F, -0x1.4675fep-14F,
                       -0x1.1db13ep-12F, 0x1.ec639ap-16F, 0x1.ca57ccp-8F, 0x1.ade636p-5F, -0x1.d63a82p-2F, 0x1.26aeep0F);
  const F16 round = Set16(kRound - 1.0F);
  const F16 shifted = MulAdd(b, s, round);
  const F16 r = MulAdd(b, s, Sub(round, shifted));
  return MulAdd(b, Pow2(shifted, r), Max(x, Zero16()));
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
