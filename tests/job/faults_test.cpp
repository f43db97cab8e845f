// Jobs over fake devices that fail in each way there is: no record is lost, none is written twice, and no job hangs.
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/job/fake_fleet.h"

namespace {

using namespace kime;        // NOLINT(google-build-using-namespace): tests of it
using namespace kime::test;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;

/// Ids that random records do not have.
constexpr std::uint32_t kKiller = 900;
constexpr std::uint32_t kBad = 901;

constexpr std::chrono::milliseconds kTimeout{150};

FakeFleetOptions fleet_of(std::size_t devices, bool async, std::size_t streams = 2) {
  FakeFleetOptions options;
  options.driver = fake_devices(devices, async);
  for (auto& device : options.driver.devices) {
    device.per_batch = std::chrono::microseconds(50);  // so that none does it all before the others begin
  }
  options.streams = streams;
  return options;
}

bool any_contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(texts, [&](const auto& text) { return text.find(part) != std::string::npos; });
}

TEST_CASE("a fleet scores every record once, in order", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t devices = GENERATE(1U, 3U);
  const std::size_t streams = GENERATE(1U, 3U);
  CAPTURE(async, devices, streams);
  const auto records = some_records(2000);
  FakeFleet fleet(fleet_of(devices, async, streams));
  REQUIRE(fleet.made());
  for (int job = 0; job < 2; ++job) {  // a fleet can be used again
    const auto done = fleet.score(records);
    CHECK(done.summary.end == ScoreEnd::complete);
    CHECK(check_job(done, records, fleet.seeds()).empty());
    CHECK(done.notices.empty());
    for (const auto& device : done.summary.devices) {
      CHECK(device.batches > 0);
    }
  }
  CHECK(fleet.fleet().close());
  fleet.end();
}

TEST_CASE("a device that fails at the start is left out with a notice", "[threads]") {
  const bool async = GENERATE(false, true);
  const auto what = GENERATE(0, 1, 2);
  CAPTURE(async, what);
  const auto records = some_records(500);
  auto options = fleet_of(3, async);
  FakeFaults::Plan plan;
  plan.no_streams = what == 0;
  plan.no_memory = what == 1;
  plan.no_load = what == 2;
  const std::size_t broken = what == 2 ? 0 : 1;  // the first one loads, the others copy
  options.driver.faults->plan(broken, plan);
  FakeFleet fleet(std::move(options));
  REQUIRE(fleet.made());
  REQUIRE(fleet.notices().size() == 1);
  CHECK_THAT(fleet.notices()[0], Contains("fake:" + std::to_string(broken) + " is left out: "));
  CHECK(fleet.fleet().devices().size() == 2);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
}

TEST_CASE("a fleet of which no device starts says what kept the last one") {
  auto options = fleet_of(2, false);
  FakeFaults::Plan plan;
  plan.no_streams = true;
  options.driver.faults->plan(0, plan);
  plan = {};
  plan.no_memory = true;
  options.driver.faults->plan(1, plan);
  const FakeFleet fleet(std::move(options));
  CHECK_FALSE(fleet.made());
  CHECK(fleet.failure() == "device: fake:1 gives no memory");
}

TEST_CASE("a device that is lost in the middle costs no record", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::uint64_t at = GENERATE(1U, 2U, 7U, 20U);
  CAPTURE(async, at);
  const auto records = some_records(3000);
  FakeFleet fleet(fleet_of(3, async));
  FakeFaults::Plan plan;
  plan.lost_at_run = at;
  fleet.faults().plan(1, plan);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  REQUIRE(done.notices.size() == 1);
  CHECK_THAT(done.notices[0], Contains("fake:1 is retired: device: fake:1 is lost; 2 devices go on"));
  CHECK(done.summary.devices[1].failures >= 1);
  CHECK(done.summary.devices[1].retired == "device: fake:1 is lost");
}

TEST_CASE("a device that fails with the last batch costs no record", "[threads]") {
  const bool async = GENERATE(false, true);
  const auto fault = GENERATE(FakeFault::soft, FakeFault::lost, FakeFault::hang);
  CAPTURE(async, fault);
  auto records = some_records(400);
  records.back().ids.assign(100, 3);
  records.back().ids[50] = kKiller;  // a batch of its own
  records.back().markers.clear();
  auto options = fleet_of(2, async);
  options.timeout = kTimeout;
  FakeFleet fleet(std::move(options));
  fleet.faults().on_token(kKiller, fault, 1);  // whichever device takes it first
  const auto done = fleet.score(records);
  CHECK(fleet.faults().injected(fault) == 1);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(done.notices.size() == (fault == FakeFault::soft ? 0 : 1));
}

