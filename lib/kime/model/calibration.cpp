#include "kime/model/calibration.h"

#include <algorithm>
#include <cmath>

#include "kime/base/answers.h"
#include "kime/base/fixed_math.h"

namespace kime {
namespace {

std::size_t option_class(std::size_t options) {
  if (options <= 2) {
    return 0;
  }
  return options <= 5 ? 1 : options <= 10 ? 2 : 3;
}

// 1 - H(p) / ln k, which rounding may carry past 0 or 1 by a hair.
double concentration(std::span<const double> probabilities) {
  if (probabilities.size() < 2) {
    return 1;
  }
  double entropy = 0;
  for (const double p : probabilities) {
    if (p > 0) {
      entropy -= p * fixed::log(p);
    }
  }
  return std::clamp(1 - entropy / fixed::log(static_cast<double>(probabilities.size())), 0.0, 1.0);
}

template <class T>
void softmax(std::span<const T> logits, double temperature, std::span<double> out) {
  if (logits.empty()) {
    return;
  }
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    out[i] = fixed::exp((static_cast<double>(logits[i]) - top) / temperature);
    sum += out[i];
  }
  for (double& p : out.first(logits.size())) {
    p /= sum;
  }
}

}  // namespace

double Calibration::temperature(QuestionType type, std::size_t options) const {
  const auto t = static_cast<std::size_t>(type);
  return by_options[t][option_class(options)].value_or(by_type[t]);
}

double clamp_temperature(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.5, 5.0) : 1.0;
}

void calibrated_softmax(std::span<const float> logits, double temperature, std::span<double> out) {
  softmax(logits, temperature, out);
}

void calibrated_softmax(std::span<const double> logits, double temperature, std::span<double> out) {
  softmax(logits, temperature, out);
}

Answer answer(QuestionType type, std::span<const double> probabilities) {
  Answer result;
  if (probabilities.empty()) {
    return result;
  }
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  result.answer_confidence = *best;
  switch (type) {
    case QuestionType::choice:
      result.value = static_cast<double>(best - probabilities.begin());
      result.confidence = concentration(probabilities);
      break;
    case QuestionType::score:
      result.value = expected_level(probabilities);
      result.confidence = concentration(probabilities);
      break;
    case QuestionType::noul:
      result.confidence = 1;
      if (probabilities.size() > 1) {
        result.value = probabilities[1];
        result.confidence = std::max(probabilities[1], 1 - probabilities[1]);
      }
      break;
  }
  return result;
}

std::optional<std::size_t> settled_option(QuestionType type, const Answer& answer) {
  if (!answer.value) {
    return std::nullopt;
  }
  if (type == QuestionType::noul) {
    return is_yes(*answer.value) ? 1 : 0;
  }
  return static_cast<std::size_t>(nearest_level(*answer.value));
}

double act_probability(const std::array<double, 2>& act) {
  std::array<double, 2> p = {};
  softmax(std::span<const double>(act), 1, p);
  return p[0];
}

}  // namespace kime
