#include "inputs.h"

#include <utility>

#include "signals.h"

namespace kime::app {

void InputOptions::add(CLI::App& command) {
  command.add_option("FILE", files, "JSONL files, also .gz and .zst; - or none is standard input");
  model.add(command);
  buckets.add(command);
  command.add_option("--max-line", max_line, "A longer line is that record's error (default: 64 MiB)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40))
      ->type_name("BYTES");
}

void InputOptions::add_keep(CLI::App& command) {
  command.add_flag("--keep", keep, "Pass other fields of a record through, byte for byte");
}

Result<Inputs> open_inputs(const InputOptions& options, const Stop& stop) {
  if (options.model.folder.empty()) {
    return Error(ErrorKind::input, "no checkpoint: give its directory with -m DIR, or in the environment variable KIME_MODEL");
  }
  auto checkpoint = Checkpoint::open(options.model.folder);
  if (!checkpoint) {
    return std::move(checkpoint).error();
  }
  auto stage = choose_stage(options.buckets.file, options.buckets.stage);
  if (!stage) {
    return std::move(stage).error();
  }
  auto intake = Intake::open({.files = options.files,
                              .max_line = options.max_line,
                              .records = {.vocab = checkpoint->config().vocab, .types = ModelConfig::types, .keep = options.keep},
                              .stage = stage->stage,
                              .buckets = stage->buckets,
                              .wake_fd = stop.fd()});
  if (!intake) {
    return std::move(intake).error();
  }
  return Inputs{*std::move(checkpoint), *std::move(stage), *std::move(intake)};
}

Stop& stop_of_process() {
  static Stop stop;  // lives to the end of the process: a signal may still find it
  stop_on_signals(stop);
  return stop;
}

}  // namespace kime::app
