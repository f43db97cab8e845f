#include "kime/results/score_comparer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kime/io/json_scanner.h"
#include "kime/io/json_text.h"

namespace kime {
namespace {

ShownRecord shown(const ScoreView& before, const ScoreView& after) {
  return {shortened(before.id), before.line, after.line};
}

std::size_t bin_of(double distance) {
  const int power = std::ilogb(distance) - FieldDifferences::kLowest;
  return static_cast<std::size_t>(std::clamp(power, 0, static_cast<int>(FieldDifferences::kBins) - 1));
}

std::string count_text(ScoreField field, std::size_t count) {
  return is_list(field) ? fmt::format("{} numbers", count) : count == 0 ? "null" : "a number";
}

}  // namespace

bool ScoreComparer::LargerMarginFirst::operator()(const ShownFlip& a, const ShownFlip& b) const {
  const auto size = [](const ShownFlip& flip) {  // one that is not known may be any
    const double most = std::numeric_limits<double>::infinity();
    return std::max(flip.margin_before.value_or(most), flip.margin_after.value_or(most));
  };
  return size(a) != size(b) ? size(a) > size(b) : a.record.old_line < b.record.old_line;
}

ScoreComparer::ScoreComparer(const ScoreTolerance& tolerance, const ShownLimits& limits)
    : limits_(limits), worst_(limits.worst), flips_(limits.flips) {
  found_.tolerance = tolerance;
}

void ScoreComparer::saw_old(const ScoreView& line) {
  ++found_.old_records;
  found_.old_errors += line.error.empty() ? 0 : 1;
  found_.old_fields.add(line.fields);
}

void ScoreComparer::saw_new(const ScoreView& line) {
  ++found_.new_records;
  found_.new_errors += line.error.empty() ? 0 : 1;
  found_.new_fields.add(line.fields);
}

void ScoreComparer::show(ScoreFailure failure, ShownRecord record, std::string why) {
  std::size_t& shown = shown_[static_cast<std::size_t>(failure)];
  if (shown < limits_.failures) {
    ++shown;
    found_.failures.push_back({std::move(record), failure, std::move(why)});
  }
}

void ScoreComparer::fail(ScoreFailure failure, ShownRecord record, std::string why) {
  ++found_.failed[static_cast<std::size_t>(failure)];
  show(failure, std::move(record), std::move(why));
}

void ScoreComparer::only_one_side(ScoreFailure side, std::uint64_t count) {
  found_.failed[static_cast<std::size_t>(side)] += count;
}

void ScoreComparer::show_one_side(ScoreFailure side, const ScoreView& line) {
  const bool is_old = side == ScoreFailure::only_old;
  show(side, {shortened(line.id), is_old ? line.line : 0, is_old ? 0 : line.line},
       fmt::format("only in {}", is_old ? "the old file" : "the new file"));
}

void ScoreComparer::sample(ScoreField field, std::span<const double> before, std::span<const double> after) {
  Sample& sample = samples_[index_of(field)];
  auto& points = found_.points[index_of(field)];
  std::uint64_t at = sample.skip;
  for (; at < before.size(); at += 1 + (sample.random() % (2 * sample.step - 1))) {
    if (points.size() == limits_.points) {  // every other one goes
      for (std::size_t i = 0; 2 * i < points.size(); ++i) {
        points[i] = points[2 * i];
      }
      points.resize((points.size() + 1) / 2);
      sample.step *= 2;
    }
    points.push_back({before[at], after[at]});
  }
  sample.skip = at - before.size();
}

void ScoreComparer::compare_numbers(ScoreField field, std::span<const double> before, std::span<const double> after, PairState& state) {
  FieldDifferences& found = found_.fields[index_of(field)];
  found.numbers += before.size();
  if (limits_.points > 0 && !before.empty()) {
    sample(field, before, after);
  }
  if (before.empty() || std::memcmp(before.data(), after.data(), before.size_bytes()) == 0) {
    found.same += before.size();
    return;
  }
  state.same = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double was = before[i];
    const double is = after[i];
    const double distance = std::fabs(was - is);
    if (distance == 0 && std::signbit(was) == std::signbit(is)) {
      ++found.same;
      continue;
    }
    if (field == ScoreField::choice) {  // an index: no distance, and a flip decides
      ++found.beyond;
      continue;
    }
    found.sum += distance;
    found.largest = std::max(found.largest, distance);
    if (distance > 0) {
      ++found.histogram[bin_of(distance)];
    }
    if (distance > state.worst.distance) {
      state.worst = {{}, field, i, was, is, distance};
    }
    if (!found_.tolerance.within(field, was, is)) {
      ++found.beyond;
      if (state.why.empty()) {
        state.why = fmt::format("{}{}: {} against {}, {:.3g} apart", name_of(field), is_list(field) ? fmt::format("[{}]", i) : "", was, is,
                                distance);
      }
      state.beyond = true;
    }
  }
}

