// Matrix products over packed weights, and the register tile that attention shares with them.
#if defined(KIME_KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_GEMM_INL_H_
#undef KIME_KERNELS_CPU_GEMM_INL_H_
#else
#define KIME_KERNELS_CPU_GEMM_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// The register tile: kTileRows rows by kTileVecs * 16 columns. 24 of AVX-512's 32 registers hold it, 12 of AVX2's 16, 24 of NEON's 32;
// the rest hold a row of b and one broadcast element of a.
inline constexpr std::size_t kTileRows = 6;
inline constexpr std::size_t kTileVecs = kParts == 1 ? 4 : 1;

struct TileArgs {
  const float* a;
  std::size_t lda;
  const float* b;  // [k][ldb]
  std::size_t ldb;
  std::size_t k;
  float* t;  // [rows][ldt]
  std::size_t ldt;
  bool resume;  // Go on from what t holds; else from +0.
};

// t = a b, or t += a b: every element one FMA chain over k in order. Stopping it in t (float32, so nothing is rounded) and going on later
// gives the same bits, which is why callers may block k and rows as the caches like.
template <std::size_t kRows, std::size_t kVecs>
HWY_NOINLINE void Tile(const TileArgs& args) {
  F16 acc[kRows][kVecs];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      acc[r][v] = args.resume ? Load16(args.t + r * args.ldt + v * 16) : Zero16();
    }
  }
  const float* a = args.a;
  const float* b = args.b;
  const std::size_t lda = args.lda;
  const std::size_t ldb = args.ldb;
  for (std::size_t kk = 0; kk < args.k; ++kk) {
    F16 row[kVecs];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      row[v] = Load16(b + v * 16);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const F16 x = Set16(a[r * lda]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVecs; ++v) {
        acc[r][v] = MulAdd(x, row[v], acc[r][v]);
      }
    }
    ++a;
    b += ldb;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      Store16(acc[r][v], args.t + r * args.ldt + v * 16);
    }
  }
}

template <std::size_t kVecs>
HWY_INLINE void TileOfRows(std::size_t rows, const TileArgs& args) {
  static_assert(kTileRows == 6);
  switch (rows) {
    case 1:
      return Tile<1, kVecs>(args);
    case 2:
      return Tile<2, kVecs>(args);
    case 3:
      return Tile<3, kVecs>(args);
    case 4:
      return Tile<4, kVecs>(args);
    case 5:
      return Tile<5, kVecs>(args);
    default:
      return Tile<6, kVecs>(args);
  }
}

// A tile of any width: `vecs` times 16 columns.
HWY_INLINE void WideTile(std::size_t rows, std::size_t vecs, TileArgs args) {
  for (; vecs >= kTileVecs; vecs -= kTileVecs) {
    TileOfRows<kTileVecs>(rows, args);
    args.b += kTileVecs * 16;
    args.t += kTileVecs * 16;
  }
  if constexpr (kTileVecs == 4) {
    switch (vecs) {
      case 1:
        return TileOfRows<1>(rows, args);
      case 2:
        return TileOfRows<2>(rows, args);
      case 3:
        return TileOfRows<3>(rows, args);
      default:
        return;
    }
  }
}

// Rows of b in a block: as many as leave a block of a panel in the first-level cache while tiles of rows pass over it.
inline constexpr std::size_t kBlockK = kParts == 1 ? 128 : 64;
// Rows of c whose unfinished sums are kept at a time; a panel of b is read once for each such block of rows.
inline constexpr std::size_t kBlockRows = 43 * kTileRows;

// Asks for [p, p + bytes) in the second-level cache.
HWY_INLINE void PrefetchBytes(const void* p, std::size_t bytes) {
  const char* c = static_cast<const char*>(p);
  for (std::size_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(c + i, 0, 2);
  }
}

// The finished sums of one row and panel, on their way to c: bias, then activation, then what c holds.
HWY_INLINE F16 Finish(F16 x, const float* bias, std::size_t n, Activation activation) {
  if (bias != nullptr) {
    x = Add(x, LoadN16(bias, n));
  }
  if (activation == Activation::gelu) {
    return Gelu(x);
  }
  return activation == Activation::relu ? Max(x, Zero16()) : x;
}

HWY_INLINE void Write(F16 x, bool accumulate, float* c, std::size_t n) {
  StoreN16(accumulate ? Add(LoadN16(c, n), x) : x, c, n);
}

inline void FinishRows(const Gemm& g, std::size_t panel, const float* sums, std::size_t row0, std::size_t rows) {
  const bool geglu = g.activation == Activation::geglu;
  const std::size_t width = geglu ? kGegluHalf : kPanel;
  const std::size_t column0 = panel * width;
  const std::size_t end = geglu ? g.f : g.n;
  const std::size_t columns = end - column0 < width ? end - column0 : width;
  for (std::size_t r = 0; r < rows; ++r) {
    float* c = g.c + (row0 + r) * g.ldc + column0;
    const float* t = sums + r * kPanel;
    for (std::size_t i = 0; i < columns; i += 16) {
      const F16 x = geglu ? Mul(Gelu(Load16(t + i)), Load16(t + i + kGegluHalf))
                          : Finish(Load16(t + i), g.bias == nullptr ? nullptr : g.bias + column0 + i, columns - i, g.activation);
      Write(x, g.accumulate, c + i, columns - i);
    }
  }
}

// Rows [row0, row1), at most kBlockRows of them, of one panel. Blocks of k go on the outside, so that a block of the panel stays in the
// first-level cache under all tiles of rows; each tile fetches its share of the next block.
inline void MatMulPanel(const Gemm& g, std::size_t panel, std::size_t row0, std::size_t row1) {
  HWY_ALIGN float sums[kBlockRows * kPanel];
  const std::size_t columns = g.n - panel * kPanel < kPanel ? g.n - panel * kPanel : kPanel;
  const std::size_t vecs = (columns + 15) / 16;
  const std::size_t width = vecs * 16;
  const float* b = g.b + panel * kPanel * g.k;
  const std::size_t tiles = (row1 - row0 + kTileRows - 1) / kTileRows;
  const std::size_t block = tiles == 1 ? g.k : kBlockK;
  for (std::size_t k0 = 0; k0 < g.k; k0 += block) {
    const std::size_t k = g.k - k0 < block ? g.k - k0 : block;
    const float* next = b + (k0 + k) * width;
    const std::size_t share = (block * width / 16 + tiles - 1) / tiles * 16;
    for (std::size_t row = row0; row < row1; row += kTileRows) {
      const std::size_t rows = row1 - row < kTileRows ? row1 - row : kTileRows;
      float* t = sums + (row - row0) * kPanel;
      if (tiles > 1) {
        PrefetchBytes(next, share * sizeof(float));
        next += share;
      }
      WideTile(rows, vecs, {g.a + row * g.lda + k0, g.lda, b + k0 * width, width, k, t, kPanel, k0 != 0});
      if (k0 + k == g.k) {
        FinishRows(g, panel, t, row, rows);
      }
    }
  }
}

inline void MatMul(const Gemm& g, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  for (std::size_t row = row0; row < row1; row += kBlockRows) {
    const std::size_t end = row1 - row < kBlockRows ? row1 : row + kBlockRows;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      MatMulPanel(g, panel, row, end);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_GEMM_INL_H_
