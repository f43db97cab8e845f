// kime report
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "command.h"
#include "inputs.h"
#include "kime/results/record_stream.h"
#include "kime/results/report_file.h"
#include "kime/results/report_page.h"
#include "trouble.h"

namespace kime::app {

namespace {

struct ReportCommand {
  std::string scores;
  std::vector<std::string> records;
  std::string stats;
  std::string trace;
  std::string output;
  std::size_t max_line = kDefaultMaxLine;
};

// Everything that a report reads, open.
struct Sources {
  LineReader scores;
  std::optional<RecordStream> records;
  std::optional<RunDevices> devices;
  std::optional<RunTimeline> timeline;
};

Result<std::optional<RecordStream>> open_records(const ReportCommand& options) {
  if (options.records.empty()) {
    return std::optional<RecordStream>();
  }
  auto files = open_all(options.records, options.max_line, stop_of_process().fd());
  return files ? Result<std::optional<RecordStream>>(RecordStream(*std::move(files))) : std::move(files).error();
}

Result<Sources> open_sources(const ReportCommand& options) {
  const auto standard_inputs = std::ranges::count(options.records, "-") + (options.scores == "-" ? 1 : 0) + (options.stats == "-" ? 1 : 0) +
                               (options.trace == "-" ? 1 : 0);
  if (standard_inputs > 1) {
    return Error(ErrorKind::input, "only one of the files can be standard input");
  }
  auto scores = LineReader::open(options.scores, options.max_line, stop_of_process().fd());
  if (!scores) {
    return std::move(scores).error();
  }
  auto records = open_records(options);
  if (!records) {
    return std::move(records).error();
  }
  Sources sources{*std::move(scores), *std::move(records), {}, {}};
  if (!options.stats.empty()) {
    auto devices = read_run_devices(options.stats);
    if (!devices) {
      return std::move(devices).error();
    }
    sources.devices = *std::move(devices);
  }
  if (!options.trace.empty()) {
    auto timeline = read_run_timeline(options.trace, options.max_line);
    if (!timeline) {
      return std::move(timeline).error();
    }
    sources.timeline = *std::move(timeline);
  }
  return sources;
}

std::optional<ResultsTrouble> read_scores(ScoreReader& scores, std::optional<RecordStream>& records, RunReport& report) {
  std::optional<RecordFacts> facts;
  while (scores.next()) {
    if (records) {
      if (auto trouble = records->find(scores.line(), facts)) {
        return trouble;
      }
    }
    report.add(scores.line(), facts);
  }
  return scores.trouble();
}

int run(const ReportCommand& options) {
  auto sources = open_sources(options);
  if (!sources) {
    return fail(sources.error().text());
  }
  std::vector<std::string> inputs = options.records;
  inputs.insert(inputs.end(), {options.scores, options.stats, options.trace});
  auto output = ReportFile::open(options.output, inputs);
  if (!output) {
    return fail(output.error().text());
  }
  RunReport report;
  {
    ScoreReader scores(options.scores, std::move(sources->scores), false);
    if (const auto trouble = read_scores(scores, sources->records, report)) {
      stop_of_process().request();  // the scores' thread may wait for a pipe
      return fail(*trouble);
    }
  }
  const std::string name = options.scores == "-" ? "standard input" : options.scores;
  if (auto written = output->finish(report_page({name, report, sources->devices, sources->timeline})); !written) {
    return fail(written.error().text(), kLost);
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("report", "Make one HTML page about a run and its scores");
  auto options = std::make_shared<ReportCommand>();
  command->add_option("SCORES", options->scores, "A score file, also .gz and .zst; - is standard input")->required();
  command->add_option("-o,--output", options->output, "The page")->required()->type_name("PAGE");
  command->add_option("--records", options->records, "The records, in the scores' order: lengths, types, and labels")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--stats", options->stats, "What `kime score --stats` wrote: devices and padding")->type_name("FILE");
  command->add_option("--trace", options->trace, "What `kime score --trace` wrote: the timeline")->type_name("FILE");
  command->add_option("--max-line", options->max_line, "A longer line cannot be used (default: 64 MiB)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->type_name("BYTES");
  command->footer(
      "A label is the index of the right option: the field `label` of a record, or of a line of scores where `--keep` passed it on.\n"
      "Exit status: 0 the page is written; 2 a file that cannot be used; 3 no space left, or a file that breaks off.\n\n" +
      examples("  kime score records.jsonl -m checkpoint/ --emit all --stats stats.json --trace trace.json > scores.jsonl\n"
               "  kime report scores.jsonl --records records.jsonl --stats stats.json --trace trace.json -o report.html"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
