// Weights of any element type as float32, exactly: LoadF32, LoadF16 and LoadBF16 give elements [i, i + 16) of `source` (any alignment),
// the ...N forms only the first n of them and +0 in the other lanes, touching nothing past them. LoadElement and LoadElementN choose by
// the type. Infinities, subnormals and the sign of zero are kept; a NaN stays a NaN, its payload is not promised.
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

using IntTag = hn::RebindToUnsigned<Tag>;
using HalfWordTag = hn::Rebind<std::uint16_t, Tag>;

// Sixteen 16-bit words from memory, each widened to 32 bits and turned into a float by `f`.
template <class F>
HWY_INLINE F16 LoadWords16(const std::uint8_t* p, F f) {
  HWY_ALIGN std::uint16_t words[16];
  std::memcpy(words, p, sizeof(words));
  F16 r;
  for (std::size_t i = 0; i < kParts; ++i) {
    r.v[i] = f(hn::PromoteTo(IntTag(), hn::Load(HalfWordTag(), words + i * kLanes)));
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

// A half's exponent and mantissa, read as a float32 of the same layout, are its value times 2^-112, subnormals too, so one exact
// multiplication does it. Infinity and NaN (exponent all ones) get the float32's all ones.
HWY_INLINE F16 LoadF16(const void* source, std::size_t i) {
  return LoadWords16(static_cast<const std::uint8_t*>(source) + i * 2, [](auto w) HWY_ATTR {
    const IntTag di;
    const Tag d;
    const auto sign = hn::ShiftLeft<16>(hn::And(w, hn::Set(di, 0x8000U)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(w, hn::Set(di, 0x7FFFU)));
    const auto special = hn::Gt(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(di, 0x0F7FFFFFU)));
    const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(di, 0x77800000U)));
    const auto ones = hn::BitCast(d, hn::Or(magnitude, hn::Set(di, 0x7F800000U)));
    return hn::Or(hn::IfThenElse(special, ones, scaled), hn::BitCast(d, sign));
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
  const std::size_t size = element == Element::f32 ? 4 : 2;
  HWY_ALIGN std::uint8_t t[16 * sizeof(float)] = {};
  std::memcpy(t, static_cast<const std::uint8_t*>(source) + i * size, n * size);
  return LoadElement(t, element, 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_CONVERT_INL_H_
