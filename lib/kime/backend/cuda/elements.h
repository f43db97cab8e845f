// Element types of matrices on a device, and their conversion on the host.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kime/base/error.h"
#include "kime/base/precision.h"
#include "kime/base/tensor.h"

namespace kime::cuda {

/// What products of a precision multiply; none where the kernels have no such product.
[[nodiscard]] std::optional<DType> element_of(Precision precision);

/// As kernels' names have it: "f32", "f16" or "bf16".
[[nodiscard]] const char* kernel_type(DType type);

/// Rows in memory begin on multiples of so many bytes, as kernels read them.
inline constexpr std::size_t kRowAlignment = 16;

/// `width` elements with what fills the row up.
[[nodiscard]] constexpr std::size_t padded_width(std::size_t width, DType type) {
  const std::size_t each = kRowAlignment / size_of(type);
  return (width + each - 1) / each * each;
}

/// Elements of one type to another: exact where the other holds them, else rounded to the nearest, ties to even; what is too large for f16
/// becomes an infinity. `from` is a whole number of elements, as many as `to` has room for; they do not overlap.
void convert_elements(std::span<const std::byte> from, DType from_type, std::byte* to, DType to_type);

}  // namespace kime::cuda
