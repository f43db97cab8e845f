// kime check
#include <unistd.h>

#include <fmt/format.h>

#include "inputs.h"
#include "job_output.h"
#include "kime/base/counted.h"
#include "kime/io/output.h"
#include "kime/job/score_lines.h"
#include "signals.h"

namespace kime::app {

namespace {

struct CheckCommand {
  InputOptions input;
  ShardOption shard;
  ThreadsOption threads;
  bool quiet = false;
};

struct Counts {
  std::uint64_t records = 0;
  std::uint64_t failed = 0;
};

// Writes the error lines of all records; the exit status.
int check_records(Intake& intake, const Stop& stop, Counts& counts) {
  Output output(STDOUT_FILENO, "standard output");
  Record record;
  Where where;
  std::optional<RecordError> error;
  std::string text;
  auto next = Intake::Next::record;
  while (!stop.requested() && output.state() == OutputState::ok) {
    next = intake.next(record, where, error);
    if (next != Intake::Next::record) {
      break;
    }
    ++counts.records;
    if (error) {
      ++counts.failed;
      text.clear();
      append_error_line(record, where, *error, text);
      static_cast<void>(output.append(text));  // the state says what became of it
    }
    if (output.held() > 0 && !intake.ready()) {
      static_cast<void>(output.flush());
    }
  }
  static_cast<void>(output.flush());
  if (output.state() != OutputState::ok) {
    return output.state() == OutputState::closed ? kLost : fail(output.message(), kLost);
  }
  if (next == Intake::Next::broken) {
    return fail(intake.failure().text(), kLost);
  }
  if (stop.requested()) {
    return 128 + signal_received();
  }
  return counts.failed > 0 ? kSomeFailed : kDone;
}

int run(const CheckCommand& options) {
  const Stop& stop = stop_of_process();
  auto inputs = open_inputs(options.input, stop, options.threads.count());
  if (!inputs) {
    return fail(inputs.error().text());
  }
  const auto shard = options.shard.parse();
  if (!shard) {
    return fail(shard.error().text());
  }
  if (*shard) {
    if (const auto begun = inputs->intake.begin(*shard, {}); !begun) {
      return fail("--shard: " + begun.error().text());
    }
  }
  Counts counts;
  const int status = check_records(inputs->intake, stop, counts);
  if (!options.quiet && status != kLost) {
    fmt::print(stderr, "kime: {} checked, {} failed\n", counted(counts.records, "record"), grouped(counts.failed));
  }
  return status;
}

}  // namespace

void add_check(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("check", "Check records: the error lines that `score` would write, and nothing else");
  auto options = std::make_shared<CheckCommand>();
  options->input.add(*command);
  options->input.add_keep(*command);
  options->shard.add(*command);
  options->threads.add(*command, "Threads that check; four find work at most");
  command->add_flag("-q,--quiet", options->quiet, "No summary on standard error");
  command->footer(
      examples("  kime check records.jsonl -m checkpoint/ && kime score records.jsonl -m checkpoint/ > scores.jsonl\n"
               "  kime check records.jsonl.gz -m checkpoint/ | jq -r '.error.message' | sort | uniq -c"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
