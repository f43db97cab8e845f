// Weights into panels (kernels.h has the layout), converted to float32 on the way.
#if defined(KIME_KERNELS_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_PACK_INL_H_
#undef KIME_KERNELS_CPU_PACK_INL_H_
#else
#define KIME_KERNELS_CPU_PACK_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// Sixteen columns of a panel, one packed row apart `width` floats, from `rows` (1 to 16) rows of the source. Columns past them are left
// alone where there are fewer.
inline void PackColumns(const std::uint8_t* source, Element element, std::size_t rows, std::size_t k, float* out, std::size_t width) {
  constexpr std::size_t kChunk = 64;
  const std::size_t row_bytes = k * size_of(element);
  HWY_ALIGN float rows_f32[16 * kChunk] = {};
  HWY_ALIGN float column[4 * 16];
  for (std::size_t k0 = 0; k0 < k; k0 += kChunk) {
    const std::size_t count = k - k0 < kChunk ? k - k0 : kChunk;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < count; i += 16) {
        Store16(LoadElementN(source + r * row_bytes, element, k0 + i, count - i), rows_f32 + r * kChunk + i);
      }
    }
    for (std::size_t i = 0; i < count; i += 4) {
      float* to = out + (k0 + i) * width;
      if (rows == 16 && count - i >= 4) {
        Transpose16x4(rows_f32 + i, kChunk, to, width);
        continue;
      }
      Transpose16x4(rows_f32 + i, kChunk, column, 16);
      for (std::size_t c = 0; c < 4 && c < count - i; ++c) {
        for (std::size_t r = 0; r < rows; ++r) {
          to[c * width + r] = column[c * 16 + r];
        }
      }
    }
  }
}

inline void Pack(const void* source, Element element, std::size_t rows, std::size_t k, float* packed, std::size_t n, std::size_t column) {
  const auto* bytes = static_cast<const std::uint8_t*>(source);
  const std::size_t row_bytes = k * size_of(element);
  for (std::size_t r = 0; r < rows; r += 16) {
    const PanelOf panel(n, column + r);
    PackColumns(bytes + r * row_bytes, element, rows - r < 16 ? rows - r : 16, k, packed + panel.first * k + (column + r - panel.first),
                panel.width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_PACK_INL_H_
