#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "kime/results/score_comparer.h"
#include "kime/results/score_line_parser.h"

using kime::ScoreComparer;
using kime::ScoreDifferences;
using kime::ScoreFailure;
using kime::ScoreField;
using kime::ScoreTolerance;

namespace {

ScoreTolerance logit_tol(double d) {
  ScoreTolerance tolerance;
  tolerance.logit = d;
  return tolerance;
}
ScoreTolerance prob_tol(double d) {
  ScoreTolerance tolerance;
  tolerance.prob = d;
  return tolerance;
}
ScoreTolerance act_tol(double d) {
  ScoreTolerance tolerance;
  tolerance.act = d;
  return tolerance;
}
ScoreTolerance rel_tol(double d) {
  ScoreTolerance tolerance;
  tolerance.rel = d;
  return tolerance;
}

kime::ScoreBlock line(std::string_view text) {
  kime::ScoreBlock block;
  const auto problem = kime::parse_score_line(R"({"id":"x",)" + std::string(text) + "}", 5, block);
  INFO(problem.value_or(""));
  REQUIRE_FALSE(problem);
  return block;
}

ScoreDifferences compare(std::string_view before, std::string_view after, const ScoreTolerance& tolerance = {}) {
  ScoreComparer comparer(tolerance, {.points = 8});
  const auto was = line(before);
  const auto is = line(after);
  comparer.saw_old(was.view(0));
  comparer.saw_new(is.view(0));
  comparer.pair(was.view(0), is.view(0));
  return comparer.take();
}

bool passes(std::string_view before, std::string_view after, const ScoreTolerance& tolerance = {}) {
  return compare(before, after, tolerance).passed();
}

}  // namespace

TEST_CASE("without a tolerance only the same bits pass") {
  CHECK(passes(R"("logits":[1,2.50])", R"("logits":[1.0,25e-1])"));
  CHECK_FALSE(passes(R"("logits":[0])", R"("logits":[-0])"));
  CHECK_FALSE(passes(R"("logits":[1])", R"("logits":[1.0000000000000002])"));
  const auto found = compare(R"("logits":[1,2,3],"act":[0,0])", R"("logits":[1,2.5,2],"act":[0,0])");
  const auto& logits = found.fields[index_of(ScoreField::logits)];
  CHECK(logits.numbers == 3);
  CHECK(logits.same == 1);
  CHECK(logits.beyond == 2);
  CHECK(logits.largest == 1);
  CHECK(logits.mean() == 0.5);
  CHECK(logits.histogram[59] == 1);  // 2^-1
  CHECK(logits.histogram[60] == 1);
  CHECK(found.fields[index_of(ScoreField::act)].same == 2);
  CHECK(found.same_records == 0);
  CHECK(found.failed_of(ScoreFailure::distance) == 1);
  REQUIRE(found.failures.size() == 1);
  CHECK(found.failures[0].why == "logits[1]: 2 against 2.5, 0.5 apart");
  REQUIRE(found.worst.size() == 1);
  CHECK(found.worst[0].index == 2);
}

TEST_CASE("each tolerance is for its own fields") {
  CHECK(passes(R"("logits":[1])", R"("logits":[1.5])", logit_tol(0.5)));
  CHECK_FALSE(passes(R"("logits":[1])", R"("logits":[1.5])", logit_tol(0.4)));
  CHECK_FALSE(passes(R"("logits":[1])", R"("logits":[1.5])", {{}, 1, 1, {}}));
  CHECK(passes(R"("act":[1,0])", R"("act":[1.5,0])", act_tol(0.5)));
  CHECK_FALSE(passes(R"("act":[1,0])", R"("act":[1.5,0])", {1, 1, {}, {}}));
  for (const std::string field : {"score", "noul", "confidence", "answer_confidence", "act_probability"}) {
    INFO(field);
    CHECK(passes('"' + field + "\":0.25", '"' + field + "\":0.5", prob_tol(0.25)));
    CHECK_FALSE(passes('"' + field + "\":0.25", '"' + field + "\":0.5", {1, 0.2, 1, {}}));
  }
  CHECK(passes(R"("logits":[100],"act":[-100,0])", R"("logits":[101],"act":[-101,0])", rel_tol(0.01)));
  CHECK_FALSE(passes(R"("logits":[100])", R"("logits":[101])", rel_tol(0.009)));
  CHECK(passes(R"("logits":[0])", R"("logits":[-0])", logit_tol(0)));
}

TEST_CASE("other lengths, and fields that only one line has") {
  const auto lengths = compare(R"("logits":[1,2])", R"("logits":[1,2,3])", logit_tol(9));
  CHECK_FALSE(lengths.passed());
  CHECK(lengths.failures[0].why == "logits: 2 numbers against 3 numbers");
  const auto null = compare(R"("noul":null)", R"("noul":0.5)", prob_tol(1));
  CHECK_FALSE(null.passed());
  CHECK(null.failures[0].why == "noul: null against a number");
  CHECK(passes(R"("noul":null)", R"("noul":null)"));
  // A field of one file only is not compared; one that both files have must be in both lines.
  CHECK(passes(R"("logits":[1],"probs":[1])", R"("logits":[1])"));
  ScoreComparer comparer({}, {});
  const auto with = line(R"("act":[1,2],"confidence":0.5)");
  const auto without = line(R"("act":[1,2])");
  comparer.saw_old(with.view(0));
  comparer.saw_new(with.view(0));
  comparer.pair(with.view(0), with.view(0));
  comparer.saw_old(with.view(0));
  comparer.saw_new(without.view(0));
  comparer.pair(with.view(0), without.view(0));
  const auto found = comparer.take();
  CHECK(found.same_records == 2);
  CHECK(found.uneven(ScoreField::confidence));
  CHECK_FALSE(found.passed());
}

