#include "kime/job/recovery.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

using kime::Recovery;
using kime::Work;
using Lanes = std::vector<std::vector<std::size_t>>;

Work make_work(Recovery& recovery, std::vector<std::uint64_t> numbers) {
  return {recovery.next_id(), std::move(numbers), 0, 0, {}, false};
}

std::vector<std::size_t> scored(Recovery& recovery, const Work& work, std::size_t device) {
  const std::vector<std::size_t> on{device};
  return recovery.scored(work, on);
}

// The only piece of work of a verdict.
Work only(Recovery::Verdict verdict) {
  REQUIRE(verdict.again.size() == 1);
  CHECK(verdict.given_up.empty());
  return std::move(verdict.again[0]);
}

TEST_CASE("a batch that fails once goes on whole, and not to where it failed") {
  Recovery recovery(3);
  const Lanes lanes{{0}, {1}, {2}};
  const Work again = only(recovery.failed(make_work(recovery, {4, 5, 6}), 1, false));
  CHECK(again.numbers == std::vector<std::uint64_t>{4, 5, 6});
  CHECK_FALSE(again.suspect);
  CHECK(recovery.may_take(again, lanes, 0));
  CHECK_FALSE(recovery.may_take(again, lanes, 1));
  CHECK(recovery.may_take(again, lanes, 2));
  CHECK(recovery.live() == 3);
}

TEST_CASE("a batch that fails on two devices is halved, a single record given up") {
  Recovery recovery(3);
  const Lanes lanes{{0}, {1}, {2}};
  auto halved = recovery.failed(only(recovery.failed(make_work(recovery, {1, 2, 3}), 0, false)), 1, false);
  REQUIRE(halved.again.size() == 2);
  CHECK(halved.given_up.empty());
  CHECK(halved.again[0].numbers == std::vector<std::uint64_t>{1});
  CHECK(halved.again[1].numbers == std::vector<std::uint64_t>{2, 3});
  CHECK(halved.again[0].id != halved.again[1].id);
  CHECK(recovery.may_take(halved.again[0], lanes, 0));  // a half is new
  auto verdict = recovery.failed(only(recovery.failed(std::move(halved.again[0]), 0, false)), 2, false);
  CHECK(verdict.again.empty());
  CHECK(verdict.given_up == std::vector<std::uint64_t>{1});
}

TEST_CASE("on the only device a batch is tried twice before it is halved") {
  Recovery recovery(1);
  const Lanes lanes{{0}, {0}};
  Work work = only(recovery.failed(make_work(recovery, {1, 2}), 0, false));
  CHECK(recovery.may_take(work, lanes, 0));
  auto halved = recovery.failed(std::move(work), 0, false);
  REQUIRE(halved.again.size() == 2);
  const auto verdict = recovery.failed(only(recovery.failed(std::move(halved.again[1]), 0, false)), 0, false);
  CHECK(verdict.given_up == std::vector<std::uint64_t>{2});
  CHECK(recovery.live() == 1);
}

TEST_CASE("what failed on the only device left is tried there again, retired ones do not count") {
  Recovery recovery(2);
  const Lanes lanes{{0}, {1}};
  const Work work = only(recovery.failed(make_work(recovery, {1, 2}), 0, false));
  CHECK_FALSE(recovery.may_take(work, lanes, 0));
  recovery.retire(1);
  CHECK(recovery.may_take(work, lanes, 0));
  CHECK(recovery.failed(work, 0, false).again.size() == 2);
}

