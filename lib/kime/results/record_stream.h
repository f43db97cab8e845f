// The records that scores were made from, beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kime/io/line_reader.h"
#include "kime/io/record_parser.h"
#include "kime/results/score_block.h"
#include "kime/results/score_reader.h"

namespace kime {

/// What a report wants to know of a record.
struct RecordFacts {
  std::size_t tokens = 0;
  std::uint8_t qtype = 0;
  std::string label;  ///< As it stands; empty without.
};

/// Reads records in the order in which they were scored; records that the scores leave out are passed over.
class RecordStream {
 public:
  /// One reader for each file, in their order.
  explicit RecordStream(std::vector<LineReader> files) : files_(std::move(files)) {}

  /// Goes to the record of this line of scores; nothing where it is one that could not be scored. A trouble: there is no such record from
  /// here on, or reading failed.
  std::optional<ResultsTrouble> find(const ScoreView& line, std::optional<RecordFacts>& facts);

 private:
  std::optional<ResultsTrouble> next(bool& found);

  std::vector<LineReader> files_;
  std::size_t file_ = 0;
  RecordParser parser_{RecordParserOptions{std::size_t{1} << 32U, 3, false}};
  Record record_;
  std::optional<RecordError> error_;
  Line line_;
};

}  // namespace kime
