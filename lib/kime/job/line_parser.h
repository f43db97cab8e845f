// From a line to a record that can be packed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kime/batch/bucket.h"
#include "kime/io/line_reader.h"
#include "kime/io/record_parser.h"

namespace kime {

/// What lines are held against.
struct LineRules {
  std::size_t max_line = kDefaultMaxLine;  ///< Bytes; a longer one is that record's error.
  RecordParserOptions records{};
  std::string stage;              ///< For messages.
  std::vector<Bucket> buckets{};  ///< A record that none of them holds is that record's error.
};

/// Parses and checks lines one by one. For one thread; reused, as RecordParser is.
class LineParser {
 public:
  explicit LineParser(LineRules rules) : rules_(std::move(rules)), parser_(rules_.records) {}

  /// `too_long`: the line is, and nothing of it was kept. Where there is an error, `record` holds what its error line carries.
  [[nodiscard]] std::optional<RecordError> parse(std::string_view line, bool too_long, Record& record);

 private:
  LineRules rules_;
  RecordParser parser_;
};

}  // namespace kime
