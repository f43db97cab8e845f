// How far a running job is, told from its threads to whoever looks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/io/progress.h"
#include "kime/job/fleet.h"

namespace kime {

/// Filled by one job at a time; any thread may look at any time. Outlives the job.
class JobProgress {
 public:
  JobProgress() = default;
  JobProgress(const JobProgress&) = delete;
  JobProgress& operator=(const JobProgress&) = delete;

  /// Nothing has begun: nullopt. The time is the run's.
  [[nodiscard]] std::optional<Progress> look() const;

  // ---- the job

  /// Records `before` were read by an earlier run.
  void begin(const Fleet& fleet, std::uint64_t before);
  /// All so far; see Progress.
  void read(std::uint64_t records, std::optional<double> part, bool all);
  /// All so far, an earlier run's too.
  void wrote(std::uint64_t scored, std::uint64_t failed, std::uint64_t tokens);

  /// Devices are at work as long as this lives.
  class Working {
   public:
    /// `progress` may be null: then nobody looks.
    Working(JobProgress* progress, std::span<const std::size_t> devices);
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working();

   private:
    JobProgress* progress_;
    std::vector<std::size_t> devices_;
  };

 private:
  mutable std::mutex mutex_;
  bool begun_ = false;
  std::chrono::steady_clock::time_point begin_;
  Progress now_;  ///< But for the time and the devices.
  std::vector<std::string> names_;
  std::vector<std::size_t> at_work_;  ///< Streams, by device.
};

}  // namespace kime
