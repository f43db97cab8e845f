#include "bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "command.h"
#include "kime/backend/cpu/peak.h"
#include "kime/base/counted.h"

namespace kime::app {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;
constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;

std::uint64_t whole(double number) {
  return static_cast<std::uint64_t>(std::llround(number));
}

void print_peaks(const BenchFindings& findings) {
  const BenchReport& report = findings.report;
  const auto samples = report.rounds + 1;
  const std::string peak = findings.precision == Precision::f32 ? "FMA" : std::string(name_of(findings.precision));
  fmt::print("  {:<14}{:>9.1f} GFLOP/s   best of {} samples between the rounds\n", peak + " peak", report.speeds.flops / kGiga, samples);
  if (findings.precision != Precision::f32) {
    fmt::print("  {:<14}{:>9.1f} GFLOP/s   for attention, scorer and act head\n", "FMA peak", report.speeds.f32_flops / kGiga);
  }
  fmt::print("  {:<14}{:>9.1f} GB/s      best of {} of {} MiB\n", "memory", report.speeds.bytes / kGiga,
             counted(report.memory.passes, "read"), report.memory.bytes >> 20U);
}

void print_speed(const BenchFindings& findings) {
  const BenchReport& report = findings.report;
  const std::string on = report.has_peaks() ? fmt::format("{}, {}", cpu::target_in_use(), counted(findings.threads, "thread"))
                                            : fmt::format("{}", fmt::join(findings.devices, ", "));
  fmt::print("{}, {}, {}\n", findings.model, on, name_of(findings.precision));
  if (report.has_peaks()) {
    print_peaks(findings);
  }
  fmt::print("  {:<14}{:>9.1f} GFLOP/s   useful ones; {:.1f} in the best round\n", "model", report.model_flops / kGiga,
             report.best_model_flops / kGiga);
  if (report.has_peaks()) {
    fmt::print("  {:<14}{:>9.1f} %\n", "share of peak", 100 * report.share_of_peak);
  }
  fmt::print("  {:<14}{:>9} /s        {} in {}\n", "tokens", grouped(whole(report.tokens_per_second)), grouped(report.tokens),
             counted(report.rounds, "round"));
  fmt::print("  {:<14}{:>9.1f} /s        {}\n", "records", report.records_per_second, grouped(report.records));
}

void print_ops(const BenchReport& report) {
  fmt::print("\n  {:<22} {:>7}   {:>11}   {:>7}\n", "where the time goes", "time", "GFLOP/s", "of peak");
  for (const OpShare& op : report.ops) {
    if (op.flops > 0) {
      fmt::print("  {:<22} {:>5.1f} %   {:>11.1f}   {:>5.1f} %\n", op.name, 100 * op.share, op.flops / kGiga, 100 * op.share_of_peak);
    } else {
      fmt::print("  {:<22} {:>5.1f} %\n", op.name, 100 * op.share);
    }
  }
  fmt::print("  {:<22} {:>5.1f} %\n", "outside of ops", 100 * report.outside);
}

void print_latencies(const BenchFindings& findings) {
  fmt::print("\nOne record of 4 markers at a time, {} on it; bound: op by op, the longer of reading its\n",
             findings.devices.size() == 1 ? "all threads" : "all threads of a device");
  fmt::print("weights at the memory's speed and computing at the peak\n");
  fmt::print("  {:>6}   {:>10}   {:>10}   {:>5}   {:>9}   {:>12}   {:>6}\n", "tokens", "median", "bound", "ratio", "weights", "work",
             "runs");
  bool below = false;
  for (const LatencyPoint& point : findings.sweep->latencies) {
    if (!point.left_out.empty()) {
      fmt::print("  {:>6}   {:>10}   {}\n", point.tokens, "-", point.left_out);
      continue;
    }
    fmt::print("  {:>6}   {:>7.2f} ms   {:>7.2f} ms   {:>5.2f}   {:>6.1f} MB   {:>6.2f} GFLOP   {:>6}\n", point.tokens,
               point.median / kMilli, point.bound / kMilli, point.median / point.bound, point.bytes / kMega, point.flops / kGiga,
               point.runs);
    below = below || point.median < point.bound;
  }
  if (below) {
    fmt::print("  (a ratio below 1: caches hold the weights)\n");
  }
}

void print_lengths(const SweepReport& sweep) {
  fmt::print("\nRecords of one length, packed as in a run\n");
  fmt::print("  {:>6}   {:>10}   {:>11}   {:>14}\n", "tokens", "tokens/s", "per token", "full attention");
  for (const LengthPoint& point : sweep.lengths) {
    if (!point.left_out.empty()) {
      fmt::print("  {:>6}   {:>10}   {}\n", point.tokens, "-", point.left_out);
      continue;
    }
    fmt::print("  {:>6}   {:>10}   {:>8.1f} us   {:>12.1f} %\n", point.tokens, grouped(whole(point.tokens_per_second)),
               1 / point.tokens_per_second / kMicro, 100 * point.full_attention);
  }
}

void print_batches(const BenchFindings& findings) {
  fmt::print("\nBatches of records of {} tokens, one at a time, {} on it\n", kSweepTokens,
             findings.devices.size() == 1 ? "all threads" : "all threads of a device");
  fmt::print("  {:>7}   {:>10}\n", "records", "tokens/s");
  for (const BatchPoint& point : findings.sweep->batches) {
    if (!point.left_out.empty()) {
      fmt::print("  {:>7}   {:>10}   {}\n", point.records, "-", point.left_out);
      continue;
    }
    fmt::print("  {:>7}   {:>10}\n", point.records, grouped(whole(point.tokens_per_second)));
  }
}

nlohmann::json ops_json(const BenchReport& report) {
  auto ops = nlohmann::json::array();
  for (const OpShare& op : report.ops) {
    nlohmann::json entry = {{"op", op.name}, {"share_of_time", op.share}};
    if (op.flops > 0) {
      entry["gflops"] = op.flops / kGiga;
      entry["share_of_peak"] = op.share_of_peak;
    }
    ops.push_back(std::move(entry));
  }
  ops.push_back({{"op", "outside of ops"}, {"share_of_time", report.outside}});
  return ops;
}

nlohmann::json sweep_json(const SweepReport& sweep) {
  auto single = nlohmann::json::array();
  for (const LatencyPoint& point : sweep.latencies) {
    single.push_back(point.left_out.empty() ? nlohmann::json{{"tokens", point.tokens},
                                                             {"median_seconds", point.median},
                                                             {"bound_seconds", point.bound},
                                                             {"ratio", point.median / point.bound},
                                                             {"weight_bytes", point.bytes},
                                                             {"flops", point.flops},
                                                             {"runs", point.runs}}
                                            : nlohmann::json{{"tokens", point.tokens}, {"left_out", point.left_out}});
  }
  auto lengths = nlohmann::json::array();
  for (const LengthPoint& point : sweep.lengths) {
    lengths.push_back(point.left_out.empty() ? nlohmann::json{{"tokens", point.tokens},
                                                              {"tokens_per_second", point.tokens_per_second},
                                                              {"microseconds_per_token", 1 / point.tokens_per_second / kMicro},
                                                              {"full_attention_share", point.full_attention}}
                                             : nlohmann::json{{"tokens", point.tokens}, {"left_out", point.left_out}});
  }
  auto batches = nlohmann::json::array();
  for (const BatchPoint& point : sweep.batches) {
    batches.push_back(point.left_out.empty() ? nlohmann::json{{"records", point.records}, {"tokens_per_second", point.tokens_per_second}}
                                             : nlohmann::json{{"records", point.records}, {"left_out", point.left_out}});
  }
  return {{"single_records", single}, {"lengths", lengths}, {"batches", batches}, {"batch_record_tokens", kSweepTokens}};
}

}  // namespace