// Whether a choice changed only because two options lie so near that the tolerance on what it is made by covers the change.
bool ScoreComparer::excused_choice(const ScoreView& before, const ScoreView& after, const PairState& state) const {
  if (state.beyond) {
    return false;
  }
  for (const ScoreField field : {ScoreField::logits, ScoreField::probs}) {
    if (!before.has(field) || !after.has(field) || found_.tolerance.exact(field)) {
      continue;
    }
    const auto flip = find_flip(before, after);
    if (!flip || !flip->margin_before) {
      return false;
    }
    const auto was = before.of(field);
    const auto is = after.of(field);
    const auto a = static_cast<std::size_t>(*flip->before);
    const auto b = static_cast<std::size_t>(*flip->after);
    return *flip->margin_before <= found_.tolerance.allowed(field, was[a], is[a]) + found_.tolerance.allowed(field, was[b], is[b]);
  }
  return false;
}

void ScoreComparer::compare_field(ScoreField field, const ScoreView& before, const ScoreView& after, PairState& state) {
  FieldDifferences& found = found_.fields[index_of(field)];
  if (!before.has(field) || !after.has(field)) {
    if (before.has(field) || after.has(field)) {
      if (found.only_old + found.only_new == 0) {
        found.uneven_old_line = before.line;
        found.uneven_new_line = after.line;
      }
      ++(before.has(field) ? found.only_old : found.only_new);
    }
    return;
  }
  state.any = true;
  ++found.records;
  const auto was = before.of(field);
  const auto is = after.of(field);
  if (was.size() == is.size()) {
    compare_numbers(field, was, is, state);
    return;
  }
  ++found.lengths;
  state.same = false;
  state.beyond = true;
  if (state.why.empty()) {
    state.why = fmt::format("{}: {} against {}", name_of(field), count_text(field, was.size()), count_text(field, is.size()));
  }
}

void ScoreComparer::compare_errors(const ScoreView& before, const ScoreView& after) {
  if (before.error.empty()) {
    fail(ScoreFailure::error_came, shown(before, after), fmt::format("an error came: {}", shortened(after.error)));
    return;
  }
  if (after.error.empty()) {
    fail(ScoreFailure::error_went, shown(before, after), fmt::format("an error went: {}", shortened(before.error)));
    return;
  }
  ++found_.errors_both;
  if (before.error != after.error && field_of(before.error, "kind") != field_of(after.error, "kind")) {
    fail(ScoreFailure::error_changed, shown(before, after),
         fmt::format("the error was {} and is {}", shortened(before.error), shortened(after.error)));
  }
}

void ScoreComparer::pair(const ScoreView& before, const ScoreView& after) {
  ++found_.matched;
  if (!before.error.empty() || !after.error.empty()) {
    compare_errors(before, after);
    return;
  }
  ++found_.compared;
  PairState state;
  for (const ScoreField field : kAllScoreFields) {
    compare_field(field, before, after, state);
  }
  if (state.same) {
    found_.same_records += state.any ? 1 : 0;
    return;
  }
  if (const auto flip = find_flip(before, after)) {
    ++found_.flips;
    flips_.add({shown(before, after), std::string(flip->kind), flip->before, flip->after, flip->margin_before, flip->margin_after,
                std::string(flip->unit)});
    if (flip->kind == "choice" && !excused_choice(before, after, state)) {
      state.beyond = true;
      if (state.why.empty()) {
        state.why = "the choice is another one";
      }
    }
  }
  if (state.worst.distance > 0 && worst_.wants(state.worst)) {
    state.worst.record = shown(before, after);
    worst_.add(std::move(state.worst));
  }
  if (state.beyond) {
    fail(ScoreFailure::distance, shown(before, after), std::move(state.why));
  }
}

ScoreDifferences ScoreComparer::take() {
  found_.worst = worst_.sorted();
  found_.shown_flips = flips_.sorted();
  return std::move(found_);
}

}  // namespace kime
