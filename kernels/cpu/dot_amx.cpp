// Products by AMX: tiles of 16 rows by 64 bytes.
#include "kernels/cpu/narrow.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>

#include "kernels/cpu/cpu_id.h"
#include "kernels/cpu/kernels.h"

#define KIME_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8,avx512f")))

namespace kime::kernels {

namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kDwords = 16;  // of k that one instruction takes
constexpr int kLine = 64;

// Sums are tiles 0 to 3: [upper 16 rows, lower][left 16 columns, right]; a is 4 and 5, b is 6 and 7.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// The rows that this thread's tiles are set up for; 0: they are not.
thread_local std::size_t configured = 0;

KIME_AMX void configure(std::size_t rows) {
  if (configured == rows) {
    return;
  }
  const auto upper = static_cast<std::uint8_t>(rows < kRows ? rows : kRows);
  const auto lower = static_cast<std::uint8_t>(rows > kRows ? rows - kRows : 1);
  TileConfig config;
  const std::uint8_t of[8] = {upper, upper, lower, lower, upper, lower, kRows, kRows};
  for (std::size_t i = 0; i < 8; ++i) {
    config.bytes[i] = kLine;
    config.rows[i] = of[i];
  }
  _tile_loadconfig(&config);
  configured = rows;
}

KIME_AMX void release() {
  if (configured != 0) {
    _tile_release();
    configured = 0;
  }
}

struct Bf16Op {
  KIME_AMX static void upper_left() { _tile_dpbf16ps(0, 4, 6); }
  KIME_AMX static void upper_right() { _tile_dpbf16ps(1, 4, 7); }
  KIME_AMX static void lower_left() { _tile_dpbf16ps(2, 5, 6); }
  KIME_AMX static void lower_right() { _tile_dpbf16ps(3, 5, 7); }
};
struct Int8Op {
  KIME_AMX static void upper_left() { _tile_dpbssd(0, 4, 6); }
  KIME_AMX static void upper_right() { _tile_dpbssd(1, 4, 7); }
  KIME_AMX static void lower_left() { _tile_dpbssd(2, 5, 6); }
  KIME_AMX static void lower_right() { _tile_dpbssd(3, 5, 7); }
};

// Two columns of tiles where `right`, two rows of them where `lower`.
template <class Op, bool kLower, bool kRight>
KIME_AMX void block(const NarrowTile& t, std::size_t vec) {
  const std::size_t ldb = t.vecs * kLine;
  auto* sums = static_cast<float*>(t.sums) + vec * 16;
  constexpr std::size_t kSumsRow = kPanel * sizeof(float);
  if (t.resume) {
    _tile_loadd(0, sums, kSumsRow);
    if constexpr (kRight) {
      _tile_loadd(1, sums + 16, kSumsRow);
    }
    if constexpr (kLower) {
      _tile_loadd(2, sums + kRows * kPanel, kSumsRow);
    }
    if constexpr (kLower && kRight) {
      _tile_loadd(3, sums + kRows * kPanel + 16, kSumsRow);
    }
  } else {
    _tile_zero(0);
    if constexpr (kRight) {
      _tile_zero(1);
    }
    if constexpr (kLower) {
      _tile_zero(2);
    }
    if constexpr (kLower && kRight) {
      _tile_zero(3);
    }
  }
  const std::byte* a = t.a;
  const std::byte* b = t.b + vec * kLine;
  const std::size_t steps = t.dwords / kDwords;
  const std::size_t lines = (t.lines_a_step * (kRight ? 2 : 1) + t.vecs - 1) / t.vecs;
  const std::byte* ahead = t.ahead + vec * steps * t.lines_a_step / t.vecs * 64;
  for (std::size_t k = 0; k < steps; ++k) {
    ahead = ask_for(ahead, lines);
    _tile_loadd(6, b, ldb);
    _tile_loadd(4, a, t.lda);
    Op::upper_left();
    if constexpr (kRight) {
      _tile_loadd(7, b + kLine, ldb);
      Op::upper_right();
    }
    if constexpr (kLower) {
      _tile_loadd(5, a + kRows * t.lda, t.lda);
      Op::lower_left();
      if constexpr (kRight) {
        Op::lower_right();
      }
    }
    a += kLine;
    b += kDwords * ldb;
  }
  _tile_stored(0, sums, kSumsRow);
  if constexpr (kRight) {
    _tile_stored(1, sums + 16, kSumsRow);
  }
  if constexpr (kLower) {
    _tile_stored(2, sums + kRows * kPanel, kSumsRow);
  }
  if constexpr (kLower && kRight) {
    _tile_stored(3, sums + kRows * kPanel + 16, kSumsRow);
  }
}

template <class Op>
KIME_AMX void tile(const NarrowTile& t) {
  configure(t.rows);
  const bool lower = t.rows > kRows;
  std::size_t vec = 0;
  for (; vec + 2 <= t.vecs; vec += 2) {
    lower ? block<Op, true, true>(t, vec) : block<Op, false, true>(t, vec);
  }
  if (vec < t.vecs) {
    lower ? block<Op, true, false>(t, vec) : block<Op, false, false>(t, vec);
  }
}

template <class Op>
KIME_AMX double peak(std::size_t rounds, float* sink) {
  alignas(64) float line[kRows * kRows] = {};
  configure(2 * kRows);
  _tile_loadd(4, line, kLine);
  _tile_loadd(5, line, kLine);
  _tile_loadd(6, line, kLine);
  _tile_loadd(7, line, kLine);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t round = 0; round < rounds; ++round) {
    Op::upper_left();
    Op::upper_right();
    Op::lower_left();
    Op::lower_right();
  }
  _tile_stored(0, line, kLine);
  *sink = line[0];
  release();
  constexpr double kSteps = std::is_same_v<Op, Bf16Op> ? 32 : 64;
  return 2.0 * 4 * kRows * kRows * kSteps * static_cast<double>(rounds);
}

bool permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return cpu_id().amx_tile && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool available() {
  static const bool there = permitted();
  return there;
}

constexpr Narrow kBf16 = {.name = "tdpbf16ps",
                          .activations = Form::bf16_pairs,
                          .weights = Form::bf16_pairs,
                          .k_step = 32,
                          .k_block = 256,
                          .tile_rows = 2 * kRows,
                          .tile = tile<Bf16Op>,
                          .release = release,
                          .peak = peak<Bf16Op>};
constexpr Narrow kInt8 = {.name = "tdpbssd",
                          .activations = Form::int8,
                          .weights = Form::int8,
                          .k_step = 64,
                          .k_block = 768,
                          .tile_rows = 2 * kRows,
                          .tile = tile<Int8Op>,
                          .release = release,
                          .peak = peak<Int8Op>};

}  // namespace

const Narrow* amx_bf16() {
  return cpu_id().amx_bf16 && available() ? &kBf16 : nullptr;
}
const Narrow* amx_int8() {
  return cpu_id().amx_int8 && available() ? &kInt8 : nullptr;
}

}  // namespace kime::kernels

#else

namespace kime::kernels {
const Narrow* amx_bf16() {
  return nullptr;
}
const Narrow* amx_int8() {
  return nullptr;
}
}  // namespace kime::kernels

#endif
