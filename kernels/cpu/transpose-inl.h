// Sixteen rows turned into columns: how weights and keys become panels.
#if defined(KIME_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_TRANSPOSE_INL_H_
#undef KIME_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define KIME_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Four elements of each of kLanes / 4 rows, row after row.
template <std::size_t kFrom>
HWY_INLINE auto Quads(const float* p, std::size_t stride) {
  if constexpr (kFrom == 4) {
    (void)stride;
    return hn::LoadU(hn::FixedTag<float, 4>(), p);
  } else {
    return hn::Combine(hn::FixedTag<float, kFrom>(), Quads<kFrom / 2>(p + kFrom / 8 * stride, stride), Quads<kFrom / 2>(p, stride));
  }
}
#endif

// Columns [0, 4) of sixteen rows of `in`: column c becomes the sixteen floats at out + c * ldo.
HWY_INLINE void Transpose16x4(const float* in, std::size_t ldi, float* out, std::size_t ldo) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t c = 0; c < 4; ++c) {
    for (std::size_t r = 0; r < 16; ++r) {
      out[c * ldo + r] = in[r * ldi + c];
    }
  }
#else
  // Vectors go through in blocks of four lanes: block b of part p holds rows 4 (p kLanes / 4 + b) + i for i = 0..3 in turn, so a
  // four by four transpose within blocks leaves the rows in order.
  const Tag d;
  const hn::Repartition<double, Tag> pairs;
  for (std::size_t p = 0; p < kParts; ++p) {
    const float* row = in + p * kLanes * ldi;
    const Vec r0 = Quads<kLanes>(row, 4 * ldi);
    const Vec r1 = Quads<kLanes>(row + ldi, 4 * ldi);
    const Vec r2 = Quads<kLanes>(row + 2 * ldi, 4 * ldi);
    const Vec r3 = Quads<kLanes>(row + 3 * ldi, 4 * ldi);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    float* to = out + p * kLanes;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + ldo);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * ldo);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * ldo);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_TRANSPOSE_INL_H_