TEST_CASE("of lanes over several devices, one that holds no device it failed on is preferred, and else any will do") {
  Recovery recovery(3);
  const Work work = only(recovery.failed(make_work(recovery, {1}), 0, false));
  const Lanes three{{0, 1}, {1, 2}, {0, 2}};
  CHECK_FALSE(recovery.may_take(work, three, 0));
  CHECK(recovery.may_take(work, three, 1));
  const Lanes two{{0, 1}, {1, 0}};
  CHECK(recovery.may_take(work, two, 0));
  CHECK(recovery.may_take(work, two, 1));
  const Lanes left{{0, 1}, {}, {0, 2}};  // the good one has left
  CHECK(recovery.may_take(work, left, 0));
  recovery.retire(2);
  CHECK(recovery.may_take(work, three, 0));  // the good one waits to be mended
}

TEST_CASE("what was on a lost device goes on record by record, each alone a suspect") {
  Recovery recovery(3);
  const Lanes lanes{{0}, {1}, {2}};
  auto verdict = recovery.failed(make_work(recovery, {7, 8, 9}), 2, true);
  CHECK(recovery.retired(2));
  CHECK(recovery.live() == 2);
  REQUIRE(verdict.again.size() == 3);
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < 3; ++i) {
    const Work& each = verdict.again[i];
    CHECK(each.numbers == std::vector<std::uint64_t>{7 + i});
    CHECK(each.suspect);
    CHECK(recovery.may_take(each, lanes, 0));
    CHECK_FALSE(recovery.may_take(each, lanes, 2));
    ids.insert(each.id);
  }
  CHECK(ids.size() == 3);
  // The one that kills a second device is given up; no third is risked.
  const auto killer = recovery.failed(std::move(verdict.again[1]), 0, true);
  CHECK(killer.again.empty());
  CHECK(killer.given_up == std::vector<std::uint64_t>{8});
  CHECK(recovery.live() == 1);
  // One that was on the last device when it was lost is not given up, but nobody is left.
  const auto last = recovery.failed(std::move(verdict.again[0]), 1, true);
  CHECK(last.given_up.empty());
  CHECK(recovery.live() == 0);
}

TEST_CASE("a device is retired when two of its batches in a row fail and others score them") {
  Recovery recovery(3);
  const Work first = only(recovery.failed(make_work(recovery, {1}), 0, false));
  const Work second = only(recovery.failed(make_work(recovery, {2}), 0, false));
  SECTION("both") {
    CHECK(scored(recovery, first, 1).empty());
    CHECK_FALSE(recovery.retired(0));
    CHECK(scored(recovery, second, 2) == std::vector<std::size_t>{0});
    CHECK(recovery.retired(0));
    CHECK(recovery.live() == 2);
    CHECK(scored(recovery, second, 1).empty());  // once
  }
  SECTION("in the other order, by one device") {
    CHECK(scored(recovery, second, 1).empty());
    CHECK(scored(recovery, first, 1) == std::vector<std::size_t>{0});
  }
  SECTION("not when nobody scores one of them") {
    CHECK(scored(recovery, first, 1).empty());
    CHECK(recovery.failed(second, 1, false).given_up == std::vector<std::uint64_t>{2});
    CHECK(scored(recovery, first, 1).empty());
    CHECK_FALSE(recovery.retired(0));
  }
  SECTION("not when it has scored something since") {
    CHECK(scored(recovery, make_work(recovery, {3}), 0).empty());
    CHECK(scored(recovery, first, 1).empty());
    CHECK(scored(recovery, second, 1).empty());
    CHECK_FALSE(recovery.retired(0));
  }
  SECTION("however many others have failed there meanwhile") {
    for (std::uint64_t i = 0; i < 100; ++i) {
      only(recovery.failed(make_work(recovery, {3 + i}), 0, false));
    }
    CHECK(scored(recovery, first, 1).empty());
    CHECK(scored(recovery, second, 1) == std::vector<std::size_t>{0});
  }
  SECTION("not for two with one between them that nobody scores") {
    const Work third = only(recovery.failed(make_work(recovery, {3}), 0, false));
    CHECK(scored(recovery, first, 1).empty());
    CHECK(scored(recovery, third, 1).empty());
    CHECK_FALSE(recovery.retired(0));
  }
  SECTION("a success between two failures") {
    CHECK(scored(recovery, make_work(recovery, {3}), 0).empty());
    const Work third = only(recovery.failed(make_work(recovery, {4}), 0, false));
    CHECK(scored(recovery, second, 1).empty());
    CHECK(scored(recovery, third, 1).empty());
    CHECK_FALSE(recovery.retired(0));
  }
  SECTION("not by a lane that it took part in") {
    const std::vector<std::size_t> together{1, 0};
    CHECK(recovery.scored(first, together).empty());
    CHECK(recovery.scored(second, together).empty());
    CHECK_FALSE(recovery.retired(0));
  }
}