TEST_CASE("two of three devices lost, one after the other", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(3000);
  FakeFleet fleet(fleet_of(3, async));
  FakeFaults::Plan plan;
  plan.lost_at_run = 5;
  fleet.faults().plan(0, plan);
  plan.lost_at_run = 11;
  fleet.faults().plan(2, plan);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  check_job(done, records, fleet.seeds());
  CHECK(done.notices.size() == 2);
  CHECK(any_contains(done.notices, "; 1 device goes on"));
}

TEST_CASE("soft failures here and there cost no record and no device", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(3000);
  FakeFleet fleet(fleet_of(3, async));
  FakeFaults::Plan plan;
  for (std::size_t device = 0; device < 3; ++device) {
    plan.soft_at_run = 1 + 3 * device;
    fleet.faults().plan(device, plan);
  }
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(done.notices.empty());
  CHECK(fleet.faults().injected(FakeFault::soft) == 3);
  std::uint64_t failures = 0;
  for (const auto& device : done.summary.devices) {
    failures += device.failures;
  }
  CHECK(failures == 3);
}

TEST_CASE("copies that fail cost no record where there are other devices", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(2000);
  FakeFleet fleet(fleet_of(4, async));
  fleet.faults().chances({.seed = 5, .copy = 0.002});
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(fleet.faults().injected(FakeFault::copy) > 0);
}

TEST_CASE("a device without memory for a bucket leaves its batches to others, and does what it can", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(2000);
  // The n-th allocation from now on: arena, inputs, outputs, and the larger ones of the next bucket.
  const std::uint64_t nth = GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U);
  CAPTURE(nth);
  std::uint64_t before = 0;
  {
    FakeFleet probe(fleet_of(2, async));
    for (const auto& count : probe.ledger().allocs_by_mode) {
      before += count;
    }
    before /= 2;
  }
  FakeFleet fleet(fleet_of(2, async));
  FakeFaults::Plan plan;
  plan.memory_at_alloc = before + nth;
  fleet.faults().plan(1, plan);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(fleet.faults().injected(FakeFault::memory) <= 1);
}

TEST_CASE("an only device that has no memory for the large buckets scores what fits the small ones", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  auto options = fleet_of(1, async, 1);
  options.stage.buckets = {{32, 16, 64}, {8192, 32, 64}};
  options.driver.devices[0].memory_bytes = 16384;
  FakeFleet fleet(std::move(options));
  REQUIRE(fleet.made());
  auto records = some_records(600);
  records[300].ids.assign(60, 4);  // only a large bucket holds it
  records[300].markers = {1};
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()) == std::vector<std::size_t>{300});
  CHECK_THAT(done.lines[300], Contains("out of memory"));
}

TEST_CASE("a device that hangs is given up after its time, and its late result changes nothing", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::uint64_t at = GENERATE(1U, 6U);
  CAPTURE(async, at);
  const auto records = some_records(2000);
  auto options = fleet_of(2, async);
  options.timeout = kTimeout;
  FakeFleet fleet(std::move(options));
  FakeFaults::Plan plan;
  plan.hang_at_run = at;
  fleet.faults().plan(0, plan);
  const auto begin = std::chrono::steady_clock::now();
  const auto done = fleet.score(records);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(fleet.faults().hanging() == 1);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  REQUIRE(done.notices.size() == 1);
  CHECK_THAT(done.notices[0], Contains("fake:0 is retired: device: fake:0.") && Contains("has not answered for 150 ms"));
  SECTION("it comes back while the fleet is at work") {
    fleet.faults().release(true);
    const auto more = fleet.score(records);
    CHECK(more.summary.end == ScoreEnd::complete);
    CHECK(check_job(more, records, fleet.seeds()).empty());
  }
  SECTION("it comes back in the middle of the next job") {
    std::thread late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fleet.faults().release(true);
    });
    const auto more = fleet.score(records);
    late.join();
    CHECK(more.summary.end == ScoreEnd::complete);
    CHECK(check_job(more, records, fleet.seeds()).empty());
  }
  SECTION("it comes back after the fleet is gone") {
    fleet.end();
  }
}

TEST_CASE("all devices hang: the run ends", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(2000);
  auto options = fleet_of(2, async);
  options.timeout = kTimeout;
  FakeFleet fleet(std::move(options));
  FakeFaults::Plan plan;
  plan.hang_at_run = 4;
  fleet.faults().plan(0, plan);
  fleet.faults().plan(1, plan);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::devices_lost);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(fleet.fleet().hangs());
}

