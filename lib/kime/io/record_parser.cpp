#include "kime/io/record_parser.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "kime/batch/batch.h"
#include "kime/io/json_text.h"
#include "kime/io/record_sax.h"
#include "kime/io/record_scan.h"

namespace kime {
namespace {

RecordError json_error(std::string message) {
  return {"json", std::move(message), {}};
}

RecordError not_json(std::string message, Record& record) {
  record.id = "null";
  record.kept.clear();
  return json_error(std::move(message));
}

/// The checks of a batch on the record alone, before it meets others.
std::optional<RecordError> check_alone(const Record& record, const RecordParserOptions& options) {
  if (record.ids.empty()) {
    return RecordError{"batch", "ids is empty", {}};
  }
  const std::array<std::uint32_t, 2> cu = {0, static_cast<std::uint32_t>(record.ids.size())};
  const std::array<std::uint32_t, 2> mcu = {0, static_cast<std::uint32_t>(record.markers.size())};
  const Batch batch{record.ids, cu, record.markers, mcu, std::span(&record.qtype, 1)};
  const auto status = batch.check(options.vocab, options.types);
  return status ? std::nullopt : std::optional(record_error(status.error()));
}

std::optional<RecordError> judge(const RecordSax& sax, const RecordParserOptions& options, Record& record) {
  if (!sax.is_json()) {
    return not_json(sax.problem(), record);
  }
  if (!sax.problem().empty()) {
    return json_error(sax.problem());
  }
  if (!sax.error_object().empty()) {
    return RecordError{{}, {}, std::string(sax.error_object())};
  }
  if (!sax.missing().empty()) {
    return json_error(fmt::format("{} is missing", sax.missing()));
  }
  return check_alone(record, options);
}

}  // namespace

std::optional<RecordError> RecordParser::parse(std::string_view line, Record& record) {
  return scan_record(line, options_, record) ? check_alone(record, options_) : parse_by_events(line, record);
}

std::optional<RecordError> RecordParser::parse_by_events(std::string_view line, Record& record) {
  // Two things that nlohmann's lexer lets pass: it takes a zero byte for the end, and skips a byte-order mark wherever it begins.
  if (const auto zero = line.find('\0'); zero != std::string_view::npos) {
    return not_json(fmt::format("not JSON at byte {}: a zero byte", zero + 1), record);
  }
  if (line.substr(0, 1) == "\xef") {
    return not_json("not JSON at byte 1: a byte-order mark past the start of the file", record);
  }
  RecordSax sax(line, line, options_, record);
  sax.run();
  if (!sax.overflowed()) {
    return judge(sax, options_, record);
  }
  tame_numbers(line, tamed_);
  RecordSax again(line, tamed_, options_, record);
  again.run();
  return judge(again, options_, record);
}

}  // namespace kime
