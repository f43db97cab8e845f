// Records whose scores are no finite numbers in a narrow precision are scored again in a wider one: each by itself.
#include "tests/job/fake_fleet.h"

namespace {

using namespace kime;        // NOLINT(google-build-using-namespace): tests of it
using namespace kime::test;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;

constexpr std::uint32_t kWide = kFakeVocab / 2;  // random_records() draws from below

FakeFleetOptions narrow_fleet(std::size_t devices, bool async, std::size_t streams = 2) {
  FakeFleetOptions options;
  options.driver = fake_devices(devices, async);
  options.driver.overflows_from = kWide;
  options.streams = streams;
  options.precision = Precision::f16;
  options.wider = Precision::bf16;
  return options;
}

// Records of which one in `each` has a token that may overflow.
std::vector<FakeRecord> records_that_may_overflow(std::size_t count, std::size_t each = 9) {
  std::mt19937_64 random(count);
  auto records = random_records(random, count);
  for (std::size_t i = 0; i < count; i += each) {
    auto& ids = records[i].ids;
    ids[random() % ids.size()] = kWide + static_cast<std::uint32_t>(random() % (kFakeVocab - kWide));
  }
  return records;
}

// How many scores of a checkpoint overflow.
std::size_t overflows(const FakeFleet& fleet, std::span<const FakeRecord> records) {
  std::size_t count = 0;
  for (const auto& record : records) {
    for (const auto seed : fleet.seeds()) {
      count += fake_overflows(kWide, seed, record.ids) ? 1 : 0;
    }
  }
  return count;
}

std::uint64_t rescued(const FakeDone& done) {
  std::uint64_t all = 0;
  for (const auto& device : done.summary.devices) {
    all += device.rescued;
  }
  return all;
}

// The records that have no scores; all others must have the right ones.
std::vector<std::size_t> check_lines(const FakeFleet& fleet, const FakeDone& done, std::span<const FakeRecord> records) {
  std::vector<std::size_t> failed;
  REQUIRE(done.lines.size() == records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (done.lines[i].find("\"error\"") != std::string::npos) {
      failed.push_back(i);
    } else if (const auto want = expected_line(fleet.seeds_for(records[i]), records[i], i); done.lines[i] != want) {
      FAIL(fmt::format("{}\nis not {}", done.lines[i], want));
    }
  }
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(done.summary.failed == failed.size());
  return failed;
}

TEST_CASE("what overflows is scored again, alone, with weights that each device loads once", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t devices = GENERATE(1U, 3U);
  const std::size_t models = GENERATE(1U, 2U);
  CAPTURE(async, devices, models);
  const auto records = records_that_may_overflow(1500);
  auto options = narrow_fleet(devices, async);
  if (models == 2) {
    options.models.push_back(19);
  }
  FakeFleet fleet(std::move(options));
  REQUIRE(fleet.made());
  CHECK(fleet.ledger().loads_by_precision[static_cast<std::size_t>(Precision::bf16)] == 0);
  const auto done = fleet.score(records, by_logits(fleet));
  CHECK(check_lines(fleet, done, records).empty());
  CHECK(done.notices.empty());
  const std::size_t expected = overflows(fleet, records);
  REQUIRE(expected > 50);
  CHECK((models == 1 ? rescued(done) == expected : rescued(done) >= expected));  // each device of an ensemble counts
  CHECK(fleet.ledger().most_seqs(Precision::bf16) == 1);
  CHECK(fleet.ledger().most_seqs(Precision::f16) > 1);
  const auto loads = fleet.ledger().loads_by_precision[static_cast<std::size_t>(Precision::bf16)].load();
  CHECK(loads >= models);
  CHECK(loads <= models * devices);
  CHECK(fleet.fleet().close());
}

TEST_CASE("who is in whose batch changes nothing of what is scored again") {
  auto records = records_that_may_overflow(300, 3);
  std::vector<std::string> first;
  for (const std::size_t largest : {16U, 32U, 128U}) {
    auto options = narrow_fleet(1, false, 1);
    options.stage = {"test", {{24, 8, 32}, {largest + 24, 32, 256}}};
    FakeFleet fleet(std::move(options));
    const auto done = fleet.score(records);
    CHECK(check_lines(fleet, done, records).empty());
    if (first.empty()) {
      first = done.lines;
    }
    CHECK(done.lines == first);
  }
}

TEST_CASE("nothing is loaded for records that need it not, nor where it is not wanted") {
  SECTION("none overflows") {
    FakeFleet fleet(narrow_fleet(2, true));
    const auto records = records_that_may_overflow(200, 1000);
    const auto sound = std::span(records).subspan(1);
    CHECK(check_lines(fleet, fleet.score(sound), sound).empty());
    CHECK(fleet.ledger().most_seqs(Precision::bf16) == 0);
    CHECK(fleet.ledger().loads_by_precision[static_cast<std::size_t>(Precision::bf16)] == 0);
  }
  SECTION("the precision is fixed") {
    auto options = narrow_fleet(1, true);
    options.wider.reset();
    FakeFleet fleet(std::move(options));
    const auto records = records_that_may_overflow(200);
    const auto done = fleet.score(records);
    const auto failed = check_lines(fleet, done, records);
    CHECK(failed.size() == overflows(fleet, records));
    for (const auto record : failed) {
      CHECK_THAT(done.lines[record], Contains("\"kind\":\"nonfinite\""));
    }
  }
}

TEST_CASE("without memory for it a record gets an error line, and the run goes on", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = records_that_may_overflow(600);
  auto options = narrow_fleet(2, async);
  options.driver.weight_bytes = 1 << 20;
  for (auto& device : options.driver.devices) {
    device.memory_bytes = 3 << 19;  // one and a half
  }
  FakeFleet fleet(std::move(options));
  REQUIRE(fleet.made());
  const auto done = fleet.score(records);
  const auto failed = check_lines(fleet, done, records);
  CHECK(failed.size() == overflows(fleet, records));
  for (const auto record : failed) {
    CHECK_THAT(done.lines[record], Contains("\"kind\":\"device\"") &&
                                       Contains("its scores are no finite numbers, and a wider precision cannot be had: out of memory: "));
  }
  CHECK(done.notices.empty());
  CHECK(rescued(done) == 0);
  CHECK(fleet.fleet().close());
}

TEST_CASE("what could not be loaded is tried again by the next who needs it") {
  const auto records = records_that_may_overflow(200);
  FakeFleet fleet(narrow_fleet(1, true));
  FakeFaults::Plan plan;
  plan.no_load = true;
  fleet.faults().plan(0, plan);
  const auto failed = check_lines(fleet, fleet.score(records), records);
  CHECK(failed.size() == overflows(fleet, records));
  fleet.faults().plan(0, {});
  CHECK(check_lines(fleet, fleet.score(records), records).empty());
}

TEST_CASE("a run that fails in the wider precision fails as any other", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t models = GENERATE(1U, 2U);
  CAPTURE(async, models);
  auto options = narrow_fleet(2, async, 1);
  options.timeout = std::chrono::milliseconds(150);
  if (models == 2) {
    options.models.push_back(19);
  }
  FakeFleet fleet(std::move(options));
  FakeFaults::Plan plan;
  std::string retired;
  SECTION("softly") {
    plan.soft_at_run = 4;
  }
  SECTION("for good") {
    plan.lost_at_run = 4;
    retired = "fake:1 is retired: ";
  }
  SECTION("by not coming back") {
    plan.hang_at_run = 4;
    retired = "fake:1 is retired: device: fake:1.0 has not answered for 150 ms";
  }
  const auto records = records_that_may_overflow(1200, 1);  // about every second run is of one of these
  fleet.faults().plan(1, plan);
  const auto done = fleet.score(records, by_logits(fleet));
  CHECK(check_lines(fleet, done, records).empty());
  CHECK(done.notices.size() == (retired.empty() ? 0 : 1));
  if (!done.notices.empty()) {
    CHECK_THAT(done.notices[0], Catch::Matchers::StartsWith(retired));
  }
}

}  // namespace
