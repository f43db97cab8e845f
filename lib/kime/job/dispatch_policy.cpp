#include "kime/job/dispatch_policy.h"

#include <algorithm>
#include <utility>

namespace kime {
namespace {

/// What an older batch weighs against the next one.
constexpr double kMemory = 0.8;
/// Lengths tell the fixed time from the time per token where they vary by this share of their mean.
constexpr double kSpread = 0.2;
/// A batch takes at most this many times the tokens that its device was seen to bear.
constexpr std::size_t kGrowth = 4;
/// What waits should last this many times as long as the batch that a worker takes of it.
constexpr double kAhead = 2;
/// A worker leaves what waits only where it would need more than this many times as long as the others: speeds are measured, and of
/// equals none should wait for another because of noise.
constexpr double kClearly = 1.25;

}  // namespace

void BatchTime::observe(std::size_t tokens, double seconds, std::size_t target) {
  const auto x = static_cast<double>(tokens);
  const double y = std::max(seconds, 1e-9);  // a clock too coarse to see the batch
  weight_ = kMemory * weight_ + 1;
  x_ = kMemory * x_ + x;
  y_ = kMemory * y_ + y;
  xx_ = kMemory * xx_ + x * x;
  xy_ = kMemory * xy_ + x * y;
  largest_ = std::max(largest_, tokens);
  // A line through the weighted points; where they are too close together for one, the fixed part stays what it was, in tokens, so that
  // only the speed is fitted.
  const double variance = weight_ * xx_ - x_ * x_;
  if (variance > kSpread * kSpread * x_ * x_) {
    const double slope = (weight_ * xy_ - x_ * y_) / variance;
    if (slope > 0) {
      fixed_tokens_ = std::clamp((y_ - slope * x_) / (weight_ * slope), 0.0, static_cast<double>(target));
    }
  }
  per_token_ = y_ / (x_ + weight_ * fixed_tokens_);
}

DispatchPolicy::DispatchPolicy(const std::vector<WorkerSpec>& workers, std::size_t unit) : unit_(unit) {
  workers_.reserve(workers.size());
  for (const WorkerSpec& spec : workers) {
    Worker& worker = workers_.emplace_back();
    worker.device = spec.device;
    worker.target = std::max<std::size_t>(spec.target, 1);
    devices_.resize(std::max(devices_.size(), spec.device + 1));
  }
  live_ = devices_.size();
}

std::size_t DispatchPolicy::take(std::size_t worker, std::size_t waiting, std::size_t next, double now) const {
  const Worker& me = workers_[worker];
  const Device& device = devices_[me.device];
  if (waiting == 0 || device.retired) {
    return 0;
  }
  if (!device.time.measured()) {
    return next;
  }
  if (leaves(worker, waiting, next, now)) {
    return 0;
  }
  if (me.target <= unit_) {
    return next;
  }
  const double mine = rate(me);
  const double share = static_cast<double>(waiting) * mine / (mine + kAhead * std::max(0.0, rates_ - mine));
  const std::size_t most = std::min(me.target, kGrowth * device.time.largest());
  return std::max(next, share < static_cast<double>(most) ? static_cast<std::size_t>(share) : most);
}

void DispatchPolicy::started(std::size_t worker, std::size_t tokens, double now) {
  Worker& me = workers_[worker];
  me.busy = true;
  me.tokens = tokens;
  me.since = now;
}

void DispatchPolicy::finished(std::size_t worker, double now) {
  Worker& me = workers_[worker];
  Device& device = devices_[me.device];
  if (!std::exchange(me.busy, false) || device.retired) {
    return;
  }
  device.time.observe(me.tokens, now - me.since, me.target);
  sum_rates();
}

void DispatchPolicy::failed(std::size_t worker) {
  workers_[worker].busy = false;
}

void DispatchPolicy::retired(std::size_t device) {
  if (!std::exchange(devices_[device].retired, true)) {
    --live_;
    sum_rates();
  }
}

double DispatchPolicy::speed(std::size_t device) const {
  double sum = 0;
  for (const Worker& worker : workers_) {
    sum += worker.device == device && devices_[device].time.measured() ? rate(worker) : 0;
  }
  return sum;
}

/// Whether something can be expected of the worker.
bool DispatchPolicy::counts(const Worker& worker) const {
  const Device& device = devices_[worker.device];
  return !device.retired && device.time.measured();
}

/// Tokens per second of a worker, in batches of its target.
double DispatchPolicy::rate(const Worker& worker) const {
  return static_cast<double>(worker.target) / devices_[worker.device].time.of(worker.target);
}

/// When the worker is expected to be free. Of one that is late nothing is known but how late it is: it is expected to be as late again.
double DispatchPolicy::free_at(const Worker& worker, double now) const {
  if (!worker.busy) {
    return now;
  }
  const double expected = worker.since + devices_[worker.device].time.of(worker.tokens);
  return std::max(expected, 2 * now - expected);
}

/// Whether the others would clearly be done with all that waits before this worker is done with one unit.
bool DispatchPolicy::leaves(std::size_t worker, std::size_t waiting, std::size_t next, double now) const {
  const Worker& me = workers_[worker];
  if (live_ < 2) {
    return false;
  }
  const double limit = devices_[me.device].time.of(next) / kClearly;
  const auto tokens = static_cast<double>(waiting);
  if (tokens >= (rates_ - rate(me)) * limit) {
    return false;  // not even if all of them were free
  }
  // One that cannot do as much as the unit at the front is no help, however many of its kind there are: so equals never leave it to each
  // other, and of idle workers the fastest takes.
  double done = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& other = workers_[i];
    if (i == worker || !counts(other)) {
      continue;
    }
    const double time = now + limit - free_at(other, now);
    if (time >= devices_[other.device].time.of(next)) {
      done += rate(other) * time;
    }
  }
  return done > tokens;
}

void DispatchPolicy::sum_rates() {
  rates_ = 0;
  for (const Worker& worker : workers_) {
    rates_ += counts(worker) ? rate(worker) : 0;
  }
}

}  // namespace kime
