// One record, and what may be wrong with one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kime/base/error.h"

namespace kime {

/// One question about one text. Reused from one line to the next.
struct Record {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> markers;  ///< Positions in `ids`, in option order.
  std::uint8_t qtype = 0;              ///< 0 choice, 1 score, 2 noul.
  std::string id;                      ///< The field's bytes as they stood; empty where there is none and the line number stands in.
  std::optional<std::uint32_t> label;  ///< The option that is the right answer, where the field `label` is read and names one.
  bool labelled = false;               ///< There is a field `label`, whatever it holds.
  std::string kept;                    ///< `,"name":value` for each field that passes through, as they stood.
};

/// Empties it, and keeps its memory.
void clear(Record& record);

/// Why a record has no scores.
struct RecordError {
  std::string kind;     ///< "json", "batch", "no_bucket", "unsupported", "nonfinite" or "device".
  std::string message;  ///< One line.
  std::string object;   ///< The whole error object as it stood, where the line brought its own; kind and message are then empty.
};

/// A failure of the engine, told of one record.
[[nodiscard]] RecordError record_error(const Error& error);

/// For a line that LineReader found too long.
[[nodiscard]] RecordError too_long_error(std::size_t max_line);

}  // namespace kime
