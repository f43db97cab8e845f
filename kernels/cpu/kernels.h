// The CPU's arithmetic: raw pointers and sizes in, nothing of kime's library. Each body is written once (files *-inl.h), compiled for
// several instruction sets, and reached through a table that is chosen once per process. Shapes are checked above the table.
//
// All targets give the same bits. Why they do:
//   - a GEMM output is one FMA chain over k from +0, whatever the tile, the split or the vector width;
//   - a reduction runs over 16 virtual lanes, index mod 16 from the row's start, then one fixed pairwise tree (simd16-inl.h);
//   - attention takes keys in blocks of kKeyBlock anchored at the sequence's first token;
//   - nothing is left to the compiler's contraction, to libm, or to Highway ops that differ between targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/narrow.h"

namespace kime::kernels {

inline constexpr std::size_t kPanel = 64;     ///< Columns of a packed panel.
inline constexpr std::size_t kKeyBlock = 64;  ///< Keys of an attention block.
inline constexpr std::size_t kGegluHalf = kPanel / 2;

/// Element types of weights; the values are those of kime::DType.
enum class Element : std::uint8_t { f32, f16, bf16 };

[[nodiscard]] constexpr std::size_t size_of(Element element) {
  return element == Element::f32 ? 4 : 2;
}

enum class Activation : std::uint8_t { none, gelu, relu, geglu };

/// A packed matrix of n columns (a weight's output features) by k rows: panels of kPanel columns, the last one as wide as what is
/// left rounded up to 16. Column c, row kk is at panel(c) * kPanel * k + kk * width(panel) + c % kPanel. Columns past n are zero.
/// For geglu, a panel is kGegluHalf columns of `a` and then the matching kGegluHalf of `g`; n counts packed columns,
/// 2 * kGegluHalf * ceil(f / kGegluHalf).
[[nodiscard]] constexpr std::size_t packed_floats(std::size_t n, std::size_t k) {
  return (n + 15) / 16 * 16 * k;
}
[[nodiscard]] constexpr std::size_t panels(std::size_t n) {
  return (n + kPanel - 1) / kPanel;
}

/// The panel of a packed matrix of n columns that holds `column`.
struct PanelOf {
  constexpr PanelOf(std::size_t n, std::size_t column) : first(column / kPanel * kPanel) {
    const std::size_t left = (n - first + 15) / 16 * 16;
    width = left < kPanel ? left : kPanel;
  }
  std::size_t first;      ///< Its first column.
  std::size_t width = 0;  ///< Its columns, padding included.
};

/// c = activation(a b + bias), or c += that. Rows of a and c may have any stride; nothing needs alignment but b (64 bytes).
struct Gemm {
  const float* a = nullptr;  ///< [m][lda], k used.
  std::size_t lda = 0;
  const float* b = nullptr;  ///< Packed.
  std::size_t n = 0;         ///< Packed columns.
  std::size_t k = 0;
  const float* bias = nullptr;  ///< n entries, or none. Not with geglu.
  Activation activation = Activation::none;
  bool accumulate = false;
  float* c = nullptr;  ///< [m][ldc]; with geglu f columns are written, else n.
  std::size_t ldc = 0;
  std::size_t f = 0;  ///< geglu only: columns of the output.
};

/// Attention of one head of one sequence. Pointers stand at the head's first column of the sequence's first row.
struct Attention {
  const float* q = nullptr;
  std::size_t ldq = 0;
  const float* k = nullptr;  ///< [keys][ldk]
  std::size_t ldk = 0;
  const float* v = nullptr;  ///< [keys][ldv]
  std::size_t ldv = 0;
  float* out = nullptr;
  std::size_t ldo = 0;
  std::size_t keys = 0;     ///< Tokens of the sequence.
  std::size_t queries = 0;  ///< Rows of q and out.
  /// Query j is row `rows[j]` of q and out and stands at `positions[j]` in the sequence; both null: row j at position j, queries == keys.
  const std::uint32_t* rows = nullptr;
  const std::uint32_t* positions = nullptr;
  std::size_t head_width = 0;    ///< A multiple of 8, at most 128.
  std::size_t reach = SIZE_MAX;  ///< Key j is seen by the query at i when |i - j| <= reach.
  float scale = 1;               ///< Scores are multiplied by it.
  /// [position][head_width / 2] each, or both null for no rope. Element i turns with element i + head_width / 2.
  const float* cosine = nullptr;
  const float* sine = nullptr;
  float* scratch = nullptr;  ///< attention_scratch(keys, head_width) floats, 64-byte aligned.
};

/// Floats of scratch that an attention over so many keys needs.
[[nodiscard]] std::size_t attention_scratch(std::size_t keys, std::size_t head_width);

/// The kernels of one instruction set.
struct Table {
  const char* target = "";  ///< "amx", "avx512_dot", "avx512", "avx2_vnni", "avx2", "neon" or "scalar".

