// A piece of work for a stream.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "kime/base/error.h"

namespace kime {

/// A call that returns a Status, kept inside the object: scheduling work allocates nothing. Movable only.
class Task {
 public:
  static constexpr std::size_t kRoom = 128;

  Task() = default;
  template <class Fn>
  requires(!std::is_same_v<std::decay_t<Fn>, Task> && std::is_invocable_r_v<Status, std::decay_t<Fn>&>)
      Task(Fn&& fn) {  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload): a lambda is a task
    using Call = std::decay_t<Fn>;
    static_assert(sizeof(Call) <= kRoom, "capture less, or a pointer to it");  // NOLINT(misc-redundant-expression)
    static_assert(alignof(Call) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<Call>);
    ::new (static_cast<void*>(room_)) Call(std::forward<Fn>(fn));
    call_ = [](void* room) -> Status { return (*static_cast<Call*>(room))(); };
    move_ = [](void* from, void* to) {
      if (to != nullptr) {
        ::new (to) Call(std::move(*static_cast<Call*>(from)));
      }
      static_cast<Call*>(from)->~Call();
    };
  }
  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { reset(); }

  Status operator()() { return call_(room_); }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  void reset() {
    if (call_ != nullptr) {
      move_(room_, nullptr);
      call_ = nullptr;
    }
  }
  void take(Task& other) {
    if (other.call_ != nullptr) {
      other.move_(other.room_, room_);
      call_ = std::exchange(other.call_, nullptr);
      move_ = other.move_;
    }
  }

  alignas(std::max_align_t) std::byte room_[kRoom];
  Status (*call_)(void* room) = nullptr;
  void (*move_)(void* from, void* to) = nullptr;  ///< Moves to `to` if there is one, and destroys.
};

}  // namespace kime
