#include "kime/results/compare_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kime/base/counted.h"
#include "kime/results/chart.h"
#include "kime/results/page.h"

namespace kime {
namespace {

std::string line_text(std::uint64_t line) {
  return line == 0 ? "" : grouped(line);
}

std::string number_text(std::optional<double> value) {
  return value ? fmt::format("{:.6g}", *value) : "null";
}

std::string place_in(const ShownDistance& one) {
  return is_list(one.field) ? fmt::format("{}[{}]", name_of(one.field), one.index) : std::string(name_of(one.field));
}

std::string tolerance_text(const ScoreTolerance& tolerance) {
  std::string text;
  const auto say = [&](std::string_view what, std::optional<double> value) {
    if (value) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, *value);
    }
  };
  say("logits", tolerance.logit);
  say("probabilities", tolerance.prob);
  say("act", tolerance.act);
  say("relative", tolerance.rel);
  return text.empty() ? "Tolerance: none, the same bits." : "Tolerance: " + text + "; the same bits where none is given.";
}

std::string scatter(const ScoreDifferences& found, ScoreField field) {
  const auto& points = found.points[index_of(field)];
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  std::vector<ChartPoint> drawn;
  const auto widen = [&](double before, double after) {
    low = std::min({low, before, after});
    high = std::max({high, before, after});
  };
  for (const ShownPoint& point : points) {
    widen(point.before, point.after);
    drawn.push_back({point.before, point.after});
  }
  for (const ShownDistance& one : found.worst) {
    if (one.field == field) {
      widen(one.before, one.after);
    }
  }
  Chart chart(linear_axis(low, high, "old"), linear_axis(low, high, "new"), fmt::format("{}: old against new", name_of(field)));
  const ChartPoint diagonal[] = {{low, low}, {high, high}};
  chart.line(diagonal, "faint");
  chart.dots(drawn, "a");
  for (const ShownDistance& one : found.worst) {
    if (one.field == field) {
      chart.dot({one.before, one.after}, "mark", fmt::format("{} {}: {} against {}", one.record.id, place_in(one), one.before, one.after));
    }
  }
  return chart.svg();
}

std::string histogram(const FieldDifferences& field, std::string_view name) {
  std::size_t first = FieldDifferences::kBins;
  std::size_t last = 0;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < FieldDifferences::kBins; ++i) {
    if (field.histogram[i] > 0) {
      first = std::min(first, i);
      last = i;
      most = std::max(most, field.histogram[i]);
    }
  }
  const auto power = [](std::size_t bin) { return FieldDifferences::kLowest + static_cast<int>(bin); };
  ChartAxis distances{static_cast<double>(power(first)) - 1, static_cast<double>(power(last)) + 2, {}, "distance"};
  const int decades = static_cast<int>((distances.high - distances.low) / std::log2(10.0));
  const int step = decades / 7 + 1;  // room for the labels
  for (int tens = -21; tens <= 9; ++tens) {
    const double at = tens * std::log2(10.0);
    if (at >= distances.low && at <= distances.high && tens % step == 0) {
      distances.ticks.push_back({at, fmt::format("1e{}", tens)});
    }
  }
  Chart chart(distances, count_axis(static_cast<double>(most), "numbers"), fmt::format("{}: how many are how far apart", name));
  for (std::size_t i = first; i <= last; ++i) {
    const auto count = static_cast<double>(field.histogram[i]);
    chart.box(power(i) + 0.05, power(i) + 0.95, 0, count_height(count), "a",
              fmt::format("{:.2g} to {:.2g}: {}", std::ldexp(1.0, power(i)), std::ldexp(1.0, power(i) + 1), grouped(field.histogram[i])));
  }
  return chart.svg();
}

void add_summary(Page& page, const ScoreDifferences& found) {
  page.paragraph(fmt::format("Old: {} ({}, {})", found.old_name, counted(found.old_records, "record"), counted(found.old_errors, "error")));
  page.paragraph(fmt::format("New: {} ({}, {})", found.new_name, counted(found.new_records, "record"), counted(found.new_errors, "error")));
  page.paragraph(tolerance_text(found.tolerance));
  page.verdict(found.passed(), found.passed() ? "within tolerance" : "differences");
  const auto failed = [&](ScoreFailure failure) { return grouped(found.failed_of(failure)); };
  page.facts({{grouped(found.compared), "records compared"},
              {grouped(found.same_records), "the same bits"},
              {failed(ScoreFailure::distance), "beyond tolerance"},
              {grouped(found.flips), "flips of answers"},
              {failed(ScoreFailure::only_old), "only in old"},
              {failed(ScoreFailure::only_new), "only in new"},
              {failed(ScoreFailure::error_came), "errors that came"},
              {failed(ScoreFailure::error_went), "errors that went"},
              {failed(ScoreFailure::error_changed), "errors of another kind"}});
}

