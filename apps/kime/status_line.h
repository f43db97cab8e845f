// Standard error, where a line that shows how a run goes may stand below what is said.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace kime::app {

/// Any thread.
class StatusLine {
 public:
  /// "kime: TEXT", above the line that is shown.
  void say(std::string_view text);
  /// Puts `line`, without its end, in place of the one that is shown.
  void show(const std::string& line);
  /// Writes a line that stays.
  void print(std::string_view line);
  /// Takes away what is shown.
  void clear();

 private:
  void write(std::string_view text);

  std::mutex mutex_;
  std::string shown_;
};

}  // namespace kime::app
