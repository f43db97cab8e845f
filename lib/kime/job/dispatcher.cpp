#include "kime/job/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kime {

namespace {

/// How long a lane that left a batch to faster ones waits before it looks again: one of them may be late.
constexpr std::chrono::milliseconds kPatience{20};

std::vector<std::size_t> distinct(std::vector<std::size_t> devices) {
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

std::vector<WorkerSpec> workers(std::span<const FleetDevice> devices, std::span<const std::shared_ptr<Lane>> lanes) {
  std::vector<WorkerSpec> specs;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    // An ensemble's lanes are as many kinds of worker: their devices may change.
    const auto on = lanes[lane]->devices();
    specs.push_back({on.size() == 1 ? on[0] : lane, devices[on[0]].target});
  }
  return specs;
}

}  // namespace

Dispatcher::Dispatcher(std::span<const FleetDevice> devices, std::span<const std::shared_ptr<Lane>> lanes, std::span<const Bucket> buckets,
                       Hooks hooks)
    : buckets_(buckets),
      hooks_(std::move(hooks)),
      policy_(workers(devices, lanes)),
      recovery_(devices.size()),
      working_lanes_(lanes.size()) {
  for (const auto& device : devices) {
    stats_.push_back(
        {.name = device.name, .bits_class = device.bits_class, .precision = device.precision, .streams = device.streams, .retired = {}});
    padded_.push_back(device.padded ? 1 : 0);
    // A window's worth, so that the reader is at the next one while lanes are at this.
    most_tokens_ += 8 * device.target * device.streams;
  }
  for (const auto& lane : lanes) {
    const auto on = lane->devices();
    ensemble_ = on.size() > 1;
    lanes_.push_back(distinct(on));
  }
}

double Dispatcher::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool Dispatcher::push(std::span<Work> works) {
  std::size_t untold = 0;
  std::unique_lock lock(mutex_);
  for (Work& work : works) {
    if (full_ && !aborted_) {
      lock.unlock();
      tell(std::exchange(untold, 0));
      lock.lock();
      room_.wait(lock, [this] { return aborted_ || !full_; });
    }
    if (aborted_ || stopped()) {
      return false;
    }
    work.id = recovery_.next_id();
    waiting_tokens_ += work.tokens;
    full_ = waiting_tokens_ >= most_tokens_;
    waiting_.push_back(std::move(work));
    ++untold;
  }
  lock.unlock();
  tell(untold);
  return true;
}

// Wakes lanes for so many batches; without the mutex, which they take.
void Dispatcher::tell(std::size_t batches) {
  if (batches == 1 && stats_.size() == 1) {  // with one device nobody ever leaves a batch to others
    work_.notify_one();
  } else if (batches > 0) {
    work_.notify_all();
  }
}

void Dispatcher::close(bool drop) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (drop) {
    waiting_.clear();
    waiting_tokens_ = 0;
  }
  work_.notify_all();
}

void Dispatcher::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  waiting_.clear();
  again_.clear();
  waiting_tokens_ = 0;
  changed();
}

void Dispatcher::changed() {
  work_.notify_all();
  room_.notify_all();
}

bool Dispatcher::broken(std::size_t lane) const {
  return std::ranges::any_of(lanes_[lane], [this](std::size_t device) { return recovery_.retired(device); });
}

Dispatcher::Next Dispatcher::pull(std::size_t lane, Work& work) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (aborted_ || finished()) {
      return Next::end;
    }
    if (broken(lane)) {
      return Next::repair;
    }
    if (take_again(lane, work) || take_waiting(lane, work)) {
      ++in_flight_;
      ++batches_;
      policy_.started(lane, work.tokens, now());
      const bool room = full_ && (waiting_tokens_ <= most_tokens_ / 2 || stopped());
      full_ = full_ && !room;
      lock.unlock();
      if (room) {
        room_.notify_one();
      }
      return Next::work;
    }
    if (waiting_.empty()) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, kPatience);
    }
  }
}

// What has failed before goes first: the output waits for it.
bool Dispatcher::take_again(std::size_t lane, Work& work) {
  const auto found = std::ranges::find_if(
      again_, [&](const Work& each) { return !(each.suspect && suspect_in_flight_) && recovery_.may_take(each, lanes_, lane); });
  if (found == again_.end()) {
    return false;
  }
  work = std::move(*found);
  again_.erase(found);
  suspect_in_flight_ = suspect_in_flight_ || work.suspect;
  return true;
}

