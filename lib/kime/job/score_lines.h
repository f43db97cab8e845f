// From the engine's outputs for one record to its line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/io/record.h"
#include "kime/io/score_writer.h"
#include "kime/job/intake.h"
#include "kime/model/calibration.h"

namespace kime {

/// How the scores of several checkpoints become one.
enum class Ensemble : std::uint8_t {
  mean,    ///< Calibrated probabilities and act are averaged in float64; there are no logits.
  logits,  ///< Logits and act are averaged in float64 and rounded to float32; calibrated as the first checkpoint.
};

/// What one checkpoint said about one record.
struct RecordScores {
  std::span<const float> logits;
  std::array<float, 2> act{};
};

/// For one thread: keeps its scratch.
class ScoreLines {
 public:
  /// A calibration for each checkpoint, in the order in which they are averaged; outlive it.
  ScoreLines(std::span<const Calibration> calibrations, Emit emit, Ensemble ensemble)
      : calibrations_(calibrations), emit_(emit), ensemble_(ensemble) {}

  /// Appends the line of a scored record to `out`, from the scores of each checkpoint, in order. False when one is no finite number: what
  /// was appended is then the record's error.
  bool append(const Record& record, const Where& where, std::span<const RecordScores> scores, std::string& out);
  /// Whether the scores that were appended last settle on the record's label; nothing where it has none that can be used.
  [[nodiscard]] std::optional<bool> right() const { return right_; }

 private:
  void average_logits(std::span<const RecordScores> scores);
  void average_probabilities(const Record& record, std::span<const RecordScores> scores, ScoreFields& fields);

  std::span<const Calibration> calibrations_;
  Emit emit_;
  Ensemble ensemble_;
  std::vector<double> probs_;
  std::vector<double> one_;  ///< Of one checkpoint.
  std::vector<float> logits_;
  std::array<float, 2> act_{};
  std::optional<bool> right_;
};

/// Appends the line of a record's error.
void append_error_line(const Record& record, const Where& where, const RecordError& error, std::string& out);

}  // namespace kime
