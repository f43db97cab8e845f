// A stream of a fake device: does things at once, or has a thread of its own that does them later, as a GPU does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kime/base/error.h"
#include "kime/runtime/driver.h"
#include "tests/support/fake_memory.h"

namespace kime::test {

class FakeNative;

/// A device, for its driver and its streams.
struct FakeDeviceState {
  std::size_t ordinal = 0;
  std::atomic<bool> lost{false};
  std::atomic<std::uint64_t> runs{0};
  std::atomic<std::uint64_t> allocs{0};
  std::atomic<std::uint64_t> copies{0};
  std::mutex mutex;
  std::vector<std::weak_ptr<FakeNative>> streams;

  [[nodiscard]] Error lost_error() const { return {ErrorKind::device, "fake:" + std::to_string(ordinal) + " is lost"}; }
  inline void lose();
};

/// The stream itself; kept by its thread.
class FakeNative {
 public:
  FakeNative(std::shared_ptr<FakeDeviceState> device, bool async) : device_(std::move(device)), async_(async) {}
  FakeNative(const FakeNative&) = delete;
  FakeNative& operator=(const FakeNative&) = delete;
  ~FakeNative() = default;

  [[nodiscard]] FakeDeviceState& device() const { return *device_; }
  [[nodiscard]] bool async() const { return async_; }

  static void start(const std::shared_ptr<FakeNative>& self) {
    if (self->async_) {
      self->thread_ = std::thread([self] { self->work(); });
    }
  }

  /// Does it, or will. What fails later fails the next mark.
  Status enqueue(std::function<Status()> op) {
    if (device_->lost) {
      return device_->lost_error();
    }
    if (!async_) {
      return op();
    }
    const std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
    moved_.notify_all();
    return {};
  }

  Status record(Ticket ticket) {
    if (!async_) {
      if (device_->lost) {
        return device_->lost_error();
      }
      reach(ticket);
      return {};
    }
    return enqueue([this, ticket] {
      reach(ticket);
      return Status();
    });
  }
  Result<bool> reached(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    return state_of(ticket);
  }
  Result<bool> finish(Ticket ticket, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto over = [&] {
      const auto state = state_of(ticket);
      return !state || *state || abandoned_;
    };
    if (!deadline) {
      moved_.wait(lock, over);
    } else {
      moved_.wait_until(lock, *deadline, over);
    }
    return state_of(ticket);
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    moved_.notify_all();
  }

  /// Runs something that may not come back: the stream's end does not wait for it. False when the stream has ended meanwhile.
  bool stuck_in(const std::function<void()>& body) {
    stuck(true);
    body();
    return stuck(false);
  }
  /// Does what is left and ends the thread, but does not wait for what is stuck.
  void close() {
    if (!async_) {
      return;
    }
    std::unique_lock lock(mutex_);
    closing_ = true;
    moved_.notify_all();
    moved_.wait(lock, [this] { return ended_ || stuck_; });
    abandoned_ = !ended_;
    moved_.notify_all();
    std::thread thread = std::move(thread_);
    const bool leave = abandoned_;
    lock.unlock();
    leave ? thread.detach() : thread.join();
  }

 private:
  bool stuck(bool is) {
    const std::lock_guard lock(mutex_);
    stuck_ = is;
    moved_.notify_all();
    return !abandoned_;
  }
  [[nodiscard]] Result<bool> state_of(Ticket ticket) const {
    if (const auto found = failed_.find(ticket); found != failed_.end()) {
      return found->second;
    }
    if (reached_ < ticket && device_->lost) {
      return device_->lost_error();
    }
    return reached_ >= ticket;
  }
  void reach(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    if (pending_) {
      failed_.emplace(ticket, *std::exchange(pending_, std::nullopt));
    }
    reached_ = ticket;
    moved_.notify_all();
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      moved_.wait(lock, [this] { return closing_ || !ops_.empty(); });
      if (ops_.empty() || abandoned_) {
        break;
      }
      std::function<Status()> op = std::move(ops_.front());
      ops_.pop_front();
      lock.unlock();
      Status status = device_->lost ? device_->lost_error() : op();
      op = nullptr;
      lock.lock();
      if (!status && !pending_) {
        pending_ = status.error();
      }
    }
    ops_.clear();
    ended_ = true;
    moved_.notify_all();
  }

  std::shared_ptr<FakeDeviceState> device_;
  bool async_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<std::function<Status()>> ops_;
  Ticket reached_ = 0;
  std::map<Ticket, Error> failed_;
  std::optional<Error> pending_;
  bool stuck_ = false;
  bool closing_ = false;
  bool abandoned_ = false;
  bool ended_ = false;
  std::thread thread_;
};

void FakeDeviceState::lose() {
  lost = true;
  const std::lock_guard lock(mutex);
  for (const auto& stream : streams) {
    if (const auto native = stream.lock()) {
      native->wake();
    }
  }
}

class FakeStream {
 public:
  FakeStream(std::shared_ptr<FakeNative> native, std::shared_ptr<FakeLedger> ledger)
      : native_(std::move(native)), ledger_(std::move(ledger)) {
    FakeNative::start(native_);
    ++ledger_->streams;
  }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  ~FakeStream() {
    native_->close();
    --ledger_->streams;
  }
  [[nodiscard]] const std::shared_ptr<FakeNative>& native() const { return native_; }

 private:
  std::shared_ptr<FakeNative> native_;
  std::shared_ptr<FakeLedger> ledger_;
};

}  // namespace kime::test
