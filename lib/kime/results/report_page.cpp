#include "kime/results/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kime/base/counted.h"
#include "kime/results/page.h"
#include "kime/results/report_charts.h"

namespace kime {
namespace {

std::string percent(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? "" : fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(of));
}

std::string rate(std::uint64_t count, double seconds) {
  return seconds > 0 ? grouped(static_cast<std::uint64_t>(static_cast<double>(count) / seconds)) : "";
}

void add_summary(Page& page, const ReportSources& sources) {
  const RunReport& report = sources.report;
  page.paragraph(fmt::format("Scores: {}", sources.scores));
  std::vector<Page::Fact> facts = {{grouped(report.records), "records"}, {grouped(report.errors), "errors"}};
  if (sources.devices) {
    facts.push_back({fmt::format("{:.1f} s", sources.devices->seconds), "scoring"});
    facts.push_back({rate(sources.devices->records, sources.devices->seconds), "records/s"});
    facts.push_back({rate(sources.devices->tokens, sources.devices->seconds), "tokens/s"});
  }
  if (report.labels.count > 0) {
    facts.push_back({percent(report.labels.right, report.labels.count), "right answers"});
  }
  if (report.labels.with_confidence > 0) {
    facts.push_back({fmt::format("{:.4f}", report.labels.calibration_error()), "expected calibration error"});
  }
  page.facts(facts);
  if (sources.devices && sources.devices->records + sources.devices->failed != report.records) {
    page.paragraph(fmt::format("The statistics are of {} and {}: of another run, or of a part of this one.",
                               counted(sources.devices->records, "record"), counted(sources.devices->failed, "error")));
  }
}

void add_devices(Page& page, const RunDevices& run) {
  page.section("Devices");
  PageTable table({"device", "class", "precision", "#streams", "#batches", "#records", "#tokens", "#at work", "#padding", "#failed batches",
                   "#scored again", "retired"});
  for (const RunDevice& device : run.devices) {
    table.row({device.name, device.bits_class, device.precision, grouped(device.streams), grouped(device.batches), grouped(device.records),
               grouped(device.tokens), fmt::format("{:.1f} %", 100 * device.busy_share),
               percent(device.padding, device.tokens + device.padding), grouped(device.failures), grouped(device.rescued), device.retired});
  }
  page.html(table.html(false));
  if (run.devices.size() > 1) {
    std::string figures;
    add_figure(figures, "Who did how much", share_chart(run));
    page.figures(figures);
  }
}

void add_timeline(Page& page, const RunTimeline& timeline) {
  page.section("Timeline");
  std::string figures;
  std::uint64_t failed = 0;
  for (const auto& row : timeline.rows) {
    failed += row.failed;
  }
  add_figure(figures,
             fmt::format("The darker, the more of the time at work{}{}",
                         failed > 0 ? fmt::format("; {} failed", failed == 1 ? "1 batch" : grouped(failed) + " batches") : "",
                         timeline.rows_left > 0 ? fmt::format("; {} left out", counted(timeline.rows_left, "more stream")) : ""),
             timeline_chart(timeline));
  page.figures(figures);
}

void add_lengths(Page& page, const ReportSources& sources) {
  const RunReport& report = sources.report;
  page.section("Lengths and padding");
  if (report.with_length > 0) {
    page.paragraph(fmt::format("{} in {}: {} to {}, {:.1f} on the average.", counted(report.tokens, "token"),
                               counted(report.with_length, "record"), grouped(report.shortest), grouped(report.longest),
                               static_cast<double>(report.tokens) / static_cast<double>(report.with_length)));
    const auto padded = report.longest * report.with_length;
    page.paragraph(fmt::format("Padded to the longest they would be {}, {} of them for nothing.", counted(padded, "token"),
                               percent(padded - report.tokens, padded)));
  }
  if (sources.devices) {
    std::uint64_t padding = 0;
    for (const RunDevice& device : sources.devices->devices) {
      padding += device.padding;
    }
    page.paragraph(fmt::format("The devices computed {}{}.", counted(padding, "padding token"),
                               padding > 0 ? ", " + percent(padding, padding + sources.devices->tokens) + " of their work" : ""));
  }
  if (report.with_length > 0) {
    std::string figures;
    add_figure(figures, "How many records are how long", length_chart(report));
    page.figures(figures);
  }
}

void add_type(Page& page, std::string_view name, const TypeReport& type) {
  page.section(fmt::format("Scores: {} ({})", name, counted(type.records, "record")));
  if (type.no_options > 0) {
    page.paragraph(fmt::format("{} without an answer.", counted(type.no_options, "record")));
  }
  std::string figures;
  if (type.no_options < type.records) {
    add_figure(figures, "Which option is the best", index_chart(type.best, "option"));
  }
  const std::pair<const GrowingHistogram&, std::string_view> histograms[] = {{type.noul, "noul: probability of yes"},
                                                                             {type.score, "score: expected level"},
                                                                             {type.confidence, "answer_confidence: largest probability"},
                                                                             {type.margin, "largest logit less the next"},
                                                                             {type.act_probability, "act_probability"}};
  for (const auto& [histogram, title] : histograms) {
    if (histogram.total() > 0) {
      add_figure(figures, title, histogram_chart(histogram, title.substr(0, title.find(':'))));
    }
  }
  page.figures(figures);
}

void add_calibration(Page& page, const RunReport& report) {
  if (report.labels.count + report.bad_labels == 0) {
    return;
  }
  page.section("Calibration");
  PageTable table({"questions", "#labels", "#right", "#accuracy", "#mean confidence", "#expected calibration error"});
  std::string figures;
  const auto add = [&](std::string_view name, const LabelReport& labels) {
    double confidence = 0;
    for (const auto& bin : labels.bins) {
      confidence += bin.confidence;
    }
    const bool known = labels.with_confidence > 0;
    table.row({std::string(name), grouped(labels.count), grouped(labels.right), percent(labels.right, labels.count),
               known ? fmt::format("{:.4f}", confidence / static_cast<double>(labels.with_confidence)) : "",
               known ? fmt::format("{:.4f}", labels.calibration_error()) : ""});
    if (known) {
      add_figure(figures, fmt::format("{}: how often right at which confidence", name), reliability_chart(labels, name));
    }
  };
  for (std::size_t i = 0; i < RunReport::kTypes; ++i) {
    if (report.types[i].labels.count > 0) {
      add(RunReport::kTypeNames[i], report.types[i].labels);
    }
  }
  if (report.labels.count > 0) {
    add("all", report.labels);
  }
  if (!table.empty()) {
    page.html(table.html(false));
    page.paragraph("The error is over 15 bins of equal width: |accuracy - confidence|, weighted by how many are in each.");
  }
  if (report.bad_labels > 0) {
    page.paragraph(fmt::format("{} left out: no index of an option.", counted(report.bad_labels, "label")));
  }
  if (figures.empty()) {
    page.paragraph("Confidences are in scores of --emit probs, answer and all.");
  } else {
    page.figures(figures);
  }
}

void add_errors(Page& page, const RunReport& report) {
  page.section("Errors");
  if (report.errors == 0) {
    page.paragraph("None.");
    return;
  }
  PageTable table({"kind", "#records", "#share", "#first line", "its message"});
  for (const auto& [kind, found] : report.error_kinds) {
    table.row({kind, grouped(found.count), percent(found.count, report.records), grouped(found.first_line), found.first_message});
  }
  page.html(table.html(false));
}

void add_hints(Page& page, const ReportSources& sources) {
  std::string hints;
  hints += sources.report.with_length > 0 ? "" : " Lengths, and labels and types that the scores do not carry, come from --records.";
  hints += sources.devices ? "" : " Devices come from --stats, as `kime score --stats` writes it.";
  hints += sources.timeline ? "" : " The timeline comes from --trace.";
  if (!hints.empty()) {
    page.section("Not here");
    page.paragraph(hints.substr(1));
  }
}

}  // namespace

std::string report_page(const ReportSources& sources) {
  Page page("kime report");
  add_summary(page, sources);
  if (sources.devices) {
    add_devices(page, *sources.devices);
  }
  if (sources.timeline) {
    add_timeline(page, *sources.timeline);
  }
  if (sources.report.with_length > 0 || sources.devices) {
    add_lengths(page, sources);
  }
  for (std::size_t i = 0; i < RunReport::kTypes; ++i) {
    if (sources.report.types[i].records > 0) {
      add_type(page, RunReport::kTypeNames[i], sources.report.types[i]);
    }
  }
  add_calibration(page, sources.report);
  add_errors(page, sources.report);
  add_hints(page, sources);
  return page.finish();
}

}  // namespace kime
