#include "status_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace kime::app {

namespace {

constexpr std::string_view kTakeAway = "\r\x1b[K";  // to the line's begin, and clear it

}  // namespace

void StatusLine::say(std::string_view text) {
  print(fmt::format("kime: {}", text));
}

void StatusLine::show(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (line != shown_) {
    shown_ = line;
    write(fmt::format("{}{}", kTakeAway, shown_));
  }
}

void StatusLine::print(std::string_view line) {
  const std::lock_guard lock(mutex_);
  write(shown_.empty() ? fmt::format("{}\n", line) : fmt::format("{}{}\n{}", kTakeAway, line, shown_));
}

void StatusLine::clear() {
  const std::lock_guard lock(mutex_);
  if (!shown_.empty()) {
    shown_.clear();
    write(kTakeAway);
  }
}

// In one piece, so that lines of other processes do not come between. Where nobody takes it, nothing is to be done.
void StatusLine::write(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  static_cast<void>(std::fflush(stderr));
}

}  // namespace kime::app
