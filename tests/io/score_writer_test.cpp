#include "kime/io/score_writer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

using kime::Emit;
using kime::LineHead;
using kime::RecordError;
using kime::ScoreFields;

namespace {

std::string scores(const LineHead& head, const ScoreFields& fields, Emit emit) {
  std::string out;
  append_scores(out, head, fields, emit);
  return out;
}

std::string error(const LineHead& head, const RecordError& error) {
  std::string out;
  append_error(out, head, error);
  return out;
}

const std::vector<float> kLogits = {1.25F, -0.5F, 3};
const std::vector<double> kProbs = {0.1, 0.25, 0.65};

ScoreFields fields(std::uint8_t qtype, double answer) {
  return {kLogits, {0.1F, -2}, kProbs, qtype, true, answer, 0.5, 0.65, 0.8909031788043871};
}

}  // namespace

TEST_CASE("each emit has its fields in order") {
  const LineHead head{R"("t-17")", 3, "", ""};
  CHECK(scores(head, fields(0, 2), Emit::logits) == R"({"id":"t-17","logits":[1.25,-0.5,3],"act":[0.1,-2]})"
                                                    "\n");
  CHECK(scores(head, fields(0, 2), Emit::probs) == R"({"id":"t-17","act":[0.1,-2],"probs":[0.1,0.25,0.65]})"
                                                   "\n");
  CHECK(scores(head, fields(0, 2), Emit::answer) ==
        R"({"id":"t-17","choice":2,"confidence":0.5,"answer_confidence":0.65,"act_probability":0.8909031788043871})"
        "\n");
  CHECK(scores(head, fields(1, 1.55), Emit::all) ==
        R"({"id":"t-17","logits":[1.25,-0.5,3],"act":[0.1,-2],"probs":[0.1,0.25,0.65],"score":1.55,"confidence":0.5,)"
        R"("answer_confidence":0.65,"act_probability":0.8909031788043871})"
        "\n");
  CHECK(scores(head, fields(2, 0.25), Emit::answer).find(R"("noul":0.25,)") != std::string::npos);
}

TEST_CASE("what has no answer is null, and without options the confidences are left out") {
  ScoreFields none;
  none.act_probability = 0.5;
  CHECK(scores({"1", 1, "", ""}, none, Emit::all) == R"({"id":1,"logits":[],"act":[0,0],"probs":[],"choice":null,"act_probability":0.5})"
                                                     "\n");
  const std::vector<double> one = {1};
  ScoreFields noul{{}, {}, one, 2, false, 0, 1, 1, 0.5};
  CHECK(scores({"1", 1, "", ""}, noul, Emit::answer) == R"({"id":1,"noul":null,"confidence":1,"answer_confidence":1,"act_probability":0.5})"
                                                        "\n");
}

TEST_CASE("the line number stands in for an id; file and kept fields follow it") {
  CHECK(scores({"", 17, "", ""}, fields(0, 2), Emit::logits).find(R"({"id":17,"logits")") == 0);
  CHECK(scores({R"({"a": 1})", 17, R"("a \"b\".jsonl")", R"(,"text":"x","n":1)"}, fields(0, 2), Emit::logits)
            .find(R"({"id":{"a": 1},"file":"a \"b\".jsonl","text":"x","n":1,"logits")") == 0);
}

TEST_CASE("an error line says which, where and why") {
  CHECK(error({R"("t-17")", 17, "", ""}, {"batch", "marker 9 is past sequence 0 of 7 tokens", ""}) ==
        R"({"id":"t-17","line":17,"error":{"kind":"batch","message":"marker 9 is past sequence 0 of 7 tokens"}})"
        "\n");
  CHECK(error({"null", 2, R"("b.jsonl")", R"(,"k":1)"}, {"json", "a \"quote\"\n\x01 and \xff", ""}) ==
        "{\"id\":null,\"file\":\"b.jsonl\",\"k\":1,\"line\":2,\"error\":{\"kind\":\"json\",\"message\":\"a \\\"quote\\\"\\n\\u0001 and "
        "\xef\xbf\xbd\"}}\n");
  CHECK(error({"", 5, "", ""}, {"", "", R"({"kind": "encode", "n": [1]})"}) == R"({"id":5,"line":5,"error":{"kind": "encode", "n": [1]}})"
                                                                               "\n");
}

TEST_CASE("every line is JSON, and lines are appended") {
  std::string out;
  kime::append_scores(out, {"", 1, R"("\u00ff.jsonl")", ""}, fields(0, 2), Emit::all);
  kime::append_error(out, {"", 2, "", ""}, {"json", std::string("\x7f\0\x80", 3), ""});
  const auto middle = out.find('\n') + 1;
  CHECK(nlohmann::json::accept(out.substr(0, middle)));
  CHECK(nlohmann::json::accept(out.substr(middle)));
  CHECK(out.back() == '\n');
}

TEST_CASE("errors of the engine have their kind's name") {
  using kime::Error;
  using kime::ErrorKind;
  CHECK(kime::record_error(Error(ErrorKind::no_bucket, "x")).kind == "no_bucket");
  CHECK(kime::record_error(Error(ErrorKind::batch, "x")).kind == "batch");
  CHECK(kime::record_error(Error(ErrorKind::unsupported, "x")).kind == "unsupported");
  CHECK(kime::record_error(Error(ErrorKind::device, "x")).kind == "device");
  CHECK(kime::record_error(Error(ErrorKind::device, "x")).message == "x");
  CHECK(kime::too_long_error(10).kind == "json");
  CHECK(kime::too_long_error(10).message == "the line is longer than 10 bytes");
}
