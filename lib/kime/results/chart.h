// Charts as SVG, drawn by the page's style.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kime {

/// A chart's axis.
struct ChartAxis {
  struct Tick {
    double at = 0;
    std::string label;
  };
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks;
  std::string title;
};

struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// An axis over these values, with ticks at round numbers.
[[nodiscard]] ChartAxis linear_axis(double low, double high, std::string title);
/// An axis for counts up to `most`, drawn as count_height() of them, with ticks at powers of ten.
[[nodiscard]] ChartAxis count_axis(double most, std::string title);
/// How high a count stands on a count_axis: log10(1 + count).
[[nodiscard]] double count_height(double count);

/// Draws in the order of the calls. Coordinates are those of the axes; `look` is one of the page's classes ("a", "b", "c", "faint",
/// "mark"); texts are escaped.
class Chart {
 public:
  /// `label` says to a screen reader what it is; `wide` is twice as wide.
  Chart(ChartAxis x, ChartAxis y, std::string_view label, bool wide = false);

  void box(double x0, double x1, double y0, double y1, std::string_view look, std::string_view tip);
  void dots(std::span<const ChartPoint> points, std::string_view look);
  void dot(ChartPoint point, std::string_view look, std::string_view tip);
  void line(std::span<const ChartPoint> points, std::string_view look);

  /// The whole element.
  [[nodiscard]] std::string svg() const;

 private:
  [[nodiscard]] double across(double x) const;
  [[nodiscard]] double down(double y) const;

  ChartAxis x_;
  ChartAxis y_;
  std::string label_;
  double width_;
  std::string body_;
};

}  // namespace kime
