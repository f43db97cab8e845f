#include "kime/backend/cpu/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace kime::cpu {

namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr double kGain = 0.125;    // of a run's time that huge pages save
constexpr double kShare = 0.25;    // of a run's time that may be spent on them after it
constexpr std::size_t kFirst = 8;  // huge pages that are touched before their time is judged

// Bytes up to the next multiple of `step`.
std::size_t up_to_boundary(const std::byte* memory, std::size_t step) {
  return (step - reinterpret_cast<std::uintptr_t>(memory) % step) % step;
}

}  // namespace

void ask_for_huge_pages(std::byte* memory, std::size_t bytes, bool wanted) {
  const std::size_t skip = up_to_boundary(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  if (bytes > skip) {
    madvise(memory + skip, bytes - skip, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a hint: where it is not taken, nothing is lost
  }
}

FirstTouch touch_huge_pages(const Crew& crew, std::size_t threads, std::byte* memory, std::size_t bytes, Seconds limit) {
  const std::size_t skip = up_to_boundary(memory, kHuge);
  if (bytes < skip + kHuge) {
    return {};
  }
  ask_for_huge_pages(memory, bytes, true);
  std::atomic<double> took = 0;
  std::atomic<std::size_t> touched = 0;
  crew.parallel(threads, (bytes - skip) / kHuge, [&](std::size_t page, std::size_t /*worker*/) {
    const auto so_far = touched.load(std::memory_order_relaxed);
    if (so_far >= kFirst && took.load(std::memory_order_relaxed) > limit.count() * static_cast<double>(so_far)) {
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    *static_cast<volatile std::byte*>(memory + skip + page * kHuge) = std::byte{0};
    took.fetch_add(Seconds(std::chrono::steady_clock::now() - begin).count(), std::memory_order_relaxed);
    touched.fetch_add(1, std::memory_order_relaxed);
  });
  ask_for_huge_pages(memory, bytes, false);
  const std::size_t pages = touched.load(std::memory_order_relaxed);
  return {pages, Seconds(took.load(std::memory_order_relaxed) / static_cast<double>(pages))};
}

void HugePages::add(std::byte* memory, std::size_t bytes, Seconds each) {
  const std::size_t skip = up_to_boundary(memory, kHuge);
  if (bytes < skip + kHuge) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (count_ < kRanges) {
    const std::size_t pages = (bytes - skip) / kHuge;
    ranges_[count_++] = {memory + skip, memory + skip + pages * kHuge};
    cost_.fetch_add(static_cast<double>(pages) * each.count(), std::memory_order_relaxed);
    pending_.store(true, std::memory_order_release);
  }
}

void HugePages::after_run(Seconds run) {
  if (!pending_.load(std::memory_order_acquire)) {
    return;
  }
  const double before = ran_.fetch_add(run.count(), std::memory_order_relaxed);
  if (at_once_) {
    work(Seconds::max());
  } else if (before * kGain >= cost_.load(std::memory_order_relaxed)) {
    work(run * kShare);
  }
}

void HugePages::work(Seconds budget) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  while (count_ > 0) {
    Range& range = ranges_[count_ - 1];
    if (range.next == range.end || madvise(range.next, kHuge, MADV_COLLAPSE) != 0) {
      --count_;
      continue;
    }
    range.next += kHuge;
    made_.fetch_add(1, std::memory_order_relaxed);
    if (std::chrono::steady_clock::now() - begin >= budget) {
      return;
    }
  }
  pending_.store(false, std::memory_order_release);
}

}  // namespace kime::cpu
