// Products by the dot instructions of AVX-512: vdpbf16ps and vpdpbusd.
#include "kernels/cpu/narrow.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/cpu_id.h"
#include "kernels/cpu/fp_scope.h"
#include "kernels/cpu/kernels.h"

#define KIME_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define KIME_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace kime::kernels {

namespace {

constexpr std::size_t kRows = 6;  // by 4 vectors: 24 of the 32 registers
constexpr std::size_t kLine = 64;
constexpr std::size_t kChain = 8;  // dwords of a chain of 16 steps

// A dword of a row of a, to be broadcast.
inline int dword(const std::byte* p) {
  int word = 0;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

template <std::size_t kR, std::size_t kV>
KIME_BF16 inline void chain(__m512 (&sums)[kR][kV], const std::byte* a, std::size_t lda, const std::byte* b) {
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kV; ++v) {
      sums[r][v] = _mm512_setzero_ps();
    }
  }
  for (std::size_t k = 0; k < kChain; ++k) {
    __m512bh row[kV];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kV; ++v) {
      row[v] = (__m512bh)_mm512_loadu_si512(b + v * kLine);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kR; ++r) {
      const auto x = (__m512bh)_mm512_set1_epi32(dword(a + r * lda));
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kV; ++v) {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], x, row[v]);
      }
    }
    a += 4;
    b += kV * kLine;
  }
}

// The sums of chains are done with the control word that counts subnormals as 0, as the instruction does.
template <std::size_t kR, std::size_t kV>
KIME_BF16 __attribute__((noinline)) void bf16_rows(const NarrowTile& t) {
  alignas(64) float even[kR][kV * 16];
  auto* c = static_cast<float*>(t.sums);
  const std::byte* a = t.a;
  const std::byte* b = t.b;
  const std::byte* ahead = t.ahead;
  bool resume = t.resume;
  for (std::size_t k = 0; k < t.dwords; k += 2 * kChain) {
    ahead = ask_for(ahead, t.lines_a_step);
    __m512 sums[kR][kV];
    chain<kR, kV>(sums, a, t.lda, b);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kV; ++v) {
        _mm512_store_ps(even[r] + v * 16, sums[r][v]);
      }
    }
    chain<kR, kV>(sums, a + kChain * 4, t.lda, b + kChain * kV * kLine);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kV; ++v) {
        float* out = c + r * kPanel + v * 16;
        const __m512 sum = _mm512_add_ps(_mm512_load_ps(even[r] + v * 16), sums[r][v]);
        _mm512_storeu_ps(out, _mm512_add_ps(resume ? _mm512_loadu_ps(out) : _mm512_setzero_ps(), sum));
      }
    }
    resume = true;
    a += 2 * kChain * 4;
    b += 2 * kChain * kV * kLine;
  }
}

template <std::size_t kR, std::size_t kV>
KIME_VNNI __attribute__((noinline)) void int8_rows(const NarrowTile& t) {
  auto* c = static_cast<std::int32_t*>(t.sums);
  __m512i sums[kR][kV];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kV; ++v) {
      sums[r][v] = _mm512_loadu_si512(t.resume ? c + r * kPanel + v * 16 : t.start + v * 16);
    }
  }
  const std::byte* a = t.a;
  const std::byte* b = t.b;
  const std::size_t lda = t.lda;
  const std::byte* ahead = t.ahead;
  for (std::size_t k = t.dwords; k != 0; --k) {
    if (k % kAskStep == 0) {
      ahead = ask_for(ahead, t.lines_a_step);
    }
    __m512i row[kV];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kV; ++v) {
      row[v] = _mm512_loadu_si512(b + v * kLine);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kR; ++r) {
      const __m512i x = _mm512_set1_epi32(dword(a + r * lda));
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kV; ++v) {
        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], x, row[v]);
      }
    }
    a += 4;
    b += kV * kLine;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kV; ++v) {
      _mm512_storeu_si512(c + r * kPanel + v * 16, sums[r][v]);
    }
  }
}

using Rows = void (*)(const NarrowTile&);

template <std::size_t kV>
constexpr Rows kBf16Rows[kRows] = {bf16_rows<1, kV>, bf16_rows<2, kV>, bf16_rows<3, kV>,
                                   bf16_rows<4, kV>, bf16_rows<5, kV>, bf16_rows<6, kV>};
template <std::size_t kV>
constexpr Rows kInt8Rows[kRows] = {int8_rows<1, kV>, int8_rows<2, kV>, int8_rows<3, kV>,
                                   int8_rows<4, kV>, int8_rows<5, kV>, int8_rows<6, kV>};

constexpr const Rows* kBf16[4] = {kBf16Rows<1>, kBf16Rows<2>, kBf16Rows<3>, kBf16Rows<4>};
constexpr const Rows* kInt8[4] = {kInt8Rows<1>, kInt8Rows<2>, kInt8Rows<3>, kInt8Rows<4>};

void bf16_tile(const NarrowTile& t) {
  const FpScope flush = FpScope::flushing();
  kBf16[t.vecs - 1][t.rows - 1](t);
}

void int8_tile(const NarrowTile& t) {
  kInt8[t.vecs - 1][t.rows - 1](t);
}

constexpr std::size_t kChains = 16;

KIME_BF16 double bf16_peak(std::size_t rounds, float* sink) {
  __m512 sums[kChains];
  for (auto& sum : sums) {
    sum = _mm512_setzero_ps();
  }
  const auto x = (__m512bh)_mm512_set1_epi32(0x3F003F00);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, x, x);
    }
  }
  for (std::size_t i = 1; i < kChains; ++i) {
    sums[0] = _mm512_add_ps(sums[0], sums[i]);
  }
  *sink = _mm512_cvtss_f32(sums[0]);
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

KIME_VNNI double int8_peak(std::size_t rounds, float* sink) {
  __m512i sums[kChains];
  for (auto& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  const __m512i x = _mm512_set1_epi8(1);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, x, x);
    }
  }
  for (std::size_t i = 1; i < kChains; ++i) {
    sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  }
  *sink = static_cast<float>(_mm512_cvtsi512_si32(sums[0]));
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

constexpr Narrow kBf16Narrow = {.name = "vdpbf16ps",
                                .activations = Form::bf16_chains,
                                .weights = Form::bf16_chains,
                                .k_step = 32,
                                .k_block = 512,
                                .tile_rows = kRows,
                                .tile = bf16_tile,
                                .peak = bf16_peak};
constexpr Narrow kInt8Narrow = {.name = "vpdpbusd",
                                .activations = Form::uint8,
                                .weights = Form::int8,
                                .k_step = 64,
                                .k_block = 1024,
                                .tile_rows = kRows,
                                .tile = int8_tile,
                                .peak = int8_peak};

}  // namespace

const Narrow* avx512_bf16() {
  return cpu_id().avx512_bf16 ? &kBf16Narrow : nullptr;
}
const Narrow* avx512_int8() {
  return cpu_id().avx512_vnni ? &kInt8Narrow : nullptr;
}

}  // namespace kime::kernels

#else

namespace kime::kernels {
const Narrow* avx512_bf16() {
  return nullptr;
}
const Narrow* avx512_int8() {
  return nullptr;
}
}  // namespace kime::kernels

#endif
