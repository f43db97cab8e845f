#include "kime/backend/cpu/peak.h"

#include <barrier>
#include <thread>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/weights.h"

namespace kime::cpu {

namespace {

using Measure = double (*)(std::size_t rounds, float* sink);

// Operations a second of all threads together.
double peak_of(Measure operations, std::size_t threads, std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kRounds = 20000;
  std::vector<double> rates(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  const auto measure = [&](std::size_t index) {
    float sink = 0;
    start.arrive_and_wait();
    const auto begin = Clock::now();
    double done = 0;
    auto now = begin;
    while (now - begin < time) {
      done += operations(kRounds, &sink);
      now = Clock::now();
    }
    rates[index] = done / std::chrono::duration<double>(now - begin).count();
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back(measure, i);
  }
  measure(0);
  for (auto& other : others) {
    other.join();
  }
  double sum = 0;
  for (const double rate : rates) {
    sum += rate;
  }
  return sum;
}

}  // namespace

double compute_peak(Precision precision, std::size_t threads, std::chrono::milliseconds time) {
  const kernels::Narrow* narrow = narrow_of(kernels::table(), precision);
  // FMAs where narrow products have no instruction of their own.
  return peak_of(narrow == nullptr || narrow->peak == nullptr ? kernels::table().fma_peak : narrow->peak, threads, time);
}

std::string_view products_by(Precision precision) {
  const kernels::Narrow* narrow = narrow_of(kernels::table(), precision);
  return narrow == nullptr ? "fma" : narrow->name;
}

std::string_view target_in_use() {
  return kernels::table().target;
}

std::vector<std::string_view> compiled_targets() {
  const auto names = kernels::compiled_targets();
  return {names.begin(), names.end()};
}

std::vector<std::string_view> runnable_targets() {
  std::vector<std::string_view> names;
  for (const auto* table : kernels::tables()) {
    names.emplace_back(table->target);
  }
  return names;
}

std::string highway_version() {
  return kernels::highway_version();
}

}  // namespace kime::cpu
