// From a line to a record.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kime/io/record.h"

namespace kime {

/// What a record is held against, and what is kept of it.
struct RecordParserOptions {
  std::size_t vocab = 0;  ///< Token ids are below this.
  std::size_t types = 3;  ///< Question types are below this.
  bool keep = false;      ///< Other fields pass through.
  bool labels = false;    ///< The field `label` is read: a count from 0, or true or false for 1 or 0. Anything else is no error.
};

/// Parses records. For one thread; reused, so that a parser and a record that have grown allocate little.
///
/// Precise where the format leaves room:
/// - A line that is no JSON has the id null and keeps nothing. A line that is JSON keeps its id and its other fields, wherever they
///   stand, whatever else is wrong with it; of two ids the first counts.
/// - The outermost object is level 1 of the 1,024 levels of nesting.
/// - A question type that is an integer past the known ones is a `batch` error as in Batch::check, one that no byte holds a `json` error.
/// - A line with an object `error` and no `ids` gives that object as its error, byte for byte. `line` and `file` beside it are part of
///   an error line and are left out; they are written anew.
class RecordParser {
 public:
  explicit RecordParser(const RecordParserOptions& options) : options_(options) {}

  /// Parses one line into `record`. Where there is an error, `record.id` and `record.kept` are still what its line should carry.
  [[nodiscard]] std::optional<RecordError> parse(std::string_view line, Record& record);
  /// The same, and the same outcome, without the short way that a line takes in which nothing is wrong.
  [[nodiscard]] std::optional<RecordError> parse_by_events(std::string_view line, Record& record);

 private:
  RecordParserOptions options_;
  std::string tamed_;
};

}  // namespace kime
