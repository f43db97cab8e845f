// What an answer settles on, and what a label says is right: one rule for scoring, comparing and reporting.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kime {

/// The types of questions, in the order of their numbers.
inline constexpr std::array<std::string_view, 3> kTypeNames = {"choice", "score", "noul"};

/// The level of a `score`: the nearest, halves up.
[[nodiscard]] inline double nearest_level(double score) {
  return std::floor(score + 0.5);
}

/// Whether a `noul`, the probability of yes, is a yes.
[[nodiscard]] inline bool is_yes(double noul) {
  return noul > 0.5;
}

/// The option that a field `label` names: a count from 0 as a JSON integer, or true or false for 1 or 0; nothing for anything else.
[[nodiscard]] inline std::optional<std::uint32_t> option_of_label(std::string_view label) {
  if (label == "true" || label == "false") {
    return label == "true" ? 1 : 0;
  }
  std::uint32_t option = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), option);
  return error == std::errc() && end == label.data() + label.size() ? std::optional(option) : std::nullopt;
}

}  // namespace kime
