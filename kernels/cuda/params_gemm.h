// Parameters, names and shapes of the matrix products' kernels, and how a GEGLU's weight is packed for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/params.h"

namespace kime::cuda {

/// kime_gemm_<T>_<tile>_<epilogue>: c = epilogue(a w^T + bias). Both operands have k as their fast dimension, as checkpoints have it.
/// a, w and the rows of both begin on multiples of 16 bytes, c on a multiple of 16. Rows of c past the real ones are not touched.
struct GemmParams {
  const Counts* counts;
  const void* a;      ///< T [rows][ld_a]
  const void* w;      ///< T [n][k]; for geglu as pack_geglu has it.
  const float* bias;  ///< n, or null. Not with geglu.
  void* c;            ///< [rows][ld_c] of T; float32 for wide and add.
  std::uint32_t ld_a;
  std::uint32_t ld_c;
  std::uint32_t n;      ///< Rows of w.
  std::uint32_t k;      ///< A multiple of 16 bytes.
  std::uint32_t width;  ///< Columns of c: n, for geglu what the model says.
  RowSet rows;
};

/// linear, relu and gelu have the bias first and write T, as does geglu; wide is linear in float32, add adds that to what c holds.
enum class GemmEpilogue : std::uint8_t { linear, relu, gelu, geglu, wide, add };
inline constexpr const char* kGemmEpilogues[] = {"linear", "relu", "gelu", "geglu", "wide", "add"};

/// Both give the same bits.
enum class GemmTile : std::uint8_t { small, large };
inline constexpr const char* kGemmTiles[] = {"small", "large"};

/// Rows of w and of a in a block.
[[nodiscard]] constexpr unsigned gemm_side(GemmTile tile) {
  return tile == GemmTile::small ? 64 : 128;
}

/// `type` is f32, f16 or bf16.
[[nodiscard]] inline std::string gemm_name(const char* type, GemmTile tile, GemmEpilogue epilogue) {
  return std::string("kime_gemm_") + type + "_" + kGemmTiles[static_cast<std::size_t>(tile)] + "_" +
         kGemmEpilogues[static_cast<std::size_t>(epilogue)];
}

/// Of both matrices' rows, 64 bytes of k are in shared memory at a time, in so many stages, 48 KiB in all: few for the large tile, so that
/// devices with 100 KiB hold two blocks; more for the small one, which is taken where few blocks wait for weights to come from memory.
inline constexpr unsigned kGemmRowBytes = 64;
[[nodiscard]] constexpr unsigned gemm_stages(GemmTile tile) {
  return tile == GemmTile::small ? 6 : 3;
}

/// For at most `rows` rows and n rows of w. `full` says that elements are f32.
[[nodiscard]] constexpr Shape gemm_shape(GemmTile tile, bool full, std::size_t rows, std::size_t n) {
  const unsigned side = gemm_side(tile);
  const unsigned threads = full && tile == GemmTile::large ? 256 : 128;
  return {blocks_for(n, side), blocks_for(rows, side), threads, std::size_t{gemm_stages(tile)} * 2 * side * kGemmRowBytes};
}

/// The large tile reads a third less, where it makes enough blocks for the device's `processors`.
[[nodiscard]] constexpr GemmTile gemm_tile(std::size_t rows, std::size_t n, unsigned processors) {
  const std::size_t side = gemm_side(GemmTile::large);
  return std::size_t{blocks_for(rows, side)} * blocks_for(n, side) >= processors ? GemmTile::large : GemmTile::small;
}

/// Rows of the packed weight of a GEGLU with `width` outputs.
[[nodiscard]] constexpr std::size_t geglu_rows(std::size_t width) {
  return (width + 7) / 8 * 16;
}
/// Which row of the weight [a; g] of 2 * width rows a row of the packed one is: eight rows of a and the matching eight of g in turn, so
/// that a and g of one output are in the same thread. 2 * width for rows that stand for no output; these are zero.
[[nodiscard]] constexpr std::size_t geglu_source(std::size_t packed_row, std::size_t width) {
  const std::size_t output = packed_row / 16 * 8 + packed_row % 8;
  if (output >= width) {
    return 2 * width;
  }
  return packed_row % 16 < 8 ? output : width + output;
}
/// The packed weight. T is any element.
template <class T>
[[nodiscard]] std::vector<T> pack_geglu(const T* weight, std::size_t width, std::size_t k) {
  std::vector<T> packed(geglu_rows(width) * k);
  for (std::size_t row = 0; row < geglu_rows(width); ++row) {
    if (const std::size_t source = geglu_source(row, width); source < 2 * width) {
      std::copy_n(weight + source * k, k, packed.data() + row * k);
    }
  }
  return packed;
}

}  // namespace kime::cuda
