// How a run goes, on standard error while it goes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "command.h"
#include "kime/job/job_progress.h"
#include "status_line.h"

namespace kime::app {

enum class ProgressForm : std::uint8_t {
  none,
  line,  ///< One that is drawn anew, at most ten times a second, and is gone at the end.
  json,  ///< A document a second, and one at the end.
};

/// `--progress`, as given.
struct ProgressOption {
  std::string given = "auto";

  void add(CLI::App& command);
  /// `auto` is a line where standard error is a terminal that can clear one, and `quiet` does not forbid it.
  [[nodiscard]] ProgressForm form(bool quiet) const;
};

/// Shows until it is destroyed.
class ProgressDisplay {
 public:
  /// Both outlive it.
  ProgressDisplay(ProgressForm form, const JobProgress& progress, StatusLine& status);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay();

 private:
  void run();
  void show(ProgressFollower& follower, bool ended);

  ProgressForm form_;
  const JobProgress& progress_;
  StatusLine& status_;
  bool colours_ = false;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace kime::app
