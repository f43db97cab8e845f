// What `score`, `check` and `buckets` have in common: records, held against a checkpoint and a bucket table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "kime/job/intake.h"
#include "kime/job/stage.h"
#include "kime/job/stop.h"
#include "kime/model/checkpoint.h"

namespace kime::app {

/// The options, as given.
struct InputOptions {
  std::vector<std::string> files;
  std::vector<std::string> models;
  BucketOptions buckets;
  std::size_t max_line = kDefaultMaxLine;
  bool keep = false;
  bool labels = false;

  /// `ensemble`: -m may be given several times.
  void add(CLI::App& command, bool ensemble = false);
  void add_keep(CLI::App& command);
};

/// What they name, open and checked.
struct Inputs {
  std::vector<Checkpoint> checkpoints;  ///< At least one; all with the same vocabulary and types.
  StageBuckets stage;
  Intake intake;
};

/// Errors: those of Checkpoint::open, choose_stage and Intake::open, and checkpoints that do not go together; nothing is read before all
/// are done. `threads`: that may work at a time; records are parsed by some of them.
Result<Inputs> open_inputs(const InputOptions& options, const Stop& stop, std::size_t threads);

/// The stop that this process's SIGINT and SIGTERM request.
Stop& stop_of_process();

}  // namespace kime::app
