// Matrix products over narrow elements: blocks of rows and k, whatever implementation makes the sums.
#if defined(KIME_KERNELS_CPU_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_NARROW_INL_H_
#undef KIME_KERNELS_CPU_NARROW_INL_H_
#else
#define KIME_KERNELS_CPU_NARROW_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// A multiple of every tile_rows.
inline constexpr std::size_t kNarrowRows = 288;

// Integer sums to float32, in place: the output's scale first, then the token's.
HWY_INLINE void Dequantize(float* sums, std::size_t rows, std::size_t width, const float* a_scales, const float* b_scales) {
  for (std::size_t r = 0; r < rows; ++r) {
    const F16 a = Set16(a_scales[r]);
    for (std::size_t i = 0; i < width; i += 16) {
      float* p = sums + r * kPanel + i;
      F16 x;
      for (std::size_t part = 0; part < kParts; ++part) {
        const SignedTag d;
        x.v[part] = hn::ConvertTo(Tag(), hn::LoadU(d, reinterpret_cast<const std::int32_t*>(p) + part * kLanes));
      }
      Store16(Mul(Mul(x, Load16(b_scales + i)), a), p);
    }
  }
}

inline void NarrowPanel(const NarrowOperands& o, const Gemm& g, std::size_t panel, std::size_t row0, std::size_t row1) {
  HWY_ALIGN float sums[kNarrowRows * kPanel];
  const Narrow& kernel = *o.kernel;
  const std::size_t columns = g.n - panel * kPanel < kPanel ? g.n - panel * kPanel : kPanel;
  const std::size_t vecs = (columns + 15) / 16;
  const std::size_t padded = kernel.padded(g.k);
  const std::size_t row_bytes = kernel.row_bytes(g.k);
  const std::byte* b = o.b + panel * kPanel * kernel.column_bytes(g.k);
  const std::size_t down = (row1 - row0 + kernel.tile_rows - 1) / kernel.tile_rows;
  for (std::size_t k0 = 0; k0 < padded; k0 += kernel.k_block) {
    const std::size_t k = padded - k0 < kernel.k_block ? padded - k0 : kernel.k_block;
    const std::size_t dwords = k * bytes_of(kernel.weights) / sizeof(float);
    // The next block of b, or of the next panel, asked for by all tiles of this one together.
    const std::byte* ahead = b + (k0 + k) * bytes_of(kernel.weights) * vecs * 16;
    const std::size_t steps = dwords / kAskStep;
    const std::size_t lines = (dwords * vecs / steps + down - 1) / down;
    for (std::size_t row = row0; row < row1; row += kernel.tile_rows) {
      const std::size_t rows = row1 - row < kernel.tile_rows ? row1 - row : kernel.tile_rows;
      float* t = sums + (row - row0) * kPanel;
      kernel.tile({.a = o.a + row * row_bytes + k0 * bytes_of(kernel.activations),
                   .lda = row_bytes,
                   .b = b + k0 * bytes_of(kernel.weights) * vecs * 16,
                   .vecs = vecs,
                   .rows = rows,
                   .dwords = dwords,
                   .resume = k0 != 0,
                   .start = kernel.integers() ? o.start + panel * kPanel : nullptr,
                   .sums = t,
                   .ahead = ahead + (row - row0) / kernel.tile_rows * lines * steps * 64,
                   .lines_a_step = lines});
      if (k0 + k == padded) {
        if (kernel.integers()) {
          Dequantize(t, rows, vecs * 16, o.a_scales + row, o.b_scales + panel * kPanel);
        }
        FinishRows(g, panel, t, row, rows);
      }
    }
  }
}

inline void NarrowMatMul(const NarrowOperands& o, const Gemm& g, std::size_t row0, std::size_t row1, std::size_t panel0,
                         std::size_t panel1) {
  if (row0 == row1) {
    return;
  }
  const std::size_t block = EvenBlock(row1 - row0, kNarrowRows, o.kernel->tile_rows);
  for (std::size_t row = row0; row < row1; row += block) {
    const std::size_t end = row1 - row < block ? row1 : row + block;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      NarrowPanel(o, g, panel, row, end);
    }
  }
  if (o.kernel->release != nullptr) {
    o.kernel->release();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_NARROW_INL_H_
