// The records that have been read and not yet written, in input order: a ring that bounds how far the reader may run ahead of the
// writer, and puts back in order what streams finish out of order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace kime {

/// One reader acquires, streams mark done, one writer releases. A slot belongs to the reader from acquire() until it is handed on, to
/// one stream until done(), to the writer until release(); its memory is reused, so that what a record holds is allocated once.
template <class Slot>
class InFlight {
 public:
  /// At most `records` slots, and no new one while those held weigh `weight` or more (so that one heavy record always fits).
  InFlight(std::size_t records, std::size_t weight) : slots_(records), entries_(records), most_weight_(weight) {}

  /// Whether acquire() would wait: the reader must hand on what it holds back before it waits, or nothing would ever be released.
  [[nodiscard]] bool full() {
    const std::lock_guard lock(mutex_);
    return full_;
  }

  /// The number of the next record, once there is room; false when the ring was stopped. A ring that was full has room when an eighth of
  /// it is free: else the reader would hand on what it reads in crumbs.
  [[nodiscard]] bool acquire(std::uint64_t& number) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return stopped_ || !full_; });
    if (stopped_) {
      return false;
    }
    number = end_++;
    entries_[number % entries_.size()] = {};
    fill();
    return true;
  }

  /// What record `number` weighs, in the unit of the constructor's `weight`; said by the reader, once.
  void weigh(std::uint64_t number, std::size_t weight) {
    const std::lock_guard lock(mutex_);
    entries_[number % entries_.size()].weight = weight;
    weight_ += weight;
    fill();
  }

  [[nodiscard]] Slot& slot(std::uint64_t number) { return slots_[number % slots_.size()]; }

  /// These records are ready to be written.
  void done(std::span<const std::uint64_t> numbers) {
    bool ready = false;
    {
      const std::lock_guard lock(mutex_);
      for (const auto number : numbers) {
        entries_[number % entries_.size()].done = true;
      }
      ready = head_done();
    }
    if (ready) {  // without the mutex, which who wakes takes
      ready_.notify_one();
    }
  }

  /// How many records from first() on are ready, without waiting.
  [[nodiscard]] std::size_t ready() {
    const std::lock_guard lock(mutex_);
    return count_ready();
  }

  /// The same, but waits for at least one; 0 when the ring is closed and the first is not ready. Until `rest` is over it returns only
  /// where the ring is full or closed, and nothing else wakes the writer: so it takes many at once where they come fast.
  [[nodiscard]] std::size_t wait_ready(std::chrono::steady_clock::time_point rest = {}) {
    std::unique_lock lock(mutex_);
    rested_.wait_until(lock, rest, [this] { return closed_ || full_; });
    ready_.wait(lock, [this] { return closed_ || head_done(); });
    return count_ready();
  }

  /// The number of the first record not yet released.
  [[nodiscard]] std::uint64_t first() const { return first_; }

  /// Gives back the first `count` records.
  void release(std::size_t count) {
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < count; ++i) {
        weight_ -= entries_[first_++ % entries_.size()].weight;
      }
      full_ = full_ && !has_slack();
    }
    room_.notify_one();
  }

  /// The reader gets no more room: acquire() returns false from now on.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
  }

  /// Nothing more will be marked done.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    rested_.notify_all();
    ready_.notify_all();
  }

 private:
  struct Entry {
    std::size_t weight = 0;
    bool done = false;
  };

  // After the ring has changed to hold more.
  void fill() {
    if (!full_ && is_full()) {
      full_ = true;
      rested_.notify_one();
    }
  }
  [[nodiscard]] bool is_full() const { return end_ - first_ == slots_.size() || weight_ >= most_weight_; }
  [[nodiscard]] bool has_slack() const {
    return first_ == end_ || (end_ - first_ <= slots_.size() - (slots_.size() + 7) / 8 && weight_ <= most_weight_ - most_weight_ / 8);
  }
  [[nodiscard]] bool head_done() const { return first_ != end_ && entries_[first_ % entries_.size()].done; }
  [[nodiscard]] std::size_t count_ready() const {
    std::size_t count = 0;
    while (first_ + count != end_ && entries_[(first_ + count) % entries_.size()].done) {
      ++count;
    }
    return count;
  }

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable rested_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::size_t most_weight_;
  std::size_t weight_ = 0;
  std::uint64_t first_ = 0;  // written by the writer only, under the mutex
  std::uint64_t end_ = 0;
  bool full_ = false;  ///< It was, and has no slack yet.
  bool stopped_ = false;
  bool closed_ = false;
};

}  // namespace kime
