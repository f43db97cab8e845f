// What a comparison of two score files found.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kime/results/score_block.h"
#include "kime/results/score_tolerance.h"

namespace kime {

/// One field over all pairs of lines.
struct FieldDifferences {
  /// Distances by the power of two below them, from 2^-60 up; what is beyond the ends is in the first or last one.
  static constexpr int kLowest = -60;
  static constexpr std::size_t kBins = 80;

  std::uint64_t records = 0;  ///< Pairs that both have it.
  std::uint64_t numbers = 0;  ///< Of those, where both have as many.
  std::uint64_t same = 0;     ///< The same bits.
  std::uint64_t beyond = 0;   ///< Beyond tolerance; of choices, all that changed.
  double largest = 0;         ///< This and the next are 0 for choices.
  double sum = 0;
  std::uint64_t lengths = 0;   ///< Pairs with a number of numbers each.
  std::uint64_t only_old = 0;  ///< Pairs of which only one line has it.
  std::uint64_t only_new = 0;
  std::uint64_t uneven_old_line = 0;  ///< The first of those.
  std::uint64_t uneven_new_line = 0;
  std::array<std::uint64_t, kBins> histogram{};  ///< Without distances of 0.

  [[nodiscard]] double mean() const { return numbers == 0 ? 0 : sum / static_cast<double>(numbers); }
};

/// A line of each file, kept to be shown.
struct ShownRecord {
  std::string id;  ///< JSON, or the beginning of it.
  std::uint64_t old_line = 0;
  std::uint64_t new_line = 0;  ///< 0 where there is none.
};

/// A number that is another.
struct ShownDistance {
  ShownRecord record;
  ScoreField field = ScoreField::logits;
  std::size_t index = 0;
  double before = 0;
  double after = 0;
  double distance = 0;
};

struct ShownFlip {
  ShownRecord record;
  std::string kind;
  std::optional<double> before;
  std::optional<double> after;
  std::optional<double> margin_before;
  std::optional<double> margin_after;
  std::string unit;
};

/// Why a record does not pass.
enum class ScoreFailure : std::uint8_t { distance, error_came, error_went, error_changed, only_old, only_new };
inline constexpr std::size_t kScoreFailures = 6;

[[nodiscard]] constexpr std::string_view name_of(ScoreFailure failure) {
  constexpr std::array<std::string_view, kScoreFailures> kNames = {"distance",      "error_came", "error_went",
                                                                   "error_changed", "only_old",   "only_new"};
  return kNames[static_cast<std::size_t>(failure)];
}

struct ShownFailure {
  ShownRecord record;
  ScoreFailure failure = ScoreFailure::distance;
  std::string why;
};

struct ShownPoint {
  double before = 0;
  double after = 0;
};

/// All of it; memory is bounded, whatever the files' sizes.
struct ScoreDifferences {
  std::string old_name;
  std::string new_name;
  ScoreTolerance tolerance;
  std::uint64_t old_records = 0;
  std::uint64_t new_records = 0;
  std::uint64_t old_errors = 0;
  std::uint64_t new_errors = 0;
  std::uint64_t matched = 0;
  std::uint64_t compared = 0;      ///< Matched, with scores on both sides.
  std::uint64_t same_records = 0;  ///< Of those, the same bits in all fields that both have.
  std::uint64_t errors_both = 0;
  std::uint64_t flips = 0;
  std::array<std::uint64_t, kScoreFailures> failed{};
  ScoreFieldSet old_fields;
  ScoreFieldSet new_fields;
  std::array<FieldDifferences, kScoreFields> fields;

  std::vector<ShownDistance> worst;                          ///< By distance, one a record.
  std::vector<ShownFlip> shown_flips;                        ///< By the larger margin.
  std::vector<ShownFailure> failures;                        ///< The first ones.
  std::array<std::vector<ShownPoint>, kScoreFields> points;  ///< Every so-manyth number, where they were asked for.

  [[nodiscard]] std::uint64_t failed_of(ScoreFailure failure) const { return failed[static_cast<std::size_t>(failure)]; }
  [[nodiscard]] std::uint64_t failed_records() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : failed) {
      sum += count;
    }
    return sum;
  }
  [[nodiscard]] ScoreFieldSet common_fields() const { return old_fields.both(new_fields); }
  /// Whether `field`, which both files have, is missing in one line of some pairs.
  [[nodiscard]] bool uneven(ScoreField field) const {
    const FieldDifferences& found = fields[index_of(field)];
    return common_fields().has(field) && found.only_old + found.only_new > 0;
  }
  [[nodiscard]] bool any_uneven() const {
    return std::ranges::any_of(kAllScoreFields, [this](ScoreField field) { return uneven(field); });
  }
  [[nodiscard]] bool passed() const { return failed_records() == 0 && !any_uneven(); }
};

}  // namespace kime
