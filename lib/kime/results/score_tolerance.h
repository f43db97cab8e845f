// How far two scores may lie apart.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kime/results/score_block.h"

namespace kime {

/// Absolute tolerances by kind of field, and one that is relative to the larger of the two; a number is within tolerance if it is within
/// either. A kind without any must be the same bits.
struct ScoreTolerance {
  std::optional<double> logit;
  std::optional<double> prob;  ///< Of probs, score, noul, the confidences and act_probability.
  std::optional<double> act;
  std::optional<double> rel;

  [[nodiscard]] std::optional<double> of(ScoreField field) const {
    switch (field) {
      case ScoreField::logits:
        return logit;
      case ScoreField::act:
        return act;
      case ScoreField::choice:
        return std::nullopt;
      default:
        return prob;
    }
  }
  [[nodiscard]] bool exact(ScoreField field) const { return field == ScoreField::choice || (!of(field) && !rel); }
  /// How far the two may be apart; meaningless where exact().
  [[nodiscard]] double allowed(ScoreField field, double a, double b) const {
    return std::max(of(field).value_or(0), rel.value_or(0) * std::max(std::fabs(a), std::fabs(b)));
  }
  [[nodiscard]] bool within(ScoreField field, double a, double b) const {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
           (!exact(field) && std::fabs(a - b) <= allowed(field, a, b));
  }
};

}  // namespace kime
