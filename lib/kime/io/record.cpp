#include "kime/io/record.h"

#include <fmt/format.h>

namespace kime {

void clear(Record& record) {
  record.ids.clear();
  record.markers.clear();
  record.qtype = 0;
  record.id.clear();
  record.label.reset();
  record.labelled = false;
  record.kept.clear();
}
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::batch:
      return "batch";
    case ErrorKind::no_bucket:
      return "no_bucket";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::device:
      return "device";
    case ErrorKind::input:
      break;
  }
  return "json";
}

}  // namespace

RecordError record_error(const Error& error) {
  return {kind_name(error.kind()), error.message(), {}};
}

RecordError too_long_error(std::size_t max_line) {
  return {"json", fmt::format("the line is longer than {} bytes", max_line), {}};
}

}  // namespace kime
