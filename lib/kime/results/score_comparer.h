// Gathers what differs, pair by pair.
#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <string>

#include "kime/results/answer_flip.h"
#include "kime/results/score_differences.h"
#include "kime/results/top_list.h"

namespace kime {

/// How much is kept to be shown.
struct ShownLimits {
  std::size_t worst = 10;
  std::size_t flips = 1000;
  std::size_t failures = 100;  ///< Of each kind.
  std::size_t points = 0;      ///< Of each field.
};

/// For one thread.
class ScoreComparer {
 public:
  ScoreComparer(const ScoreTolerance& tolerance, const ShownLimits& limits);

  [[nodiscard]] const ShownLimits& limits() const { return limits_; }

  /// Each line of a file, once.
  void saw_old(const ScoreView& line);
  void saw_new(const ScoreView& line);
  /// Two lines of the same record.
  void pair(const ScoreView& before, const ScoreView& after);
  /// `count` records that only one file has; `line` is the first of them.
  void only_one_side(ScoreFailure side, std::uint64_t count);
  /// One of those, to be shown.
  void show_one_side(ScoreFailure side, const ScoreView& line);

  /// What was found; the comparer is then used up.
  ScoreDifferences take();

 private:
  struct PairState {
    bool same = true;
    bool beyond = false;
    bool any = false;
    std::string why;
    ShownDistance worst;
  };
  struct FartherFirst {
    bool operator()(const ShownDistance& a, const ShownDistance& b) const {
      return a.distance != b.distance ? a.distance > b.distance : a.record.old_line < b.record.old_line;
    }
  };
  struct LargerMarginFirst {
    bool operator()(const ShownFlip& a, const ShownFlip& b) const;
  };
  // Every so-manyth number on the average, ever fewer of them, the same ones each time.
  struct Sample {
    std::uint64_t step = 1;
    std::uint64_t skip = 0;  ///< Numbers before the next one that is taken.
    std::minstd_rand random;
  };

  void compare_field(ScoreField field, const ScoreView& before, const ScoreView& after, PairState& state);
  void compare_numbers(ScoreField field, std::span<const double> before, std::span<const double> after, PairState& state);
  bool excused_choice(const ScoreView& before, const ScoreView& after, const PairState& state) const;
  void compare_errors(const ScoreView& before, const ScoreView& after);
  void sample(ScoreField field, std::span<const double> before, std::span<const double> after);
  void show(ScoreFailure failure, ShownRecord record, std::string why);
  void fail(ScoreFailure failure, ShownRecord record, std::string why);

  ShownLimits limits_;
  ScoreDifferences found_;
  TopList<ShownDistance, FartherFirst> worst_;
  TopList<ShownFlip, LargerMarginFirst> flips_;
  std::array<Sample, kScoreFields> samples_;
  std::array<std::size_t, kScoreFailures> shown_{};
};

}  // namespace kime
