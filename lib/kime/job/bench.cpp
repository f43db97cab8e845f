#include "kime/job/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "kime/backend/cpu/peak.h"
#include "kime/graph/op_groups.h"
#include "kime/job/bench_load.h"

namespace kime {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A part of the seconds, where these are few.
milliseconds part_of(double seconds, double part, milliseconds most) {
  return std::min(most, milliseconds(1 + static_cast<std::int64_t>(1000 * part * seconds)));
}

void sample_peaks(const BenchRig& rig, milliseconds time, Speeds& speeds) {
  if (rig.profile == nullptr) {
    return;
  }
  speeds.f32_flops = std::max(speeds.f32_flops, cpu::compute_peak(Precision::f32, rig.threads, time));
  speeds.flops =
      rig.precision == Precision::f32 ? speeds.f32_flops : std::max(speeds.flops, cpu::compute_peak(rig.precision, rig.threads, time));
}

// The ops' times and operations, over the time that the lanes had together, by kind of op.
void share_out(const BenchRig& rig, const Stretch& stretch, std::vector<double> op_seconds, BenchReport& report) {
  const double lane_seconds = stretch.all.lane_seconds;
  const double seconds = lane_seconds / static_cast<double>(stretch.lanes);
  const OpGroups groups = op_groups(rig.graph);
  op_seconds.resize(rig.graph.ops.size());
  std::vector<double> at_peak(groups.names.size());
  for (const std::string& name : groups.names) {
    report.ops.push_back({.name = name});
  }
  for (std::size_t i = 0; i < op_seconds.size(); ++i) {
    const double peak = flops_for(rig.graph.ops[i], report.speeds);
    OpShare& group = report.ops[groups.group_of[i]];
    group.share += op_seconds[i] / lane_seconds;
    group.flops += stretch.all.op_flops[i];  // of all rounds, for now
    at_peak[groups.group_of[i]] += stretch.all.op_flops[i] / peak;
    report.share_of_peak += stretch.counted.op_flops[i] / peak / stretch.seconds();
  }
  report.outside = 1;
  for (std::size_t i = 0; i < report.ops.size(); ++i) {
    OpShare& group = report.ops[i];
    const double of_group = group.share * seconds;
    group.flops = of_group > 0 ? group.flops / of_group : 0;
    group.share_of_peak = of_group > 0 ? at_peak[i] / of_group : 0;
    report.outside -= group.share;
  }
  std::ranges::stable_sort(report.ops, std::ranges::greater(), &OpShare::share);
}

}  // namespace

Result<BenchReport> bench(const BenchRig& rig, const std::vector<Record>& records, double seconds) {
  const std::size_t streams = rig.profile != nullptr ? rig.threads : rig.fleet.lanes().size();
  Load load(pack_work(records, rig.graph, rig.stage, streams, rig.fleet.devices()[0].target));
  if (auto warm = load.run(rig.fleet.lanes(), 0); !warm) {  // plans are built, pages are touched
    return std::move(warm).error();
  }
  BenchReport report;
  if (rig.profile != nullptr) {
    static_cast<void>(rig.profile->take());
    auto memory = cpu::read_bandwidth(rig.threads, cpu::bandwidth_buffer(), part_of(seconds, 0.1, milliseconds(500)));
    if (!memory) {
      return std::move(memory).error();
    }
    report.memory = *memory;
    report.speeds.bytes = memory->bytes_per_second;
  }
  const auto sample = part_of(seconds, 0.05, milliseconds(200));
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  sample_peaks(rig, sample, report.speeds);
  Stretch all;
  do {
    auto round = load.run(rig.fleet.lanes(), seconds / 8);
    if (!round) {
      return std::move(round).error();
    }
    ++report.rounds;
    all.add(*round);
    report.best_model_flops = std::max(report.best_model_flops, round->flops_per_second());
    sample_peaks(rig, sample, report.speeds);
  } while (Clock::now() < end);
  report.model_flops = all.flops_per_second();
  report.tokens = all.counted.tokens;
  report.records = all.counted.records;
  report.tokens_per_second = all.tokens_per_second();
  report.records_per_second = static_cast<double>(report.records) / all.seconds();
  if (rig.profile != nullptr) {
    share_out(rig, all, rig.profile->take(), report);
  }
  return report;
}

}  // namespace kime