TEST_CASE("a record that kills each device it meets costs two devices and itself", "[threads]") {
  const bool async = GENERATE(false, true);
  const bool hangs = GENERATE(false, true);
  CAPTURE(async, hangs);
  auto records = some_records(1500);
  records[700].ids[0] = kKiller;
  auto options = fleet_of(4, async);
  options.timeout = hangs ? kTimeout : std::chrono::milliseconds(0);
  FakeFleet fleet(std::move(options));
  fleet.faults().on_token(kKiller, hangs ? FakeFault::hang : FakeFault::lost);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()) == std::vector<std::size_t>{700});
  CHECK(done.notices.size() == 2);
  CHECK(any_contains(done.notices, "; 2 devices go on"));
}

TEST_CASE("a record that fails everywhere gets a line, the others are scored", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t devices = GENERATE(1U, 2U, 3U);
  CAPTURE(async, devices);
  auto records = some_records(1500);
  records[3].ids[0] = kBad;
  records[900].ids[0] = kBad;
  records[901].ids[0] = kBad;
  FakeFleet fleet(fleet_of(devices, async));
  fleet.faults().on_token(kBad, FakeFault::soft);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()) == std::vector<std::size_t>{3, 900, 901});
  CHECK_THAT(done.lines[900], Contains("a run on fake:"));
  CHECK(done.notices.empty());
}

TEST_CASE("a device on which every batch fails, while others score them, is retired", "[threads]") {
  const bool async = GENERATE(false, true);
  CAPTURE(async);
  const auto records = some_records(3000);
  FakeFleet fleet(fleet_of(3, async));
  FakeFaults::Plan plan;
  plan.soft_from_run = 1;
  fleet.faults().plan(2, plan);
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::complete);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  REQUIRE(done.notices.size() == 1);
  CHECK_THAT(done.notices[0], Contains("fake:2 is retired: two of its batches in a row failed, and others scored them; 2 devices go on"));
  CHECK(done.summary.devices[2].records == 0);
}

TEST_CASE("when the last device is lost the output ends in order, and nothing is invented", "[threads]") {
  const bool async = GENERATE(false, true);
  const std::size_t devices = GENERATE(1U, 2U);
  const std::size_t count = GENERATE(300U, 20000U);  // fewer and more than are in flight at once
  CAPTURE(async, devices, count);
  const auto records = some_records(count);
  FakeFleet fleet(fleet_of(devices, async));
  FakeFaults::Plan plan;
  plan.lost_at_run = 4;
  for (std::size_t device = 0; device < devices; ++device) {
    fleet.faults().plan(device, plan);
  }
  const auto done = fleet.score(records);
  CHECK(done.summary.end == ScoreEnd::devices_lost);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(done.lines.size() < records.size());
  CHECK(any_contains(done.notices, "it was the last device"));
}

TEST_CASE("when the last device is lost, a reader that waits for input is woken", "[threads]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto records = some_records(50);
  const std::string text = to_text(records);
  REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));  // and the pipe stays open
  FakeFleet fleet(fleet_of(1, GENERATE(false, true)));
  FakeFaults::Plan plan;
  plan.lost_at_run = 2;
  fleet.faults().plan(0, plan);
  const auto done = fleet.score_file("/proc/self/fd/" + std::to_string(ends[0]), fleet.options());
  CHECK(done.summary.end == ScoreEnd::devices_lost);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a record's error stops a run over failing devices at that record", "[threads]") {
  auto records = some_records(2000);
  records[800].ids[0] = kBad;
  FakeFleet fleet(fleet_of(2, true));
  fleet.faults().on_token(kBad, FakeFault::soft);
  auto options = fleet.options();
  SECTION("stop") {
    options.on_error = OnError::stop;
    const auto done = fleet.score(records, options);
    CHECK(done.summary.end == ScoreEnd::complete);
    REQUIRE(done.lines.size() == 801);
    CHECK(read_lines(done.lines, records, fleet.seeds()).failed == std::vector<std::size_t>{800});
  }
  SECTION("skip") {
    options.on_error = OnError::skip;
    const auto done = fleet.score(records, options);
    CHECK(done.summary.end == ScoreEnd::complete);
    CHECK(done.lines.size() == 1999);
    CHECK(done.summary.failed == 1);
    CHECK(done.lines[800] == expected_line(fleet.seeds(), records[801], 801));
  }
}

}  // namespace
