#include "kime/io/score_writer.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>

#include "kime/base/float_text.h"
#include "kime/io/json_text.h"

namespace kime {
namespace {

void append_integer(std::string& out, std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), value);
}

void append_head(std::string& out, const LineHead& head) {
  out += R"({"id":)";
  if (head.id.empty()) {
    append_integer(out, head.line);
  } else {
    out += head.id;
  }
  if (!head.file.empty()) {
    out += R"(,"file":)";
    out += head.file;
  }
  out += head.kept;
}

template <class T>
void append_array(std::string& out, std::string_view name, std::span<const T> values) {
  out += name;
  char before = '[';
  for (const T value : values) {
    out += before;
    append_float(out, value);
    before = ',';
  }
  out += values.empty() ? "[]" : "]";
}

void append_number(std::string& out, std::string_view name, double value) {
  out += name;
  append_float(out, value);
}

void append_answer(std::string& out, const ScoreFields& fields) {
  constexpr std::array<std::string_view, 3> kNames = {R"(,"choice":)", R"(,"score":)", R"(,"noul":)"};
  out += kNames[fields.qtype];
  if (fields.has_answer) {
    append_float(out, fields.answer);
  } else {
    out += "null";
  }
  if (!fields.probs.empty()) {
    append_number(out, R"(,"confidence":)", fields.confidence);
    append_number(out, R"(,"answer_confidence":)", fields.answer_confidence);
  }
  append_number(out, R"(,"act_probability":)", fields.act_probability);
}

}  // namespace

void append_scores(std::string& out, const LineHead& head, const ScoreFields& fields, Emit emit) {
  append_head(out, head);
  if ((emit == Emit::logits || emit == Emit::all) && !fields.averaged) {
    append_array(out, R"(,"logits":)", fields.logits);
  }
  if (emit != Emit::answer && fields.averaged) {
    append_array(out, R"(,"act":)", std::span<const double>(fields.mean_act));
  } else if (emit != Emit::answer) {
    append_array(out, R"(,"act":)", std::span<const float>(fields.act));
  }
  if (emit == Emit::probs || emit == Emit::all) {
    append_array(out, R"(,"probs":)", fields.probs);
  }
  if (emit == Emit::answer || emit == Emit::all) {
    append_answer(out, fields);
  }
  out += "}\n";
}

void append_error(std::string& out, const LineHead& head, const RecordError& error) {
  append_head(out, head);
  out += R"(,"line":)";
  append_integer(out, head.line);
  out += R"(,"error":)";
  if (!error.object.empty()) {
    out += error.object;
  } else {
    out += R"({"kind":)";
    append_json_string(out, error.kind);
    out += R"(,"message":)";
    append_json_string(out, error.message);
    out += '}';
  }
  out += "}\n";
}

}  // namespace kime
