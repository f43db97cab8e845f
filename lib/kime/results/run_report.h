// What a file of scores says about its run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kime/base/answers.h"
#include "kime/results/growing_histogram.h"
#include "kime/results/record_stream.h"
#include "kime/results/score_block.h"

namespace kime {

/// Answers held against labels. The answer is the best option (of probs, else logits, else what the line answers: choice, the side of
/// noul, the level nearest to score), its confidence the largest probability. The expected calibration error is that of Guo et al. 2017:
/// over 15 bins of equal width, the mean of |accuracy - confidence| weighted by how many are in each.
struct LabelReport {
  static constexpr std::size_t kBins = 15;
  struct Bin {
    std::uint64_t count = 0;
    std::uint64_t right = 0;
    double confidence = 0;  ///< The sum.
  };
  std::uint64_t count = 0;
  std::uint64_t right = 0;
  std::uint64_t with_confidence = 0;
  std::array<Bin, kBins> bins{};

  void add(bool is_right, std::optional<double> confidence);
  [[nodiscard]] double accuracy() const { return count == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count); }
  [[nodiscard]] double calibration_error() const;
};

/// The records of one type of question.
struct TypeReport {
  static constexpr std::size_t kOptions = 17;  ///< Index 16 stands for all from there on.
  std::uint64_t records = 0;
  std::uint64_t no_options = 0;
  GrowingHistogram confidence{0, 1};  ///< The largest probability.
  GrowingHistogram margin{0, 1};      ///< By how much the largest logit passes the next.
  GrowingHistogram score{0, 1};
  GrowingHistogram noul{0, 1};
  GrowingHistogram act_probability{0, 1};
  std::array<std::uint64_t, kOptions> best{};  ///< How often each option is the best.
  LabelReport labels;
};

/// Bounded memory, whatever the number of records. Types are those of records; without records those that the answers show.
struct RunReport {
  static constexpr std::size_t kTypes = 4;  ///< The last one: not known.
  static constexpr std::array<std::string_view, kTypes> kTypeNames = {kime::kTypeNames[0], kime::kTypeNames[1], kime::kTypeNames[2],
                                                                      "type not known"};
  static constexpr std::size_t kMostKinds = 50;
  struct ErrorKind {
    std::uint64_t count = 0;
    std::uint64_t first_line = 0;
    std::string first_message;
  };
  std::uint64_t records = 0;
  std::uint64_t errors = 0;
  std::array<TypeReport, kTypes> types;
  std::map<std::string, ErrorKind> error_kinds;
  LabelReport labels;
  std::uint64_t bad_labels = 0;  ///< No index of an option.

  std::uint64_t with_length = 0;
  std::uint64_t tokens = 0;
  std::size_t shortest = 0;
  std::size_t longest = 0;
  std::array<std::uint64_t, 256> lengths{};  ///< By length_bin().

  /// Eight bins to each doubling of the length, from 1.
  [[nodiscard]] static std::size_t length_bin(std::size_t tokens);
  [[nodiscard]] static double length_edge(std::size_t bin);

  /// One line, with what its record says, where records are there.
  void add(const ScoreView& line, const std::optional<RecordFacts>& facts);

 private:
  void add_error(const ScoreView& line);
  void add_length(std::size_t length);
  void add_label(std::string_view label, const std::optional<double>& best, const ScoreView& line, TypeReport& type);
};

}  // namespace kime
