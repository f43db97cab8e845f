#include "kime/job/dispatch_policy.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "fleet_simulator.h"

using fleet::Device;
using fleet::Run;
using kime::BatchTime;
using kime::DispatchPolicy;

namespace {

using Lengths = std::vector<std::uint32_t>;

/// Many of about 110 tokens, a few of up to 2,048.
Lengths log_normal(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<> draw(std::log(110.0) - 0.32, 0.8);
  Lengths lengths(count);
  for (auto& length : lengths) {
    length = static_cast<std::uint32_t>(std::clamp(draw(random), 16.0, 2048.0));
  }
  return lengths;
}

/// Nearly all short, one in a hundred up to 8,000 tokens, and of the last two in a hundred every other one: half of the work is there.
Lengths heavy_tail(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto between = [&](std::uint32_t from, std::uint32_t to) { return std::uniform_int_distribution<std::uint32_t>(from, to)(random); };
  Lengths lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool heavy = between(1, 100) <= (i >= count - count / 50 ? 50U : 1U);
    lengths[i] = heavy ? between(1024, 8000) : between(16, 75);
  }
  return lengths;
}

/// A device of `speed` times a thousand tokens per second, whose batches cost as much as `fixed` tokens besides.
Device device(double speed, std::size_t target, double fixed) {
  const double per_token = 1 / (1000 * speed);
  return {.fixed = fixed * per_token, .per_token = per_token, .target = target};
}

/// Devices of speeds 1, 3 and 10 in turn. `targets`: of each of the three.
std::vector<Device> mixed(std::size_t count, std::array<std::size_t, 3> targets) {
  constexpr std::array<double, 3> kSpeeds = {1, 3, 10};
  std::vector<Device> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t target = targets[i % 3];
    all.push_back(device(kSpeeds[i % 3], target, target > 512 ? 256 : 32));
  }
  return all;
}

double overhead(const fleet::Result& result, const Run& run) {
  return result.end / fleet::ideal(run) - 1;
}

/// What the fleet must reach.
void check_end(const Run& run, const fleet::Result& result, double most_overhead) {
  INFO("seed " << run.seed << ", end " << result.end << ", idle tail " << result.idle_tail << ", slowest record " << result.slowest_record);
  CHECK(result.complete);
  CHECK(overhead(result, run) <= most_overhead);
  CHECK(result.idle_tail <= std::max(result.slowest_record, 0.02 * result.end));
}

constexpr double kTokensEach = 110;

}  // namespace

TEST_CASE("fleets of unequal devices end together, soon after the ideal", "[fleet]") {
  const auto seed = std::random_device()();
  struct Layout {
    const char* name;
    std::array<std::size_t, 3> targets;
  };
  const std::vector<Layout> layouts = {
      {"512 each", {512, 512, 512}}, {"512, 2048, 8192", {512, 2048, 8192}}, {"8192 each", {8192, 8192, 8192}}};
  std::string table = fmt::format(
      "Speeds 1 : 3 : 10, 100,000 records, batch times +-10 %, seed {}\n{:>7}  {:<15}  {:<10}  {:>8}  {:>8}  {:>8}  {:>9}  {:>14}\n", seed,
      "devices", "targets", "lengths", "ideal s", "end s", "over", "idle tail", "slowest record");
#ifdef KIME_SANITIZED  // arithmetic without threads, which sanitizers take minutes for
  const std::vector<std::size_t> counts = {8};
#else
  const std::vector<std::size_t> counts = {8, 64};
#endif
  for (const bool heavy : {false, true}) {
    const Lengths lengths = heavy ? heavy_tail(100000, seed) : log_normal(100000, seed);
    for (const std::size_t count : counts) {
      for (const Layout& layout : layouts) {
        const Run run{.devices = mixed(count, layout.targets), .lengths = lengths, .noise = 0.1, .seed = seed};
        const auto result = simulate(run);
        check_end(run, result, count == 8 ? 0.05 : 0.10);
        table += fmt::format("{:>7}  {:<15}  {:<10}  {:>8.2f}  {:>8.2f}  {:>6.2f} %  {:>7.2f} s  {:>12.2f} s\n", count, layout.name,
                             heavy ? "heavy tail" : "log-normal", fleet::ideal(run), result.end, 100 * overhead(result, run),
                             result.idle_tail, result.slowest_record);
      }
    }
  }
  std::cout << table;
}

TEST_CASE("one device, and equal ones, take unit by unit and leave nothing", "[fleet]") {
  const auto seed = std::random_device()();
  Device cpu = device(1, 512, 32);
  SECTION("one stream") {
  }
  SECTION("eight streams of one device") {
    cpu.workers = 8;
  }
  Run run{.devices = {cpu}, .lengths = log_normal(20000, seed), .noise = 0.05, .seed = seed};
  SECTION("eight devices") {
    run.devices = std::vector<Device>(8, cpu);
  }
  const auto result = simulate(run);
  check_end(run, result, 0.01);
  CHECK(result.largest_units == 1);
  CHECK(result.left == 0);
}

