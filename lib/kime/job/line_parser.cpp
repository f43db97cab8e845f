#include "kime/job/line_parser.h"

namespace kime {

std::optional<RecordError> LineParser::parse(std::string_view line, bool too_long, Record& record) {
  if (too_long) {
    record = {};
    record.id = "null";
    return too_long_error(rules_.max_line);
  }
  auto error = parser_.parse(line, record);
  if (!error && find_bucket(rules_.buckets, record.ids.size(), 1, record.markers.size()) == nullptr) {
    error = record_error(no_bucket(rules_.stage, record.ids.size(), 1, record.markers.size()));
  }
  return error;
}

}  // namespace kime
