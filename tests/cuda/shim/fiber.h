// Fibers: the threads of a block, which run on one host thread and hand over to each other only where they synchronize.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace kime::cuda::shim {

/// A stack on which one function after another runs. Made, resumed and destroyed on one host thread.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes it ready to run `body` at its next resume. What it ran before is over, or is given up: nothing of it is unwound.
  /// `body` throws nothing.
  void start(const std::function<void()>* body);
  /// Runs it until it suspends itself or its body returns.
  void resume();
  /// In a fiber: back to who resumed it.
  static void suspend();
  [[nodiscard]] bool running() const { return body_ != nullptr; }

  struct Context;

 private:
  static void loop();
  void prepare();

  std::unique_ptr<Context> context_;
  const std::function<void()>* body_ = nullptr;
};

}  // namespace kime::cuda::shim
