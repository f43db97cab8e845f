// Answers that are others than before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kime/results/score_block.h"

namespace kime {

/// A record whose answer changed: the index of the choice, the side of one half on which noul lies (half itself is no), the whole level
/// nearest to score (the higher of two that are as near); where a line says none of these, the index of the largest logit or probability.
struct AnswerFlip {
  std::string_view kind;  ///< "choice", "noul", "score", or "best option".
  std::optional<double> before;
  std::optional<double> after;  ///< Indices, noul's probabilities or score's levels as they stand; nothing where null.
  /// By how much each answer beat the other one, in the same file; nothing where the lines do not say. Two small ones are a near tie.
  std::optional<double> margin_before;
  std::optional<double> margin_after;
  std::string_view unit;  ///< Of the margins: "logit", "probability" or "level"; empty without.
};

/// The flip between two lines of the same record, if there is one.
[[nodiscard]] std::optional<AnswerFlip> find_flip(const ScoreView& before, const ScoreView& after);

}  // namespace kime