  /// Converts `rows` consecutive rows of a row-major weight [..][k] (element type `element`, any alignment) into columns
  /// [column, column + rows) of the packed matrix with n columns. column must be a multiple of 16. Padding is left alone (zero before).
  void (*pack)(const void* source, Element element, std::size_t rows, std::size_t k, float* packed, std::size_t n, std::size_t column);
  /// Rows [row0, row1) of c for packed panels [panel0, panel1).
  void (*gemm)(const Gemm& gemm, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1);
  /// The same for narrow elements; `gemm` says all but a and b.
  void (*narrow_gemm)(const NarrowOperands& operands, const Gemm& gemm, std::size_t row0, std::size_t row1, std::size_t panel0,
                      std::size_t panel1);
  /// Rows of activations as `narrow` reads them, row_bytes(k) apart, each times `channels` first (int8; or null); int8: a scale each.
  void (*prepare)(const Narrow& narrow, const float* in, std::size_t ldi, std::size_t rows, std::size_t k, const float* channels,
                  std::byte* out, float* scales);
  /// Converts `rows` consecutive rows of a row-major weight [..][to.k] into columns from to.column on. Padding is left alone.
  void (*pack_narrow)(const Narrow& narrow, const void* source, Element element, std::size_t rows, const NarrowColumns& to,
                      std::byte* scratch);
  /// largest[i] = max(largest[i], |w[r][i]|) for `rows` rows of a row-major weight [..][k].
  void (*column_max)(const void* source, Element element, std::size_t rows, std::size_t k, float* largest);
  /// Queries [query0, query1); the keys are prepared in the scratch on every call.
  void (*attention)(const Attention& attention, std::size_t query0, std::size_t query1);
  /// out = (in - mean) / sqrt(var + eps) * weight + bias for each row; bias may be null, out may be in.
  void (*layer_norm)(const float* in, std::size_t ldi, std::size_t rows, std::size_t width, const float* weight, const float* bias,
                     float eps, float* out, std::size_t ldo);
  /// out[r] = table[ids[r]], converted to float32.
  void (*embed)(const void* table, Element element, const std::uint32_t* ids, std::size_t rows, std::size_t width, float* out,
                std::size_t ldo);
  /// out[0, width) += in[0, width)
  void (*add)(const float* in, std::size_t width, float* out);
  /// features[0..4) = p1, p1 - p2, H / ln max(k, 2), max(k, 2) / 255 of softmax(logits[0..k)); all 0 for k = 0.
  void (*act_features)(const float* logits, std::size_t k, float* features);
  /// out[i] = gelu(in[i]), exp(in[i]), ln(in[i]): what the kernels above use, for their tests.
  void (*gelu)(const float* in, std::size_t n, float* out);
  void (*exp)(const float* in, std::size_t n, float* out);
  void (*log)(const float* in, std::size_t n, float* out);
  /// `rounds` rounds of independent FMAs over registers, no memory: the peak that a benchmark holds a kernel against. Returns how many
  /// floating-point operations it did; *sink keeps the result alive.
  double (*fma_peak)(std::size_t rounds, float* sink);
  /// How bf16 and int8 are multiplied.
  const Narrow* bf16 = nullptr;
  const Narrow* int8 = nullptr;
};

/// Every compiled target that this CPU can run, best first; the last is scalar. At least one. Those with dot instructions differ from the
/// ones without only in how narrow elements are multiplied.
[[nodiscard]] std::span<const Table* const> tables();

/// The names of all compiled targets, also those that this CPU lacks, best first.
[[nodiscard]] std::span<const char* const> compiled_targets();

/// The version of Google Highway that they were compiled with.
[[nodiscard]] const char* highway_version();

/// The table in use: the best one, or the one that the environment variable KIME_CPU_TARGET names if this CPU has it.
/// The best one multiplies each precision in the way that is fastest on this CPU.
[[nodiscard]] const Table& table();

}  // namespace kime::kernels
