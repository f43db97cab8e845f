#include "kime/job/score_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace kime {

namespace {

LineHead head(const Record& record, const Where& where) {
  return {record.id, where.line, where.file, record.kept};
}

std::optional<RecordError> find_nonfinite(const RecordScores& scores, const std::string& whose) {
  for (std::size_t i = 0; i < scores.logits.size(); ++i) {
    if (!std::isfinite(scores.logits[i])) {
      return RecordError{"nonfinite", fmt::format("logit {}{} is {}", i, whose, scores.logits[i]), {}};
    }
  }
  for (std::size_t i = 0; i < scores.act.size(); ++i) {
    if (!std::isfinite(scores.act[i])) {
      return RecordError{"nonfinite", fmt::format("act {}{} is {}", i, whose, scores.act[i]), {}};
    }
  }
  return std::nullopt;
}

// The average of a float of each checkpoint, in float64 and in their order.
template <class Get>
double average(std::span<const RecordScores> scores, const Get& get) {
  double sum = 0;
  for (const RecordScores& each : scores) {
    sum += static_cast<double>(get(each));
  }
  return sum / static_cast<double>(scores.size());
}

}  // namespace

void ScoreLines::average_logits(std::span<const RecordScores> scores) {
  logits_.resize(scores[0].logits.size());
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    logits_[i] = static_cast<float>(average(scores, [i](const RecordScores& each) { return each.logits[i]; }));
  }
  for (std::size_t i = 0; i < act_.size(); ++i) {
    act_[i] = static_cast<float>(average(scores, [i](const RecordScores& each) { return each.act[i]; }));
  }
}

void ScoreLines::average_probabilities(const Record& record, std::span<const RecordScores> scores, ScoreFields& fields) {
  const std::size_t options = scores[0].logits.size();
  probs_.assign(options, 0);
  one_.resize(options);
  for (std::size_t model = 0; model < scores.size(); ++model) {
    const double temperature = calibrations_[model].temperature(static_cast<QuestionType>(record.qtype), options);
    calibrated_softmax(scores[model].logits, temperature, one_);
    for (std::size_t i = 0; i < options; ++i) {
      probs_[i] += one_[i];
    }
  }
  for (double& p : probs_) {
    p /= static_cast<double>(scores.size());
  }
  fields.averaged = true;
  for (std::size_t i = 0; i < fields.mean_act.size(); ++i) {
    fields.mean_act[i] = average(scores, [i](const RecordScores& each) { return each.act[i]; });
  }
}

bool ScoreLines::append(const Record& record, const Where& where, std::span<const RecordScores> scores, std::string& out) {
  right_.reset();
  for (std::size_t model = 0; model < scores.size(); ++model) {
    const std::string whose = scores.size() > 1 ? fmt::format(" of checkpoint {}", model + 1) : std::string();
    if (const auto error = find_nonfinite(scores[model], whose)) {
      append_error_line(record, where, *error, out);
      return false;
    }
  }
  ScoreFields fields;
  fields.qtype = record.qtype;
  const bool answers = emit_ != Emit::logits || record.label;
  if (scores.size() > 1 && ensemble_ == Ensemble::mean) {
    average_probabilities(record, scores, fields);
    fields.act_probability = act_probability(fields.mean_act);
  } else {
    fields.logits = scores[0].logits;
    fields.act = scores[0].act;
    if (scores.size() > 1) {
      average_logits(scores);
      fields.logits = logits_;
      fields.act = act_;
    }
    if (answers) {
      probs_.resize(fields.logits.size());
      const double temperature = calibrations_[0].temperature(static_cast<QuestionType>(record.qtype), fields.logits.size());
      calibrated_softmax(fields.logits, temperature, probs_);
      fields.act_probability = act_probability({fields.act[0], fields.act[1]});
    }
  }
  if (answers) {
    const Answer answered = answer(static_cast<QuestionType>(record.qtype), probs_);
    fields.probs = probs_;
    fields.has_answer = answered.value.has_value();
    fields.answer = answered.value.value_or(0);
    fields.confidence = answered.confidence;
    fields.answer_confidence = answered.answer_confidence;
    if (record.label) {
      right_ = settled_option(static_cast<QuestionType>(record.qtype), answered) == std::size_t{*record.label};
    }
  }
  append_scores(out, head(record, where), fields, emit_);
  return true;
}

void append_error_line(const Record& record, const Where& where, const RecordError& error, std::string& out) {
  append_error(out, head(record, where), error);
}

}  // namespace kime
