// A bounded queue between the reader and the streams. A mutex and two condition variables: it is passed once a batch, and unlike
// oneTBB's from Debian it is compiled with this project's sanitizers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace kime {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t most) : most_(most) {}

  /// Waits for room; false when the queue was closed, and the item is dropped.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return closed_ || items_.size() < most_; });
    if (closed_) {
      return false;
    }
    items_.push_back(std::move(item));
    lock.unlock();
    any_.notify_one();
    return true;
  }

  /// Waits for an item; nothing when the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    any_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  /// No more items: push() fails, pop() hands out what is left.
  void close() { finish(false); }
  /// Like close(), and what is left is dropped.
  void abort() { finish(true); }

 private:
  void finish(bool drop) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      if (drop) {
        items_.clear();
      }
    }
    any_.notify_all();
    room_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable any_;
  std::deque<T> items_;
  std::size_t most_;
  bool closed_ = false;
};

}  // namespace kime
