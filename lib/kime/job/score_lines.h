// From the engine's outputs for one record to its line.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kime/io/record.h"
#include "kime/io/score_writer.h"
#include "kime/job/intake.h"
#include "kime/model/calibration.h"

namespace kime {

/// For one thread: keeps its scratch.
class ScoreLines {
 public:
  /// The calibration outlives it.
  ScoreLines(const Calibration& calibration, Emit emit) : calibration_(calibration), emit_(emit) {}

  /// Appends the line of a scored record to `out`. False when a score is no finite number: what was appended is then the record's error.
  bool append(const Record& record, const Where& where, std::span<const float> logits, const std::array<float, 2>& act, std::string& out);

 private:
  const Calibration& calibration_;
  Emit emit_;
  std::vector<double> probs_;
};

/// Appends the line of a record's error.
void append_error_line(const Record& record, const Where& where, const RecordError& error, std::string& out);

}  // namespace kime