TEST_CASE("errors that come, go, and change") {
  constexpr auto kScores = R"("act":[1,2])";
  CHECK(compare(kScores, R"("error":{"kind":"batch"})").failed_of(ScoreFailure::error_came) == 1);
  CHECK(compare(R"("error":{"kind":"batch"})", kScores).failed_of(ScoreFailure::error_went) == 1);
  CHECK(compare(R"("error":{"kind":"batch"})", R"("error":{"message":"m","kind":"json"})").failed_of(ScoreFailure::error_changed) == 1);
  const auto other_words = compare(R"("error":{"kind":"batch","message":"m"})", R"("error":{"message":"n","kind":"batch"})");
  CHECK(other_words.passed());
  CHECK(other_words.errors_both == 1);
}

TEST_CASE("flips of the best option") {
  const auto found = compare(R"("logits":[1,3,2.5])", R"("logits":[1,3,3.5])", logit_tol(1));
  CHECK(found.passed());  // the logits are within tolerance, and no choice is written
  REQUIRE(found.shown_flips.size() == 1);
  const auto& flip = found.shown_flips[0];
  CHECK(flip.kind == "best option");
  CHECK(flip.before == 1);
  CHECK(flip.after == 2);
  CHECK(flip.margin_before == 0.5);
  CHECK(flip.margin_after == 0.5);
  CHECK(flip.unit == "logit");
  CHECK(compare(R"("logits":[3,3])", R"("logits":[3,2])", logit_tol(1)).flips == 0);  // the first of equals
  CHECK(compare(R"("probs":[0.5,0.5])", R"("probs":[0.25,0.75])", prob_tol(1)).shown_flips[0].unit == "probability");
}

TEST_CASE("flips of a choice") {
  constexpr auto kOld = R"("logits":[1,3,2.75],"choice":1)";
  constexpr auto kNew = R"("logits":[1,2.75,3],"choice":2)";
  CHECK(compare(kOld, kNew).flips == 1);
  CHECK_FALSE(passes(kOld, kNew));
  CHECK(passes(kOld, kNew, logit_tol(0.25)));  // the tolerance covers the tie
  CHECK_FALSE(passes(kOld, kNew, logit_tol(0.2)));
  CHECK_FALSE(passes(R"("logits":[1,3],"choice":1)", R"("logits":[1,3],"choice":0)", logit_tol(0.25)));  // no tie at all
  CHECK(passes(R"("probs":[0.5,0.5],"choice":0)", R"("probs":[0.49,0.51],"choice":1)", prob_tol(0.02)));
  const auto bare = compare(R"("choice":1,"confidence":0.5)", R"("choice":2,"confidence":0.5)", {9, 9, {}, 9});
  CHECK_FALSE(bare.passed());
  CHECK(bare.failures[0].why == "the choice is another one");
  CHECK_FALSE(bare.shown_flips[0].margin_before);
  CHECK(bare.worst.empty());  // an index is no distance
  CHECK(compare(R"("choice":1)", R"("choice":null)").flips == 1);
}

TEST_CASE("flips of noul and score") {
  const auto noul = compare(R"("noul":0.5)", R"("noul":0.625)", prob_tol(1));
  CHECK(noul.passed());
  REQUIRE(noul.flips == 1);
  CHECK(noul.shown_flips[0].margin_before == 0);
  CHECK(noul.shown_flips[0].margin_after == 0.125);
  CHECK(compare(R"("noul":0.75)", R"("noul":0.625)", prob_tol(1)).flips == 0);
  const auto score = compare(R"("score":1.25)", R"("score":1.75)", prob_tol(1));
  REQUIRE(score.flips == 1);
  CHECK(score.shown_flips[0].margin_before == 0.25);
  CHECK(score.shown_flips[0].margin_after == 0.25);
  const auto down = compare(R"("score":2.5)", R"("score":1)", prob_tol(2));
  CHECK(down.shown_flips[0].margin_before == 0);
  CHECK(down.shown_flips[0].margin_after == 0.5);
  CHECK(compare(R"("score":1.5)", R"("score":2.25)", prob_tol(1)).flips == 0);
}

TEST_CASE("what is shown is bounded and the most telling of all") {
  ScoreComparer comparer({}, {.worst = 3, .flips = 2, .failures = 4, .points = 8});
  for (int i = 1; i <= 100; ++i) {
    const int spread = (i * 37) % 101;  // every number from 1 to 100 once
    const auto was = line(fmt::format(R"("logits":[0,-{}])", spread));
    const auto is = line(fmt::format(R"("logits":[0,{}])", spread));
    comparer.pair(was.view(0), is.view(0));
  }
  const auto found = comparer.take();
  CHECK(found.flips == 100);
  REQUIRE(found.worst.size() == 3);
  CHECK(found.worst[0].distance == 200);
  CHECK(found.worst[2].distance == 196);
  REQUIRE(found.shown_flips.size() == 2);
  CHECK(found.shown_flips[0].margin_before == 100);
  CHECK(found.failures.size() == 4);
  CHECK(found.failed_of(ScoreFailure::distance) == 100);
  const auto& points = found.points[0];
  CHECK(points.size() > 3);
  CHECK(points.size() <= 8);
  CHECK(std::ranges::any_of(points, [](const auto& point) { return point.before != 0; }));  // not the first option each time
}
