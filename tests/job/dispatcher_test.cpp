#include "kime/job/dispatcher.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace kime;  // NOLINT(google-build-using-namespace): tests of it
using Next = Dispatcher::Next;
using Lanes = std::vector<std::vector<std::size_t>>;
using Catch::Matchers::Contains;

/// Says which devices it is over, and is not asked for more.
class StillLane final : public Lane {
 public:
  explicit StillLane(std::vector<std::size_t> devices) : devices_(std::move(devices)) {}
  [[nodiscard]] std::vector<std::size_t> devices() const override { return devices_; }
  std::optional<LaneFailure> prepare(std::span<const Bucket> /*buckets*/) override { return std::nullopt; }
  std::optional<LaneFailure> score(Bucket& /*used*/) override { return std::nullopt; }
  bool repair(std::span<const char> /*retired*/) override { return false; }

 private:
  std::vector<std::size_t> devices_;
};

/// A dispatcher over lanes that are played by hand. Every record has 10 tokens and a marker.
class Table {
 public:
  explicit Table(const Lanes& lanes, std::size_t target = 512) {
    std::size_t devices = 0;
    for (const auto& lane : lanes) {
      lanes_.push_back(std::make_shared<StillLane>(lane));
      devices = std::max(devices, *std::ranges::max_element(lane) + 1);
    }
    for (std::size_t device = 0; device < devices; ++device) {
      devices_.push_back({"fake:" + std::to_string(device), "fake", 1, target, false});
    }
    dispatcher.emplace(devices_, lanes_, buckets_,
                       Dispatcher::Hooks{.size_of =
                                             [](std::uint64_t) {
                                               return RecordSize{10, 1};
                                             },
                                         .notice = [this](const std::string& text) { notices.push_back(text); },
                                         .stopped = [this] { return stopped.load(); }});
  }

  static Work work(std::vector<std::uint64_t> numbers) {
    const std::size_t count = numbers.size();
    return {0, std::move(numbers), 10 * count, count, {}, false};
  }
  [[nodiscard]] bool push(std::vector<std::uint64_t> numbers) {
    Work one = work(std::move(numbers));
    return dispatcher->push({&one, 1});
  }
  [[nodiscard]] Work pull(std::size_t lane) {
    Work work;
    REQUIRE(dispatcher->pull(lane, work) == Next::work);
    return work;
  }
  std::vector<std::uint64_t> fail(std::size_t lane, Work work, std::size_t device, bool lost = false) {
    return dispatcher->failed(lane, std::move(work), {Error(ErrorKind::device, "it broke"), device, lost}, 0.001);
  }
  void scored(std::size_t lane, const Work& work) { dispatcher->scored(lane, work, buckets_.back(), 0.001); }

  std::vector<std::string> notices;
  std::atomic<bool> stopped = false;

 private:
  std::vector<Bucket> buckets_{{100, 8, 100}, {1000, 80, 1000}};
  std::vector<FleetDevice> devices_;
  std::vector<std::shared_ptr<Lane>> lanes_;

 public:
  std::optional<Dispatcher> dispatcher;
};

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("lanes take what was pushed, in its order") {
  Table table(Lanes{{0}, {0}});
  REQUIRE(table.push({0, 1}));
  REQUIRE(table.push({2}));
  const Work first = table.pull(0);
  const Work second = table.pull(1);
  CHECK(first.numbers == Numbers{0, 1});
  CHECK(second.numbers == Numbers{2});
  CHECK(first.id != second.id);
  table.dispatcher->close(false);
  table.scored(0, first);
  table.scored(1, second);
  Work none;
  CHECK(table.dispatcher->pull(0, none) == Next::end);
  CHECK(table.dispatcher->pull(1, none) == Next::end);
  CHECK_FALSE(table.dispatcher->lost());
  REQUIRE(table.dispatcher->stats().size() == 1);
  CHECK(table.dispatcher->stats()[0].batches == 2);
  CHECK(table.dispatcher->stats()[0].records == 3);
  CHECK(table.dispatcher->stats()[0].tokens == 30);
}

TEST_CASE("a device with a large target takes several units at once, no more than a bucket holds") {
  Table table(Lanes{{0}}, 100000);
  for (std::uint64_t unit = 0; unit < 100; ++unit) {
    REQUIRE(table.push({4 * unit, 4 * unit + 1, 4 * unit + 2, 4 * unit + 3}));
  }
  std::uint64_t next = 0;
  std::size_t largest = 0;
  for (int i = 0; i < 20 && next < 400; ++i) {
    const Work work = table.pull(0);
    CHECK(work.tokens == 10 * work.numbers.size());
    CHECK(work.markers == work.numbers.size());
    CHECK(work.numbers.size() <= 80);
    for (const auto number : work.numbers) {
      CHECK(number == next++);
    }
    largest = std::max(largest, work.numbers.size());
    table.scored(0, work);
  }
  CHECK(next == 400);
  CHECK(largest > 4);
}

