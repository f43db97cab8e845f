// The crew's helpers: every chunk once, no two workers of a number at a time, no work for nothing.
#include "kime/backend/cpu/crew.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

namespace kime::cpu {
namespace {

// Calls of one parallel(): chunks that came not just once, workers out of range, and workers that met themselves.
std::size_t faults(const Crew& crew, std::size_t width, std::size_t chunks) {
  std::vector<std::atomic<int>> seen(chunks);
  std::vector<std::atomic<int>> busy(width + 1);
  std::atomic<std::size_t> faults{0};
  crew.parallel(width, chunks, [&](std::size_t chunk, std::size_t worker) {
    if (worker >= std::max<std::size_t>(width, 1) || busy[worker].fetch_add(1) != 0) {
      ++faults;
    }
    ++seen[chunk];
    if (chunk % 5 == 0) {
      std::this_thread::yield();
    }
    busy[worker].fetch_sub(1);
  });
  for (const auto& count : seen) {
    faults += count == 1 ? 0 : 1;
  }
  return faults;
}

TEST_CASE("every chunk is done once", "[threads]") {
  for (const std::size_t threads : {1U, 2U, 3U, 5U}) {
    const Crew crew(threads);
    for (const std::size_t width : {0U, 1U, 2U, 3U, 9U}) {
      for (const std::size_t chunks : {0U, 1U, 2U, 3U, 40U, 500U}) {
        CAPTURE(threads, width, chunks);
        for (int round = 0; round < 20; ++round) {
          REQUIRE(faults(crew, width, chunks) == 0);
        }
      }
    }
  }
}

TEST_CASE("several callers share the helpers", "[threads]") {
  const Crew crew(4);
  std::atomic<std::size_t> bad{0};
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < 5; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::size_t round = 0; round < 300; ++round) {
        bad += faults(crew, 1 + (caller + round) % 4, round % 17);
      }
    });
  }
  for (auto& caller : callers) {
    caller.join();
  }
  CHECK(bad == 0);
}

TEST_CASE("what helpers wrote is there for the caller", "[threads]") {
  const Crew crew(3);
  std::vector<std::size_t> squares(1000);
  for (std::size_t round = 1; round < 50; ++round) {
    crew.parallel(3, squares.size(), [&](std::size_t chunk, std::size_t /*worker*/) { squares[chunk] = chunk * round; });
    for (std::size_t i = 0; i < squares.size(); ++i) {
      REQUIRE(squares[i] == i * round);
    }
  }
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_CASE("an idle crew costs no CPU time") {
  const Crew crew(4);
  REQUIRE(faults(crew, 4, 100) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(cpu_seconds() - before < 0.03);
}

TEST_CASE("helpers do share the work") {
  const Crew crew(2);
  std::atomic<bool> helped{false};
  for (int round = 0; round < 100 && !helped; ++round) {
    crew.parallel(2, 2, [&](std::size_t /*chunk*/, std::size_t worker) {
      helped = helped || worker == 1;
      for (int i = 0; i < 1000 && !helped; ++i) {  // leaves the other chunk time to be taken
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  }
  CHECK(helped);
}

}  // namespace
}  // namespace kime::cpu
