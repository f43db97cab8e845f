// How fast this machine scores, against its own peak.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kime/backend/cpu/bandwidth.h"
#include "kime/backend/cpu/profile.h"
#include "kime/base/precision.h"
#include "kime/graph/costs.h"
#include "kime/graph/graph.h"
#include "kime/io/record.h"
#include "kime/job/fleet.h"
#include "kime/job/stage.h"

namespace kime {

/// What is measured: a fleet of one kind of device and one checkpoint, whose graph this is.
struct BenchRig {
  Fleet& fleet;
  const Graph& graph;
  const StageBuckets& stage;
  cpu::Profile* profile = nullptr;  ///< That the CPU's devices fill; none for others, whose peaks and ops are not measured.
  std::size_t threads = 1;
  Precision precision = Precision::f32;  ///< Of the graph's gemms.
};

/// A kind of op over all layers.
struct OpShare {
  std::string name;
  double share = 0;          ///< Of the lanes' time.
  double flops = 0;          ///< Useful ones a second, as if all lanes were at it; 0: none are counted.
  double share_of_peak = 0;  ///< Of the peak of its own precision.
};

struct BenchReport {
  [[nodiscard]] bool has_peaks() const { return speeds.f32_flops > 0; }

  std::size_t rounds = 0;
  Speeds speeds;  ///< The machine's: the best of the samples between the rounds.
  cpu::Bandwidth memory;
  double model_flops = 0;  ///< Useful ones a second, over all rounds.
  double best_model_flops = 0;
  double share_of_peak = 0;  ///< The time that the ops would take at their precisions' peaks, of the time that there was.
  double tokens_per_second = 0;
  double records_per_second = 0;
  std::size_t records = 0;  ///< Scored, over all rounds.
  std::size_t tokens = 0;
  std::vector<OpShare> ops;  ///< The longest first.
  double outside = 0;        ///< The share of the lanes' time that no op had.
};

/// Scores the records over and over for about so many seconds, packed as a run packs them, and on CPUs measures the machine's peak between
/// the rounds, on the same threads. Each round does at least one batch on every lane. Errors: those of the lanes; `device` without memory.
Result<BenchReport> bench(const BenchRig& rig, const std::vector<Record>& records, double seconds);

}  // namespace kime
