#include "kime/job/stop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace kime {

Stop::Stop() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
}

Stop::~Stop() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

void Stop::request() noexcept {
  requested_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  // It can only fail when it has been asked for 2^64 times, and is then readable all the same.
  [[maybe_unused]] const auto written = write(fd_, &one, sizeof one);
}

}  // namespace kime
