// How fast records are read, parsed, packed and written where scores cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kime/base/error.h"
#include "kime/job/stage.h"

namespace kime {

struct NullReport {
  std::size_t lanes = 0;
  std::uint64_t records = 0;
  std::uint64_t failed = 0;  ///< Of them.
  std::uint64_t bytes = 0;   ///< As the files have them, packed ones too.
  double seconds = 0;
  double cpu_seconds = 0;  ///< Of all threads of the process.

  /// Per CPU second: what a thread does that never waits.
  [[nodiscard]] double bytes_per_thread_second() const { return cpu_seconds > 0 ? static_cast<double>(bytes) / cpu_seconds : 0; }
  [[nodiscard]] double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

/// Scores `file` with a null device again and again, for `seconds` at least, to /dev/null; a short one many times in each job, as so many
/// files. Errors: `input`: the file.
Result<NullReport> bench_null(const std::string& file, const StageBuckets& stage, std::size_t lanes, double seconds);

}  // namespace kime
