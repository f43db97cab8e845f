#include "kime/results/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kime/base/counted.h"
#include "kime/results/chart.h"

namespace kime {
namespace {

struct Bins {
  std::size_t first = 0;
  std::size_t last = 0;
  double most = 0;
};

// Those that are not empty, and the fullest.
Bins used_bins(std::span<const std::uint64_t> counts) {
  Bins bins{counts.size() - 1, 0, 0};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      bins.first = std::min(bins.first, i);
      bins.last = i;
      bins.most = std::max(bins.most, static_cast<double>(counts[i]));
    }
  }
  bins.first = std::min(bins.first, bins.last);
  return bins;
}

// Rows from the top, an axis that names them.
ChartAxis row_axis(const std::vector<std::string>& names, std::string title) {
  ChartAxis axis{0, static_cast<double>(names.size()), {}, std::move(title)};
  for (std::size_t i = 0; i < names.size(); ++i) {
    axis.ticks.push_back({axis.high - static_cast<double>(i) - 0.5, names[i]});
  }
  return axis;
}

}  // namespace

std::string histogram_chart(const GrowingHistogram& histogram, std::string_view title) {
  const auto& counts = histogram.counts();
  Bins bins = used_bins(counts);
  if (histogram.edge(0) == 0 && histogram.edge(counts.size()) == 1) {  // probabilities: all that there can be
    bins.first = 0;
    bins.last = counts.size() - 1;
  }
  Chart chart(linear_axis(histogram.edge(bins.first), histogram.edge(bins.last + 1), std::string(title)), count_axis(bins.most, "records"),
              title);
  for (std::size_t i = bins.first; i <= bins.last; ++i) {
    const double gap = (histogram.edge(1) - histogram.edge(0)) / 20;
    chart.box(histogram.edge(i) + gap, histogram.edge(i + 1) - gap, 0, count_height(static_cast<double>(counts[i])), "a",
              fmt::format("{:.4g} to {:.4g}: {}", histogram.edge(i), histogram.edge(i + 1), grouped(counts[i])));
  }
  return chart.svg();
}

std::string index_chart(std::span<const std::uint64_t> counts, std::string_view title) {
  const Bins bins = used_bins(counts);
  ChartAxis options{-0.5, static_cast<double>(bins.last) + 0.5, {}, std::string(title)};
  for (std::size_t i = 0; i <= bins.last; ++i) {
    options.ticks.push_back({static_cast<double>(i), i + 1 == counts.size() ? fmt::format("{}+", i) : fmt::format("{}", i)});
  }
  Chart chart(options, count_axis(bins.most, "records"), title);
  for (std::size_t i = 0; i <= bins.last; ++i) {
    const auto at = static_cast<double>(i);
    chart.box(at - 0.4, at + 0.4, 0, count_height(static_cast<double>(counts[i])), "a", fmt::format("{}: {}", i, grouped(counts[i])));
  }
  return chart.svg();
}

std::string length_chart(const RunReport& report) {
  const Bins bins = used_bins(report.lengths);
  const double low = std::log2(RunReport::length_edge(bins.first));
  const double high = std::log2(RunReport::length_edge(bins.last + 1));
  ChartAxis lengths{low, high, {}, "tokens"};
  const bool few = high - low < 5;
  for (int power = 0; std::pow(10, power) <= std::exp2(high); ++power) {
    const double decade = std::pow(10, power);
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      const double at = std::log2(decade * step);
      if (at >= low && at <= high && (few || step == 1 || (high - low < 10 && (step == 2 || step == 5)))) {
        lengths.ticks.push_back({at, fmt::format("{:.0f}", decade * step)});
      }
    }
  }
  Chart chart(lengths, count_axis(bins.most, "records"), "How many records are how long");
  for (std::size_t i = bins.first; i <= bins.last; ++i) {
    const double from = RunReport::length_edge(i);
    const double to = RunReport::length_edge(i + 1);
    chart.box(std::log2(from) + 0.01, std::log2(to) - 0.01, 0, count_height(static_cast<double>(report.lengths[i])), "a",
              fmt::format("{:.0f} to {:.0f} tokens: {}", std::ceil(from), std::ceil(to) - 1, counted(report.lengths[i], "record")));
  }
  return chart.svg();
}

