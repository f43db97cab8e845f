#include "kime/results/run_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kime/base/answers.h"
#include "kime/io/json_scanner.h"
#include "kime/io/json_text.h"

namespace kime {
namespace {

constexpr double kBinsPerDoubling = 8;
constexpr std::size_t kMostMessage = 500;  // bytes

using Numbers = std::span<const double>;

std::optional<double> single(const ScoreView& line, ScoreField field) {
  return line.of(field).empty() ? std::nullopt : std::optional(line.of(field)[0]);
}

Numbers options_of(const ScoreView& line) {
  return line.has(ScoreField::probs) ? line.of(ScoreField::probs) : line.of(ScoreField::logits);
}

// The option that the line's answer settles on, as `kime score --labels` has it; without an answer what its probabilities say, or the best
// one, if the line tells.
std::optional<double> best_option(const ScoreView& line, std::size_t type) {
  if (const auto noul = single(line, ScoreField::noul)) {
    return is_yes(*noul) ? 1 : 0;
  }
  if (const auto score = single(line, ScoreField::score)) {
    return nearest_level(*score);
  }
  if (const auto choice = single(line, ScoreField::choice)) {
    return choice;
  }
  if (const Numbers probs = line.of(ScoreField::probs); type == static_cast<std::size_t>(QuestionType::score) && !probs.empty()) {
    return nearest_level(expected_level(probs));
  }
  const Numbers options = options_of(line);
  return options.empty() ? std::nullopt
                         : std::optional(static_cast<double>(std::max_element(options.begin(), options.end()) - options.begin()));
}

std::optional<double> largest_probability(const ScoreView& line) {
  if (const auto confidence = single(line, ScoreField::answer_confidence)) {
    return confidence;
  }
  const Numbers probs = line.of(ScoreField::probs);
  return probs.empty() ? std::nullopt : std::optional(*std::max_element(probs.begin(), probs.end()));
}

std::optional<double> logit_margin(Numbers logits) {
  if (logits.size() < 2) {
    return std::nullopt;
  }
  double best = -std::numeric_limits<double>::infinity();
  double next = best;
  for (const double logit : logits) {
    next = std::max(next, std::min(best, logit));
    best = std::max(best, logit);
  }
  return best - next;
}

void add_if(GrowingHistogram& histogram, std::optional<double> value) {
  if (value && std::isfinite(*value)) {
    histogram.add(*value);
  }
}

std::size_t type_of(const ScoreView& line) {
  constexpr ScoreField kAnswers[] = {ScoreField::choice, ScoreField::score, ScoreField::noul};
  for (std::size_t i = 0; i < std::size(kAnswers); ++i) {
    if (line.has(kAnswers[i])) {
      return i;
    }
  }
  return RunReport::kTypes - 1;
}

}  // namespace

void LabelReport::add(bool is_right, std::optional<double> confidence) {
  ++count;
  right += is_right ? 1 : 0;
  if (confidence && *confidence >= 0 && *confidence <= 1) {
    ++with_confidence;
    Bin& bin = bins[std::min(kBins - 1, static_cast<std::size_t>(*confidence * kBins))];
    ++bin.count;
    bin.right += is_right ? 1 : 0;
    bin.confidence += *confidence;
  }
}

double LabelReport::calibration_error() const {
  double sum = 0;
  for (const Bin& bin : bins) {
    sum += std::fabs(static_cast<double>(bin.right) - bin.confidence);
  }
  return with_confidence == 0 ? 0 : sum / static_cast<double>(with_confidence);
}

std::size_t RunReport::length_bin(std::size_t tokens) {
  const auto bin = static_cast<std::size_t>(std::log2(static_cast<double>(std::max<std::size_t>(tokens, 1))) * kBinsPerDoubling);
  return std::min<std::size_t>(bin, 255);
}

double RunReport::length_edge(std::size_t bin) {
  return std::exp2(static_cast<double>(bin) / kBinsPerDoubling);
}

void RunReport::add_length(std::size_t length) {
  shortest = with_length == 0 ? length : std::min(shortest, length);
  longest = std::max(longest, length);
  ++with_length;
  tokens += length;
  ++lengths[length_bin(length)];
}

void RunReport::add_error(const ScoreView& line) {
  ++errors;
  const std::string_view kind = field_of(line.error, "kind");
  std::string name = kind.starts_with('"') ? shortened(unquoted(kind)) : "without a kind";
  if (error_kinds.size() >= kMostKinds && !error_kinds.contains(name)) {
    name = "others";
  }
  ErrorKind& found = error_kinds[name];
  if (found.count == 0) {
    const std::string_view message = field_of(line.error, "message");
    found.first_line = line.line;
    found.first_message = message.starts_with('"') ? unquoted(message) : "";
    if (found.first_message.size() > kMostMessage) {
      found.first_message = shortened(found.first_message);
    }
  }
  ++found.count;
}

void RunReport::add_label(std::string_view label, const std::optional<double>& best, const ScoreView& line, TypeReport& type) {
  const auto index = option_of_label(label);
  if (!index) {
    ++bad_labels;
  } else if (best) {
    const auto confidence = largest_probability(line);
    type.labels.add(*best == *index, confidence);
    labels.add(*best == *index, confidence);
  }
}

void RunReport::add(const ScoreView& line, const std::optional<RecordFacts>& facts) {
  ++records;
  if (facts) {
    add_length(facts->tokens);
  }
  if (!line.error.empty()) {
    add_error(line);
    return;
  }
  const std::size_t index = facts ? std::min<std::size_t>(facts->qtype, kTypes - 1) : type_of(line);
  TypeReport& type = types[index];
  ++type.records;
  add_if(type.confidence, largest_probability(line));
  add_if(type.margin, logit_margin(line.of(ScoreField::logits)));
  add_if(type.score, single(line, ScoreField::score));
  add_if(type.noul, single(line, ScoreField::noul));
  add_if(type.act_probability, single(line, ScoreField::act_probability));
  const auto best = best_option(line, index);
  if (best) {
    ++type.best[static_cast<std::size_t>(std::clamp(*best, 0.0, TypeReport::kOptions - 1.0))];
  } else {
    ++type.no_options;
  }
  const std::string_view label = facts && !facts->label.empty() ? std::string_view(facts->label) : line.label;
  if (!label.empty()) {
    add_label(label, best, line, type);
  }
}

}  // namespace kime
