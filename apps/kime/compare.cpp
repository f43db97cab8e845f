// kime compare
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "command.h"
#include "compare_report.h"
#include "inputs.h"
#include "kime/io/output.h"
#include "kime/results/compare_junit.h"
#include "kime/results/compare_page.h"
#include "kime/results/report_file.h"
#include "kime/results/score_matcher.h"
#include "trouble.h"

namespace kime::app {

namespace {

struct CompareCommand {
  std::array<std::string, 2> files;  // old and new
  ScoreTolerance tolerance;
  std::size_t max_line = kDefaultMaxLine;
  std::string junit;
  std::string html;
  bool json = false;
  bool quiet = false;
};

std::string fields_of(ScoreFieldSet fields) {
  std::string names;
  for (const ScoreField field : kAllScoreFields) {
    if (fields.has(field)) {
      names += names.empty() ? "" : ", ";
      names += name_of(field);
    }
  }
  return names.empty() ? "no scores" : names;
}

// Both, before anything is read.
Result<std::vector<LineReader>> open_files(const CompareCommand& options) {
  if (options.files[0] == "-" && options.files[1] == "-") {
    return Error(ErrorKind::input, "only one of the two files can be standard input");
  }
  return open_all(options.files, options.max_line, stop_of_process().fd());
}

// The report on standard output.
int print(const CompareCommand& options, const ScoreDifferences& found) {
  if (options.quiet && !options.json) {
    return kDone;
  }
  Output output(STDOUT_FILENO, "standard output");
  if (output.append(options.json ? compare_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                                 : compare_text(found)) == OutputState::ok) {
    static_cast<void>(output.flush());
  }
  if (output.state() == OutputState::ok) {
    return kDone;
  }
  return output.state() == OutputState::closed ? kLost : fail(output.message(), kLost);
}

// --junit and --html, open before the work begins.
struct Reports {
  std::optional<ReportFile> junit;
  std::optional<ReportFile> html;
};

Status open_reports(const CompareCommand& options, Reports& reports) {
  for (const auto& [path, place] : {std::pair(&options.junit, &reports.junit), std::pair(&options.html, &reports.html)}) {
    if (!path->empty()) {
      auto file = ReportFile::open(*path, options.files);
      if (!file) {
        return file.error();
      }
      place->emplace(*std::move(file));
    }
  }
  return {};
}

Status write_reports(const ScoreDifferences& found, Reports& reports) {
  if (reports.junit) {
    if (auto written = reports.junit->finish(compare_junit(found, compare_text(found))); !written) {
      return written;
    }
  }
  return reports.html ? reports.html->finish(compare_page(found)) : Status();
}

int run(const CompareCommand& options) {
  auto lines = open_files(options);
  if (!lines) {
    return fail(lines.error().text());
  }
  Reports reports;
  if (auto opened = open_reports(options, reports); !opened) {
    return fail(opened.error().text());
  }
  constexpr std::size_t kPoints = 1500;
  ShownLimits limits;
  limits.points = reports.html ? kPoints : 0;
  ScoreComparer comparer(options.tolerance, limits);
  {
    ScoreReader before(options.files[0], std::move((*lines)[0]), true);
    ScoreReader after(options.files[1], std::move((*lines)[1]), true);
    if (const auto trouble = match_scores(before, after, comparer)) {
      stop_of_process().request();  // the other file's thread may wait for a pipe
      return fail(*trouble);
    }
  }
  ScoreDifferences found = comparer.take();
  found.old_name = options.files[0];
  found.new_name = options.files[1];
  if (found.common_fields().empty()) {
    return fail(fmt::format("no field to compare is in both files: {} has {}, {} has {}", found.old_name, fields_of(found.old_fields),
                            found.new_name, fields_of(found.new_fields)));
  }
  if (auto written = write_reports(found, reports); !written) {
    return fail(written.error().text(), kLost);
  }
  const int printed = print(options, found);
  return printed != kDone ? printed : found.passed() ? kDone : kSomeFailed;
}

// CLI11's own check lets NaN pass, with which nothing would be within tolerance.
std::string check_tolerance(const std::string& text) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) && value >= 0 ? "" : fmt::format("'{}' is no distance: give a number from 0 on", text);
}

void add_tolerance(CLI::App& command, const std::string& name, std::optional<double>& place, const std::string& what) {
  command
      .add_option_function<double>(
          name, [&place](double value) { place = value; }, what)
      ->check(check_tolerance)
      ->type_name("D");
}

}  // namespace

void add_compare(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("compare", "Compare two score files: what changed, and whether it is within tolerance");
  auto options = std::make_shared<CompareCommand>();
  command->add_option("OLD", options->files[0], "A score file, also .gz and .zst; - is standard input")->required();
  command->add_option("NEW", options->files[1], "Another one of the same records")->required();
  add_tolerance(*command, "--logit-tol", options->tolerance.logit, "How far apart logits may be (default: the same bits)");
  add_tolerance(*command, "--prob-tol", options->tolerance.prob, "The same for probs, score, noul, the confidences and act_probability");
  add_tolerance(*command, "--act-tol", options->tolerance.act, "The same for act");
  add_tolerance(*command, "--rel-tol", options->tolerance.rel, "For each of these: or so far apart, times the larger of the two");
  command->add_option("--max-line", options->max_line, "A longer line cannot be used (default: 64 MiB)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->type_name("BYTES");
  command
      ->add_option("--junit", options->junit,
                   "Write a JUnit document for CI: a case for each record that failed (100 of each kind at most), and a summary")
      ->type_name("FILE");
  command->add_option("--html", options->html, "Write one page with charts and tables, which needs no network")->type_name("FILE");
  command->add_flag("--json", options->json, "One JSON document");
  command->add_flag("-q,--quiet", options->quiet, "No report on standard output, unless --json asks for one");
  command->footer(
      "Records are matched by id, and file where there is one, in any order. Exit status: 0 within tolerance; 1 beyond it, or a record or\n"
      "an error in one file only; 2 files that cannot be compared; 3 no space left, or a file that breaks off.\n\n" +
      examples("  kime compare main.jsonl branch.jsonl && echo the same bits\n"
               "  kime compare f32.jsonl int8.jsonl.gz --logit-tol 0.05 --act-tol 0.05 --html what-changed.html\n"
               "  kime compare main.jsonl branch.jsonl --rel-tol 1e-5 --junit compare.xml\n"
               "  kime score records.jsonl -m checkpoint/ | kime compare expected.jsonl - --rel-tol 1e-5 --json | jq .fields"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
