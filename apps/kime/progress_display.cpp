#include "progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace kime::app {

namespace {

using Seconds = std::chrono::duration<double>;
constexpr Seconds kBetweenLines{0.1};
constexpr Seconds kBetweenDocuments{1};
constexpr std::size_t kColumns = 80;  // where the terminal does not say

// Nothing where it is not set, or empty.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value == nullptr ? "" : value;
}

bool can_clear() {
  return isatty(STDERR_FILENO) == 1 && environment("TERM") != "dumb";
}

std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

}  // namespace

void ProgressOption::add(CLI::App& command) {
  command
      .add_option("--progress", given,
                  "How the run goes, on standard error: a line where that is a terminal (auto, default), always, never, or json, one "
                  "document a second")
      ->check(CLI::IsMember({"auto", "always", "never", "json"}))
      ->type_name("WHEN");
}

ProgressForm ProgressOption::form(bool quiet) const {
  if (given == "json") {
    return ProgressForm::json;
  }
  return given == "always" || (given == "auto" && !quiet && can_clear()) ? ProgressForm::line : ProgressForm::none;
}

ProgressDisplay::ProgressDisplay(ProgressForm form, const JobProgress& progress, StatusLine& status)
    : form_(form), progress_(progress), status_(status), colours_(can_clear() && environment("NO_COLOR").empty()) {
  if (form_ != ProgressForm::none) {
    thread_ = std::thread([this] { run(); });
  }
}

ProgressDisplay::~ProgressDisplay() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_one();
  thread_.join();
}

void ProgressDisplay::run() {
  ProgressFollower follower;
  const Seconds between = form_ == ProgressForm::json ? kBetweenDocuments : kBetweenLines;
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, between, [this] { return ended_; })) {
    show(follower, false);
  }
  show(follower, true);
}

void ProgressDisplay::show(ProgressFollower& follower, bool ended) {
  const auto now = progress_.look();
  if (form_ == ProgressForm::line && ended) {
    status_.clear();
  } else if (now) {
    const Outlook outlook = follower.at(*now);
    if (form_ == ProgressForm::line) {
      status_.show(progress_line(*now, outlook, columns(), colours_));
    } else {
      status_.print(progress_json(*now, outlook, ended));
    }
  }
}

}  // namespace kime::app
