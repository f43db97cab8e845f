// What an answer settles on, and what a label says is right: one rule for scoring, comparing and reporting.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kime {

/// The types of question, by the numbers that records and batches carry.
enum class QuestionType : std::uint8_t { choice = 0, score = 1, noul = 2 };

/// Their names, in the order of their numbers.
inline constexpr std::array<std::string_view, 3> kTypeNames = {"choice", "score", "noul"};

/// The level that a `score` expects, from the probabilities of all levels: the sum of i p_i.
[[nodiscard]] inline double expected_level(std::span<const double> probabilities) {
  double level = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    level += static_cast<double>(i) * probabilities[i];
  }
  return level;
}

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
