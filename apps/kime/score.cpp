// kime score
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "inputs.h"
#include "kime/backend/cpu/peak.h"
#include "kime/job/score_job.h"
#include "signals.h"

namespace kime::app {

namespace {

struct Options {
  InputOptions input;
  ScoreOptions score;
  std::string precision = "auto";
  ThreadsOption threads;
  bool quiet = false;
  bool verbose = false;
};

void print_summary(const ScoreSummary& summary, const Options& options) {
  if (options.quiet) {
    return;
  }
  const double seconds = std::max(summary.seconds, 1e-9);
  fmt::print(stderr, "kime: {} scored in {:.2f} s: {} tokens/s, {} records/s\n", counted(summary.scored, "record"), summary.seconds,
             grouped(static_cast<std::uint64_t>(static_cast<double>(summary.tokens) / seconds)),
             grouped(static_cast<std::uint64_t>(static_cast<double>(summary.scored) / seconds)));
  if (summary.failed > 0) {
    fmt::print(stderr, "kime: {} failed; {}\n", counted(summary.failed, "record"),
               options.score.on_error == OnError::skip ? "error lines are left out" : "see the lines with \"error\"");
  }
  if (options.verbose) {
    fmt::print(stderr, "kime: {} tokens in {}\n", grouped(summary.tokens),
               summary.batches == 1 ? "1 batch" : grouped(summary.batches) + " batches");
  }
}

int status_of(const ScoreSummary& summary) {
  switch (summary.end) {
    case ScoreEnd::output_closed:
      return kLost;
    case ScoreEnd::output_failed:
    case ScoreEnd::input_failed:
      return fail(summary.message, kLost);
    case ScoreEnd::stopped:
      return 128 + signal_received();
    case ScoreEnd::complete:
      break;
  }
  return summary.failed > 0 ? kSomeFailed : kDone;
}

Result<ScoreSummary> run_job(const Options& options, Stop& stop) {
  const auto begin = std::chrono::steady_clock::now();
  auto inputs = open_inputs(options.input, stop);
  if (!inputs) {
    return std::move(inputs).error();
  }
  const Checkpoint& checkpoint = inputs->checkpoint;
  ScoreOptions score_options = options.score;
  score_options.streams = options.threads.count();
  auto program = load_cpu(checkpoint.config(), checkpoint, score_options.streams);
  if (!program) {
    return std::move(program).error();
  }
  if (options.verbose) {
    fmt::print(stderr, "kime: {}: {} parameters, loaded in {:.2f} s; {} on {}, float32\n", checkpoint.directory(),
               grouped(checkpoint.parameters()), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               cpu::target_in_use(), counted(score_options.streams, "thread"));
  }
  Output output(STDOUT_FILENO, "standard output");
  return score(inputs->intake, *program, inputs->stage, checkpoint.calibration(), score_options, output, stop);
}

int run(const Options& options) {
  auto summary = run_job(options, stop_of_process());
  if (!summary) {
    return fail(summary.error().text());
  }
  if (summary->end != ScoreEnd::output_closed && summary->end != ScoreEnd::output_failed) {
    print_summary(*summary, options);
  }
  return status_of(*summary);
}

template <class T>
std::vector<std::string> names(const std::map<std::string, T>& map) {
  std::vector<std::string> keys;
  keys.reserve(map.size());
  for (const auto& entry : map) {
    keys.push_back(entry.first);
  }
  return keys;
}

}  // namespace

void add_score(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("score", "Score records: one line a record to standard output, in input order");
  auto options = std::make_shared<Options>();
  options->input.add(*command);
  const std::map<std::string, Emit> emits{{"logits", Emit::logits}, {"probs", Emit::probs}, {"answer", Emit::answer}, {"all", Emit::all}};
  const std::map<std::string, OnError> on_errors{{"line", OnError::line}, {"skip", OnError::skip}, {"stop", OnError::stop}};
  command
      ->add_option_function<std::string>(
          "--emit", [options, emits](const std::string& name) { options->score.emit = emits.at(name); },
          "What a line says: logits (default), probs, answer or all")
      ->check(CLI::IsMember(names(emits)))
      ->type_name("FORM");
  command->add_option("--precision", options->precision, "auto (default) or f32; on the CPU they are the same")
      ->check(CLI::IsMember({"auto", "f32"}))
      ->type_name("P");
  options->threads.add(*command);
  options->input.add_keep(*command);
  command
      ->add_option_function<std::string>(
          "--on-error", [options, on_errors](const std::string& name) { options->score.on_error = on_errors.at(name); },
          "A bad record: its error line in its place (line, default), no line (skip), or the end (stop)")
      ->check(CLI::IsMember(names(on_errors)))
      ->type_name("WHAT");
  auto* quiet = command->add_flag("-q,--quiet", options->quiet, "No notices and no summary on standard error");
  command->add_flag("-v,--verbose", options->verbose, "Say more on standard error")->excludes(quiet);
  command->footer(
      examples("  kime score records.jsonl -m checkpoint/ > scores.jsonl\n"
               "  zcat part-*.gz | kime score -m checkpoint/ --emit answer | jq .choice\n"
               "  tail -f queue.jsonl | kime score -m checkpoint/ --emit probs --keep\n"
               "  KIME_MODEL=checkpoint/ kime score a.jsonl b.jsonl.zst --on-error stop"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
