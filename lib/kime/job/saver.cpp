#include "kime/job/saver.h"

#include <utility>

namespace kime {

Saver::Saver(OutputFile& file, std::chrono::duration<double> interval) : file_(file), interval_(interval), thread_([this] { run(); }) {
}

Saver::~Saver() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool Saver::reached(const JobState& state) {
  const std::lock_guard lock(mutex_);
  unsaved_ = state;
  return !failure_;
}

std::optional<Error> Saver::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Saver::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return ended_; })) {
    if (!unsaved_ || failure_) {
      continue;
    }
    const JobState state = *std::exchange(unsaved_, std::nullopt);
    lock.unlock();
    auto saved = file_.save(state);
    lock.lock();
    if (!saved) {
      failure_ = std::move(saved).error();
    }
  }
}

}  // namespace kime