std::string reliability_chart(const LabelReport& labels, std::string_view title) {
  Chart chart(linear_axis(0, 1, "confidence"), linear_axis(0, 1, "accuracy"), title);
  std::vector<ChartPoint> points;
  for (std::size_t i = 0; i < LabelReport::kBins; ++i) {
    const LabelReport::Bin& bin = labels.bins[i];
    if (bin.count == 0) {
      continue;
    }
    const auto count = static_cast<double>(bin.count);
    const auto bins = static_cast<double>(LabelReport::kBins);
    points.push_back({bin.confidence / count, static_cast<double>(bin.right) / count});
    chart.box(static_cast<double>(i) / bins + 0.004, static_cast<double>(i + 1) / bins - 0.004, 0, points.back().y, "faint",
              fmt::format("{}: confidence {:.3f}, accuracy {:.3f}", counted(bin.count, "record"), points.back().x, points.back().y));
  }
  const ChartPoint diagonal[] = {{0, 0}, {1, 1}};
  chart.line(diagonal, "c");
  for (const ChartPoint& point : points) {
    chart.dot(point, "a", fmt::format("confidence {:.3f}, accuracy {:.3f}", point.x, point.y));
  }
  return chart.svg();
}

std::string share_chart(const RunDevices& run) {
  std::vector<std::string> names;
  std::uint64_t all = 0;
  for (const RunDevice& device : run.devices) {
    names.push_back(device.name);
    all += device.tokens;
  }
  Chart chart(linear_axis(0, 100, "% of the tokens"), row_axis(names, ""), "Each device's share of the tokens");
  for (std::size_t i = 0; i < run.devices.size(); ++i) {
    const RunDevice& device = run.devices[i];
    const double share = all == 0 ? 0 : 100 * static_cast<double>(device.tokens) / static_cast<double>(all);
    const auto low = static_cast<double>(run.devices.size() - i - 1);
    chart.box(0, share, low + 0.2, low + 0.8, "a", fmt::format("{}: {:.1f} % of the tokens", device.name, share));
  }
  return chart.svg();
}

std::string timeline_chart(const RunTimeline& timeline) {
  constexpr double kSecond = 1e6;
  std::vector<std::string> names;
  for (const auto& row : timeline.rows) {
    names.push_back(row.name.ends_with(" batches") ? row.name.substr(0, row.name.size() - 8) : row.name);
  }
  Chart chart(linear_axis(timeline.begin / kSecond, timeline.end / kSecond, "seconds"), row_axis(names, ""), "What was at work when", true);
  const auto level = [&](const RunTimeline::Row& row, std::size_t at) {  // of four
    return row.busy[at] <= 0 ? 0 : std::clamp(static_cast<int>(std::ceil(4 * row.busy[at] / timeline.column - 0.02)), 1, 4);
  };
  for (std::size_t i = 0; i < timeline.rows.size(); ++i) {
    const auto& row = timeline.rows[i];
    const auto low = static_cast<double>(timeline.rows.size() - i - 1);
    for (std::size_t at = 0; at < RunTimeline::kColumns;) {
      std::size_t next = at + 1;
      while (next < RunTimeline::kColumns && level(row, next) == level(row, at)) {
        ++next;
      }
      if (const int busy = level(row, at); busy > 0) {
        const double from = static_cast<double>(at) * timeline.column / kSecond;
        const double to = static_cast<double>(next) * timeline.column / kSecond;
        chart.box(from, to, low + 0.15, low + 0.85, fmt::format("{} l{}", row.name.ends_with(" batches") ? "a" : "c", busy),
                  fmt::format("{}: {:.2f} to {:.2f} s, at work up to {} % of it", names[i], from, to, 25 * busy));
      }
      at = next;
    }
  }
  return chart.svg();
}

}  // namespace kime
