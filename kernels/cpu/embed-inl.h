// Rows of the embedding table, and adding a row (the question type's) to another.
#if defined(KIME_KERNELS_CPU_EMBED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_EMBED_INL_H_
#undef KIME_KERNELS_CPU_EMBED_INL_H_
#else
#define KIME_KERNELS_CPU_EMBED_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

inline void Embed(const void* table, Element element, const std::uint32_t* ids, std::size_t rows, std::size_t width, float* out,
                  std::size_t ldo) {
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t row = ids[r] * width;
    for (std::size_t i = 0; i < width; i += 16) {
      StoreN16(LoadElementN(table, element, row + i, width - i), out + r * ldo + i, width - i);
    }
  }
}

inline void AddRow(const float* in, std::size_t width, float* out) {
  for (std::size_t i = 0; i < width; i += 16) {
    StoreN16(Add(LoadN16(out + i, width - i), LoadN16(in + i, width - i)), out + i, width - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_EMBED_INL_H_
