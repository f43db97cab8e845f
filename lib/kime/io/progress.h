// How far a job is, for people and for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace kime {

/// A job at one moment. Counts include what an earlier run did of it.
struct Progress {
  double seconds = 0;                ///< Since this run began.
  std::uint64_t read = 0;            ///< Records.
  std::uint64_t scored = 0;          ///< Records whose lines are written.
  std::uint64_t failed = 0;          ///< Records with an error, whose lines are written or left out.
  std::uint64_t tokens = 0;          ///< Of the scored ones.
  std::optional<double> part;        ///< Of the inputs' bytes that hold those read, where their size is known: 0 to 1.
  bool all_read = false;             ///< No record will come any more.
  std::vector<std::string> at_work;  ///< Names of the devices that score just now.

  [[nodiscard]] std::uint64_t done() const { return scored + failed; }
};

/// What can be said of the way ahead.
struct Outlook {
  double records_per_second = 0;  ///< Over the last seconds, as the tokens are.
  double tokens_per_second = 0;
  /// All records of the job: those read, once all bytes are; before, they and as many more as the bytes left hold at the same length.
  std::optional<std::uint64_t> records;
  bool exact = false;                  ///< All have been read.
  std::optional<double> seconds_left;  ///< At that speed.
};

/// Follows a job from moment to moment.
class ProgressFollower {
 public:
  /// The outlook at this moment, which is not before the last one.
  Outlook at(const Progress& now);

 private:
  /// Speeds are those of the last seconds, so that a slow start or a long pause is forgotten, and no single batch shows.
  static constexpr double kWindowSeconds = 10;

  struct Moment {
    double seconds;
    std::uint64_t done;
    std::uint64_t tokens;
  };
  std::deque<Moment> moments_;
};

/// One line without its end, of fewer than `columns` characters, all ASCII but for colour's escape sequences: where not all fits, what
/// matters least is left out.
[[nodiscard]] std::string progress_line(const Progress& now, const Outlook& outlook, std::size_t columns, bool colours);

/// A JSON object on one line without its end; what is not known is null. `ended`: nothing more will come.
[[nodiscard]] std::string progress_json(const Progress& now, const Outlook& outlook, bool ended);

}  // namespace kime
