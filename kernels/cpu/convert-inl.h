// Weights of any element type as float32, exactly: LoadF32, LoadF16 and LoadBF16 give elements [i, i + 16) of `source` (any alignment),
// the ...N forms only the first n of them and +0 in the other lanes, touching nothing past them. LoadElement and LoadElementN choose by
// the type. Infinities, subnormals, the sign of zero and a NaN's payload are kept.
#if defined(KIME_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_CONVERT_INL_H_
#undef KIME_KERNELS_CPU_CONVERT_INL_H_
#else
#define KIME_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<Tag>;
using SignedTag = hn::RebindToSigned<Tag>;
using HalfWordTag = hn::Rebind<std::uint16_t, Tag>;

// Sixteen 16-bit words from memory, each widened to 32 bits and turned into a float by `f`.
template <class F>
HWY_INLINE F16 LoadWords16(const std::uint8_t* p, F f) {
  HWY_ALIGN std::uint16_t words[16];
  std::memcpy(words, p, sizeof(words));
  F16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.v[i] = f(hn::PromoteTo(WordTag(), hn::Load(HalfWordTag(), words + i * kLanes)));
  }
  return r;
}

HWY_INLINE F16 LoadF32(const void* source, std::size_t i) {
  HWY_ALIGN float t[16];
  std::memcpy(t, static_cast<const std::uint8_t*>(source) + i * sizeof(float), sizeof(t));
  return Load16(t);
}

HWY_INLINE F16 LoadBF16(const void* source, std::size_t i) {
  return LoadWords16(static_cast<const std::uint8_t*>(source) + i * 2,
                     [](auto w) HWY_ATTR { return hn::BitCast(Tag(), hn::ShiftLeft<16>(w)); });
}

// By integers, so that the FP control word and the instruction set have no say. A half's exponent and mantissa moved to where a float32
// has them lack 112 in the exponent; for infinity and NaN twice that. A subnormal half becomes 2^-14 plus its value, then loses the 2^-14
// in an exact subtraction, which gives +0 for zero.
HWY_INLINE F16 LoadF16(const void* source, std::size_t i) {
  return LoadWords16(static_cast<const std::uint8_t*>(source) + i * 2, [](auto word) HWY_ATTR {
    const SignedTag di;
    const Tag d;
    const auto w = hn::BitCast(di, word);
    const auto sign = hn::ShiftLeft<16>(hn::And(w, hn::Set(di, 0x8000)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(w, hn::Set(di, 0x7FFF)));
    const auto rebias = hn::Set(di, 112 << 23);
    const auto normal = hn::Add(magnitude, rebias);
    const auto special = hn::Add(normal, rebias);
    const auto smallest = hn::Set(di, 113 << 23);
    const auto subnormal = hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(magnitude, smallest)), hn::BitCast(d, smallest)));
    const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 1 << 23)), subnormal, normal);
    const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, (31 << 23) - 1)), special, finite);
    return hn::BitCast(d, hn::Or(value, sign));
  });
}

HWY_INLINE F16 LoadElement(const void* source, Element element, std::size_t i) {
  switch (element) {
    case Element::f32:
      return LoadF32(source, i);
    case Element::f16:
      return LoadF16(source, i);
    case Element::bf16:
      break;
  }
  return LoadBF16(source, i);
}

HWY_INLINE F16 LoadElementN(const void* source, Element element, std::size_t i, std::size_t n) {
  if (n >= 16) {
    return LoadElement(source, element, i);
  }
  const std::size_t size = size_of(element);
  HWY_ALIGN std::uint8_t t[16 * sizeof(float)] = {};
  std::memcpy(t, static_cast<const std::uint8_t*>(source) + i * size, n * size);
  return LoadElement(t, element, 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_CONVERT_INL_H_
