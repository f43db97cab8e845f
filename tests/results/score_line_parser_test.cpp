#include "kime/results/score_line_parser.h"

#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using kime::parse_score_line;
using kime::ScoreBlock;
using kime::ScoreField;

namespace {

std::vector<double> numbers(const kime::ScoreView& view, ScoreField field) {
  const auto values = view.of(field);
  return {values.begin(), values.end()};
}

// What is wrong with a line that must leave its block as it was.
std::string problem_of(std::string_view line) {
  ScoreBlock block;
  REQUIRE_FALSE(parse_score_line(R"({"id":1,"logits":[7]})", 1, block));
  const auto problem = parse_score_line(line, 2, block);
  REQUIRE(problem);
  CHECK(block.entries.size() == 1);
  CHECK(numbers(block.view(0), ScoreField::logits) == std::vector<double>{7});
  CHECK(block.numbers.size() == 1);
  return *problem;
}

ScoreBlock parsed(std::string_view line) {
  ScoreBlock block;
  const auto problem = parse_score_line(line, 3, block);
  INFO(problem.value_or(""));
  REQUIRE_FALSE(problem);
  return block;
}

}  // namespace

TEST_CASE("a line of every field") {
  const auto block =
      parsed(R"( {"id" : "t-17", "logits":[1.25,-0.5, 3e0], "act":[0.1,-2],"probs":[],"choice":2,"confidence":0.5,"answer_confidence":1,)"
             R"("act_probability":0.25,"label":[1,{"a":"}"}],"noul":null} )");
  const auto view = block.view(0);
  CHECK(view.line == 3);
  CHECK(view.id == R"("t-17")");
  CHECK(view.key == view.id);
  CHECK(view.error.empty());
  CHECK(view.label == R"([1,{"a":"}"}])");
  CHECK(numbers(view, ScoreField::logits) == std::vector<double>{1.25, -0.5, 3});
  CHECK(numbers(view, ScoreField::act) == std::vector<double>{0.1, -2});
  CHECK(view.has(ScoreField::probs));
  CHECK(numbers(view, ScoreField::probs).empty());
  CHECK(numbers(view, ScoreField::choice) == std::vector<double>{2});
  CHECK(view.has(ScoreField::noul));
  CHECK(numbers(view, ScoreField::noul).empty());
  CHECK_FALSE(view.has(ScoreField::score));
}

TEST_CASE("what a line is matched by") {
  CHECK(parsed(R"({"id":7,"act":[1,2],"file":"a.jsonl"})").view(0).key == std::string_view("7\0\"a.jsonl\"", 11));
  CHECK(parsed(R"({"id":null,"line":9,"error":{"kind":"json"}})").view(0).key == "null\n9");
  CHECK(parsed(R"({"id":null,"act":[1,2]})").view(0).key == "null");
  CHECK(parsed(R"({"id":"A"})").view(0).key != parsed(R"({"id":"\u0041"})").view(0).key);  // as bytes
  CHECK(parsed(R"({"id":{"a":[1]}})").view(0).key == R"({"a":[1]})");
  const auto error = parsed(R"({"id":7,"line":17,"error":{"kind":"batch","message":"m"}})");
  CHECK(error.view(0).key == "7");
  CHECK(error.view(0).error == R"({"kind":"batch","message":"m"})");
}

TEST_CASE("names and numbers in unusual spelling") {
  const auto block = parsed(R"({"\u0069d":1,"l\u006fgits":[1e-400,-0,0.1E+2],"x":"\ud800","y":-1.5e-3})");
  const auto values = numbers(block.view(0), ScoreField::logits);
  REQUIRE(values.size() == 3);
  CHECK(values[0] == 0);
  CHECK(std::signbit(values[1]));
  CHECK(values[2] == 10);
}

TEST_CASE("numbers are rounded as the C library rounds them") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text = fmt::format("{}{}", random() % 2 == 0 ? "-" : "", random() >> (random() % 64));
    if (random() % 4 != 0) {
      text += fmt::format(".{:0{}}", random() >> (random() % 64), 1 + random() % 20);
    }
    if (random() % 3 == 0) {
      text +=
          fmt::format("{}{}{}", random() % 2 == 0 ? "e" : "E", random() % 2 == 0 ? "-" : "+", random() % (random() % 2 == 0 ? 30 : 280));
    }
    const auto block = parsed(R"({"id":1,"logits":[)" + text + "]}");
    INFO(text);
    REQUIRE(std::bit_cast<std::uint64_t>(block.numbers[0]) == std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)));
  }
  for (const std::string& text : std::vector<std::string>{"1e-99999999999999999999", "0e99999999999999999999",
                                                          "0.00000000000000000000000000001", "9007199254740993"}) {
    INFO(text);
    CHECK(parsed(R"({"id":1,"logits":[)" + text + "]}").numbers[0] == std::strtod(text.c_str(), nullptr));
  }
}