void add_fields(Page& page, const ScoreDifferences& found) {
  page.section("Fields");
  PageTable table({"field", "#numbers", "#same bits", "#largest distance", "#mean distance", "#beyond tolerance", "#other lengths",
                   "#in one line only"});
  for (const ScoreField field : kAllScoreFields) {
    if (found.common_fields().has(field)) {
      const FieldDifferences& of = found.fields[index_of(field)];
      table.row({std::string(name_of(field)), grouped(of.numbers), grouped(of.same),
                 field == ScoreField::choice ? "" : fmt::format("{:.3g}", of.largest),
                 field == ScoreField::choice ? "" : fmt::format("{:.3g}", of.mean()), grouped(of.beyond), grouped(of.lengths),
                 grouped(of.only_old + of.only_new)});
    }
  }
  page.html(table.html(false));
}

void add_charts(Page& page, const ScoreDifferences& found) {
  std::string scatters;
  std::string histograms;
  for (const ScoreField field : kAllScoreFields) {
    const FieldDifferences& of = found.fields[index_of(field)];
    if (field == ScoreField::choice || of.numbers == 0) {
      continue;
    }
    add_figure(scatters,
               fmt::format("{}: {} of {}", name_of(field), grouped(found.points[index_of(field)].size()), counted(of.numbers, "number")),
               scatter(found, field));
    if (of.largest > 0) {
      add_figure(histograms,
                 fmt::format("{}: {} apart, the others are the same value", name_of(field), counted(of.numbers - of.same, "number")),
                 histogram(of, name_of(field)));
    }
  }
  if (!scatters.empty()) {
    page.section("Old against new");
    page.figures(scatters);
  }
  page.section("Distances");
  if (histograms.empty()) {
    page.paragraph("No two numbers lie apart.");
  } else {
    page.figures(histograms);
  }
}

void add_flips(Page& page, const ScoreDifferences& found) {
  page.section("Flips of answers");
  if (found.flips == 0) {
    page.paragraph("No answer is another one.");
    return;
  }
  page.paragraph(fmt::format("{}{}. A margin is by how much an answer beat the other one, in its own file: two small ones are a near tie.",
                             counted(found.flips, "flip"),
                             found.flips > found.shown_flips.size()
                                 ? fmt::format(", the {} with the largest margins are here", grouped(found.shown_flips.size()))
                                 : ""));
  PageTable table({"id", "kind", "#old", "#new", "#old margin", "#new margin", "of", "#old line", "#new line"});
  for (const ShownFlip& flip : found.shown_flips) {
    table.row({flip.record.id, flip.kind, number_text(flip.before), number_text(flip.after),
               flip.margin_before ? number_text(flip.margin_before) : "", flip.margin_after ? number_text(flip.margin_after) : "",
               flip.unit, line_text(flip.record.old_line), line_text(flip.record.new_line)});
  }
  page.html(table.html(true));
}

void add_records(Page& page, const ScoreDifferences& found) {
  if (!found.worst.empty()) {
    page.section("The largest distances");
    PageTable table({"id", "field", "#old", "#new", "#distance", "#old line", "#new line"});
    for (const ShownDistance& one : found.worst) {
      table.row({one.record.id, place_in(one), fmt::format("{}", one.before), fmt::format("{}", one.after),
                 fmt::format("{:.3g}", one.distance), line_text(one.record.old_line), line_text(one.record.new_line)});
    }
    page.html(table.html(false));
  }
  if (!found.failures.empty()) {
    page.section("Records that failed");
    if (found.failed_records() > found.failures.size()) {
      page.paragraph(fmt::format("{} of {}.", grouped(found.failures.size()), grouped(found.failed_records())));
    }
    PageTable table({"id", "failure", "why", "#old line", "#new line"});
    for (const ShownFailure& one : found.failures) {
      table.row(
          {one.record.id, std::string(name_of(one.failure)), one.why, line_text(one.record.old_line), line_text(one.record.new_line)});
    }
    page.html(table.html(true));
  }
}

}  // namespace

std::string compare_page(const ScoreDifferences& found) {
  Page page("kime compare");
  add_summary(page, found);
  add_fields(page, found);
  add_charts(page, found);
  add_flips(page, found);
  add_records(page, found);
  return page.finish();
}

}  // namespace kime