void print(const BenchFindings& findings) {
  print_speed(findings);
  if (findings.report.has_peaks()) {
    print_ops(findings.report);
  }
  if (findings.sweep) {
    print_latencies(findings);
    print_lengths(*findings.sweep);
    print_batches(findings);
  }
}

nlohmann::json as_json(const BenchFindings& findings) {
  const BenchReport& report = findings.report;
  nlohmann::json document = {{"model", findings.model},
                             {"precision", name_of(findings.precision)},
                             {"devices", findings.devices.size()},
                             {"rounds", report.rounds},
                             {"model_gflops", report.model_flops / kGiga},
                             {"best_model_gflops", report.best_model_flops / kGiga},
                             {"tokens_per_second", report.tokens_per_second},
                             {"records_per_second", report.records_per_second},
                             {"tokens", report.tokens},
                             {"records", report.records}};
  if (report.has_peaks()) {
    document.update({{"target", cpu::target_in_use()},
                     {"threads", findings.threads},
                     {"peak_gflops", report.speeds.flops / kGiga},
                     {"f32_peak_gflops", report.speeds.f32_flops / kGiga},
                     {"memory_gb_per_second", report.speeds.bytes / kGiga},
                     {"memory_bytes_a_pass", report.memory.bytes},
                     {"share_of_peak", report.share_of_peak},
                     {"ops", ops_json(report)}});
  }
  if (findings.sweep) {
    document["sweep"] = sweep_json(*findings.sweep);
  }
  return document;
}

void print(const NullReport& report) {
  const auto rate = [&](double seconds) { return grouped(static_cast<std::uint64_t>(static_cast<double>(report.records) / seconds)); };
  fmt::print("{} through a device that computes nothing, by {} for lines beside a reader and a writer\n", counted(report.records, "record"),
             counted(report.lanes, "thread"));
  fmt::print("  in all      {:.1f} MB/s, {} records/s\n", report.bytes_per_second() / kMega, rate(report.seconds));
  fmt::print("  a thread    {:.1f} MB/s, {} records/s: by CPU time\n", report.bytes_per_thread_second() / kMega, rate(report.cpu_seconds));
  if (report.failed > 0) {
    fmt::print("  errors      {}\n", grouped(report.failed));
  }
}

nlohmann::json as_json(const NullReport& report) {
  return {{"lanes", report.lanes},
          {"records", report.records},
          {"failed", report.failed},
          {"bytes", report.bytes},
          {"seconds", report.seconds},
          {"cpu_seconds", report.cpu_seconds},
          {"mb_per_second", report.bytes_per_second() / kMega},
          {"mb_per_thread_second", report.bytes_per_thread_second() / kMega}};
}

}  // namespace kime::app
