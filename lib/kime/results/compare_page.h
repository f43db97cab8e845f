// A comparison as a page.
#pragma once

#include <string>

#include "kime/results/score_differences.h"

namespace kime {

/// The summary, the fields, old against new, the distances, the flips, the largest distances and the records that failed.
[[nodiscard]] std::string compare_page(const ScoreDifferences& found);

}  // namespace kime
