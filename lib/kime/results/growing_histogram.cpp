#include "kime/results/growing_histogram.h"

#include <algorithm>

namespace kime {

void GrowingHistogram::add(double value) {
  constexpr double kWidest = 1e300;  // twice that is still finite; what lies beyond is in the outermost bin
  while ((value < low_ || value > high_) && high_ - low_ < kWidest) {
    grow(value < low_);
  }
  const double at = (value - low_) / (high_ - low_) * kBins;
  ++counts_[static_cast<std::size_t>(std::clamp(at, 0.0, kBins - 1.0))];
  ++total_;
}

void GrowingHistogram::grow(bool down) {
  std::vector<std::uint64_t> wider(kBins);
  for (std::size_t i = 0; i < kBins; ++i) {
    wider[i / 2 + (down ? kBins / 2 : 0)] += counts_[i];
  }
  counts_ = wider;
  const double width = high_ - low_;
  (down ? low_ : high_) += down ? -width : width;
}

}  // namespace kime
