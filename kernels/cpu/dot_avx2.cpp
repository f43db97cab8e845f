// Products by AVX-VNNI: vpdpbusd on 256 bits, for CPUs without AVX-512.
#include "kernels/cpu/narrow.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/cpu_id.h"
#include "kernels/cpu/kernels.h"

#define KIME_VNNI __attribute__((target("avx2,avxvnni")))

namespace kime::kernels {

namespace {

constexpr std::size_t kRows = 6;  // by 2 vectors: 12 of the 16 registers
constexpr std::size_t kVecs = 2;  // of 8 columns
constexpr std::size_t kVec = 32;  // bytes

KIME_VNNI inline __m256i load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// Sixteen columns, from `vec` * 16 on.
template <std::size_t kR>
KIME_VNNI __attribute__((noinline)) void rows(const NarrowTile& t, std::size_t vec) {
  auto* c = static_cast<std::int32_t*>(t.sums) + vec * 16;
  __m256i sums[kR][kVecs];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      sums[r][v] = load(t.resume ? c + r * kPanel + v * 8 : t.start + vec * 16 + v * 8);
    }
  }
  const std::byte* a = t.a;
  const std::byte* b = t.b + vec * kVecs * kVec;
  const std::size_t lda = t.lda;
  const std::size_t ldb = t.vecs * kVecs * kVec;
  for (std::size_t k = t.dwords; k != 0; --k) {
    const __m256i left = load(b);
    const __m256i right = load(b + kVec);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kR; ++r) {
      std::int32_t word = 0;
      std::memcpy(&word, a + r * lda, sizeof(word));
      const __m256i x = _mm256_set1_epi32(word);
      sums[r][0] = _mm256_dpbusd_avx_epi32(sums[r][0], x, left);
      sums[r][1] = _mm256_dpbusd_avx_epi32(sums[r][1], x, right);
    }
    a += 4;
    b += ldb;
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVecs; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + r * kPanel + v * 8), sums[r][v]);
    }
  }
}

constexpr void (*kOfRows[kRows])(const NarrowTile&, std::size_t) = {rows<1>, rows<2>, rows<3>, rows<4>, rows<5>, rows<6>};

void tile(const NarrowTile& t) {
  for (std::size_t vec = 0; vec < t.vecs; ++vec) {
    kOfRows[t.rows - 1](t, vec);
  }
}

KIME_VNNI double peak(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = 12;
  __m256i sums[kChains];
  for (auto& sum : sums) {
    sum = _mm256_setzero_si256();
  }
  const __m256i x = _mm256_set1_epi8(1);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm256_dpbusd_avx_epi32(sum, x, x);
    }
  }
  for (std::size_t i = 1; i < kChains; ++i) {
    sums[0] = _mm256_add_epi32(sums[0], sums[i]);
  }
  *sink = static_cast<float>(_mm256_cvtsi256_si32(sums[0]));
  return 2.0 * kVec * kChains * static_cast<double>(rounds);
}

constexpr Narrow kInt8 = {.name = "vpdpbusd (256 bits)",
                          .activations = Form::uint8,
                          .weights = Form::int8,
                          .k_step = 64,
                          .k_block = 1024,
                          .tile_rows = kRows,
                          .tile = tile,
                          .peak = peak};

}  // namespace

const Narrow* avx2_int8() {
  return cpu_id().avx2_vnni ? &kInt8 : nullptr;
}

}  // namespace kime::kernels

#else

namespace kime::kernels {
const Narrow* avx2_int8() {
  return nullptr;
}
}  // namespace kime::kernels

#endif
