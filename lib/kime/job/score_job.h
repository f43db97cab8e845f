// One scoring run: reader, packer, streams, reorder, writer, all at work at once and each bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/engine/executor.h"
#include "kime/io/output.h"
#include "kime/io/score_writer.h"
#include "kime/job/intake.h"
#include "kime/job/load.h"
#include "kime/job/stop.h"
#include "kime/model/calibration.h"

namespace kime {

/// What becomes of a record's error.
enum class OnError {
  line,  ///< Its line stands in its place.
  skip,  ///< Its line is left out.
  stop,  ///< Its line is the last one.
};

struct ScoreOptions {
  Emit emit = Emit::logits;
  OnError on_error = OnError::line;
  std::size_t streams = 1;  ///< Threads that each run whole batches.
};

/// How a run ended. Failed records do not change it.
enum class ScoreEnd {
  complete,       ///< All input was scored, or --on-error stop ended it.
  stopped,        ///< Stop was requested; what was in flight is written.
  output_closed,  ///< Nobody reads the output any more.
  output_failed,  ///< The output took no more; `message` says why.
  input_failed,   ///< An input failed in the middle; `message` says which and how. What came before is scored and written.
};

struct ScoreSummary {
  ScoreEnd end = ScoreEnd::complete;
  std::string message;
  std::uint64_t scored = 0;  ///< Records whose scores were written.
  std::uint64_t failed = 0;  ///< Records with an error.
  std::uint64_t tokens = 0;  ///< Of the scored ones.
  std::uint64_t batches = 0;
  double seconds = 0;
};

/// Scores all of `intake` to `output`, in input order, over the buckets of a stage, those that the intake was made with, and returns when
/// the last line is written. `stop` ends it early, and is used to end it from within. Errors: `device` when the streams cannot be made;
/// nothing was read then.
Result<ScoreSummary> score(Intake& intake, const Program<CpuBackend>& program, const StageBuckets& stage, const Calibration& calibration,
                           const ScoreOptions& options, Output& output, Stop& stop);

}  // namespace kime
