// Narrow products by what every target has: FMAs for bfloat16, 16-bit products for int8.
#if defined(KIME_KERNELS_CPU_NARROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_NARROW_TILE_INL_H_
#undef KIME_KERNELS_CPU_NARROW_TILE_INL_H_
#else
#define KIME_KERNELS_CPU_NARROW_TILE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/fp_scope.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/simd16-inl.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// f(Count<rows>(), Count<vectors>(), first vector) for the register tiles that a panel of so many vectors takes.
template <class F>
HWY_INLINE void EachTile(const NarrowTile& t, const F& f) {
  std::size_t vec = 0;
  for (; vec + kTileVecs <= t.vecs; vec += kTileVecs) {
    WithRows(t.rows, [&](auto rows) HWY_ATTR { f(rows, Count<kTileVecs>(), vec); });
  }
  if constexpr (kTileVecs != 1) {
    for (; vec < t.vecs; ++vec) {
      WithRows(t.rows, [&](auto rows) HWY_ATTR { f(rows, Count<1>(), vec); });
    }
  }
}

inline constexpr std::size_t kChainSteps = 16;

// One chain, from +0.
template <std::size_t kRows, std::size_t kVecs>
HWY_INLINE void Chain(Sums<kRows, kVecs>& sums, const float* a, std::size_t lda, const float* b, std::size_t ldb) {
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      sums.at[r][v] = Zero16();
    }
  }
  for (std::size_t k = 0; k < kChainSteps; ++k) {
    Step(sums, a, lda, b);
    ++a;
    b += ldb;
  }
}

template <std::size_t kRows, std::size_t kVecs>
HWY_NOINLINE void ChainTile(const NarrowTile& t, std::size_t vec) {
  HWY_ALIGN float even[kRows * kVecs * 16];
  const auto* a = reinterpret_cast<const float*>(t.a);
  const std::size_t lda = t.lda / sizeof(float);
  const std::size_t ldb = t.vecs * 16;
  const float* b = reinterpret_cast<const float*>(t.b) + vec * 16;
  float* c = static_cast<float*>(t.sums) + vec * 16;
  bool resume = t.resume;
  const std::byte* ahead = t.ahead + vec * t.lines_a_step * (t.dwords / kAskStep) / t.vecs * 64;
  const std::size_t lines = t.lines_a_step * 2 * kVecs / t.vecs;
  for (std::size_t k = 0; k < t.dwords; k += 2 * kChainSteps) {
    ahead = ask_for(ahead, lines);
    Sums<kRows, kVecs> sums;
    Chain(sums, a, lda, b, ldb);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVecs; ++v) {
        Store16(sums.at[r][v], even + (r * kVecs + v) * 16);
      }
    }
    Chain(sums, a + kChainSteps, lda, b + kChainSteps * ldb, ldb);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVecs; ++v) {
        float* out = c + r * kPanel + v * 16;
        Store16(Add(resume ? Load16(out) : Zero16(), Add(Load16(even + (r * kVecs + v) * 16), sums.at[r][v])), out);
      }
    }
    resume = true;
    a += 2 * kChainSteps;
    b += 2 * kChainSteps * ldb;
  }
}

inline void TileBF16(const NarrowTile& t) {
  const FpScope flush = FpScope::flushing();
  EachTile(t, [&](auto rows, auto vecs, std::size_t vec) HWY_ATTR { ChainTile<decltype(rows)::value, decltype(vecs)::value>(t, vec); });
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

using IntVec = hn::Vec<SignedTag>;

// Two steps of k a dword: their products fit 32 bits, and nothing saturates.
template <std::size_t kRows, std::size_t kVecs>
HWY_NOINLINE void PairTile(const NarrowTile& t, std::size_t vec) {
  const SignedTag d;
  const hn::Repartition<std::int16_t, SignedTag> d16;
  IntVec sums[kRows][kVecs * kParts];
  auto* c = static_cast<std::int32_t*>(t.sums) + vec * 16;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs * kParts; ++v) {
      sums[r][v] = t.resume ? hn::LoadU(d, c + r * kPanel + v * kLanes) : hn::Zero(d);
    }
  }
  const std::byte* a = t.a;
  const auto* b = reinterpret_cast<const std::int32_t*>(t.b) + vec * 16;
  const std::size_t ldb = t.vecs * 16;
  for (std::size_t k = 0; k < t.dwords; ++k) {
    IntVec row[kVecs * kParts];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs * kParts; ++v) {
      row[v] = hn::LoadU(d, b + v * kLanes);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      std::int32_t pair = 0;
      std::memcpy(&pair, a + r * t.lda, sizeof(pair));
      const auto x = hn::BitCast(d16, hn::Set(d, pair));
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVecs * kParts; ++v) {
        IntVec unused = hn::Zero(d);
        sums[r][v] = hn::ReorderWidenMulAccumulate(d, x, hn::BitCast(d16, row[v]), sums[r][v], unused);
      }
    }
    a += sizeof(std::int32_t);
    b += ldb;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs * kParts; ++v) {
      hn::StoreU(sums[r][v], d, c + r * kPanel + v * kLanes);
    }
  }
}

inline void TileInt16(const NarrowTile& t) {
  EachTile(t, [&](auto rows, auto vecs, std::size_t vec) HWY_ATTR { PairTile<decltype(rows)::value, decltype(vecs)::value>(t, vec); });
}

#else

inline void TileInt16(const NarrowTile& t) {
  auto* c = static_cast<std::int32_t*>(t.sums);
  const auto* b = reinterpret_cast<const std::int16_t*>(t.b);
  const std::size_t width = t.vecs * 16;
  for (std::size_t r = 0; r < t.rows; ++r) {
    const auto* a = reinterpret_cast<const std::int16_t*>(t.a + r * t.lda);
    for (std::size_t column = 0; column < width; ++column) {
      std::int32_t sum = t.resume ? c[r * kPanel + column] : 0;
      for (std::size_t k = 0; k < t.dwords; ++k) {
        const std::int16_t* pair = b + (k * width + column) * 2;
        sum += a[2 * k] * pair[0] + a[2 * k + 1] * pair[1];
      }
      c[r * kPanel + column] = sum;
    }
  }
}

#endif

inline constexpr Narrow kNarrowBF16 = {.name = "fma",
                                       .activations = Form::bf16_floats,
                                       .weights = Form::bf16_floats,
                                       .k_step = 32,
                                       .k_block = 128,
                                       .tile_rows = kTileRows,
                                       .tile = TileBF16};
inline constexpr Narrow kNarrowInt8 = {.name = "int16 products",
                                       .activations = Form::int16,
                                       .weights = Form::int16,
                                       .k_step = 64,
                                       .k_block = 512,
                                       .tile_rows = kTileRows,
                                       .tile = TileInt16};

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_NARROW_TILE_INL_H_
