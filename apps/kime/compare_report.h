// What `compare` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kime/results/score_differences.h"

namespace kime::app {

/// For people: a screen or two.
[[nodiscard]] std::string compare_text(const ScoreDifferences& found);
/// The document of --json.
[[nodiscard]] nlohmann::ordered_json compare_json(const ScoreDifferences& found);

}  // namespace kime::app
