// Keeps an output file's journal up with the job, on a thread of its own: the disk is waited for there, and not where lines are written.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kime/io/output_file.h"

namespace kime {

class Saver {
 public:
  /// Saves `file`, which has started and outlives it, at most once each `interval`, and only where the job has come further.
  Saver(OutputFile& file, std::chrono::duration<double> interval);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  /// Waits for the save that is under way; the last state may be unsaved.
  ~Saver();

  /// The job is so far. False once a save has failed: the job would go on without being kept. Never waits for the disk.
  [[nodiscard]] bool reached(const JobState& state);
  /// What failed, if anything.
  [[nodiscard]] std::optional<Error> failure();

 private:
  void run();

  OutputFile& file_;
  const std::chrono::duration<double> interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<JobState> unsaved_;
  std::optional<Error> failure_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace kime
