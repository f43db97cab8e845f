// Products of narrow elements: bfloat16 and int8. One precision has several implementations, by the instructions that a CPU has; all give
// the same bits.
//
// bf16. Operands are rounded to bfloat16, to nearest, ties to even. A sum is what AMX's tdpbf16ps makes: for each 32 steps of k from the
// first, two FMA chains from +0, e over the even and o over the odd steps, in order; then c = c + (e + o), c from +0; in all of these
// subnormal operands and results count as 0. k is filled up with zeros. vdpbf16ps makes the same chains when a pair holds two steps of
// one chain, the earlier one in its upper half; FMAs make them anywhere.
//
// int8. A row x is turned into q = round(x / s), ties to even, with s = max |x| / 127: activations by token, weights by output. Products
// are summed as integers, and the sum times the output's and then the token's scale is the result. Before that, rows of both sides pass the
// same orthogonal transform (rotate-inl.h), which leaves products as they are and spreads a channel that stands out over many.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kime::kernels {

/// How a row of k elements lies in memory, ready for products. All have whole dwords, k filled up with zeros to Narrow::k_step.
enum class Form : std::uint8_t {
  bf16_floats,  ///< Rounded to bfloat16, kept as float32; of each 32 the even steps, then the odd ones.
  bf16_pairs,   ///< bfloat16, in order.
  bf16_chains,  ///< bfloat16, each 32 as eight dwords of the even steps and eight of the odd, the earlier step in a dword's upper half.
  int8,         ///< Bytes, -127 to 127.
  uint8,        ///< Bytes, 128 more than that.
  int16,        ///< The same numbers as 16-bit words.
};
[[nodiscard]] constexpr std::size_t bytes_of(Form form) {
  return form == Form::bf16_floats ? 4 : form == Form::int8 || form == Form::uint8 ? 1 : 2;
}

/// Sums of up to Narrow::tile_rows rows and one panel of b over a block of k.
struct NarrowTile {
  const std::byte* a = nullptr;  ///< Rows, `lda` bytes apart.
  std::size_t lda = 0;
  const std::byte* b = nullptr;  ///< Dwords [of k][vecs * 16].
  std::size_t vecs = 0;          ///< 1 to 4.
  std::size_t rows = 0;
  std::size_t dwords = 0;  ///< Of k: steps times bytes / 4.
  bool resume = false;     ///< Go on from what sums hold; else from 0, or from `start`.
  /// For uint8: minus 128 times the sum of each column of b, what the sums begin with.
  const std::int32_t* start = nullptr;
  void* sums = nullptr;  ///< [rows][kPanel], float32 or int32.
  /// Cache lines to ask for on the way: what the tiles after this one will read. About so many for each kAskStep dwords of k.
  const std::byte* ahead = nullptr;
  std::size_t lines_a_step = 0;
};

/// Dwords of k after which a tile asks for what comes next, a few lines at a time.
inline constexpr std::size_t kAskStep = 16;

/// Asks for `lines` lines and returns what comes after them.
inline const std::byte* ask_for(const std::byte* ahead, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) {
    __builtin_prefetch(ahead, 0, 2);
    ahead += 64;
  }
  return ahead;
}

/// An implementation.
struct Narrow {
  const char* name = "";  ///< The instructions that it takes.
  Form activations{};
  Form weights{};
  std::size_t k_step = 0;   ///< k is filled up to a multiple of it.
  std::size_t k_block = 0;  ///< Steps of k that a panel's tiles pass over at a time.
  std::size_t tile_rows = 0;
  void (*tile)(const NarrowTile& tile) = nullptr;
  /// Ends a series of tiles on this thread; null where there is nothing to end.
  void (*release)() = nullptr;
  /// `rounds` rounds of independent products over registers; how many operations that were, an add and a multiply being two.
  double (*peak)(std::size_t rounds, float* sink) = nullptr;

  /// int8, else bf16.
  [[nodiscard]] bool integers() const { return weights == Form::int8 || weights == Form::int16; }
  [[nodiscard]] std::size_t padded(std::size_t k) const { return (k + k_step - 1) / k_step * k_step; }
  /// Of a prepared row of activations.
  [[nodiscard]] std::size_t row_bytes(std::size_t k) const { return padded(k) * bytes_of(activations); }
  /// Of one packed column.
  [[nodiscard]] std::size_t column_bytes(std::size_t k) const { return padded(k) * bytes_of(weights); }
  /// Of a packed matrix: panels of kPanel columns as in kernels.h, of dwords [of k][panel's width].
  [[nodiscard]] std::size_t packed_bytes(std::size_t n, std::size_t k) const { return (n + 15) / 16 * 16 * column_bytes(k); }
};

/// The longest row that becomes int8.
inline constexpr std::size_t kMaxNarrowK = 16384;

/// Where columns of a weight go.
struct NarrowColumns {
  std::size_t k = 0;
  const float* channels = nullptr;  ///< int8: what each element of k is multiplied by first; or null.
  std::byte* packed = nullptr;      ///< The whole matrix of n columns; zero before.
  std::size_t n = 0;
  std::size_t column = 0;         ///< The first; a multiple of 16.
  float* scales = nullptr;        ///< n of them; int8 only.
  std::int32_t* start = nullptr;  ///< n of them; int8 only.
};
/// Bytes of scratch, 64-byte aligned, that packing needs.
[[nodiscard]] inline std::size_t pack_scratch(const Narrow& narrow, std::size_t k) {
  return 16 * narrow.column_bytes(k) + (k + 16) * sizeof(float);
}

/// What a product reads beside what Gemm says.
struct NarrowOperands {
  const Narrow* kernel = nullptr;
  const std::byte* a = nullptr;         ///< Prepared rows, row_bytes(k) apart.
  const float* a_scales = nullptr;      ///< One a row; int8 only.
  const std::byte* b = nullptr;         ///< Packed; 64-byte aligned.
  const float* b_scales = nullptr;      ///< One a packed column; int8 only.
  const float* channels = nullptr;      ///< What prepared rows were multiplied by first, one an element of k; or null.
  const std::int32_t* start = nullptr;  ///< One a packed column; int8 only.
};

/// Implementations by instructions that no Highway target stands for; null where they were not compiled or this CPU lacks them.
[[nodiscard]] const Narrow* amx_bf16();
[[nodiscard]] const Narrow* amx_int8();
[[nodiscard]] const Narrow* avx512_bf16();
[[nodiscard]] const Narrow* avx512_int8();
[[nodiscard]] const Narrow* avx2_int8();

}  // namespace kime::kernels
