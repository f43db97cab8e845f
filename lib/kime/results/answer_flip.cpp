#include "kime/results/answer_flip.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kime/base/answers.h"

namespace kime {
namespace {

using Numbers = std::span<const double>;

struct Values {
  Numbers before;
  Numbers after;
  std::string_view unit;
};

// What a choice is made by, where both lines have it and it is about the same options.
std::optional<Values> option_values(const ScoreView& before, const ScoreView& after) {
  for (const ScoreField field : {ScoreField::logits, ScoreField::probs}) {
    if (before.has(field) && after.has(field) && before.of(field).size() == after.of(field).size() && !before.of(field).empty()) {
      return Values{before.of(field), after.of(field), field == ScoreField::logits ? "logit" : "probability"};
    }
  }
  return std::nullopt;
}

std::optional<double> single(Numbers numbers) {
  return numbers.empty() ? std::nullopt : std::optional(numbers[0]);
}

// An index into `options`, where it is one.
std::optional<std::size_t> option_index(std::optional<double> answer, Numbers options) {
  if (!answer || *answer < 0 || *answer >= static_cast<double>(options.size()) || std::floor(*answer) != *answer) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(*answer);
}

void add_margins(AnswerFlip& flip, const Values& values) {
  const auto old_best = option_index(flip.before, values.before);
  const auto new_best = option_index(flip.after, values.after);
  if (old_best && new_best) {
    flip.margin_before = values.before[*old_best] - values.before[*new_best];
    flip.margin_after = values.after[*new_best] - values.after[*old_best];
    flip.unit = values.unit;
  }
}

double best_of(Numbers numbers) {
  return static_cast<double>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

std::optional<AnswerFlip> flip_of_choice(const ScoreView& before, const ScoreView& after, std::string_view kind, std::optional<double> was,
                                         std::optional<double> is) {
  if (was == is) {
    return std::nullopt;
  }
  AnswerFlip flip{kind, was, is, {}, {}, {}};
  if (const auto values = option_values(before, after)) {
    add_margins(flip, *values);
  }
  return flip;
}

std::optional<AnswerFlip> flip_of_noul(std::optional<double> was, std::optional<double> is) {
  if (was.has_value() && is.has_value()) {
    if (is_yes(*was) == is_yes(*is)) {
      return std::nullopt;
    }
    return AnswerFlip{"noul", was, is, std::fabs(*was - 0.5), std::fabs(*is - 0.5), "probability"};
  }
  return was == is ? std::nullopt : std::optional(AnswerFlip{"noul", was, is, {}, {}, {}});
}

std::optional<AnswerFlip> flip_of_score(std::optional<double> was, std::optional<double> is) {
  if (was.has_value() && is.has_value()) {
    const double level_before = nearest_level(*was);
    const double level_after = nearest_level(*is);
    if (level_before == level_after) {
      return std::nullopt;
    }
    // To the edge of each one's own level, on the other's side.
    const double side = level_after > level_before ? 0.5 : -0.5;
    return AnswerFlip{"score", was, is, std::fabs(level_before + side - *was), std::fabs(*is - (level_after - side)), "level"};
  }
  return was == is ? std::nullopt : std::optional(AnswerFlip{"score", was, is, {}, {}, {}});
}

}  // namespace

std::optional<AnswerFlip> find_flip(const ScoreView& before, const ScoreView& after) {
  const auto both = [&](ScoreField field) { return before.has(field) && after.has(field); };
  const auto was = [&](ScoreField field) { return single(before.of(field)); };
  const auto is = [&](ScoreField field) { return single(after.of(field)); };
  if (both(ScoreField::choice)) {
    return flip_of_choice(before, after, "choice", was(ScoreField::choice), is(ScoreField::choice));
  }
  if (both(ScoreField::noul)) {
    return flip_of_noul(was(ScoreField::noul), is(ScoreField::noul));
  }
  if (both(ScoreField::score)) {
    return flip_of_score(was(ScoreField::score), is(ScoreField::score));
  }
  const auto values = option_values(before, after);
  return values ? flip_of_choice(before, after, "best option", best_of(values->before), best_of(values->after)) : std::nullopt;
}

}  // namespace kime