TEST_CASE("strings of every length and with anything anywhere") {
  for (std::size_t size = 0; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::string id(size, 'a');
      CHECK(parsed("{\"id\":\"" + id + "\"}").view(0).id.size() == size + 2);
      for (const std::string_view other : {"\\\"", "\\u00fc", "\xc3\xbc", "\xf0\x9f\x98\x80", "\x7f", " ", "!", "#", "[", "]"}) {
        std::string odd = id;
        odd.replace(at, 1, other);
        CHECK(parsed("{\"id\":\"" + odd + "\"}").view(0).id == '"' + odd + '"');
      }
      for (const char other : {'\x1f', '\0', '\x80', '\xff', '\xc3', '"'}) {
        std::string odd = id;
        odd[at] = other;
        ScoreBlock block;
        CHECK(parse_score_line("{\"id\":\"" + odd + "\"}", 1, block));
      }
    }
  }
}

TEST_CASE("lines that are no scores are named") {
  CHECK(problem_of(R"({"logits":[1]})") == R"(there is no field "id")");
  CHECK(problem_of(R"([1])") == "expected '{' at byte 1");
  CHECK(problem_of(R"({"id":1)") == "expected ',' or '}' at byte 8");
  CHECK(problem_of(R"({"id":1,})") == "expected a string at byte 9");
  CHECK(problem_of(R"({"id":1} x)") == "expected the end of the line at byte 10");
  CHECK(problem_of(R"({"id":1,"id":2})") == R"("id" comes twice)");
  CHECK(problem_of(R"({"id":1,"act":[1],"act":[1]})") == R"("act" comes twice)");
  CHECK(problem_of(R"({"id":1,"error":"no"})") == R"("error" is no object)");
  CHECK(problem_of(R"({"id":1,"logits":[1,NaN]})") == R"("logits": expected a value at byte 21)");
  CHECK(problem_of(R"({"id":1,"logits":[null]})") == R"("logits" has null where a number belongs)");
  CHECK(problem_of(R"({"id":1,"logits":null})") == R"("logits" has null where a list of numbers belongs)");
  CHECK(problem_of(R"({"id":1,"logits":[1 2]})") == "expected ',' or ']' at byte 21");
  CHECK(problem_of(R"({"id":1,"choice":"2"})") == R"("choice" has "2" where a number or null belongs)");
  CHECK(problem_of(R"({"id":1,"logits":[01]})") == R"("logits": expected a number at byte 19)");
  CHECK(problem_of(R"({"id":1,"logits":[1.]})") == R"("logits": expected a number at byte 19)");
  CHECK(problem_of(R"({"id":1,"logits":[-]})") == R"("logits": expected a number at byte 20)");
  CHECK(problem_of(R"({"id":1,"logits":[1e999]})") == R"("logits": number out of range at byte 19)");
  CHECK(problem_of("{\"id\":\"\xc3\"}") == "invalid UTF-8 at byte 8");
  CHECK(problem_of("{\"id\":\"\xed\xa0\x80\"}") == "invalid UTF-8 at byte 8");
  CHECK(problem_of("{\"id\":\"a\tb\"}") == "control character in a string at byte 9");
  CHECK(problem_of(R"({"id":"\x"})") == "bad escape in a string at byte 8");
  CHECK(problem_of(R"({"id":"x)") == "the line ends in a string at byte 9");
  CHECK(problem_of(R"({"id":tru})") == "expected a value at byte 7");
  CHECK(problem_of(R"({"id":1,"x":{"a":}})") == "expected a value at byte 18");
  CHECK(problem_of(R"({"id":1,"x":{1:2}})") == "expected a string at byte 14");
  CHECK(problem_of(R"({"id":1,"x":[1,2})") == "expected ',' or ']' at byte 17");
}

TEST_CASE("nesting up to 1,024 levels with the line's own object") {
  const auto nested = [](std::size_t levels) { return R"({"id":)" + std::string(levels, '[') + std::string(levels, ']') + "}"; };
  CHECK(parsed(nested(1023)).entries.size() == 1);
  CHECK(problem_of(nested(1024)) == "nested too deep at byte 1030");
}
