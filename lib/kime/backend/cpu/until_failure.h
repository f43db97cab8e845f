// Work in parallel that may fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "kime/backend/cpu/crew.h"

namespace kime::cpu {

/// As Crew::parallel, for an `fn` that returns an std::optional<Failure>: calls it for the chunks until one fails, and returns the first
/// failure, or none. Calls that have begun by then run to their end.
template <class Failure, class Fn>
[[nodiscard]] std::optional<Failure> until_failure(const Crew& crew, std::size_t width, std::size_t chunks, const Fn& fn) {
  std::mutex mutex;
  std::optional<Failure> first;
  std::atomic<bool> failed = false;
  crew.parallel(width, chunks, [&](std::size_t chunk, std::size_t worker) {
    if (failed.load(std::memory_order_relaxed)) {
      return;
    }
    if (std::optional<Failure> failure = fn(chunk, worker)) {
      const std::lock_guard lock(mutex);
      if (!first) {
        first = std::move(failure);
      }
      failed.store(true, std::memory_order_relaxed);
    }
  });
  return first;
}

}  // namespace kime::cpu