TEST_CASE("the last device is not retired for failures, whoever scores what it failed on") {
  Recovery recovery(2);
  const Work first = only(recovery.failed(make_work(recovery, {1}), 0, false));
  const Work second = only(recovery.failed(make_work(recovery, {2}), 0, false));
  recovery.retire(1);  // while two of its streams are still at work
  CHECK(scored(recovery, first, 1).empty());
  CHECK(scored(recovery, second, 1).empty());
  CHECK_FALSE(recovery.retired(0));
  CHECK(recovery.live() == 1);
}

// Devices that score, fail on some records, and are lost by others, in random order, one batch at a time each.
TEST_CASE("whatever fails, records are scored or given up once, and a killer costs two devices") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::size_t devices = 1 + random() % 6;
    const std::uint64_t records = 1 + random() % 60;
    Recovery recovery(devices);
    std::set<std::uint64_t> killers;
    std::set<std::uint64_t> bad;
    for (std::size_t i = 0; i < random() % (1 + devices / 2); ++i) {
      killers.insert(random() % records);
    }
    for (std::size_t i = 0; i < random() % 4; ++i) {
      bad.insert(random() % records);
    }
    std::deque<Work> waiting;
    for (std::uint64_t at = 0; at < records;) {
      std::vector<std::uint64_t> numbers(std::min<std::uint64_t>(records - at, 1 + random() % 16));
      std::iota(numbers.begin(), numbers.end(), at);
      at += numbers.size();
      waiting.push_back(make_work(recovery, std::move(numbers)));
    }
    Lanes lanes;
    for (std::size_t device = 0; device < devices; ++device) {
      lanes.push_back({device});
    }
    std::map<std::uint64_t, int> ended;
    std::map<std::uint64_t, int> killed;
    for (int steps = 0; !waiting.empty() && recovery.live() > 0; ++steps) {
      REQUIRE(steps < 20000);
      const std::size_t device = random() % devices;
      if (recovery.retired(device) || !recovery.may_take(waiting.front(), lanes, device)) {
        continue;
      }
      Work work = std::move(waiting.front());
      waiting.pop_front();
      const auto has = [&](const std::set<std::uint64_t>& set) {
        return std::ranges::any_of(work.numbers, [&](auto number) { return set.contains(number); });
      };
      if (const bool lost = has(killers); lost || has(bad)) {
        for (const auto number : work.numbers) {
          killed[number] += lost && killers.contains(number) ? 1 : 0;
        }
        auto verdict = recovery.failed(std::move(work), device, lost);
        for (const auto number : verdict.given_up) {
          ++ended[number];
          CHECK((killers.contains(number) || bad.contains(number)));
        }
        std::ranges::move(verdict.again, std::back_inserter(waiting));
      } else {
        for (const auto number : work.numbers) {
          ++ended[number];
        }
        for (const auto broken : scored(recovery, work, device)) {
          FAIL("no device is broken, but " << broken << " was retired");
        }
      }
    }
    for (const auto& [number, times] : killed) {
      CHECK(times <= 2);
    }
    for (const auto& [number, times] : ended) {
      CHECK(times == 1);
    }
    if (recovery.live() > 0) {
      CHECK(ended.size() == records);
    }
  }
}

}  // namespace
