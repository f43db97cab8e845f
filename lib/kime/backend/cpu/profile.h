// How long each op of a graph takes on the CPU, for benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace kime::cpu {

/// Filled by the runs of a backend that was given it; of one checkpoint, since ops go by their number in the graph. A run counts by
/// itself and adds what it found once, at its end. Thread-safe.
class Profile {
 public:
  /// A run's steps: the op of each and the seconds from the end of the step before it to its own end, on the run's own thread.
  void add(std::span<const std::uint32_t> ops, std::span<const double> seconds) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i] >= seconds_.size()) {
        seconds_.resize(ops[i] + 1);
      }
      seconds_[ops[i]] += seconds[i];
    }
  }

  /// The seconds of each op, over all runs since it was taken last. Ops past its end took none.
  [[nodiscard]] std::vector<double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seconds_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<double> seconds_;
};

}  // namespace kime::cpu
