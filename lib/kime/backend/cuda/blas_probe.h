// The operands that an algorithm is tried with: made so that a sum in another order, or one that flushes, comes out as other bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kime/backend/cuda/blas_plan.h"

namespace kime::cuda {

/// The same for a shape every time. Few rows of a, which repeat: row i of a matrix is number i % kRows. Among them are
///   three of four with outliers that cancel: k's first and last, and others so paired, meet equal weights with opposite signs, so that in
///     between low bits are lost, and which ones depends on the order of the sum,
///   plain ones, and ones of subnormal numbers, and
///   one of NaNs, as rows past a batch's end may be, whose own result is not looked at.
/// Every eighth row of w is of subnormal numbers. What lies between rows is NaN.
class Probe {
 public:
  static constexpr std::size_t kRows = 37;  ///< A prime, so that it falls in step with no tile.

  explicit Probe(const ProductShape& shape);

  [[nodiscard]] const std::vector<std::uint16_t>& a() const { return a_; }     ///< [kRows][ld_a]
  [[nodiscard]] const std::vector<std::uint16_t>& w() const { return w_; }     ///< [n][k]
  [[nodiscard]] const std::vector<float>& added_to() const { return added_; }  ///< [kRows][ld_c] for ProductOut::added, else empty.
  [[nodiscard]] static constexpr bool is_garbage(std::size_t row) { return row == kGarbage; }
  [[nodiscard]] static constexpr bool has_outliers(std::size_t row) { return row % 4 != 2 && !is_garbage(row); }
  /// Whether `out`, a row of c, is the product in some of its columns, as far as float32 sums in any order must be.
  [[nodiscard]] bool is_product(std::size_t row, const std::byte* out) const;

 private:
  static constexpr std::size_t kGarbage = 20;
  void make_a();
  void make_w();
  void make_added();

  ProductShape shape_;
  std::vector<std::size_t> paired_;  ///< Each with k - 1 - itself.
  std::vector<std::uint16_t> a_;
  std::vector<std::uint16_t> w_;
  std::vector<float> added_;
};

}  // namespace kime::cuda
