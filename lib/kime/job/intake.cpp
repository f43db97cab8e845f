#include "kime/job/intake.h"

#include <utility>

namespace kime {

Result<Intake> Intake::open(IntakeOptions options) {
  if (options.files.empty()) {
    options.files.emplace_back("-");
  }
  Intake intake(std::move(options));
  for (const auto& file : intake.options_.files) {
    auto reader = LineReader::open(file, intake.options_.max_line, intake.options_.wake_fd);
    if (!reader) {
      return std::move(reader).error();
    }
    intake.readers_.push_back(*std::move(reader));
  }
  return intake;
}

bool Intake::ready() {
  return current_ == readers_.size() || readers_[current_].ready();
}

Intake::Next Intake::next(Record& record, Where& where, std::optional<RecordError>& error) {
  Line line;
  for (;;) {
    if (failure_) {
      return Next::broken;
    }
    if (current_ == readers_.size()) {
      return Next::end;
    }
    auto got = readers_[current_].next(line);
    if (!got) {
      failure_ = std::move(got).error();
      continue;
    }
    if (*got == LineReader::Next::stopped) {
      return Next::stopped;
    }
    if (*got == LineReader::Next::line) {
      break;
    }
    ++current_;
  }
  where.line = line.number;
  where.file = readers_.size() > 1 ? readers_[current_].name() : std::string_view();
  if (line.too_long) {
    record = {};
    record.id = "null";  // nothing of the line was kept
    error = too_long_error(options_.max_line);
    return Next::record;
  }
  error = parser_.parse(line.text, record);
  if (!error && find_bucket(options_.buckets, record.ids.size(), 1, record.markers.size()) == nullptr) {
    error = record_error(no_bucket(options_.stage, record.ids.size(), 1, record.markers.size()));
  }
  return Next::record;
}

}  // namespace kime
