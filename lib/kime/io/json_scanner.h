// A strict walk over the text of one JSON value, without building it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kime/io/json_bytes.h"

namespace kime {

/// Steps through JSON text and gives the spans of its values as they stood. What is no JSON sets a problem, after which nothing more is
/// to be asked: every call then gives false or nothing. Strings are checked for their escapes and as UTF-8, nesting up to 1,024.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  /// Skips white space, then takes `byte` if it is next.
  bool take(char byte) {
    skip_space();
    if (at_ == end_ || *at_ != byte) {
      return false;
    }
    ++at_;
    return true;
  }
  /// The byte after white space, 0 at the end.
  [[nodiscard]] char peek() {
    skip_space();
    return at_ == end_ ? '\0' : *at_;
  }
  /// A string with its quotes.
  std::string_view string();
  /// Any value.
  std::string_view value() { return value(0); }
  /// An array of integers from 0 to 2^32 - 1, appended; false, without a problem, where it is anything else, of which some may be taken.
  bool integers(std::vector<std::uint32_t>& values);
  /// A number; where it is none that float64 holds, a problem.
  bool number(double& value);
  /// Whether the four bytes of null are next; takes them if so.
  bool null();
  /// Nothing but white space is left; else a problem.
  bool at_end();

  /// Sets the problem, with the place: "expected a string at byte 17".
  void fail(std::string_view expected);
  [[nodiscard]] bool failed() const { return !problem_.empty(); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void skip_space() { at_ = kime::skip_space(at_, end_); }
  std::string_view value(std::size_t depth);
  bool container(std::size_t depth);
  bool escape();
  // A number as it is written, without its point: digits times ten to the exponent.
  struct DecimalNumber {
    std::uint64_t digits = 0;  ///< Meaningless where there are more than 19.
    std::ptrdiff_t count = 0;
    std::int64_t exponent = 0;
    bool negative = false;
  };
  bool digits(DecimalNumber& decimal);
  bool number_text(DecimalNumber& decimal);
  bool word(std::string_view text);

  const char* begin_;
  const char* at_;
  const char* end_;
  std::string problem_;
};

/// The value of the field of that name (without escapes) in a sound JSON object, as it stands; the first one; empty where there is none, or
/// where the text is no JSON up to it.
[[nodiscard]] std::string_view field_of(std::string_view object, std::string_view name);

/// A JSON string with its quotes, which is sound, as the text that it stands for.
[[nodiscard]] std::string unquoted(std::string_view string);

}  // namespace kime
