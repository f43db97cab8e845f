#include "kime/io/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kime {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

OutputState state_of(int error) {
  switch (error) {
    case EPIPE:
      return OutputState::closed;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return OutputState::full;
    default:
      return OutputState::failed;
  }
}

}  // namespace

OutputState Output::append(std::string_view text) {
  if (state_ != OutputState::ok) {
    return state_;
  }
  held_ += text;
  return held_.size() < kPiece ? state_ : flush();
}

OutputState Output::flush() {
  std::size_t done = 0;
  while (state_ == OutputState::ok && done < held_.size()) {
    const ssize_t count = ::write(fd_, held_.data() + done, held_.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
      written_ += static_cast<std::uint64_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Another process has made the shared terminal or pipe non-blocking.
      pollfd wait{fd_, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      state_ = state_of(errno);
      message_ = name_ + ": " + std::generic_category().message(errno);
    }
  }
  held_.clear();
  return state_;
}

}  // namespace kime
