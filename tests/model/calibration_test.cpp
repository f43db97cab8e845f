// Probabilities, answers and confidences: against the reference package's float64 numbers, and at their edges.
#include "kime/model/calibration.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kime/model/checkpoint.h"

namespace {

using kime::Answer;
using kime::Calibration;
using kime::QuestionType;
using nlohmann::json;

std::vector<json> lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<json> result;
  for (std::string line; std::getline(in, line);) {
    result.push_back(json::parse(line));
  }
  return result;
}

QuestionType type_of(const json& record) {
  const auto& type = record["qtype"];
  if (type.is_number()) {
    return static_cast<QuestionType>(type.get<int>());
  }
  return type == "choice" ? QuestionType::choice : type == "score" ? QuestionType::score : QuestionType::noul;
}

// The softmax again, of float64 logits, as the reference has them: rounding them to float32 first moves a result by 1e-7.
std::vector<double> softmax(const std::vector<double>& logits, double temperature) {
  std::vector<double> p;
  long double sum = 0;
  long double top = -std::numeric_limits<long double>::infinity();
  for (const double x : logits) {
    top = std::max<long double>(top, x);
  }
  for (const double x : logits) {
    sum += std::exp((x - top) / temperature);
  }
  for (const double x : logits) {
    p.push_back(static_cast<double>(std::exp((x - top) / temperature) / sum));
  }
  return p;
}

bool near(double a, double b, double limit) {
  return std::fabs(a - b) <= limit;
}

TEST_CASE("temperatures, probabilities and answers are the reference's") {
  const auto set = GENERATE(as<std::string>(), "demo", "parity/plain-f16", "parity/oldnames-f16", "parity/nohead-f32",
                            "parity/loud-bf16-sharded", "parity/long-f16");
  INFO(set);
  const auto path = std::string(KIME_TESTDATA "/") + set;
  const auto checkpoint = kime::Checkpoint::open(path);
  REQUIRE(checkpoint);
  const auto records = lines(path + "/records.jsonl");
  const auto expected = lines(path + "/expected.jsonl");
  REQUIRE(records.size() == expected.size());
  REQUIRE_FALSE(records.empty());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& want = expected[i];
    INFO(want["id"]);
    const auto type = type_of(records[i]);
    const auto logits = want["logits"].get<std::vector<double>>();
    const double temperature = checkpoint->calibration().temperature(type, logits.size());
    if (want.contains("temperature")) {
      CHECK(temperature == want["temperature"].get<double>());
    }
    // From the logits that the reference has ...
    const auto exact = softmax(logits, temperature);
    const auto probabilities = want["probs"].get<std::vector<double>>();
    REQUIRE(probabilities.size() == exact.size());
    for (std::size_t k = 0; k < exact.size(); ++k) {
      CHECK(near(exact[k], probabilities[k], 1e-12));
    }
    // ... and from what kime would have of them.
    const std::vector<float> rounded(logits.begin(), logits.end());
    std::vector<double> ours(rounded.size());
    kime::calibrated_softmax(rounded, temperature, ours);
    const auto same = softmax(std::vector<double>(rounded.begin(), rounded.end()), temperature);
    for (std::size_t k = 0; k < ours.size(); ++k) {
      CHECK(near(ours[k], same[k], 1e-15));
    }

    const Answer got = kime::answer(type, probabilities);
    const char* name = type == QuestionType::choice ? "choice" : type == QuestionType::score ? "score" : "noul";
    if (want.contains(name) && !want[name].is_null()) {
      REQUIRE(got.value);
      CHECK(near(*got.value, want[name].get<double>(), 1e-12));
    } else {
      CHECK_FALSE(got.value);
    }
    if (want.contains("confidence")) {
      CHECK(near(got.confidence, want["confidence"].get<double>(), 1e-12));
      CHECK(near(got.answer_confidence, want["answer_confidence"].get<double>(), 1e-12));
    } else {
      CHECK(logits.empty());
    }
    const auto act = want["act"].get<std::array<double, 2>>();
    CHECK(near(softmax({act[0], act[1]}, 1)[0], want["act_probability"].get<double>(), 1e-12));
    CHECK(near(kime::act_probability(act), softmax({act[0], act[1]}, 1)[0], 1e-15));
  }
}

TEST_CASE("the temperature of a number of options, and of a type where its class has none") {
  Calibration calibration;
  calibration.by_type = {2, 3, 4};
  calibration.by_options[0] = {0.5, 0.6, 0.7, 0.8};
  calibration.by_options[2] = {{1.5, std::nullopt, std::nullopt, std::nullopt}};
  const auto choice = [&](std::size_t options) { return calibration.temperature(QuestionType::choice, options); };
  CHECK(choice(0) == 0.5);
  CHECK(choice(1) == 0.5);
  CHECK(choice(2) == 0.5);
  CHECK(choice(3) == 0.6);
  CHECK(choice(5) == 0.6);
  CHECK(choice(6) == 0.7);
  CHECK(choice(10) == 0.7);
  CHECK(choice(11) == 0.8);
  CHECK(choice(100000) == 0.8);
  CHECK(calibration.temperature(QuestionType::score, 2) == 3);
  CHECK(calibration.temperature(QuestionType::noul, 2) == 1.5);
  CHECK(calibration.temperature(QuestionType::noul, 3) == 4);
}

