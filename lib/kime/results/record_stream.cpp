#include "kime/results/record_stream.h"

#include <fmt/format.h>

#include "kime/io/json_scanner.h"
#include "kime/io/json_text.h"

namespace kime {

std::optional<ResultsTrouble> RecordStream::next(bool& found) {
  for (; file_ < files_.size(); ++file_) {
    const auto next = files_[file_].next(line_);
    if (!next) {
      return ResultsTrouble{ResultsTrouble::Kind::lost, next.error().text()};
    }
    if (*next == LineReader::Next::stopped) {
      return ResultsTrouble{ResultsTrouble::Kind::stopped, ""};
    }
    if (*next == LineReader::Next::line) {
      error_ = line_.too_long ? too_long_error(0) : parser_.parse(line_.text, record_);
      if (line_.too_long) {
        record_.id = "null";
      }
      found = true;
      return std::nullopt;
    }
  }
  found = false;
  return std::nullopt;
}

std::optional<ResultsTrouble> RecordStream::find(const ScoreView& line, std::optional<RecordFacts>& facts) {
  facts.reset();
  for (;;) {
    bool found = false;
    if (auto trouble = next(found)) {
      return trouble;
    }
    if (!found) {
      return ResultsTrouble{ResultsTrouble::Kind::unusable,
                            fmt::format("{}: the record {} of line {} of the scores is not there, or not in the scores' order",
                                        files_.back().name(), shortened(line.id), line.line)};
    }
    if (record_.id.empty() ? line.id == std::to_string(line_.number) : line.id == record_.id) {
      break;
    }
  }
  if (!error_) {
    facts = RecordFacts{record_.ids.size(), record_.qtype, std::string(field_of(line_.text, "label"))};
  }
  return std::nullopt;
}

}  // namespace kime
