#include "kime/job/in_flight.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "kime/job/bounded_queue.h"

namespace {

using kime::BoundedQueue;
using kime::InFlight;

TEST_CASE("records come out in order whatever order they are done in") {
  InFlight<int> ring(4, 1000);
  std::uint64_t number = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    REQUIRE(ring.acquire(number));
    CHECK(number == i);
    ring.slot(number) = static_cast<int>(10 * i);
  }
  CHECK(ring.full());
  CHECK(ring.ready() == 0);
  const std::vector<std::uint64_t> later{2, 1};
  ring.done(later);
  CHECK(ring.ready() == 0);
  const std::vector<std::uint64_t> first{0};
  ring.done(first);
  CHECK(ring.wait_ready() == 3);
  CHECK(ring.slot(ring.first()) == 0);
  ring.release(2);
  CHECK(ring.first() == 2);
  CHECK_FALSE(ring.full());
  CHECK(ring.ready() == 1);
}

TEST_CASE("weight bounds what is held, and one heavy record always fits") {
  InFlight<int> ring(100, 10);
  std::uint64_t number = 0;
  REQUIRE(ring.acquire(number));
  ring.weigh(number, 1000);
  CHECK(ring.full());
  ring.done(std::vector<std::uint64_t>{number});
  ring.release(ring.wait_ready());
  CHECK_FALSE(ring.full());
}

TEST_CASE("a stopped ring gives no room, a closed one no more records") {
  InFlight<int> ring(1, 10);
  std::uint64_t number = 0;
  REQUIRE(ring.acquire(number));
  std::thread waiter([&] {
    std::uint64_t other = 0;
    CHECK_FALSE(ring.acquire(other));
  });
  ring.stop();
  waiter.join();
  std::thread writer([&] { CHECK(ring.wait_ready() == 0); });
  ring.close();
  writer.join();
}

TEST_CASE("a pipeline under load keeps order and bounds", "[threads]") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  constexpr std::uint64_t kRecords = 20000;
  InFlight<std::uint64_t> ring(64, 500);
  BoundedQueue<std::vector<std::uint64_t>> queue(3);
  std::thread reader([&] {
    std::vector<std::uint64_t> batch;
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      if (ring.full() && !batch.empty()) {
        queue.push(std::exchange(batch, {}));
      }
      std::uint64_t number = 0;
      if (!ring.acquire(number)) {
        return;
      }
      ring.slot(number) = i * i;
      ring.weigh(number, random() % 40);
      batch.push_back(number);
      if (batch.size() == 5) {
        std::shuffle(batch.begin(), batch.end(), random);
        queue.push(std::exchange(batch, {}));
      }
    }
    queue.push(std::move(batch));
    queue.close();
  });
  std::vector<std::thread> streams;
  for (int i = 0; i < 3; ++i) {
    streams.emplace_back([&] {
      while (auto batch = queue.pop()) {
        for (const auto number : *batch) {
          ++ring.slot(number);
        }
        ring.done(*batch);
      }
    });
  }
  std::atomic<std::uint64_t> written = 0;
  std::thread writer([&] {
    while (const auto ready = ring.wait_ready()) {
      for (std::size_t i = 0; i < ready; ++i) {
        const auto number = ring.first() + i;
        if (ring.slot(number) != number * number + 1) {
          return;
        }
        ++written;
      }
      ring.release(ready);
    }
  });
  reader.join();
  for (auto& stream : streams) {
    stream.join();
  }
  ring.close();
  writer.join();
  CHECK(written == kRecords);
}

TEST_CASE("a queue hands out what is left after close, and nothing after abort") {
  BoundedQueue<int> queue(2);
  CHECK(queue.push(1));
  CHECK(queue.push(2));
  queue.close();
  CHECK_FALSE(queue.push(3));
  CHECK(queue.pop() == 1);
  queue.abort();
  CHECK_FALSE(queue.pop());
}

TEST_CASE("a full queue waits, and abort wakes it", "[threads]") {
  BoundedQueue<int> queue(1);
  CHECK(queue.push(1));
  std::thread pusher([&] { CHECK_FALSE(queue.push(2)); });
  queue.abort();
  pusher.join();
}

}  // namespace