TEST_CASE("push waits while enough is waiting, until half of it is taken, or the next batch once the run is stopped, or all is aborted",
          "[threads]") {
  const bool stops = GENERATE(false, true);
  Table table(Lanes{{0}}, 100);
  std::atomic<int> pushed = 0;
  std::thread reader([&] {
    while (table.push({static_cast<std::uint64_t>(pushed)})) {
      ++pushed;
    }
  });
  const auto settled = [&] {
    for (int before = -1; before != pushed;) {
      before = pushed;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    return pushed.load();
  };
  const int full = settled();
  CHECK(full == 80);  // eight batches of the target
  Work work = table.pull(0);
  if (stops) {
    CHECK(settled() == full);
    table.stopped = true;
    table.scored(0, work);
    work = table.pull(0);
    reader.join();
    CHECK(pushed == full);
    table.dispatcher->close(true);
    table.scored(0, work);
    CHECK(table.dispatcher->pull(0, work) == Next::end);
    return;
  }
  std::size_t taken = work.tokens;
  for (; taken < 400; taken += work.tokens) {
    CHECK(settled() == full);
    table.scored(0, work);
    work = table.pull(0);
  }
  CHECK(settled() > full);
  table.dispatcher->abort();
  reader.join();
  Work none;
  CHECK(table.dispatcher->pull(0, none) == Next::end);
  CHECK_FALSE(table.dispatcher->lost());
  CHECK(table.fail(0, work, 0).empty());  // what is in hand ends without a trace
}

TEST_CASE("close with drop leaves only what is under way") {
  Table table(Lanes{{0}, {1}});
  REQUIRE(table.push({0}));
  REQUIRE(table.push({1}));
  const Work work = table.pull(0);
  table.dispatcher->close(true);
  Work none;
  Next other = Next::work;
  std::thread waiting([&] { other = table.dispatcher->pull(1, none); });  // until the one under way is over
  table.scored(0, work);
  waiting.join();
  CHECK(other == Next::end);
  CHECK(table.dispatcher->pull(0, none) == Next::end);
}

TEST_CASE("what has failed goes before what is new, to another device, and keeps its number") {
  Table table(Lanes{{0}, {1}});
  for (std::uint64_t i = 0; i < 4; ++i) {
    REQUIRE(table.push({i}));
  }
  const Work first = table.pull(0);
  CHECK(table.fail(0, first, 0).empty());
  CHECK(table.pull(0).numbers == Numbers{1});  // not again where it failed
  const Work again = table.pull(1);
  CHECK(again.numbers == Numbers{0});
  CHECK(again.id == first.id);
  CHECK(again.tokens == 10);
  CHECK(again.markers == 1);
  // Twice: a single record is given up.
  CHECK(table.fail(1, again, 1) == Numbers{0});
  CHECK(table.pull(1).numbers == Numbers{2});
  CHECK(table.dispatcher->stats()[0].failures == 1);
  CHECK(table.dispatcher->stats()[1].failures == 1);
  CHECK(table.dispatcher->why() == "device: it broke");
}

TEST_CASE("a batch that fails on two devices comes back in halves") {
  Table table(Lanes{{0}, {1}});
  REQUIRE(table.push({0, 1, 2, 3, 4}));
  CHECK(table.fail(0, table.pull(0), 0).empty());
  CHECK(table.fail(1, table.pull(1), 1).empty());
  const Work one = table.pull(0);
  const Work two = table.pull(0 + 1);
  CHECK(one.numbers == Numbers{0, 1});
  CHECK(one.tokens == 20);
  CHECK(two.numbers == Numbers{2, 3, 4});
  CHECK(two.markers == 3);
}

TEST_CASE("one suspect at a time, and other work beside it", "[threads]") {
  Table table(Lanes{{0}, {1}, {2}});
  REQUIRE(table.push({0, 1}));
  CHECK(table.fail(2, table.pull(2), 2, true).empty());
  REQUIRE(table.notices.size() == 1);
  CHECK(table.notices[0] == "fake:2 is retired: device: it broke; 2 devices go on");
  CHECK(table.dispatcher->retired() == std::vector<char>{0, 0, 1});
  Work none;
  CHECK(table.dispatcher->pull(2, none) == Next::repair);
  CHECK_FALSE(table.dispatcher->leave(2));
  const Work first = table.pull(0);
  CHECK(first.suspect);
  CHECK(first.numbers == Numbers{0});
  REQUIRE(table.push({7}));
  CHECK(table.pull(1).numbers == Numbers{7});  // the other suspect waits
  Work second;
  std::atomic<bool> pulled = false;
  std::thread waiting([&] {
    table.dispatcher->pull(1, second);
    pulled = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(pulled);
  table.scored(0, first);
  waiting.join();
  CHECK(second.numbers == Numbers{1});
}

TEST_CASE("an ensemble's lanes are mended when a device of theirs is lost, and take what failed there") {
  Table table(Lanes{{0, 1}, {1, 2}, {2, 0}});
  REQUIRE(table.push({0}));
  REQUIRE(table.push({1}));
  CHECK(table.fail(0, table.pull(0), 1, true).empty());
  Work none;
  CHECK(table.dispatcher->pull(0, none) == Next::repair);
  CHECK(table.dispatcher->pull(1, none) == Next::repair);
  table.dispatcher->repaired(0, {0, 2});
  CHECK_FALSE(table.dispatcher->leave(1));
  const Work suspect = table.pull(2);
  CHECK(suspect.numbers == Numbers{0});
  const Work work = table.pull(0);
  CHECK(work.numbers == Numbers{1});
  table.scored(0, work);
  table.scored(2, suspect);
  CHECK(table.dispatcher->stats()[0].records == 2);
  CHECK(table.dispatcher->stats()[1].records == 0);
  CHECK(table.dispatcher->stats()[2].records == 2);
}

TEST_CASE("a batch that fails where every lane uses the device is not stuck") {
  Table table(Lanes{{0, 1}, {1, 0}});
  REQUIRE(table.push({0}));
  CHECK(table.fail(0, table.pull(0), 0).empty());
  const Work again = table.pull(0);
  CHECK(again.numbers == Numbers{0});
  CHECK(table.fail(0, again, 0) == Numbers{0});  // no endless round
}

TEST_CASE("a lane over one device twice counts its batches once") {
  Table table(Lanes{{0, 0}});
  REQUIRE(table.push({0, 1}));
  table.scored(0, table.pull(0));
  CHECK(table.dispatcher->stats()[0].batches == 1);
  CHECK(table.dispatcher->stats()[0].records == 2);
  CHECK(table.dispatcher->stats()[0].busy == Approx(0.001));
}

TEST_CASE("when the last lane leaves with something to do, the run is lost and the reader is told", "[threads]") {
  Table table(Lanes{{0}}, 10);
  REQUIRE(table.push({0}));
  REQUIRE(table.push({1}));
  std::thread reader([&] {
    while (table.push({2})) {  // until nobody will take it
    }
  });
  const Work work = table.pull(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(table.fail(0, work, 0, true).empty());
  REQUIRE(table.notices.size() == 1);
  CHECK_THAT(table.notices[0], Contains("it was the last device"));
  Work none;
  CHECK(table.dispatcher->pull(0, none) == Next::repair);
  CHECK(table.dispatcher->leave(0));
  reader.join();
  CHECK(table.dispatcher->lost());
  CHECK(table.dispatcher->why() == "device: it broke");
}

TEST_CASE("a device whose batches fail in a row while others score them is retired, and its lane leaves") {
  Table table(Lanes{{0}, {1}});
  REQUIRE(table.push({0}));
  REQUIRE(table.push({1}));
  CHECK(table.fail(0, table.pull(0), 0).empty());
  CHECK(table.fail(0, table.pull(0), 0).empty());
  table.scored(1, table.pull(1));
  CHECK(table.notices.empty());
  table.scored(1, table.pull(1));
  REQUIRE(table.notices.size() == 1);
  CHECK(table.notices[0] == "fake:0 is retired: two of its batches in a row failed, and others scored them; 1 device goes on");
  Work none;
  CHECK(table.dispatcher->pull(0, none) == Next::repair);
  CHECK_FALSE(table.dispatcher->leave(0));
  table.dispatcher->close(false);
  CHECK(table.dispatcher->pull(1, none) == Next::end);
  CHECK_FALSE(table.dispatcher->lost());
}

double cpu_seconds() {
  timespec used{};
  REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

TEST_CASE("lanes that wait for work use no CPU time", "[threads]") {
  Table table(Lanes{{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}});
  std::atomic<int> ended = 0;
  std::vector<std::thread> lanes;
  for (std::size_t lane = 0; lane < 8; ++lane) {
    lanes.emplace_back([&, lane] {
      Work none;
      ended += table.dispatcher->pull(lane, none) == Next::end ? 1 : 0;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
#ifdef KIME_SANITIZED
  constexpr double kMost = 0.1;  // a sanitizer's own thread takes time
#else
  constexpr double kMost = 0.004;  // 1 % of a core
#endif
  CHECK(cpu_seconds() - before < kMost);
  table.dispatcher->close(false);
  for (auto& lane : lanes) {
    lane.join();
  }
  CHECK(ended == 8);
}

}  // namespace
