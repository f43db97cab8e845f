// How often answers are right, where records bring theirs.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "kime/io/record.h"

namespace kime {

/// Of the scored records of one run.
struct LabelCounts {
  std::array<std::uint64_t, 3> labelled = {};  ///< By question type.
  std::array<std::uint64_t, 3> right = {};
  std::uint64_t unusable = 0;  ///< Labels that are no option's number.

  /// A scored record; `is_right` as ScoreLines::right() has it.
  void add(const Record& record, std::optional<bool> is_right);
};

/// An object for each type of which there are labels, with `labelled`, `right` and `accuracy`; and `unusable`.
[[nodiscard]] nlohmann::json to_json(const LabelCounts& counts);

}  // namespace kime
