// A comparison as CI systems read it.
#pragma once

#include <string>
#include <string_view>

#include "kime/results/score_differences.h"

namespace kime {

/// A JUnit document by the schema that Jenkins and others use: a case "summary" that carries `text`, and one for each record that
/// failed and is shown.
[[nodiscard]] std::string compare_junit(const ScoreDifferences& found, std::string_view text);

}  // namespace kime
