// A histogram of numbers whose range is not known before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kime {

/// Bins of one width from `low` to `high`, both inside. A number beyond makes the range twice as wide, on its side, and the bins with it,
/// as often as it takes; their number stays.
class GrowingHistogram {
 public:
  static constexpr std::size_t kBins = 40;

  GrowingHistogram(double low, double high) : low_(low), high_(high), counts_(kBins) {}
  /// `value` is finite.
  void add(double value);

  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  [[nodiscard]] double edge(std::size_t bin) const { return low_ + (high_ - low_) * static_cast<double>(bin) / kBins; }

 private:
  void grow(bool down);

  double low_;
  double high_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace kime
