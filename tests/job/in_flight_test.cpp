#include "kime/job/in_flight.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace {

using kime::InFlight;

// Hands batches from one thread to others.
class Batches {
 public:
  void push(std::vector<std::uint64_t> batch) {
    const std::lock_guard lock(mutex_);
    batches_.push_back(std::move(batch));
    any_.notify_one();
  }
  std::optional<std::vector<std::uint64_t>> pop() {
    std::unique_lock lock(mutex_);
    any_.wait(lock, [this] { return closed_ || !batches_.empty(); });
    if (batches_.empty()) {
      return std::nullopt;
    }
    auto batch = std::move(batches_.front());
    batches_.pop_front();
    return batch;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    any_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable any_;
  std::deque<std::vector<std::uint64_t>> batches_;
  bool closed_ = false;
};

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

TEST_CASE("a ring that was full has room again when an eighth of it is free", "[threads]") {
  InFlight<int> ring(16, 1000);
  std::uint64_t number = 0;
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 16; ++i) {
    REQUIRE(ring.acquire(number));
    numbers.push_back(number);
  }
  ring.done(numbers);
  std::atomic<bool> acquired = false;
  std::thread reader([&] {
    std::uint64_t next = 0;
    acquired = ring.acquire(next) && next == 16;
  });
  ring.release(1);
  CHECK(ring.full());
  CHECK_FALSE(acquired);
  ring.release(1);
  reader.join();
  CHECK(acquired);
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

TEST_CASE("a writer that rests is woken by a full ring and by a closed one alone", "[threads]") {
  using Clock = std::chrono::steady_clock;
  InFlight<int> ring(3, 1000);
  std::vector<std::uint64_t> numbers(3);
  REQUIRE(ring.acquire(numbers[0]));
  ring.done(std::span(numbers).first(1));

  const auto rest = Clock::now() + std::chrono::milliseconds(20);
  CHECK(ring.wait_ready(rest) == 1);
  CHECK(Clock::now() >= rest);

  const bool by_weight = GENERATE(false, true);
  const auto long_rest = Clock::now() + std::chrono::hours(1);
  std::atomic<std::size_t> ready = 0;
  std::thread full([&] { ready = ring.wait_ready(long_rest); });
  REQUIRE(ring.acquire(numbers[1]));
  ring.done(std::span(numbers).subspan(1, 1));
  CHECK(ready == 0);
  if (by_weight) {
    ring.weigh(numbers[1], 1000);
  } else {
    REQUIRE(ring.acquire(numbers[2]));
  }
  full.join();
  CHECK(ready == 2);

  ring.release(2);
  std::thread closed([&] { ready = ring.wait_ready(long_rest); });
  ring.close();
  closed.join();
  CHECK(ready == 0);
}

TEST_CASE("a pipeline under load keeps order and bounds", "[threads]") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  constexpr std::uint64_t kRecords = 20000;
  InFlight<std::uint64_t> ring(64, 500);
  Batches queue;
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

}  // namespace
