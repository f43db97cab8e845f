// The orthogonal transform that rows pass before they become int8.
#if defined(KIME_KERNELS_CPU_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_ROTATE_INL_H_
#undef KIME_KERNELS_CPU_ROTATE_INL_H_
#else
#define KIME_KERNELS_CPU_ROTATE_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// Walsh-Hadamard transforms of groups of 256 elements (16 vectors), and of the largest powers of two that the rest of a row holds in whole
// vectors; what is left of less than a vector stays as it is. A channel of magnitude M among others of 1 then weighs M / 16 in each of its
// group, where it costs the others little of their eight bits (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456). The transform is its own
// inverse and symmetric, so that (x R)(w R)^T = x w^T.

#if HWY_TARGET == HWY_SCALAR
#define KIME_ROTATE_UNROLL
#else
#define KIME_ROTATE_UNROLL HWY_UNROLL(16)
#endif

// The lanes whose index has the bit kHalf get the sign bit.
template <std::size_t kHalf>
HWY_INLINE Vec UpperSign() {
  HWY_ALIGN static constexpr float kSigns[3][16] = {
      {0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F},
      {0.0F, 0.0F, -0.0F, -0.0F, 0.0F, 0.0F, -0.0F, -0.0F, 0.0F, 0.0F, -0.0F, -0.0F, 0.0F, 0.0F, -0.0F, -0.0F},
      {0.0F, 0.0F, 0.0F, 0.0F, -0.0F, -0.0F, -0.0F, -0.0F, 0.0F, 0.0F, 0.0F, 0.0F, -0.0F, -0.0F, -0.0F, -0.0F}};
  HWY_ALIGN static constexpr float kLast[16] = {0.0F,  0.0F,  0.0F,  0.0F,  0.0F,  0.0F,  0.0F,  0.0F,
                                                -0.0F, -0.0F, -0.0F, -0.0F, -0.0F, -0.0F, -0.0F, -0.0F};
  return hn::Load(Tag(), kHalf == 8 ? kLast : kSigns[kHalf / 2]);
}

// Each lane's partner, kHalf lanes away.
template <std::size_t kHalf>
HWY_INLINE Vec SwapHalves(Vec v) {
  const Tag d;
  (void)d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHalf == 1) {
    return hn::Shuffle2301(v);
  } else if constexpr (kHalf == 2) {
    return hn::Shuffle1032(v);
#if HWY_TARGET != HWY_NEON
  } else if constexpr (2 * kHalf == kLanes) {
    return hn::ConcatLowerUpper(d, v, v);
  } else {
    return hn::SwapAdjacentBlocks(v);
#endif
  }
#endif
  return v;
}

// (a, b) becomes (a + b, a - b) for lanes a and b that are kHalf apart.
template <std::size_t kHalf>
HWY_INLINE void Butterfly(F16& x) {
  if constexpr (kHalf >= kLanes) {
    constexpr std::size_t kApart = kHalf / kLanes;
    for (std::size_t i = 0; i < kParts; ++i) {
      if ((i & kApart) == 0) {
        const Vec a = x.v[i];
        const Vec b = x.v[i + kApart];
        x.v[i] = hn::Add(a, b);
        x.v[i + kApart] = hn::Sub(a, b);
      }
    }
  } else {
    for (std::size_t i = 0; i < kParts; ++i) {
      x.v[i] = hn::Add(SwapHalves<kHalf>(x.v[i]), hn::Xor(x.v[i], UpperSign<kHalf>()));
    }
  }
}

template <std::size_t kVecs>
HWY_NOINLINE void RotateGroup(float* x, float norm) {
  F16 v[kVecs];
  KIME_ROTATE_UNROLL
  for (std::size_t i = 0; i < kVecs; ++i) {
    v[i] = Load16(x + i * 16);
    Butterfly<1>(v[i]);
    Butterfly<2>(v[i]);
    Butterfly<4>(v[i]);
    Butterfly<8>(v[i]);
  }
  KIME_ROTATE_UNROLL
  for (std::size_t half = 1; half < kVecs; half *= 2) {
    KIME_ROTATE_UNROLL
    for (std::size_t i = 0; i < kVecs; ++i) {
      if ((i & half) == 0) {
        const F16 a = v[i];
        v[i] = Add(a, v[i + half]);
        v[i + half] = Sub(a, v[i + half]);
      }
    }
  }
  const F16 scale = Set16(norm);
  KIME_ROTATE_UNROLL
  for (std::size_t i = 0; i < kVecs; ++i) {
    Store16(Mul(v[i], scale), x + i * 16);
  }
}

// The row x of k elements, in place.
inline void RotateRow(float* x, std::size_t k) {
  std::size_t left = k / 16;
  for (; left >= 16; left -= 16) {
    RotateGroup<16>(x, 0x1p-4F);
    x += std::size_t{16} * 16;
  }
  if (left >= 8) {
    RotateGroup<8>(x, 0x1.6a09e6p-4F);
    x += std::size_t{8} * 16;
  }
  if ((left & 4) != 0) {
    RotateGroup<4>(x, 0x1p-3F);
    x += std::size_t{4} * 16;
  }
  if ((left & 2) != 0) {
    RotateGroup<2>(x, 0x1.6a09e6p-3F);
    x += std::size_t{2} * 16;
  }
  if ((left & 1) != 0) {
    RotateGroup<1>(x, 0x1p-2F);
  }
}

#undef KIME_ROTATE_UNROLL

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_ROTATE_INL_H_
