// Whether two ways of parsing a line come to the same.
#pragma once

#include <optional>
#include <string>

#include "kime/io/record.h"

namespace kime::test {

/// The first thing in which they differ, or "". Of a record that has an error only what its error line carries counts.
inline std::string difference_of(const Record& a, const std::optional<RecordError>& a_error, const Record& b,
                                 const std::optional<RecordError>& b_error) {
  if (a_error.has_value() != b_error.has_value()) {
    return "error: " + (a_error ? a_error : b_error)->message;
  }
  if (a_error && (a_error->kind != b_error->kind || a_error->message != b_error->message || a_error->object != b_error->object)) {
    return "error: " + a_error->message + " and " + b_error->message;
  }
  if (a.id != b.id || a.kept != b.kept) {
    return "id or kept: " + a.id + a.kept + " and " + b.id + b.kept;
  }
  const bool same = a.ids == b.ids && a.markers == b.markers && a.qtype == b.qtype && a.label == b.label && a.labelled == b.labelled;
  return same || a_error ? "" : "ids, markers, qtype or label";
}

}  // namespace kime::test
