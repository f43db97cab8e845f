// The angles of the rotary embedding, the same on every device.
#pragma once

#include <cstddef>
#include <vector>

namespace kime {

/// cos and sin of position / theta^(2i / head_width) for i in [0, head_width / 2) (Su et al. 2021), angles in float32 as the reference
/// implementation has them: the exponent, the power, its reciprocal and the product are each rounded to float32.
class RopeAngles {
 public:
  /// `head_width` is even.
  RopeAngles(float theta, std::size_t head_width);

  [[nodiscard]] bool is_for(float theta, std::size_t head_width) const { return theta == theta_ && head_width == 2 * half(); }
  /// Columns of a table.
  [[nodiscard]] std::size_t half() const { return inverse_.size(); }
  /// Rows [first, last) of both tables, [position][head_width / 2], which begin at position 0.
  void fill(std::size_t first, std::size_t last, float* cosine, float* sine) const;

 private:
  float theta_;
  std::vector<float> inverse_;  ///< 1 / theta^(2i / head_width)
};

}  // namespace kime
