// A benchmark's findings as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kime/job/bench.h"
#include "kime/job/bench_null.h"
#include "kime/job/bench_sweep.h"

namespace kime::app {

struct BenchFindings {
  std::string model;
  std::size_t threads = 1;           ///< Of the CPU.
  std::vector<std::string> devices;  ///< Their names.
  Precision precision = Precision::f32;
  BenchReport report;
  std::optional<SweepReport> sweep;
};

/// To standard output, in columns.
void print(const BenchFindings& findings);
[[nodiscard]] nlohmann::json as_json(const BenchFindings& findings);

/// The same of a run without scores.
void print(const NullReport& report);
[[nodiscard]] nlohmann::json as_json(const NullReport& report);

}  // namespace kime::app
