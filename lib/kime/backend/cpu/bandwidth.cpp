#include "kime/backend/cpu/bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <limits>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "kime/backend/cpu/cpu_facts.h"
#include "kime/base/memory.h"

namespace kime::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Sums four streams in turn into many chains, so that a core always has many lines on their way: one stream alone reaches a fifth less.
// Integers: the compiler may reorder and vectorize them.
std::uint64_t sum(std::span<const std::uint64_t> words) {
  constexpr std::size_t kChains = 32;
  constexpr std::size_t kStreams = 4;
  const std::size_t part = words.size() / kStreams;
  std::array<std::uint64_t, kChains> chains{};
  for (std::size_t i = 0; i + kChains <= part; i += kChains) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t* at = words.data() + stream * part + i;
      for (std::size_t j = 0; j < kChains; ++j) {
        chains[j] += at[j];
      }
    }
  }
  std::uint64_t all = 0;
  for (const std::uint64_t chain : chains) {
    all += chain;
  }
  return all;
}

}  // namespace

Result<Bandwidth> read_bandwidth(std::size_t threads, std::uint64_t bytes, std::chrono::milliseconds time) {
  std::vector<Pages> parts;
  for (std::size_t i = 0; i < threads; ++i) {
    auto part = Pages::make(bytes / threads / 4096 * 4096);
    if (!part) {
      return std::move(part).error();
    }
    parts.push_back(*std::move(part));
  }
  Bandwidth found;
  found.bytes = parts[0].size() * threads;
  double best = std::numeric_limits<double>::infinity();
  bool more = true;
  bool touched = false;
  auto begin = Clock::now();
  auto end = begin;
  // Runs on one thread while the others wait: between passes, the first time after all parts have been touched.
  const auto between = [&]() noexcept {
    const auto now = Clock::now();
    if (touched) {
      best = std::min(best, std::chrono::duration<double>(now - begin).count());
      ++found.passes;
    } else {
      touched = true;
      end = now + time;
    }
    more = found.passes < 2 || now < end;
    begin = now;
  };
  std::barrier line(static_cast<std::ptrdiff_t>(threads), between);
  std::atomic<std::uint64_t> sink{0};
  const auto read = [&](std::size_t index) {
    const std::span<std::uint64_t> words(reinterpret_cast<std::uint64_t*>(parts[index].data()),
                                         parts[index].size() / sizeof(std::uint64_t));
    std::ranges::fill(words, index + 1);  // pages that were never written to are all one page of zeros
    line.arrive_and_wait();
    while (more) {
      sink.fetch_add(sum(words), std::memory_order_relaxed);
      line.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back(read, i);
  }
  read(0);
  for (auto& other : others) {
    other.join();
  }
  found.bytes_per_second = static_cast<double>(found.bytes) / best;
  return found;
}

std::uint64_t bandwidth_buffer(std::uint64_t last_level_cache, std::uint64_t free_memory) {
  constexpr std::uint64_t kMebi = 1U << 20U;
  return std::max(256 * kMebi, std::min({2 * last_level_cache, 1024 * kMebi, free_memory / 4}));
}

std::uint64_t bandwidth_buffer() {
  const std::uint64_t memory = node_memory_bytes("", -1);
  return bandwidth_buffer(read_cpu_facts("").l3, memory - std::min(memory, node_memory_used("", -1)));
}

}  // namespace kime::cpu
