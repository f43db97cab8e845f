// Ensembles over fake devices: the checkpoints of a lane on several devices or on one, and their scores met in one place.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/job/fake_fleet.h"

namespace {

using namespace kime;        // NOLINT(google-build-using-namespace): tests of it
using namespace kime::test;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;

FakeFleetOptions ensemble_of(std::size_t models, std::size_t devices, bool async, std::size_t streams = 2) {
  FakeFleetOptions options;
  options.driver = fake_devices(devices, async);
  for (auto& device : options.driver.devices) {
    device.per_batch = std::chrono::microseconds(50);
  }
  options.streams = streams;
  options.models.clear();
  for (std::size_t model = 0; model < models; ++model) {
    options.models.push_back(static_cast<std::uint32_t>(31 + 7 * model));
  }
  return options;
}

TEST_CASE("the averaged logits of an ensemble, wherever its checkpoints are", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t models = GENERATE(2U, 3U);
  const std::size_t devices = GENERATE(1U, 2U, 3U);
  CAPTURE(async, models, devices);
  const auto records = some_records(1500);
  FakeFleet fleet(ensemble_of(models, devices, async));
  REQUIRE(fleet.made());
  const auto done = fleet.score(records, by_logits(fleet));
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(done.notices.empty());
  const CallCounts& calls = fleet.fleet().runtime().calls();
  CHECK(calls.of("device_to_device") >= models * done.summary.batches);
  CHECK(calls.of("expected_merge_nodes") > 0);
  CHECK((calls.of("init_from_device") > 0) == (devices > 1));
  CHECK(calls.of("init_from_host") == models);
  if (models > devices && async) {
    CHECK(calls.of("will_wait_for") > 0);
  }
  CHECK(fleet.fleet().close());
}

TEST_CASE("devices that share memory need no copy", "[threads]") {
  auto options = ensemble_of(2, 2, true);
  options.driver.devices[1].space = 0;
  const auto records = some_records(500);
  FakeFleet fleet(std::move(options));
  const auto done = fleet.score(records, by_logits(fleet));
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(fleet.fleet().runtime().calls().of("init_from_device") == 0);
}

// What runs with one checkpoint each say, averaged in float64 in their order, is what the ensemble says.
TEST_CASE("the mean of an ensemble is the mean of separate runs", "[threads]") {
  const std::size_t devices = GENERATE(1U, 2U, 3U);
  CAPTURE(devices);
  const auto records = some_records(400);
  const auto all = ensemble_of(3, devices, true);
  std::vector<FakeDone> separate;
  for (const auto model : all.models) {
    auto one = all;
    one.driver = fake_devices(1, false);
    one.models = {model};
    FakeFleet fleet(std::move(one));
    auto options = fleet.options();
    options.emit = Emit::probs;
    separate.push_back(fleet.score(records, options));
  }
  FakeFleet fleet(all);
  auto options = fleet.options();
  options.emit = Emit::probs;
  const auto done = fleet.score(records, options);
  REQUIRE(done.lines.size() == records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::vector<nlohmann::json> each;
    for (const auto& run : separate) {
      each.push_back(nlohmann::json::parse(run.lines[i]));
    }
    auto expected = each[0];
    for (const char* field : {"probs", "act"}) {
      for (std::size_t k = 0; k < expected[field].size(); ++k) {
        double sum = 0;
        for (const auto& one : each) {
          sum += std::string(field) == "act" ? static_cast<double>(one[field][k].get<float>()) : one[field][k].get<double>();
        }
        expected[field][k] = sum / 3;
      }
    }
    const auto line = nlohmann::json::parse(done.lines[i]);
    if (line["probs"] != expected["probs"] || line["act"] != expected["act"] || line.contains("logits")) {
      FAIL(fmt::format("{}\nis not {}", done.lines[i], expected.dump()));
    }
  }
}

TEST_CASE("ScoreLines averages in float64, in order, and names the checkpoint of what is no number") {
  const std::vector<Calibration> calibrations{{{0.5, 1, 1}, {}}, {{2, 1, 1}, {}}};
  const std::vector<float> one{0.1F, 3.0F};
  const std::vector<float> two{0.7F, -1.0F};
  const std::vector<RecordScores> scores{{one, {0.3F, 1.1F}}, {two, {-0.9F, 0.2F}}};
  Record record;
  record.id = "7";
  std::string line;
  SECTION("logits, calibrated as the first") {
    REQUIRE(ScoreLines(calibrations, Emit::all, Ensemble::logits).append(record, {1, {}, {}}, scores, line));
    const auto json = nlohmann::json::parse(line);
    for (std::size_t k = 0; k < 2; ++k) {
      const auto mean = static_cast<float>((static_cast<double>(one[k]) + static_cast<double>(two[k])) / 2);
      CHECK(json["logits"][k].get<float>() == mean);
      CHECK(json["act"][k].get<float>() ==
            static_cast<float>((static_cast<double>(scores[0].act[k]) + static_cast<double>(scores[1].act[k])) / 2));
    }
    const std::vector<float> logits{json["logits"][0].get<float>(), json["logits"][1].get<float>()};
    std::vector<double> probs(2);
    calibrated_softmax(logits, 0.5, probs);
    CHECK(json["probs"].get<std::vector<double>>() == probs);
  }
  SECTION("mean of what each was calibrated to") {
    REQUIRE(ScoreLines(calibrations, Emit::all, Ensemble::mean).append(record, {1, {}, {}}, scores, line));
    const auto json = nlohmann::json::parse(line);
    std::vector<double> first(2);
    std::vector<double> second(2);
    calibrated_softmax(std::span<const float>(one), 0.5, first);
    calibrated_softmax(std::span<const float>(two), 2, second);
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(json["probs"][k].get<double>() == (first[k] + second[k]) / 2);
      CHECK(json["act"][k].get<double>() == (static_cast<double>(scores[0].act[k]) + static_cast<double>(scores[1].act[k])) / 2);
    }
    CHECK_FALSE(json.contains("logits"));
    CHECK(json["choice"].get<int>() == 1);
  }
  SECTION("no number") {
    const std::vector<float> bad{0.1F, std::numeric_limits<float>::infinity()};
    const std::vector<RecordScores> broken{scores[0], {bad, {}}};
    CHECK_FALSE(ScoreLines(calibrations, Emit::probs, Ensemble::mean).append(record, {1, {}, {}}, broken, line));
    CHECK_THAT(line, Contains("\"kind\":\"nonfinite\"") && Contains("logit 1 of checkpoint 2 is inf"));
  }
}

