#include "kime/job/score_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace kime {

namespace {

LineHead head(const Record& record, const Where& where) {
  return {record.id, where.line, where.file, record.kept};
}

std::optional<RecordError> find_nonfinite(std::span<const float> logits, const std::array<float, 2>& act) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return RecordError{"nonfinite", fmt::format("logit {} is {}", i, logits[i]), {}};
    }
  }
  for (std::size_t i = 0; i < act.size(); ++i) {
    if (!std::isfinite(act[i])) {
      return RecordError{"nonfinite", fmt::format("act {} is {}", i, act[i]), {}};
    }
  }
  return std::nullopt;
}

}  // namespace

bool ScoreLines::append(const Record& record, const Where& where, std::span<const float> logits, const std::array<float, 2>& act,
                        std::string& out) {
  if (const auto error = find_nonfinite(logits, act)) {
    append_error_line(record, where, *error, out);
    return false;
  }
  ScoreFields fields;
  fields.logits = logits;
  fields.act = act;
  fields.qtype = record.qtype;
  if (emit_ != Emit::logits) {
    const auto type = static_cast<QuestionType>(record.qtype);
    probs_.resize(logits.size());
    calibrated_softmax(logits, calibration_.temperature(type, logits.size()), probs_);
    const Answer answered = answer(type, probs_);
    fields.probs = probs_;
    fields.has_answer = answered.value.has_value();
    fields.answer = answered.value.value_or(0);
    fields.confidence = answered.confidence;
    fields.answer_confidence = answered.answer_confidence;
    fields.act_probability = act_probability(act);
  }
  append_scores(out, head(record, where), fields, emit_);
  return true;
}

void append_error_line(const Record& record, const Where& where, const RecordError& error, std::string& out) {
  append_error(out, head(record, where), error);
}

}  // namespace kime
