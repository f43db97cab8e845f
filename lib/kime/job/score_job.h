// One scoring run: reader, packer, streams, reorder, writer, all at work at once and each bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kime/io/journal.h"
#include "kime/io/output.h"
#include "kime/io/score_writer.h"
#include "kime/job/fleet.h"
#include "kime/job/intake.h"
#include "kime/job/job_progress.h"
#include "kime/job/run_stats.h"
#include "kime/job/score_lines.h"
#include "kime/job/stage.h"
#include "kime/job/stop.h"
#include "kime/job/trace.h"
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
  Ensemble ensemble = Ensemble::mean;              ///< For several checkpoints.
  std::function<void(const std::string&)> notice;  ///< Hears of devices that are retired; from any thread.
  Trace* trace = nullptr;                          ///< Where the timeline goes, if anywhere; outlives the run.
  JobProgress* progress = nullptr;                 ///< Hears how far the run is, if anybody looks; outlives it.
  JobState from;                                   ///< What an earlier run did of this job, where the intake goes on.
  /// Hears how far the job is whenever the output has taken all lines so far, on the writer's thread; false ends the job, as an output
  /// that takes no more does.
  std::function<bool(const JobState&)> reached;
};

/// How a run ended. Failed records do not change it.
enum class ScoreEnd {
  complete,       ///< All input was scored, or --on-error stop ended it.
  stopped,        ///< Stop was requested; what was in flight is written.
  output_closed,  ///< Nobody reads the output any more.
  output_failed,  ///< The output took no more, and `message` says why; or `reached` returned false, and it is empty.
  input_failed,   ///< An input failed in the middle; `message` says which and how. What came before is scored and written.
  devices_lost,   ///< No device is left; `message` says why the last one failed. The output ends at the last record in order.
};

struct ScoreSummary {
  ScoreEnd end = ScoreEnd::complete;
  std::string message;
  std::uint64_t scored = 0;  ///< Records whose scores were written; these three count an earlier run's too.
  std::uint64_t failed = 0;  ///< Records with an error.
  std::uint64_t tokens = 0;  ///< Of the scored ones.
  JobState reached;          ///< How far it was when the output had last taken all lines.
  std::uint64_t batches = 0;
  double seconds = 0;
  std::vector<DeviceStats> devices;
};

/// Scores all of `intake` on a fleet to `output`, in input order, over the buckets of a stage, those that the intake and the fleet were
/// made with, and returns when the last line is written. A calibration for each of the fleet's checkpoints. `stop` ends it early, and is
/// used to end it from within.
[[nodiscard]] ScoreSummary score(Intake& intake, Fleet& fleet, const StageBuckets& stage, std::span<const Calibration> calibrations,
                                 const ScoreOptions& options, Output& output, Stop& stop);

}  // namespace kime