bool Dispatcher::take_waiting(std::size_t lane, Work& work) {
  if (waiting_.empty()) {
    return false;
  }
  const std::size_t most = policy_.take(lane, waiting_tokens_, waiting_.front().tokens, now());
  if (most == 0) {
    return false;
  }
  work = std::move(waiting_.front());
  waiting_.pop_front();
  while (!waiting_.empty()) {
    const Work& next = waiting_.front();
    if (work.tokens + next.tokens > most || find_bucket(buckets_, work.tokens + next.tokens, work.numbers.size() + next.numbers.size(),
                                                        work.markers + next.markers) == nullptr) {
      break;
    }
    work.numbers.insert(work.numbers.end(), next.numbers.begin(), next.numbers.end());
    work.tokens += next.tokens;
    work.markers += next.markers;
    waiting_.pop_front();
  }
  waiting_tokens_ -= work.tokens;
  return true;
}

void Dispatcher::scored(std::size_t lane, const Work& work, const Bucket& bucket, double seconds, std::size_t rescued) {
  std::unique_lock lock(mutex_);
  --in_flight_;
  suspect_in_flight_ = suspect_in_flight_ && !work.suspect;
  policy_.finished(lane, now());
  for (const std::size_t device : lanes_[lane]) {
    DeviceStats& stats = stats_[device];
    ++stats.batches;
    stats.records += work.numbers.size();
    stats.tokens += work.tokens;
    stats.rescued += rescued;
    stats.padding += padded_[device] != 0 ? bucket.tokens - work.tokens : 0;
    stats.busy += seconds;
  }
  for (const std::size_t device : recovery_.scored(work, lanes_[lane])) {
    retire(device, "two of its batches in a row failed, and others scored them");
  }
  const bool more = !again_.empty() || !waiting_.empty() || finished();
  lock.unlock();
  if (more) {
    work_.notify_all();
  }
}

std::vector<std::uint64_t> Dispatcher::failed(std::size_t lane, Work work, const LaneFailure& failure, double seconds) {
  const std::lock_guard lock(mutex_);
  --in_flight_;
  suspect_in_flight_ = suspect_in_flight_ && !work.suspect;
  policy_.failed(lane);
  ++stats_[failure.device].failures;
  stats_[failure.device].busy += seconds;
  why_ = failure.error.text();
  const bool new_loss = failure.lost && !recovery_.retired(failure.device);
  auto verdict = recovery_.failed(std::move(work), failure.device, failure.lost);
  if (new_loss) {
    retire(failure.device, why_);
  }
  if (aborted_) {
    return {};
  }
  for (auto& again : verdict.again) {
    again.tokens = 0;
    again.markers = 0;
    for (const auto number : again.numbers) {
      const RecordSize size = hooks_.size_of(number);
      again.tokens += size.tokens;
      again.markers += size.markers;
    }
    again_.push_back(std::move(again));
  }
  changed();
  return std::move(verdict.given_up);
}

void Dispatcher::retire(std::size_t device, const std::string& why) {
  recovery_.retire(device);
  if (!ensemble_) {
    policy_.retired(device);
  }
  stats_[device].retired = why;
  if (hooks_.notice) {
    const std::size_t left = recovery_.live();
    hooks_.notice(stats_[device].name + " is retired: " + why +
                  (left == 0   ? "; it was the last device"
                   : left == 1 ? "; 1 device goes on"
                               : "; " + std::to_string(left) + " devices go on"));
  }
  changed();
}

void Dispatcher::repaired(std::size_t lane, std::vector<std::size_t> devices) {
  const std::lock_guard lock(mutex_);
  lanes_[lane] = distinct(std::move(devices));
  changed();
}

bool Dispatcher::leave(std::size_t lane) {
  const std::lock_guard lock(mutex_);
  lanes_[lane].clear();
  if (ensemble_) {
    policy_.retired(lane);
  }
  const bool stranded = --working_lanes_ == 0 && !finished() && !aborted_;
  lost_ = lost_ || stranded;
  aborted_ = aborted_ || stranded;
  changed();
  return stranded;
}

std::vector<char> Dispatcher::retired() {
  const std::lock_guard lock(mutex_);
  std::vector<char> all;
  for (std::size_t device = 0; device < stats_.size(); ++device) {
    all.push_back(recovery_.retired(device) ? 1 : 0);
  }
  return all;
}

}  // namespace kime
