// Matrix products over packed weights.
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
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// Steps of k in a block: a block of a panel (64 KiB) stays near while tiles of rows pass over it, and the tiles' sums are stopped and
// resumed rarely.
inline constexpr std::size_t kBlockK = 256;
// Tiles of rows up to which a product waits for its weights to come from memory. Their blocks are small enough for the nearest cache, and
// all of one is asked for while the one before it is used.
inline constexpr std::size_t kFewTiles = 6;
inline constexpr std::size_t kFewBlockK = 64;
// Rows of c whose unfinished sums are kept at a time; a panel of b is read once for each such block of rows.
inline constexpr std::size_t kBlockRows = 48 * kTileRows;

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

// What each of `tiles` tiles of k steps asks for, so that all of the next block of b has been asked for when this one is done; when that
// is 8 lines at a time or fewer, as many as a tile can take.
struct Requests {
  std::size_t lines;
  std::size_t at_once;
};

HWY_INLINE Requests LinesAhead(std::size_t floats, std::size_t tiles, std::size_t k) {
  const std::size_t times = k / kAskEvery;
  const std::size_t lines = (floats / 16 + tiles - 1) / tiles;
  if (lines <= times || times == 0) {
    return {times == 0 ? 0 : lines, 1};
  }
  const std::size_t needed = (lines + times - 1) / times;
  const std::size_t at_once = needed <= 4 ? needed : 8;
  const std::size_t asked = (lines + at_once - 1) / at_once;
  return {(asked < times ? asked : times) * at_once, at_once};
}

// Rows [row0, row1), at most kBlockRows of them, of one panel. Blocks of k go on the outside, so that a block of the panel stays in a
// near cache under all tiles of rows.
inline void MatMulPanel(const Gemm& g, std::size_t panel, std::size_t row0, std::size_t row1) {
  HWY_ALIGN float sums[kBlockRows * kPanel];
  const std::size_t columns = g.n - panel * kPanel < kPanel ? g.n - panel * kPanel : kPanel;
  const std::size_t vecs = (columns + 15) / 16;
  const std::size_t width = vecs * 16;
  const std::size_t across = TilesAcross(vecs);
  const std::size_t down = (row1 - row0 + kTileRows - 1) / kTileRows;
  const float* b = g.b + panel * kPanel * g.k;
  const std::size_t block = down <= kFewTiles ? kFewBlockK : kBlockK;
  for (std::size_t k0 = 0; k0 < g.k; k0 += block) {
    const std::size_t k = g.k - k0 < block ? g.k - k0 : block;
    const char* ahead = reinterpret_cast<const char*>(b + (k0 + k) * width);
    const Requests next = LinesAhead(block * width, across * down, k);
    for (std::size_t row = row0; row < row1; row += kTileRows) {
      const std::size_t rows = row1 - row < kTileRows ? row1 - row : kTileRows;
      float* t = sums + (row - row0) * kPanel;
      WideTile(rows, vecs, {g.a + row * g.lda + k0, g.lda, b + k0 * width, width, k, t, kPanel, k0 != 0, ahead, next.lines, next.at_once});
      ahead += across * next.lines * 64;
      if (k0 + k == g.k) {
        FinishRows(g, panel, t, row, rows);
      }
    }
  }
}

// Rows of each block where `rows` are to be divided into blocks of at most `most`, a multiple of `tile`: about as many in each, since each
// block reads all of b.
HWY_INLINE std::size_t EvenBlock(std::size_t rows, std::size_t most, std::size_t tile) {
  const std::size_t tiles = (rows + tile - 1) / tile;
  const std::size_t blocks = (tiles + most / tile - 1) / (most / tile);
  return (tiles + blocks - 1) / blocks * tile;
}

inline void MatMul(const Gemm& g, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  if (row0 == row1) {
    return;
  }
  const std::size_t block = EvenBlock(row1 - row0, kBlockRows, kTileRows);
  for (std::size_t row = row0; row < row1; row += block) {
    const std::size_t end = row1 - row < block ? row1 : row + block;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      MatMulPanel(g, panel, row, end);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_GEMM_INL_H_
