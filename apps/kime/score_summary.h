// What `kime score` says once a run is over.
#pragma once

#include <nlohmann/json.hpp>

#include "kime/job/fleet.h"
#include "kime/job/score_job.h"

namespace kime::app {

struct SummaryOptions {
  bool quiet = false;
  bool verbose = false;
  bool labels = false;  ///< They were read.
};

/// On standard error.
void print_summary(const ScoreSummary& summary, const ScoreOptions& job, const SummaryOptions& options);

/// The exit status; says what the run was lost to.
int status_of(const ScoreSummary& summary);

/// The document of --stats. An earlier run came as far as `from`.
[[nodiscard]] nlohmann::json stats_of(const ScoreSummary& summary, const JobState& from, Fleet& fleet, bool labels);

}  // namespace kime::app
