// The bytes that leave: a buffer before a file descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kime {

/// What became of a write.
enum class OutputState {
  ok,
  closed,  ///< The reader of the pipe has gone (EPIPE): there is nobody left to tell.
  full,    ///< No space is left (ENOSPC, EDQUOT, EFBIG).
  failed,  ///< Anything else.
};

/// Collects lines and writes them in large pieces. Does not own the descriptor. SIGPIPE must be ignored. Once a write has failed, what
/// is appended is dropped and every call says so again.
class Output {
 public:
  /// `name` names the output in messages ("standard output", or a path).
  Output(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  /// Adds `text`; writes when enough has come together.
  [[nodiscard]] OutputState append(std::string_view text);
  /// Writes all that was added.
  [[nodiscard]] OutputState flush();

  [[nodiscard]] OutputState state() const { return state_; }
  /// Bytes that the descriptor took, all calls together.
  [[nodiscard]] std::uint64_t written() const { return written_; }
  /// Bytes that wait for a flush.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  /// What failed, naming the output: "standard output: No space left on device".
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  int fd_;
  std::string name_;
  std::string held_;
  std::string message_;
  std::uint64_t written_ = 0;
  OutputState state_ = OutputState::ok;
};

}  // namespace kime
