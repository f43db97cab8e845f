// The register tile that matrix products and attention share.
#if defined(KIME_KERNELS_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_TILE_INL_H_
#undef KIME_KERNELS_CPU_TILE_INL_H_
#else
#define KIME_KERNELS_CPU_TILE_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/simd16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// kTileRows rows by kTileVecs * 16 columns. 24 of AVX-512's 32 registers hold it, 12 of AVX2's 16, 24 of NEON's 32; the rest hold a row
// of b and one broadcast element of a.
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
  // Cache lines to ask for on the way, from here on: what the tiles after this one will read. So many `at_once`, that is 1, 2, 3, 4 or 8,
  // each kAskEvery steps.
  const char* ahead = nullptr;
  std::size_t lines = 0;
  std::size_t at_once = 1;
};

// Requests are spread over the steps of k. Many at once would fill the core's miss buffers, and the tile's own loads would wait for memory.
inline constexpr std::size_t kAskEvery = 2;

template <std::size_t kRows, std::size_t kVecs>
struct Sums {
  F16 at[kRows][kVecs];
};

// One step of every chain.
template <std::size_t kRows, std::size_t kVecs>
HWY_INLINE void Step(Sums<kRows, kVecs>& sums, const float* a, std::size_t lda, const float* b) {
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
      sums.at[r][v] = MulAdd(x, row[v], sums.at[r][v]);
    }
  }
}

// What a tile has still to read.
struct TileCursor {
  const float* a;
  const float* b;
  const char* ahead;
  std::size_t k;  // the next step
};

// The steps up to `end`, a multiple of kAskEvery, with requests.
template <std::size_t kLines, std::size_t kRows, std::size_t kVecs>
HWY_INLINE void AskingSteps(Sums<kRows, kVecs>& sums, TileCursor& at, std::size_t end, std::size_t lda, std::size_t ldb) {
  for (; at.k < end; at.k += kAskEvery) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLines; ++i) {
      __builtin_prefetch(at.ahead + i * 64, 0, 2);
    }
    at.ahead += kLines * 64;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAskEvery; ++i) {
      Step(sums, at.a++, lda, at.b);
      at.b += ldb;
    }
  }
}

// t = a b, or t += a b: every element one FMA chain over k in order. Stopping it in t (float32, so nothing is rounded) and going on later
// gives the same bits, which is why callers may block k and rows as the caches like. Plain loops, for each number of requests and for
// none: a condition or a loop inside would cost registers, and compilers then spill sums.
template <std::size_t kRows, std::size_t kVecs>
HWY_NOINLINE void Tile(const TileArgs& args) {
  Sums<kRows, kVecs> sums;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      sums.at[r][v] = args.resume ? Load16(args.t + r * args.ldt + v * 16) : Zero16();
    }
  }
  TileCursor at{args.a, args.b, args.ahead, 0};
  const std::size_t lda = args.lda;
  const std::size_t ldb = args.ldb;
  const std::size_t end = args.lines / args.at_once * kAskEvery;
  switch (args.at_once) {
    case 1:
      AskingSteps<1>(sums, at, end, lda, ldb);
      break;
    case 2:
      AskingSteps<2>(sums, at, end, lda, ldb);
      break;
    case 3:
      AskingSteps<3>(sums, at, end, lda, ldb);
      break;
    case 4:
      AskingSteps<4>(sums, at, end, lda, ldb);
      break;
    default:
      AskingSteps<8>(sums, at, end, lda, ldb);
      break;
  }
  for (; at.k < args.k; ++at.k) {
    Step(sums, at.a++, lda, at.b);
    at.b += ldb;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      Store16(sums.at[r][v], args.t + r * args.ldt + v * 16);
    }
  }
}

template <std::size_t kCount>
struct Count {
  static constexpr std::size_t value = kCount;
};

// f(Count<rows>()) for 1 to kTileRows rows: a count that is known when compiling keeps sums in registers.
template <class F>
HWY_INLINE void WithRows(std::size_t rows, const F& f) {
  static_assert(kTileRows == 6);
  switch (rows) {
    case 1:
      return f(Count<1>());
    case 2:
      return f(Count<2>());
    case 3:
      return f(Count<3>());
    case 4:
      return f(Count<4>());
    case 5:
      return f(Count<5>());
    default:
      return f(Count<6>());
  }
}

template <std::size_t kVecs>
HWY_INLINE void TileOfRows(std::size_t rows, const TileArgs& args) {
  WithRows(rows, [&](auto count) HWY_ATTR { Tile<decltype(count)::value, kVecs>(args); });
}

// Tiles that a width of `vecs` times 16 columns takes, and those tiles. Each asks for `lines` lines.
HWY_INLINE std::size_t TilesAcross(std::size_t vecs) {
  return (vecs + kTileVecs - 1) / kTileVecs;
}

HWY_INLINE void WideTile(std::size_t rows, std::size_t vecs, TileArgs args) {
  for (; vecs >= kTileVecs; vecs -= kTileVecs) {
    TileOfRows<kTileVecs>(rows, args);
    args.b += kTileVecs * 16;
    args.t += kTileVecs * 16;
    args.ahead += args.lines * 64;
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

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_TILE_INL_H_
