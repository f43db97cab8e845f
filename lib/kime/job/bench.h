// How fast this machine scores, against its own peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kime/batch/batch.h"
#include "kime/graph/graph.h"
#include "kime/io/record.h"
#include "kime/job/fleet.h"
#include "kime/job/stage.h"

namespace kime {

/// Records like support tickets: lengths log-normal around 110 tokens, 32 to 512, 2 to 8 markers. The same ones every time.
[[nodiscard]] std::vector<Record> ticket_records(std::size_t count, std::size_t vocab);

struct BenchOptions {
  std::size_t threads = 1;
  double seconds = 10;  ///< In all, about; each round does at least one pass of every thread over a batch.
};

struct BenchReport {
  std::size_t rounds = 0;
  double peak_flops = 0;   ///< A second: the best of the samples between the rounds.
  double model_flops = 0;  ///< Useful ones a second, over all rounds.
  double best_model_flops = 0;
  double tokens_per_second = 0;
  double records_per_second = 0;
  std::size_t records = 0;  ///< Scored, over all rounds.
  std::size_t tokens = 0;
  [[nodiscard]] double share() const { return model_flops / peak_flops; }
};

/// Scores the records over and over, packed as a run packs them, and measures the machine's peak between the rounds, on the same threads.
/// A fleet of one checkpoint, whose graph this is. Errors: those of the lanes.
Result<BenchReport> bench(Fleet& fleet, const Graph& graph, const StageBuckets& stage, const std::vector<Record>& records,
                          const BenchOptions& options);

}  // namespace kime
