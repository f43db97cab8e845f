// The events of one line's JSON, taken to a record. Private to the record parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kime/io/record_parser.h"

namespace kime {

/// Reads through a cursor that the handler of the events shares: it knows where the parser is, and may move it on.
class CursorIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit CursorIterator(const char** cursor) : cursor_(cursor) {}
  reference operator*() const { return **cursor_; }
  CursorIterator& operator++() {
    ++*cursor_;
    return *this;
  }
  bool operator==(const CursorIterator& other) const { return *cursor_ == *other.cursor_; }

 private:
  const char** cursor_;
};

/// Whether kime writes a field of that name, so that a record's own cannot pass through.
[[nodiscard]] bool is_reserved_name(std::string_view name);

/// nlohmann's SAX interface. What is wrong with the record's meaning is noted and parsing goes on, since the id may come last; only
/// what is no JSON ends it.
class RecordSax {
 public:
  using Json = nlohmann::json;

  /// `parsed` is `line`, or a copy with its numbers tamed: positions are taken in the one and bytes from the other.
  RecordSax(std::string_view line, std::string_view parsed, const RecordParserOptions& options, Record& record);

  /// Parses it all.
  void run();

  [[nodiscard]] bool is_json() const { return is_json_; }
  /// Whether only a number's size stopped the parser.
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  /// What is no JSON, or the first thing that is wrong with the record; empty where nothing is.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The line's own error object, or empty.
  [[nodiscard]] std::string_view error_object() const { return seen(Field::ids) ? std::string_view() : error_object_; }
  /// The first field that a record must have and this one lacks, or empty.
  [[nodiscard]] std::string_view missing() const;

  bool null() { return scalar("null", cursor_); }
  bool boolean(bool value) { return scalar(value ? "true" : "false", cursor_); }
  bool number_integer(Json::number_integer_t /*value*/) { return number(); }
  bool number_unsigned(Json::number_unsigned_t value);
  bool number_float(Json::number_float_t /*value*/, const std::string& /*text*/) { return number(); }
  bool string(std::string& value);
  bool binary(Json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/);
  bool key(std::string& name);
  bool end_object() { return close(); }
  bool start_array(std::size_t /*size*/);
  bool end_array() { return close(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Json::exception& error);

 private:
  enum class Field : std::uint8_t { id, ids, markers, qtype, error, other, ignored };

  [[nodiscard]] bool seen(Field field) const { return (seen_ & (1U << static_cast<unsigned>(field))) != 0; }
  [[nodiscard]] std::string_view bytes(const char* begin, const char* end) const;
  [[nodiscard]] std::string_view number_token() const;
  [[nodiscard]] bool is_numbers() const { return field_ == Field::ids || field_ == Field::markers; }
  [[nodiscard]] bool in_numbers() const { return depth_ == 2 && in_numbers_; }
  [[nodiscard]] bool is_shown() const;
  std::vector<std::uint32_t>& numbers() { return field_ == Field::ids ? record_.ids : record_.markers; }
  void fail(std::string message);
  void check_kept_name(std::string_view name);
  void wrong_value(std::string_view what);
  bool number();
  bool scalar(std::string_view what, const char* end);
  bool deeper();
  bool close();
  void finish_field(const char* end);

  std::string_view line_;
  const char* begin_;
  const char* cursor_;
  const char* end_;
  bool keep_;
  bool labels_;
  Record& record_;

  std::size_t depth_ = 0;
  Field field_ = Field::ignored;  ///< The field of the outermost object that is open.
  unsigned seen_ = 0;             ///< A bit for each Field.
  bool is_label_ = false;         ///< The field is the label, which is read beside what else becomes of it.
  bool in_numbers_ = false;       ///< The field's value is the array that it should be.
  const char* key_begin_ = nullptr;
  const char* key_end_ = nullptr;
  const char* value_begin_ = nullptr;
  const char* last_end_ = nullptr;  ///< Where the field before ended, or the object began.
  std::string_view error_object_;
  std::string misplaced_;  ///< A problem that is none in a line with an error object.
  std::string problem_;
  bool is_json_ = false;
  bool overflowed_ = false;
};

}  // namespace kime
