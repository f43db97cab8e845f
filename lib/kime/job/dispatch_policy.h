// How much a free worker takes: the arithmetic of dispatch, without threads, queues or clocks.
#pragma once

#include <cstddef>
#include <vector>

#include "kime/batch/packer.h"

namespace kime {

/// One stream of a device.
struct WorkerSpec {
  std::size_t device = 0;  ///< Workers of one device share its measured speed.
  std::size_t target = 0;  ///< Tokens of its best batch.
};

/// What a batch costs on a worker of one device, fitted to the batches it ran: a fixed time and a time per token, of which later batches
/// count for more, so that a device that becomes slower is soon seen to be.
class BatchTime {
 public:
  /// A batch of `tokens` took `seconds`. The fixed part is never taken for more than `target` tokens' time.
  void observe(std::size_t tokens, double seconds, std::size_t target);
  [[nodiscard]] bool measured() const { return weight_ > 0; }
  /// Seconds for a batch of `tokens`, by what was measured.
  [[nodiscard]] double of(std::size_t tokens) const { return (fixed_tokens_ + static_cast<double>(tokens)) * per_token_; }
  [[nodiscard]] std::size_t largest() const { return largest_; }

 private:
  // Sums over the batches, each weighted by its age: 1, tokens, seconds, and their products.
  double weight_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  double fixed_tokens_ = 0;  ///< The fixed time, in tokens.
  double per_token_ = 0;
  std::size_t largest_ = 0;
};

/// Decides how many tokens a free worker takes from a queue of small units, by what each device was measured to do. The rules:
///
/// - A device that was not measured yet takes one unit, and then at most four times the largest batch it ran, up to its target.
/// - A batch lasts at most about half as long as all workers together need for what waits (guided self-scheduling). What waits is bounded
///   by the records in flight, and no more than what is left: so no batch holds back the output for long enough to empty the queue, and
///   sizes shrink towards the end whether or not the end is known.
/// - A worker takes nothing while the others would be done with all that waits before it is done with one unit (list scheduling, with what
///   each has in hand). Of idle workers the fastest always takes, so that something is always under way.
///
/// So on one device whose targets are no larger than a unit, and on equal ones, each worker takes one unit, always. take() costs O(1), and
/// O(workers) where there are several devices and so little waits that a worker may leave it. Not thread-safe: its user's lock guards it.
/// Times are seconds on any one clock.
class DispatchPolicy {
 public:
  /// `unit`: tokens of a usual unit; a worker with no larger target takes one unit at a time.
  explicit DispatchPolicy(const std::vector<WorkerSpec>& workers, std::size_t unit = CostModel{}.target);

  /// How many tokens a free worker should take now: whole units from the front of the queue as long as they fit, at least one. 0: leave
  /// them to others; whoever gets it must let the other free workers ask, and ask again when something changed (a batch ended, units came,
  /// a device was retired), and after a while without (another may be late). `waiting`: tokens in the queue; `next`: of its first unit.
  [[nodiscard]] std::size_t take(std::size_t worker, std::size_t waiting, std::size_t next, double now) const;

  void started(std::size_t worker, std::size_t tokens, double now);
  /// The batch is done: measures. Ignored, as failed() is, for a worker that has none, or whose device is retired.
  void finished(std::size_t worker, double now);
  /// The batch is over, without a measurement.
  void failed(std::size_t worker);
  /// The device takes nothing any more, and nothing is expected of it.
  void retired(std::size_t device);

  /// Tokens per second of all the workers of a device at their targets, as last measured; 0: not yet.
  [[nodiscard]] double speed(std::size_t device) const;

 private:
  struct Worker {
    std::size_t device = 0;
    std::size_t target = 0;
    bool busy = false;
    std::size_t tokens = 0;
    double since = 0;
  };
  struct Device {
    BatchTime time;
    bool retired = false;
  };

  [[nodiscard]] bool counts(const Worker& worker) const;
  [[nodiscard]] double rate(const Worker& worker) const;
  [[nodiscard]] double free_at(const Worker& worker, double now) const;
  [[nodiscard]] bool leaves(std::size_t worker, std::size_t waiting, std::size_t next, double now) const;
  void sum_rates();

  std::vector<Worker> workers_;
  std::vector<Device> devices_;
  std::size_t unit_;
  std::size_t live_ = 0;  ///< Devices not retired.
  double rates_ = 0;      ///< Tokens per second of all workers that count.
};

}  // namespace kime
