// What `score`, `check` and `buckets` have in common: records, held against a checkpoint and a bucket table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "kime/job/intake.h"
#include "kime/job/load.h"
#include "kime/job/stop.h"
#include "kime/model/checkpoint.h"

namespace kime::app {

/// The options, as given.
struct InputOptions {
  std::vector<std::string> files;
  ModelOption model;
  BucketOptions buckets;
  std::size_t max_line = std::size_t{64} << 20;
  bool keep = false;

  void add(CLI::App& command);
  void add_keep(CLI::App& command);
};

/// What they name, open and checked.
struct Inputs {
  Checkpoint checkpoint;
  StageBuckets stage;
  Intake intake;
};

/// Errors: those of Checkpoint::open, choose_stage and Intake::open; nothing is read before all three are done.
Result<Inputs> open_inputs(const InputOptions& options, const Stop& stop);

/// The stop that this process's SIGINT and SIGTERM request.
Stop& stop_of_process();

}  // namespace kime::app
