// A stream's queue of tasks, in order, and the thread that works through it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kime/base/error.h"
#include "kime/runtime/driver.h"
#include "kime/runtime/task.h"

namespace kime {

/// Tasks of one group fail together: once one has failed, the later ones of its group are skipped until the failure has been collected.
/// Others go on. A context is a group. What a ticket failed with stays its own: who asks for it after another has collected the failure
/// still gets it, and only later tickets work again.
using TaskGroup = std::uint64_t;
/// Of no group: fails alone; a wait for it collects every failure.
inline constexpr TaskGroup kNoGroup = 0;

/// What a stream did, for profiling: who made it, when it began and how long it took, in nanoseconds of the steady clock.
struct TaskSpan {
  const char* label = "";
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Owned by a shared_ptr, which its thread holds too: a thread that hangs in a driver outlives the queue's users and finds its memory.
/// All members may be called from any thread.
class StreamQueue : public std::enable_shared_from_this<StreamQueue> {
 public:
  static constexpr std::size_t kCapacity = 64;  ///< Tasks; schedule() waits while as many are queued.

  /// `alive` is asked after a task has failed: false kills the stream. `observe` sees every task that has run, on the stream's thread, but
  /// none that ended after the stream was given up.
  StreamQueue(std::function<bool()> alive, std::function<void(const TaskSpan&)> observe);
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;
  ~StreamQueue() = default;

  /// Starts the thread, which calls `enter(body)`; body returns when the queue is closed or dead. `owner` is kept until then.
  /// Errors: `device` when the system gives no thread.
  Status start(std::function<void(const std::function<void()>&)> enter, std::shared_ptr<void> owner);

  /// Appends a task and returns its ticket. Waits while the queue is full. `label` is static. Errors: `device` on a dead or closed stream.
  Result<Ticket> schedule(Task task, const char* label, TaskGroup group = kNoGroup);

  /// Waits until the task of `ticket` has run. False at the deadline. Errors: its own failure, or that of `group` up to it, which is
  /// collected (the group works again) or, with `leave`, left for its owner; the stream's error when it died before.
  enum class Failures : std::uint8_t { collect, leave };
  Result<bool> wait(Ticket ticket, TaskGroup group, Deadline deadline = {}, Failures failures = Failures::collect);
  /// The same without waiting and collecting: whether it has run; an error when it failed or never will.
  Result<bool> passed(Ticket ticket, TaskGroup group);

  /// The last ticket given out; 0 before the first.
  [[nodiscard]] Ticket last();
  [[nodiscard]] bool idle();
  /// Why the stream is dead, if it is.
  [[nodiscard]] std::optional<Error> dead();
  /// How often it was given up: a task that began under an older number has no effect when it ends.
  [[nodiscard]] std::uint64_t generation();

  /// Ends the stream with an error: what is queued is dropped, all who wait get the error, and so does every later call. A task that is
  /// running goes on, and its result is thrown away. A stream that is dead stays as it is.
  void kill(const Error& error);
  /// Runs what is queued and ends the thread, which is joined; a dead stream's thread that is still in a task is left to itself, with
  /// `keep`.
  void close(std::shared_ptr<void> keep = {});

 private:
  struct Entry {
    Task task;
    const char* label = "";
    TaskGroup group = kNoGroup;
  };
  struct Failure {
    TaskGroup group = kNoGroup;
    Ticket ticket = 0;
    Error error;
    std::optional<Ticket> collected;  ///< It stands for the tickets up to this one only.
  };
  static constexpr std::size_t kRemembered = 64;  ///< Failures that have been collected.

  void work();
  /// Runs a task on the stream's thread. False when the stream was given up meanwhile.
  bool run(Entry entry, std::unique_lock<std::mutex>& lock);
  void ended(Status status, TaskGroup group);
  void collect(Ticket ticket, TaskGroup group);
  [[nodiscard]] bool skips(TaskGroup group) const;
  /// What a ticket failed with, for a group.
  [[nodiscard]] const Failure* failure_of(Ticket ticket, TaskGroup group) const;
  /// Makes it dead; gives back what was queued, for the caller to drop without the lock.
  [[nodiscard]] std::vector<Task> die(const Error& error);

  std::function<bool()> alive_;
  std::function<void(const TaskSpan&)> observe_;

  std::mutex mutex_;
  std::condition_variable work_;   ///< There is a task, or an end.
  std::condition_variable moved_;  ///< A task has run, or an end.
  std::vector<Entry> ring_{kCapacity};
  Ticket scheduled_ = 0;
  Ticket passed_ = 0;  ///< Tasks that are over.
  std::uint64_t generation_ = 1;
  bool running_ = false;  ///< In a task, from which it may not come back.
  bool closed_ = false;
  bool left_ = false;  ///< The thread has come out.
  std::shared_ptr<void> kept_;
  std::optional<Error> dead_;
  std::vector<Failure> failures_;  ///< In the order of their tickets.
  std::thread thread_;
};

}  // namespace kime
