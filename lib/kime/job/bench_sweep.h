// How speed follows the shape of the work: single records, lengths, batch sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/job/bench.h"

namespace kime {

/// One record at a time, with all threads of a device on it. Seconds.
struct LatencyPoint {
  std::size_t tokens = 0;
  std::string left_out;  ///< Why it was not measured; empty where it was. Here and below.
  std::size_t runs = 0;
  double median = 0;
  double bound = 0;  ///< least_seconds() of the record, with the device's part of the machine's speeds.
  double bytes = 0;  ///< Of weights.
  double flops = 0;
};

/// Records of one length, packed as a run packs them, on all lanes.
struct LengthPoint {
  std::size_t tokens = 0;
  std::string left_out;
  double tokens_per_second = 0;
  double full_attention = 0;  ///< Its share of the ops' time.
};

/// Batches of so many records of `kSweepTokens`, one at a time, with all threads of a device on it.
inline constexpr std::size_t kSweepTokens = 64;
struct BatchPoint {
  std::size_t records = 0;
  std::string left_out;
  double tokens_per_second = 0;
};

struct SweepReport {
  std::vector<LatencyPoint> latencies;
  std::vector<LengthPoint> lengths;
  std::vector<BatchPoint> batches;
};

/// Measures them all on CPUs in about so many seconds; those for which that is too short, going by the speed in `report`, are left out, the
/// longest first. Errors: those of the lanes.
Result<SweepReport> sweep(const BenchRig& rig, const BenchReport& report, std::size_t vocab, double seconds);

/// The time of each of several measurements that need at least `least` each: what is over is divided evenly, and those that do not fit
/// get none, the longest first.
[[nodiscard]] std::vector<std::optional<double>> divide_time(std::span<const double> least, double seconds);

}  // namespace kime
