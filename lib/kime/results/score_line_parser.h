// From a line of a score file to an entry of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kime/results/score_block.h"

namespace kime {

/// Parses one line of scores, or an error line, and adds it to `block`. Fields that kime does not write are passed over, `label` is kept.
/// Gives what is wrong otherwise (no JSON, no id, a field twice, a list or a number that is none, NaN), and leaves the block as it was.
[[nodiscard]] std::optional<std::string> parse_score_line(std::string_view line, std::uint64_t number, ScoreBlock& block);

/// The hash of a key.
[[nodiscard]] KeyHash hash_key(std::string_view key);

}  // namespace kime