TEST_CASE("large batches are made where the target is large, one device too", "[fleet]") {
  const auto seed = std::random_device()();
  Run run{.devices = {device(10, 8192, 1024)}, .lengths = log_normal(50000, seed), .noise = 0.05, .seed = seed};
  SECTION("one stream") {
  }
  SECTION("two streams") {
    run.devices[0].workers = 2;
  }
  SECTION("four devices") {
    run.devices = std::vector<Device>(4, run.devices[0]);
  }
  const auto result = simulate(run);
  check_end(run, result, 0.02);  // In units of 512 the fixed cost alone would be twice the work.
  CHECK(result.largest_units >= 12);
  const double speed = 10000 * 8192.0 / (8192 + 1024) * static_cast<double>(run.devices[0].workers);
  CHECK(result.measured[0] == Approx(speed).epsilon(0.1));
}

TEST_CASE("a device whose speed changes in the middle gets what it can do", "[fleet]") {
  const auto seed = std::random_device()();
  Run run{.devices = mixed(8, {512, 2048, 8192}), .lengths = log_normal(100000, seed), .noise = 0.1, .seed = seed};
  run.devices[2].changes_at = 100;
  run.devices[2].change = GENERATE(0.25, 5.0, 20.0);
  const auto result = simulate(run);
  check_end(run, result, 0.05);
  CHECK(result.measured[2] == Approx(10000 * 8192.0 / (8192 + 256) / run.devices[2].change).epsilon(0.2));
}

TEST_CASE("what a retired device had goes to the others", "[fleet]") {
  const auto seed = std::random_device()();
  Run run{.devices = mixed(8, {512, 2048, 8192}), .lengths = log_normal(100000, seed), .noise = 0.1, .seed = seed};
  run.devices[2].retires_at = 100;
  run.devices[0].retires_at = 0;
  const auto result = simulate(run);
  check_end(run, result, 0.05);
  CHECK(result.tokens[0] == 0);
}

TEST_CASE("an end that nobody knew of is as good as a known one", "[fleet]") {
  const auto seed = std::random_device()();
  Run run{.devices = mixed(3, {512, 2048, 8192}), .lengths = log_normal(20000, seed), .noise = 0.1, .seed = seed};
  const double share = GENERATE(0.5, 0.95);  // of what the devices can do
  run.arrival = kTokensEach / (14000 * share);
  const double last = run.arrival * 20000;
  const auto result = simulate(run);
  INFO("seed " << seed << ", last arrival " << last << ", end " << result.end);
  CHECK(result.complete);
  CHECK(result.end <= 1.05 * std::max(last, fleet::ideal(run)));
}

TEST_CASE("a device that would only hold the others back does nothing", "[fleet]") {
  // While it scored 512 tokens, the other would empty the ring twice.
  const Run run{.devices = {device(1, 512, 32), device(1000, 16384, 1000)}, .lengths = log_normal(100000, 1)};
  const auto result = simulate(run);
  CHECK(result.complete);
  CHECK(overhead(result, run) <= 0.05);
  CHECK(result.tokens[0] < 5000);
}

TEST_CASE("every record comes out while a device lives, whatever fails") {
  CHECK(rc::check("progress in a fleet", [] {
    Run run;
    const auto count = *rc::gen::inRange<std::size_t>(1, 7);
    for (std::size_t i = 0; i < count; ++i) {
      Device one = device(*rc::gen::element(0.01, 1.0, 3.0, 10.0, 1000.0), *rc::gen::element<std::size_t>(1, 512, 2048, 16384),
                          *rc::gen::element(0.0, 32.0, 2000.0));
      one.workers = *rc::gen::inRange<std::size_t>(1, 4);
      one.fails = *rc::gen::element(0.0, 0.1, 0.7);
      one.changes_at = *rc::gen::element(fleet::kNever, 0.1, 2.0);
      one.change = *rc::gen::element(0.1, 30.0);
      one.retires_at = i == 0 ? fleet::kNever : *rc::gen::element(fleet::kNever, 0.0, 0.3, 3.0);
      run.devices.push_back(one);
    }
    run.seed = *rc::gen::arbitrary<std::uint32_t>();
    run.noise = *rc::gen::element(0.0, 0.3, 1.0);
    run.arrival = *rc::gen::element(0.0, 0.001, 0.1);
    run.lengths = log_normal(*rc::gen::inRange<std::size_t>(0, 3000), run.seed);
    RC_ASSERT(simulate(run).complete);
  }));
}

