// Sixteen float lanes, whatever the target's vectors are: one zmm, two ymm, four NEON or emulated vectors. Every kernel is written in
// these, so that lane i of 16 means the same on each target, and results are the same bits. Included once per target by
// hwy/foreach_target.h, hence the toggling guard.
#if defined(KIME_KERNELS_CPU_SIMD16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_SIMD16_INL_H_
#undef KIME_KERNELS_CPU_SIMD16_INL_H_
#else
#define KIME_KERNELS_CPU_SIMD16_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
using Mask = hn::Mask<Tag>;
inline constexpr std::size_t kLanes = HWY_LANES(float) < 16 ? HWY_LANES(float) : 16;
inline constexpr std::size_t kParts = 16 / kLanes;

// a * b + c with one rounding. Highway's MulAdd rounds twice where the target has no FMA; there each lane goes through the correctly
// rounded builtin instead, so that the bits are the same (slow, and only the scalar target does it).
HWY_INLINE Vec Fma(Vec a, Vec b, Vec c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const Tag d;
  HWY_ALIGN float x[kLanes];
  HWY_ALIGN float y[kLanes];
  HWY_ALIGN float z[kLanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < kLanes; ++i) {
    z[i] = __builtin_fmaf(x[i], y[i], z[i]);
  }
  return hn::Load(d, z);
#endif
}

struct F16 {
  Vec v[kParts];
};
struct M16 {
  Mask m[kParts];
};

// Applies a per-vector function to each part; the loops vanish at compile time.
template <class F>
HWY_INLINE F16 Map(F f, F16 a) {
  for (std::size_t i = 0; i < kParts; ++i) {
    a.v[i] = f(a.v[i]);
  }
  return a;
}
template <class F>
HWY_INLINE F16 Map(F f, F16 a, const F16& b) {
  for (std::size_t i = 0; i < kParts; ++i) {
    a.v[i] = f(a.v[i], b.v[i]);
  }
  return a;
}

HWY_INLINE F16 Set16(float x) {
  F16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.v[i] = hn::Set(Tag(), x);
  }
  return r;
}
HWY_INLINE F16 Zero16() {
  return Set16(0.0F);
}
HWY_INLINE F16 Load16(const float* p) {
  F16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.v[i] = hn::LoadU(Tag(), p + i * kLanes);
  }
  return r;
}
HWY_INLINE void Store16(F16 a, float* p) {
  for (std::size_t i = 0; i < kParts; ++i) {
    hn::StoreU(a.v[i], Tag(), p + i * kLanes);
  }
}
// Lanes [0, n) from memory, 0 in the rest; nothing past n is touched.
HWY_INLINE F16 LoadN16(const float* p, std::size_t n) {
  if (n >= 16) {
    return Load16(p);
  }
  HWY_ALIGN float t[16] = {};
  for (std::size_t i = 0; i < n; ++i) {
    t[i] = p[i];
  }
  return Load16(t);
}
HWY_INLINE void StoreN16(F16 a, float* p, std::size_t n) {
  if (n >= 16) {
    Store16(a, p);
    return;
  }
  HWY_ALIGN float t[16];
  Store16(a, t);
  for (std::size_t i = 0; i < n; ++i) {
    p[i] = t[i];
  }
}

HWY_INLINE F16 Add(F16 a, const F16& b) {
  return Map([](Vec x, Vec y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
HWY_INLINE F16 Sub(F16 a, const F16& b) {
  return Map([](Vec x, Vec y) HWY_ATTR { return hn::Sub(x, y); }, a, b);
}
HWY_INLINE F16 Mul(F16 a, const F16& b) {
  return Map([](Vec x, Vec y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
HWY_INLINE F16 Div(F16 a, const F16& b) {
  return Map([](Vec x, Vec y) HWY_ATTR { return hn::Div(x, y); }, a, b);
}
HWY_INLINE F16 Sqrt(F16 a) {
  return Map([](Vec x) HWY_ATTR { return hn::Sqrt(x); }, a);
}
// a > b ? a : b, also for NaN, on every target: Highway's Max differs there.
HWY_INLINE F16 Max(F16 a, const F16& b) {
  return Map([](Vec x, Vec y) HWY_ATTR { return hn::IfThenElse(hn::Gt(x, y), x, y); }, a, b);
}
HWY_INLINE F16 MulAdd(F16 a, const F16& b, const F16& c) {
  for (std::size_t i = 0; i < kParts; ++i) {
    a.v[i] = Fma(a.v[i], b.v[i], c.v[i]);
  }
  return a;
}
HWY_INLINE M16 Less(const F16& a, const F16& b) {
  M16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.m[i] = hn::Lt(a.v[i], b.v[i]);
  }
  return r;
}
HWY_INLINE F16 Select(const M16& m, F16 yes, const F16& no) {
  for (std::size_t i = 0; i < kParts; ++i) {
    yes.v[i] = hn::IfThenElse(m.m[i], yes.v[i], no.v[i]);
  }
  return yes;
}

// Lanes [0, n): what of a tail is there.
HWY_INLINE M16 First16(std::size_t n) {
  n = n < 16 ? n : 16;
  M16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.m[i] = hn::FirstN(Tag(), n > i * kLanes ? n - i * kLanes : 0);
  }
  return r;
}

// The one reduction tree: lanes i and i + 8, then i + 4, i + 2, i + 1. Done in scalars, since the order must not depend on the target;
// it runs once a row.
template <class F>
HWY_INLINE float Tree16(F16 a, F f) {
  HWY_ALIGN float t[16];
  Store16(a, t);
  for (std::size_t half = 8; half != 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      t[i] = f(t[i], t[i + half]);
    }
  }
  return t[0];
}
HWY_INLINE float Sum16(F16 a) {
  return Tree16(a, [](float x, float y) { return x + y; });
}
HWY_INLINE float Max16(F16 a) {
  return Tree16(a, [](float x, float y) { return x > y ? x : y; });
}
// The largest lane, in whatever order is fastest: for lanes of which none is NaN, or where which of them it is does not matter. (The
// order cannot show: among equals only zeros differ, in sign.)
HWY_INLINE float MaxLanes16(F16 a) {
  for (std::size_t i = 1; i < kParts; ++i) {
    a.v[0] = hn::Max(a.v[0], a.v[i]);
  }
  return hn::GetLane(hn::MaxOfLanes(Tag(), a.v[0]));
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_SIMD16_INL_H_
