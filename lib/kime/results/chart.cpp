#include "kime/results/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kime/results/markup.h"

namespace kime {
namespace {

// The drawing's measures, in its own units.
constexpr double kHeight = 270;
constexpr double kLeft = 52;
constexpr double kRight = 10;
constexpr double kTop = 10;
constexpr double kBottom = 42;

template <class... Args>
void add(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

}  // namespace

ChartAxis linear_axis(double low, double high, std::string title) {
  if (!(high > low)) {  // one value: some room around it
    const double room = std::max(std::fabs(low), 1.0) / 2;
    high = low + room;
    low -= room;
  }
  const double raw = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double step = power * (raw > 5 * power ? 10 : raw > 2 * power ? 5 : raw > power ? 2 : 1);
  ChartAxis axis{low, high, {}, std::move(title)};
  const double first = std::ceil(low / step);
  for (int i = 0; (first + i) * step <= high; ++i) {
    axis.ticks.push_back({(first + i) * step, fmt::format("{:.6g}", (first + i) * step)});
  }
  return axis;
}

ChartAxis count_axis(double most, std::string title) {
  ChartAxis axis{0, count_height(std::max(most, 1.0)) * 1.05, {{0, "0"}}, std::move(title)};
  for (int power = 0; std::pow(10, power) <= most; ++power) {
    const double count = std::pow(10, power);
    axis.ticks.push_back({count_height(count), power < 6 ? fmt::format("{}", count) : fmt::format("1e{}", power)});
  }
  return axis;
}

double count_height(double count) {
  return std::log10(1 + count);
}

Chart::Chart(ChartAxis x, ChartAxis y, std::string_view label, bool wide)
    : x_(std::move(x)), y_(std::move(y)), label_(markup_text(label)), width_(wide ? 900 : 420) {
}

double Chart::across(double x) const {
  return kLeft + (width_ - kLeft - kRight) * (std::clamp(x, x_.low, x_.high) - x_.low) / (x_.high - x_.low);
}

double Chart::down(double y) const {
  return kHeight - kBottom - (kHeight - kTop - kBottom) * (std::clamp(y, y_.low, y_.high) - y_.low) / (y_.high - y_.low);
}

void Chart::box(double x0, double x1, double y0, double y1, std::string_view look, std::string_view tip) {
  add(body_, R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.2f}" height="{:.1f}"><title>{}</title></rect>)", look, across(x0),
      down(y1), std::max(across(x1) - across(x0), 0.5), std::max(down(y0) - down(y1), 0.0), markup_text(tip));
}

void Chart::dots(std::span<const ChartPoint> points, std::string_view look) {
  add(body_, R"(<path class="dots {}" d=")", look);
  for (const ChartPoint& point : points) {
    add(body_, "M{:.1f} {:.1f}h0", across(point.x), down(point.y));
  }
  body_ += R"("/>)";
}

void Chart::dot(ChartPoint point, std::string_view look, std::string_view tip) {
  add(body_, R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}</title></circle>)", look, across(point.x), down(point.y),
      markup_text(tip));
}

void Chart::line(std::span<const ChartPoint> points, std::string_view look) {
  add(body_, R"(<path class="line {}" d=")", look);
  char step = 'M';
  for (const ChartPoint& point : points) {
    add(body_, "{}{:.1f} {:.1f}", step, across(point.x), down(point.y));
    step = 'L';
  }
  body_ += R"("/>)";
}

std::string Chart::svg() const {
  std::string out;
  add(out, R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}"{}>)", width_, kHeight, label_, width_ > 500 ? R"( class="wide")" : "");
  for (const auto& tick : x_.ticks) {
    add(out, R"(<path class="grid" d="M{0:.1f} {1:.1f}V{2:.1f}"/><text x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4}</text>)",
        across(tick.at), kTop, kHeight - kBottom, kHeight - kBottom + 14, markup_text(tick.label));
  }
  for (const auto& tick : y_.ticks) {
    add(out, R"(<path class="grid" d="M{0:.1f} {1:.1f}H{2:.1f}"/><text x="{3:.1f}" y="{4:.1f}" text-anchor="end">{5}</text>)", kLeft,
        down(tick.at), width_ - kRight, kLeft - 5, down(tick.at) + 4, markup_text(tick.label));
  }
  out += body_;
  add(out, R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" class="axis">{}</text>)", (kLeft + width_ - kRight) / 2, kHeight - 8,
      markup_text(x_.title));
  add(out, R"SVG(<text transform="translate(11 {:.1f}) rotate(-90)" text-anchor="middle" class="axis">{}</text></svg>)SVG",
      (kTop + kHeight - kBottom) / 2, markup_text(y_.title));
  return out;
}

}  // namespace kime