TEST_CASE("an ensemble goes on when a device is lost in the middle", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t models = GENERATE(2U, 3U);
  const std::size_t devices = GENERATE(2U, 3U);
  const bool hangs = GENERATE(false, true);
  CAPTURE(async, models, devices, hangs);
  const auto records = some_records(1500);
  auto options = ensemble_of(models, devices, async);
  options.timeout = std::chrono::milliseconds(150);
  FakeFleet fleet(std::move(options));
  FakeFaults::Plan plan;
  (hangs ? plan.hang_at_run : plan.lost_at_run) = 9;
  fleet.faults().plan(1, plan);
  const auto done = fleet.score(records, by_logits(fleet));
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  REQUIRE(done.notices.size() == 1);
  CHECK_THAT(done.notices[0], Contains("fake:1 is retired: "));
  CHECK(done.summary.devices[1].records < records.size());
}

TEST_CASE("soft failures cost an ensemble no record", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t devices = GENERATE(1U, 2U, 3U);
  CAPTURE(async, devices);
  auto records = some_records(800);
  FakeFleet fleet(ensemble_of(2, devices, async));
  FakeFaults::Plan plan;
  plan.soft_at_run = 5;
  fleet.faults().plan(devices - 1, plan);
  SECTION("one run") {
    const auto done = fleet.score(records, by_logits(fleet));
    CHECK(done.summary.end == ScoreEnd::complete);
    CHECK(check_job(done, records, fleet.seeds()).empty());
    CHECK(done.notices.empty());
  }
  SECTION("a record that always fails") {
    records[300].ids[0] = 900;
    fleet.faults().on_token(900, FakeFault::soft);
    const auto done = fleet.score(records, by_logits(fleet));
    CHECK(done.summary.end == ScoreEnd::complete);
    CHECK(check_job(done, records, fleet.seeds()) == std::vector<std::size_t>{300});
  }
}

}  // namespace