TEST_CASE("where all are idle, somebody takes") {
  CHECK(rc::check("no mutual waiting", [] {
    const auto devices = *rc::gen::inRange<std::size_t>(1, 6);
    const auto count = *rc::gen::inRange<std::size_t>(devices, 12);
    std::vector<kime::WorkerSpec> workers;
    for (std::size_t w = 0; w < count; ++w) {
      workers.push_back({w % devices, *rc::gen::element<std::size_t>(0, 100, 512, 8192)});
    }
    DispatchPolicy policy(workers);
    double now = 0;
    for (auto steps = *rc::gen::inRange(0, 30); steps > 0; --steps) {
      const auto w = *rc::gen::inRange<std::size_t>(0, count);
      policy.started(w, *rc::gen::inRange<std::size_t>(1, 9000), now);
      now += *rc::gen::element(0.0, 0.001, 0.5, 40.0);
      *rc::gen::arbitrary<bool>() ? policy.finished(w, now) : policy.failed(w);
    }
    const auto retired = *rc::gen::inRange<std::size_t>(0, devices);
    for (std::size_t d = 0; d < retired; ++d) {
      policy.retired(d);
    }
    const auto next = *rc::gen::inRange<std::size_t>(1, 3000);
    const auto waiting = next + *rc::gen::element<std::size_t>(0, 1, 500, 20000);
    bool taken = false;
    for (std::size_t w = 0; w < count; ++w) {
      const auto want = policy.take(w, waiting, next, now);
      taken = taken || want > 0;
      RC_ASSERT((want == 0 || want >= next));
      RC_ASSERT((want == 0 || workers[w].device >= retired));
      RC_ASSERT(want <= std::max(workers[w].target, next));
      RC_ASSERT(policy.take(w, 0, 0, now) == 0U);
    }
    RC_ASSERT(taken);
  }));
}

TEST_CASE("the time of a batch is fitted as a fixed part and one per token") {
  BatchTime time;
  CHECK_FALSE(time.measured());
  const auto seconds = [](std::size_t tokens) { return 0.25 + 0.001 * static_cast<double>(tokens); };
  time.observe(500, seconds(500), 8192);
  CHECK(time.of(500) == Approx(seconds(500)));
  CHECK(time.of(1000) == Approx(2 * seconds(500)));  // Nothing tells the parts apart yet.
  time.observe(2000, seconds(2000), 8192);
  for (const std::size_t tokens : {1U, 1000U, 8000U}) {
    CHECK(time.of(tokens) == Approx(seconds(tokens)));
  }
  // Batches of one size say nothing about the fixed part, which stays, in tokens, also where the device becomes slower.
  for (const double slower : {1, 3}) {
    for (int i = 0; i < 50; ++i) {
      time.observe(8000, slower * seconds(8000), 8192);
    }
    CHECK(time.of(8000) == Approx(slower * seconds(8000)));
    CHECK(time.of(500) == Approx(slower * seconds(500)));
  }
  CHECK(time.largest() == 8000);
}

TEST_CASE("a batch that took no time, and shorter ones that took longer, leave a sane fit") {
  BatchTime time;
  time.observe(500, 0, 512);
  CHECK(time.of(500) > 0);
  time.observe(100, 5, 512);
  time.observe(5000, 1, 512);
  CHECK(time.of(1) > 0);
  CHECK(time.of(1) < time.of(10000));
}

TEST_CASE("a device begins small, grows, and takes at most its share of what waits") {
  DispatchPolicy policy({{0, 8192}, {1, 8192}});
  CHECK(policy.speed(0) == 0);
  CHECK(policy.take(0, 100000, 500, 0) == 500);
  policy.started(0, 500, 0);
  policy.finished(0, 0.5);
  CHECK(policy.speed(0) == Approx(1000));
  CHECK(policy.take(0, 100000, 500, 1) == 2000);
  policy.started(0, 2000, 1);
  policy.finished(0, 3);
  CHECK(policy.take(0, 100000, 500, 3) == 8000);
  CHECK(policy.take(1, 100000, 500, 3) == 500);
  policy.started(1, 500, 3);
  policy.finished(1, 3.125);  // four times as fast
  CHECK(policy.take(0, 9000, 500, 4) == 1000);
  CHECK(policy.take(1, 9000, 500, 4) == 2000);
  CHECK(policy.take(1, 1500, 500, 4) == 1000);
  policy.retired(0);
  CHECK(policy.take(0, 9000, 500, 4) == 0);
  CHECK(policy.take(1, 1500, 500, 4) == 1500);  // Nobody else is left.
}

TEST_CASE("a slow worker leaves the last units to a faster one that is not late") {
  DispatchPolicy policy({{0, 512}, {1, 512}});
  for (const std::size_t w : {0U, 1U}) {
    policy.started(w, 500, 0);
  }
  policy.finished(1, 1);   // 500 tokens per second
  policy.finished(0, 10);  // 50
  policy.started(1, 500, 10);
  CHECK(policy.take(0, 5000, 500, 10) == 500);
  CHECK(policy.take(0, 2900, 500, 10) == 0);  // Done before 17 by the other one.
  CHECK(policy.take(0, 2900, 500, 13) == 0);
  CHECK(policy.take(0, 2900, 500, 14) == 500);  // Three seconds late: were it as late again, it would be done at 23.
  policy.failed(1);
  CHECK(policy.take(0, 2900, 500, 15) == 0);
  policy.retired(1);
  CHECK(policy.take(0, 2900, 500, 15) == 500);
  policy.finished(1, 16);  // a late result
  CHECK(policy.speed(1) == Approx(500));
}
