// How fast the machine's memory is, for benchmarks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kime/base/error.h"

namespace kime::cpu {

struct Bandwidth {
  double bytes_per_second = 0;  ///< Of the best pass.
  std::size_t passes = 0;
  std::uint64_t bytes = 0;  ///< Read in each pass, by all threads together.
};

/// Reads about `bytes` again and again for about `time`, at least twice, with `threads` threads that each read a part of their own, which
/// they touched first. Errors: `device` without memory.
[[nodiscard]] Result<Bandwidth> read_bandwidth(std::size_t threads, std::uint64_t bytes, std::chrono::milliseconds time);

/// How much to read so that caches help little: twice the last-level cache where the machine has four times that to spare, at most 1 GiB
/// and at least 256 MiB.
[[nodiscard]] std::uint64_t bandwidth_buffer(std::uint64_t last_level_cache, std::uint64_t free_memory);
/// The same for this machine.
[[nodiscard]] std::uint64_t bandwidth_buffer();

}  // namespace kime::cpu
