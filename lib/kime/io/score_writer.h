// From scores to a line.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kime/io/record.h"

namespace kime {

/// What a line says about a record.
enum class Emit {
  logits,  ///< logits and act.
  probs,   ///< act and probs.
  answer,  ///< The answer, its confidences and act_probability.
  all,
};

/// How a line begins, with scores or with an error.
struct LineHead {
  std::string_view id;     ///< JSON as it stood; empty where the line number stands in.
  std::uint64_t line = 0;  ///< From 1 in its file.
  std::string_view file;   ///< As a JSON string; empty where there is only one.
  std::string_view kept;   ///< Record::kept.
};

/// The scores of one record; all numbers are finite. Only what the Emit asks for is looked at.
struct ScoreFields {
  std::span<const float> logits;  ///< One for each option.
  std::array<float, 2> act{};
  std::span<const double> probs;  ///< One for each option; `answer` needs them too, to know whether there are any.
  std::uint8_t qtype = 0;         ///< 0 choice, 1 score, 2 noul.
  bool has_answer = false;        ///< Without one it is null.
  double answer = 0;              ///< choice: an index.
  double confidence = 0;          ///< Both confidences are left out without options.
  double answer_confidence = 0;
  double act_probability = 0;
  bool averaged = false;  ///< No logits; act is `mean_act`, a float64 pair.
  std::array<double, 2> mean_act{};
};

/// Appends the line of one record's scores, with its line end: id, file, kept fields, logits, act, probs, the answer, confidence,
/// answer_confidence, act_probability, as far as `emit` asks for them.
void append_scores(std::string& out, const LineHead& head, const ScoreFields& fields, Emit emit);

/// Appends the line of a record's error, with its line end: id, file, kept fields, line, error.
void append_error(std::string& out, const LineHead& head, const RecordError& error);

}  // namespace kime
