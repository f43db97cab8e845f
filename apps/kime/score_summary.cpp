#include "score_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "command.h"
#include "kime/base/answers.h"
#include "kime/base/counted.h"
#include "kime/job/job_fields.h"
#include "signals.h"

namespace kime::app {

namespace {

void print_labels(const LabelCounts& counts, bool resumed) {
  bool any = false;
  for (std::size_t type = 0; type < counts.labelled.size(); ++type) {
    const auto [right, labelled] = std::pair(counts.right[type], counts.labelled[type]);
    if (labelled > 0) {
      any = true;
      fmt::print(stderr, "kime: {}: {} of {} right ({:.1f} %){}\n", kTypeNames[type], grouped(right), grouped(labelled),
                 100 * static_cast<double>(right) / static_cast<double>(labelled), resumed ? " in this run" : "");
    }
  }
  if (counts.unusable > 0) {
    fmt::print(stderr, "kime: {} no number of an option\n", counts.unusable == 1 ? "1 label is" : grouped(counts.unusable) + " labels are");
  } else if (!any) {
    fmt::print(stderr, "kime: no record has a label\n");
  }
}

}  // namespace

void print_summary(const ScoreSummary& summary, const ScoreOptions& job, const SummaryOptions& options) {
  if (options.quiet) {
    return;
  }
  const JobState& from = job.from;
  const double seconds = std::max(summary.seconds, 1e-9);
  const auto speed = [seconds](std::uint64_t all, std::uint64_t before) {
    return grouped(static_cast<std::uint64_t>(static_cast<double>(all - before) / seconds));
  };
  fmt::print(stderr, "kime: {} scored{} in {:.2f} s: {} tokens/s, {} records/s\n", counted(summary.scored, "record"),
             from.scored > 0 ? fmt::format(", {} before and {}", grouped(from.scored), grouped(summary.scored - from.scored)) : "",
             summary.seconds, speed(summary.tokens, from.tokens), speed(summary.scored, from.scored));
  if (summary.failed > 0) {
    fmt::print(stderr, "kime: {} failed; {}\n", counted(summary.failed, "record"),
               job.on_error == OnError::skip ? "error lines are left out" : "see the lines with \"error\"");
  }
  if (options.labels) {
    print_labels(summary.labels, from.scored > 0);
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
    case ScoreEnd::devices_lost:
      return fail(summary.message, kLost);
    case ScoreEnd::stopped:
      return 128 + signal_received();
    case ScoreEnd::complete:
      break;
  }
  return summary.failed > 0 ? kSomeFailed : kDone;
}

nlohmann::json stats_of(const ScoreSummary& summary, const JobState& from, Fleet& fleet, bool labels) {
  nlohmann::json document{
      {"precision", precisions(fleet)},
      {"records", summary.scored},
      {"records_before", from.scored},  // by an earlier run, as the parts of `failed` and `tokens` that are not this one's
      {"failed", summary.failed},
      {"tokens", summary.tokens},
      {"batches", summary.batches},
      {"seconds", summary.seconds},
      {"devices", to_json(summary.devices, summary.seconds)},
      {"runtime", fleet.debug_info()}};
  if (labels) {
    document["labels"] = to_json(summary.labels);
  }
  return document;
}

}  // namespace kime::app
