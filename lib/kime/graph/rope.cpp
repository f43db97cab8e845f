#include "kime/graph/rope.h"

#include "kime/base/fixed_math.h"

namespace kime {

RopeAngles::RopeAngles(float theta, std::size_t head_width) : theta_(theta) {
  for (std::size_t i = 0; i < head_width / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_width);
    const auto power = static_cast<float>(fixed::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    inverse_.push_back(1.0F / power);
  }
}

void RopeAngles::fill(std::size_t first, std::size_t last, float* cosine, float* sine) const {
  for (std::size_t position = first; position < last; ++position) {
    for (std::size_t i = 0; i < half(); ++i) {
      const float angle = static_cast<float>(position) * inverse_[i];
      const auto [sin, cos] = fixed::sincos(static_cast<double>(angle));
      cosine[position * half() + i] = static_cast<float>(cos);
      sine[position * half() + i] = static_cast<float>(sin);
    }
  }
}

}  // namespace kime
