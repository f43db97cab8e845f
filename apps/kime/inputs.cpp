#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "signals.h"

namespace kime::app {

namespace {

// More would wait for the one that reads and packs.
constexpr std::size_t kMostParsing = 4;

// What keeps two checkpoints from scoring the same records.
Status check_together(const Checkpoint& first, const Checkpoint& other) {
  if (first.config().vocab != other.config().vocab) {
    return Error(ErrorKind::input, fmt::format("{} has a vocabulary of {}, but {} one of {}: an ensemble's checkpoints read the same ids",
                                               first.directory(), first.config().vocab, other.directory(), other.config().vocab));
  }
  return {};
}

}  // namespace

void InputOptions::add(CLI::App& command, bool ensemble) {
  command.add_option("FILE", files, "JSONL files, also .gz and .zst; - or none is standard input");
  auto* option = command
                     .add_option("-m,--model", models,
                                 ensemble ? "The checkpoint's directory (else $KIME_MODEL); several make an ensemble"
                                          : "The checkpoint's directory (else $KIME_MODEL)")
                     ->envname("KIME_MODEL")
                     ->type_name("DIR")
                     ->allow_extra_args(false);
  if (!ensemble) {
    option->expected(1);
  }
  buckets.add(command);
  command.add_option("--max-line", max_line, "A longer line is that record's error (default: 64 MiB)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40))
      ->type_name("BYTES");
}

void InputOptions::add_keep(CLI::App& command) {
  command.add_flag("--keep", keep, "Pass other fields of a record through, byte for byte");
}

Result<Inputs> open_inputs(const InputOptions& options, const Stop& stop, std::size_t threads) {
  if (options.models.empty() || options.models[0].empty()) {
    return Error(ErrorKind::input, "no checkpoint: give its directory with -m DIR, or in the environment variable KIME_MODEL");
  }
  std::vector<Checkpoint> checkpoints;
  for (const std::string& folder : options.models) {
    auto checkpoint = Checkpoint::open(folder);
    if (!checkpoint) {
      return std::move(checkpoint).error();
    }
    checkpoints.push_back(*std::move(checkpoint));
    if (auto together = check_together(checkpoints[0], checkpoints.back()); !together) {
      return std::move(together).error();
    }
  }
  auto stage = choose_stage(options.buckets.file, options.buckets.stage);
  if (!stage) {
    return std::move(stage).error();
  }
  auto intake = Intake::open({.files = options.files,
                              .lines = {.max_line = options.max_line,
                                        .records = {.vocab = checkpoints[0].config().vocab,
                                                    .types = ModelConfig::types,
                                                    .keep = options.keep,
                                                    .labels = options.labels},
                                        .stage = stage->stage,
                                        .buckets = stage->buckets},
                              .threads = std::min(threads, kMostParsing),
                              .wake_fd = stop.fd()});
  if (!intake) {
    return std::move(intake).error();
  }
  return Inputs{std::move(checkpoints), *std::move(stage), *std::move(intake)};
}

Stop& stop_of_process() {
  static Stop stop;  // lives to the end of the process: a signal may still find it
  stop_on_signals(stop);
  return stop;
}

}  // namespace kime::app
