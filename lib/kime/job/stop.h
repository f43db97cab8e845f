// Asking a run to stop: from a signal handler, or from one of its own threads.
#pragma once

#include <atomic>

namespace kime {

/// A flag with a descriptor that becomes readable when it is set, so that a read that waits for input wakes up. Owns the descriptor.
class Stop {
 public:
  Stop();
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;
  ~Stop();

  /// May be called from a signal handler and from any thread, more than once.
  void request() noexcept;
  [[nodiscard]] bool requested() const noexcept { return requested_.load(std::memory_order_acquire); }
  /// Readable from the first request on; -1 where the system had none, and a blocked read is then not woken.
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");
  std::atomic<bool> requested_ = false;
  int fd_;
};

}  // namespace kime
