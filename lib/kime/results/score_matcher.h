// Brings the lines of two score files together.
#pragma once

#include <optional>

#include "kime/results/score_comparer.h"
#include "kime/results/score_reader.h"

namespace kime {

/// Reads both files to their ends and gives `comparer` each pair of lines with the same key, and what is left over. Lines in the same
/// order take constant memory; a line whose counterpart has not come yet costs about 25 bytes, and its bytes in a temporary file.
[[nodiscard]] std::optional<ResultsTrouble> match_scores(ScoreReader& before, ScoreReader& after, ScoreComparer& comparer);

}  // namespace kime
