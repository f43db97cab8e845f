// Temperatures: how raw logits become probabilities.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "kime/base/answers.h"

namespace kime {

/// The checkpoint's temperatures, each already a finite number clamped to [0.5, 5].
struct Calibration {
  std::array<double, 3> by_type = {1, 1, 1};
  /// [type][option class], option classes 2, 3-5, 6-10, 11+.
  std::array<std::array<std::optional<double>, 4>, 3> by_options = {};

  /// The temperature for a question of `options` options (fewer than 2 count as 2).
  [[nodiscard]] double temperature(QuestionType type, std::size_t options) const;
};

/// A temperature that can be used: `value` within [0.5, 5], and 1 for what is no finite number.
[[nodiscard]] double clamp_temperature(double value);

/// softmax(logits / temperature) in float64, with this project's own exp and a fixed order of sums. out has logits.size() entries.
void calibrated_softmax(std::span<const float> logits, double temperature, std::span<double> out);
void calibrated_softmax(std::span<const double> logits, double temperature, std::span<double> out);

/// What `--emit answer` says about one record, from its calibrated probabilities (design, section 4).
struct Answer {
  /// choice: index of the best, first of equals; score: sum of i p_i; noul: p[1]. Nothing for a record without options, and for noul with
  /// one.
  std::optional<double> value;
  double confidence = 0;         ///< Without options neither confidence means anything.
  double answer_confidence = 0;  ///< The largest probability.
};
[[nodiscard]] Answer answer(QuestionType type, std::span<const double> probabilities);

/// The option that an answer settles on: choice: it; score: the nearest one, halves up; noul: 1 above a half, else 0.
[[nodiscard]] std::optional<std::size_t> settled_option(QuestionType type, const Answer& answer);

/// softmax(act)[0] in float64.
[[nodiscard]] double act_probability(const std::array<double, 2>& act);

}  // namespace kime
