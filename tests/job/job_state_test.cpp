// How far a job is, as its listener hears it.
#include "tests/job/fake_fleet.h"

namespace kime::test {
namespace {

TEST_CASE("a job tells how far it is with whole lines, and counts on from an earlier run") {
  std::mt19937_64 random(1);
  const auto records = random_records(random, 5000);
  FakeFleetOptions fake;
  fake.driver = fake_devices(2, true);
  FakeFleet fleet(fake);
  REQUIRE(fleet.made());
  ScoreOptions options = fleet.options();
  options.from = {.output = 1000, .scored = 10, .failed = 2, .tokens = 70};
  std::vector<JobState> told;
  options.reached = [&told](const JobState& state) {
    told.push_back(state);
    return true;
  };
  const FakeDone done = fleet.score(records, options);
  REQUIRE(done.summary.end == ScoreEnd::complete);
  REQUIRE(told.size() > 1);
  const std::string input = to_text(records);
  for (const JobState& state : told) {
    const std::uint64_t lines = state.scored - 10;
    CHECK(state.failed == 2);
    CHECK(state.input.place.line == lines);
    CHECK(state.input.place.offset == to_text(std::span(records).first(lines)).size());
    std::size_t bytes = 1000;
    for (std::size_t i = 0; i < lines; ++i) {
      bytes += done.lines[i].size() + 1;
    }
    CHECK(state.output == bytes);
  }
  CHECK(told.back() == done.summary.reached);
  CHECK(done.summary.scored == 5010);
  CHECK(done.summary.failed == 2);
  CHECK(done.summary.reached.tokens == done.summary.tokens);
  CHECK(fleet.fleet().close());
}

TEST_CASE("a listener that refuses ends the job") {
  std::mt19937_64 random(2);
  const auto records = random_records(random, 20'000);
  FakeFleetOptions fake;
  fake.driver = fake_devices(2, true);
  FakeFleet fleet(fake);
  REQUIRE(fleet.made());
  ScoreOptions options = fleet.options();
  options.reached = [](const JobState&) { return false; };
  const FakeDone done = fleet.score(records, options);
  CHECK(done.summary.end == ScoreEnd::output_failed);
  CHECK(done.summary.message.empty());
  CHECK(done.lines.size() < records.size());
  CHECK(fleet.fleet().close());
}

}  // namespace
}  // namespace kime::test
