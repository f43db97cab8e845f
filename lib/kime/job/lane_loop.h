// A lane at work: pulls batches, scores them, and writes down their lines.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kime/batch/bucket.h"
#include "kime/job/dispatcher.h"
#include "kime/job/job_trace.h"
#include "kime/job/score_job.h"
#include "kime/job/slot.h"

namespace kime {

/// What the lanes of a job share; all outlive them.
struct LaneContext {
  Fleet& fleet;
  Dispatcher& dispatcher;
  Ring& ring;
  JobTrace& trace;
  std::span<const Calibration> calibrations;
  const ScoreOptions& options;
  const std::vector<Bucket>& first_buckets;  ///< Those of the first window; there when the first batch is.
  std::function<void()> last_left;           ///< Called when the last lane has given up.
};

/// For one thread.
class LaneLoop {
 public:
  LaneLoop(const LaneContext& job, std::size_t index)
      : job_(job),
        index_(index),
        lane_(*job.fleet.lanes()[index]),
        lines_(job.calibrations, job.options.emit, job.options.ensemble),
        scores_(job.fleet.models()) {}

  /// Returns when nothing will come any more, or the lane's devices are gone.
  void run();

 private:
  void take(Work work);
  std::optional<LaneFailure> score(const Work& work, Bucket& bucket);
  static void give_up(Slot& slot, const Error& error);
  void finish(Slot& slot, std::size_t index);

  const LaneContext& job_;
  std::size_t index_;
  Lane& lane_;
  ScoreLines lines_;
  std::vector<RecordScores> scores_;
  bool prepared_ = false;
};

}  // namespace kime