TEST_CASE("clamping a temperature") {
  CHECK(kime::clamp_temperature(0.5) == 0.5);
  CHECK(kime::clamp_temperature(0.49) == 0.5);
  CHECK(kime::clamp_temperature(-3) == 0.5);
  CHECK(kime::clamp_temperature(5.1) == 5);
  CHECK(kime::clamp_temperature(1.25) == 1.25);
  CHECK(kime::clamp_temperature(std::numeric_limits<double>::quiet_NaN()) == 1);
  CHECK(kime::clamp_temperature(std::numeric_limits<double>::infinity()) == 1);
  CHECK(kime::clamp_temperature(-std::numeric_limits<double>::infinity()) == 1);
}

TEST_CASE("a softmax of nothing, of one, of equals and of extremes") {
  kime::calibrated_softmax(std::span<const float>(), 1, {});
  std::vector<double> p(1);
  kime::calibrated_softmax(std::array{-1e30F}, 0.5, p);
  CHECK(p == std::vector<double>{1});
  p.resize(4);
  kime::calibrated_softmax(std::array{3.0F, 3.0F, 3.0F, 3.0F}, 5, p);
  CHECK(p == std::vector<double>{0.25, 0.25, 0.25, 0.25});
  p.resize(2);
  kime::calibrated_softmax(std::array{3e38F, -3e38F}, 0.5, p);
  CHECK(p == std::vector<double>{1, 0});
  kime::calibrated_softmax(std::array{0.0F, 1.0F}, 2, p);
  CHECK(p[1] == Approx(1 / (1 + std::exp(-0.5))).epsilon(1e-15));
}

TEST_CASE("answers without options, with one, and of equals") {
  for (const auto type : {QuestionType::choice, QuestionType::score, QuestionType::noul}) {
    CHECK_FALSE(kime::answer(type, {}).value);
  }
  const std::array one = {1.0};
  const auto choice = kime::answer(QuestionType::choice, one);
  CHECK(choice.value == 0.0);
  CHECK(choice.confidence == 1);
  CHECK(choice.answer_confidence == 1);
  const auto score = kime::answer(QuestionType::score, one);
  CHECK(score.value == 0.0);
  CHECK(score.confidence == 1);
  const auto noul = kime::answer(QuestionType::noul, one);
  CHECK_FALSE(noul.value);
  CHECK(noul.confidence == 1);
  CHECK(noul.answer_confidence == 1);

  const std::array equals = {0.2, 0.4, 0.4};
  CHECK(kime::answer(QuestionType::choice, equals).value == 1.0);  // the first
  CHECK(kime::answer(QuestionType::score, equals).value == Approx(1.2));
  const std::array flat = {0.25, 0.25, 0.25, 0.25};
  CHECK(kime::answer(QuestionType::choice, flat).confidence == Approx(0).margin(1e-15));
  CHECK(kime::answer(QuestionType::choice, flat).confidence >= 0);
  const std::array sure = {0.0, 1.0, 0.0};
  CHECK(kime::answer(QuestionType::score, sure).confidence == 1);
  CHECK(kime::answer(QuestionType::score, sure).value == 1.0);
  const std::array no = {0.75, 0.25};
  CHECK(kime::answer(QuestionType::noul, no).value == 0.25);
  CHECK(kime::answer(QuestionType::noul, no).confidence == 0.75);
  const std::array three = {0.5, 0.125, 0.375};
  CHECK(kime::answer(QuestionType::noul, three).value == 0.125);
  CHECK(kime::answer(QuestionType::noul, three).confidence == 0.875);
  CHECK(kime::answer(QuestionType::noul, three).answer_confidence == 0.5);
}

TEST_CASE("the option that an answer settles on") {
  const auto settled = [](QuestionType type, const std::vector<double>& p) { return settled_option(type, answer(type, p)); };
  CHECK(settled(QuestionType::choice, {0.2, 0.5, 0.3}) == 1U);
  CHECK(settled(QuestionType::choice, {}) == std::nullopt);
  CHECK(settled(QuestionType::score, {0.5, 0.5}) == 1U);  // a half goes up
  CHECK(settled(QuestionType::score, {0.75, 0, 0.25}) == 1U);
  CHECK(settled(QuestionType::score, {0.8, 0, 0.2}) == 0U);
  CHECK(settled(QuestionType::noul, {0.5, 0.5}) == 0U);
  CHECK(settled(QuestionType::noul, {0.4, 0.6}) == 1U);
  CHECK(settled(QuestionType::noul, {1.0}) == std::nullopt);
}

TEST_CASE("act probabilities of extremes") {
  CHECK(kime::act_probability({0, 0}) == 0.5);
  CHECK(kime::act_probability({1000, 0}) == 1);
  CHECK(kime::act_probability({-1000, 0}) == 0);
  CHECK(kime::act_probability({-3e38F, 3e38F}) == 0);
}

}  // namespace
