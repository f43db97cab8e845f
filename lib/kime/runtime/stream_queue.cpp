#include "kime/runtime/stream_queue.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace kime {

namespace {

std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

StreamQueue::StreamQueue(std::function<bool()> alive, std::function<void(const TaskSpan&)> observe)
    : alive_(std::move(alive)), observe_(std::move(observe)) {
}

Status StreamQueue::start(std::function<void(const std::function<void()>&)> enter, std::shared_ptr<void> owner) {
  try {
    thread_ = std::thread([self = shared_from_this(), enter = std::move(enter), owner = std::move(owner)] {
      enter([&self] { self->work(); });
      const std::lock_guard lock(self->mutex_);
      self->left_ = true;
      self->moved_.notify_all();
    });
  } catch (const std::system_error& error) {
    return Error(ErrorKind::device, std::string("no thread for a stream: ") + error.what());
  }
  return {};
}

Result<Ticket> StreamQueue::schedule(Task task, const char* label, TaskGroup group) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return dead_ || closed_ || scheduled_ - passed_ < kCapacity; });
  if (dead_) {
    return *dead_;
  }
  if (closed_) {
    return Error(ErrorKind::device, "the stream is closed");
  }
  ring_[scheduled_ % kCapacity] = {std::move(task), label, group};
  const Ticket ticket = ++scheduled_;
  lock.unlock();
  work_.notify_one();
  return ticket;
}

void StreamQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return dead_ || closed_ || passed_ != scheduled_; });
    if (dead_ || passed_ == scheduled_) {
      return;
    }
    Entry entry = std::move(ring_[passed_ % kCapacity]);
    if (skips(entry.group)) {
      lock.unlock();
      entry.task = Task();
      lock.lock();
      if (dead_) {
        return;
      }
      ended({}, entry.group);
    } else if (!run(std::move(entry), lock)) {
      return;
    }
    moved_.notify_all();
  }
}

bool StreamQueue::run(Entry entry, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t generation = generation_;
  running_ = true;
  lock.unlock();
  TaskSpan span{entry.label, now(), 0};
  Status status = entry.task();
  span.end = now();
  entry.task = Task();  // what it holds is given back before anyone is told
  lock.lock();
  running_ = false;
  if (generation != generation_) {
    return false;  // given up meanwhile: nobody wants the result, and who observed may be gone
  }
  lock.unlock();
  observe_(span);
  const bool died = !status && !alive_();
  lock.lock();
  if (generation != generation_) {
    return false;
  }
  ended(std::move(status), entry.group);
  if (died) {
    std::vector<Task> dropped = die(failures_.back().error);
    moved_.notify_all();
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
  return true;
}

void StreamQueue::ended(Status status, TaskGroup group) {
  ++passed_;
  if (status) {
    return;
  }
  // Of those that nobody waits for, the first and the last say all that a wait can ask.
  if (group == kNoGroup) {
    const auto open = [](const Failure& failure) { return failure.group == kNoGroup && !failure.collected; };
    if (std::ranges::count_if(failures_, open) > 1) {
      failures_.erase(std::ranges::find_if(failures_.rbegin(), failures_.rend(), open).base() - 1);
    }
  }
  failures_.push_back({group, passed_, std::move(status).error(), {}});
}

bool StreamQueue::skips(TaskGroup group) const {
  return group != kNoGroup && std::ranges::any_of(failures_, [&](const Failure& each) { return each.group == group && !each.collected; });
}

const StreamQueue::Failure* StreamQueue::failure_of(Ticket ticket, TaskGroup group) const {
  const auto found = std::ranges::find_if(failures_, [&](const Failure& each) {
    const bool concerns = group == kNoGroup || each.group == group || each.ticket == ticket;
    return concerns && each.ticket <= ticket && (!each.collected || ticket <= *each.collected);
  });
  return found == failures_.end() ? nullptr : &*found;
}

void StreamQueue::collect(Ticket ticket, TaskGroup group) {
  std::size_t collected = 0;
  for (Failure& each : failures_) {
    const bool concerns = group == kNoGroup || each.group == group || each.ticket == ticket;
    if (!each.collected && concerns && each.ticket <= ticket) {
      // All of a group up to here has been skipped; of no group, nothing has.
      each.collected = each.group == kNoGroup ? ticket : passed_;
    }
    collected += each.collected ? 1 : 0;
  }
  for (; collected > kRemembered; --collected) {
    failures_.erase(std::ranges::find_if(failures_, [](const Failure& each) { return each.collected.has_value(); }));
  }
}

std::vector<Task> StreamQueue::die(const Error& error) {
  dead_ = error;
  ++generation_;
  std::vector<Task> dropped;
  for (Ticket ticket = passed_; ticket < scheduled_; ++ticket) {
    dropped.push_back(std::move(ring_[ticket % kCapacity].task));
  }
  return dropped;
}

Result<bool> StreamQueue::wait(Ticket ticket, TaskGroup group, Deadline deadline, Failures failures) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return dead_ || passed_ >= ticket; };
  if (!deadline) {
    moved_.wait(lock, over);
  } else if (!moved_.wait_until(lock, *deadline, over)) {
    return false;
  }
  if (const Failure* failure = failure_of(ticket, group)) {
    Error error = failure->error;
    if (failures == Failures::collect) {
      collect(ticket, group);
    }
    return error;
  }
  if (passed_ < ticket) {
    return *dead_;
  }
  return true;
}

Result<bool> StreamQueue::passed(Ticket ticket, TaskGroup group) {
  const std::lock_guard lock(mutex_);
  if (const Failure* failure = failure_of(ticket, group)) {
    return failure->error;
  }
  if (passed_ < ticket && dead_) {
    return *dead_;
  }
  return passed_ >= ticket;
}

Ticket StreamQueue::last() {
  const std::lock_guard lock(mutex_);
  return scheduled_;
}

bool StreamQueue::idle() {
  const std::lock_guard lock(mutex_);
  return !running_ && (dead_ || passed_ == scheduled_);
}

std::optional<Error> StreamQueue::dead() {
  const std::lock_guard lock(mutex_);
  return dead_;
}

std::uint64_t StreamQueue::generation() {
  const std::lock_guard lock(mutex_);
  return generation_;
}

void StreamQueue::kill(const Error& error) {
  std::vector<Task> dropped;  // without the lock: what they hold may take its time to end
  const std::lock_guard lock(mutex_);
  if (!dead_) {
    dropped = die(error);
  }
  work_.notify_all();
  moved_.notify_all();
}

void StreamQueue::close(std::shared_ptr<void> keep) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  work_.notify_all();
  moved_.notify_all();
  if (!thread_.joinable()) {
    return;
  }
  // A dead stream's thread may never come back; any other finishes what is queued.
  moved_.wait(lock, [this] { return left_ || (dead_ && running_); });
  std::thread thread = std::move(thread_);
  const bool leave = !left_;
  if (leave) {
    kept_ = std::move(keep);
  }
  lock.unlock();
  if (leave) {
    thread.detach();
  } else {
    thread.join();
  }
}

}  // namespace kime
