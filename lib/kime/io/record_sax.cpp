#include "kime/io/record_sax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kime/base/answers.h"
#include "kime/io/json_bytes.h"
#include "kime/io/json_integers.h"
#include "kime/io/json_text.h"

namespace kime {
namespace {

constexpr std::size_t kMostLevels = 1024;
constexpr std::uint64_t kMostInteger = std::numeric_limits<std::uint32_t>::max();
constexpr int kNumberOverflow = 406;  // The parser's own number for it.

/// What kime writes beside the id, whatever is asked for.
constexpr std::array<std::string_view, 9> kWritten = {
    "logits", "act", "probs", "choice", "score", "noul", "confidence", "answer_confidence", "act_probability"};
/// What it writes in error lines, which may be read again.
constexpr std::array<std::string_view, 3> kErrorLine = {"file", "line", "error"};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_number_byte(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/// What the parser says, without its own name, the position in its count, and the bytes that it had read.
std::string plain_reason(std::string_view what) {
  constexpr std::string_view kStart = "syntax error ";
  constexpr std::string_view kRead = "; last read: '";
  const auto start = what.find(kStart);
  if (start == std::string_view::npos) {
    return "invalid";
  }
  what.remove_prefix(start + kStart.size());
  return std::string(what.substr(0, what.find(kRead)));
}

/// The text around byte `at`, whole characters only.
std::string_view surroundings(std::string_view text, std::size_t at) {
  constexpr std::size_t kEachSide = 16;
  const auto inside_character = [text](std::size_t i) { return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80; };
  std::size_t begin = at > kEachSide ? at - kEachSide : 0;
  std::size_t end = std::min(text.size(), at + kEachSide);
  while (begin < end && inside_character(begin)) {
    ++begin;
  }
  while (end > begin && inside_character(end)) {
    --end;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

bool is_reserved_name(std::string_view name) {
  return among(kWritten, name) || among(kErrorLine, name);
}

RecordSax::RecordSax(std::string_view line, std::string_view parsed, const RecordParserOptions& options, Record& record)
    : line_(line),
      begin_(parsed.data()),
      cursor_(begin_),
      end_(begin_ + parsed.size()),
      keep_(options.keep),
      labels_(options.labels),
      record_(record) {
  clear(record);
}

void RecordSax::run() {
  const char* end = end_;
  is_json_ = Json::sax_parse(CursorIterator(&cursor_), CursorIterator(&end), this);
  if (is_json_ && problem_.empty() && error_object().empty()) {
    problem_ = misplaced_;
  }
}

std::string_view RecordSax::missing() const {
  if (!seen(Field::ids)) {
    return "ids";
  }
  if (!seen(Field::markers)) {
    return "markers";
  }
  return seen(Field::qtype) ? "" : "qtype";
}

bool RecordSax::number_unsigned(Json::number_unsigned_t value) {
  if (in_numbers() && value <= kMostInteger) {
    numbers().push_back(static_cast<std::uint32_t>(value));
    return true;
  }
  if (depth_ == 1 && field_ == Field::qtype && value <= std::numeric_limits<std::uint8_t>::max()) {
    record_.qtype = static_cast<std::uint8_t>(value);
    const auto token = number_token();
    finish_field(token.data() + token.size());
    return true;
  }
  return number();
}

bool RecordSax::string(std::string& value) {
  if (depth_ == 1 && field_ == Field::qtype) {
    const auto* type = std::ranges::find(kTypeNames, value);
    if (type != kTypeNames.end()) {
      record_.qtype = static_cast<std::uint8_t>(type - kTypeNames.begin());
      finish_field(cursor_);
      return true;
    }
  }
  std::string shown;
  if (is_shown()) {
    append_json_string(shown, shortened(value));
  }
  return scalar(shown, cursor_);
}

bool RecordSax::number() {
  const auto token = number_token();
  const char* end = token.data() + token.size();
  return scalar(is_shown() ? shortened(bytes(token.data(), end)) : std::string(), end);
}

bool RecordSax::scalar(std::string_view what, const char* end) {
  if (is_shown()) {
    wrong_value(what);
  }
  if (depth_ == 1) {
    finish_field(end);
  }
  return true;
}

bool RecordSax::start_object(std::size_t /*size*/) {
  if (depth_ == 0) {
    last_end_ = cursor_;
  } else if (is_shown()) {
    wrong_value("an object");
  }
  return deeper();
}

bool RecordSax::start_array(std::size_t /*size*/) {
  if (depth_ == 1 && is_numbers()) {
    in_numbers_ = true;
    cursor_ = take_integers(cursor_, end_, numbers());
  } else if (is_shown()) {
    wrong_value("an array");
  }
  return deeper();
}

bool RecordSax::deeper() {
  if (++depth_ == kMostLevels + 1) {
    fail(fmt::format("nested deeper than {} levels", kMostLevels));
  }
  return true;
}

bool RecordSax::close() {
  if (--depth_ == 1) {
    in_numbers_ = false;
    finish_field(cursor_);
  }
  return true;
}

bool RecordSax::key(std::string& name) {
  if (depth_ != 1) {
    return true;
  }
  key_end_ = cursor_;
  key_begin_ = std::find(last_end_, cursor_, '"');
  value_begin_ = skip_space(std::min(skip_space(cursor_, end_) + 1, end_), end_);  // The colon; where there is none, the parser ends here.
  constexpr std::array<std::pair<std::string_view, Field>, 5> kFields = {
      {{"id", Field::id}, {"ids", Field::ids}, {"markers", Field::markers}, {"qtype", Field::qtype}, {"error", Field::error}}};
  field_ = Field::other;
  for (const auto& [known, field] : kFields) {
    if (name == known) {
      field_ = field;
    }
  }
  if (field_ != Field::other && seen(field_)) {
    if (field_ != Field::error) {
      fail(fmt::format("{} is given twice", name));
    }
    field_ = Field::ignored;
  }
  seen_ |= 1U << static_cast<unsigned>(field_);
  is_label_ = labels_ && name == "label";
  if (keep_) {
    check_kept_name(name);
  }
  return true;
}

/// A kept field must not have the name of one that is written.
void RecordSax::check_kept_name(std::string_view name) {
  const bool written = among(kWritten, name);
  if (!written && !among(kErrorLine, name)) {
    return;
  }
  std::string message = fmt::format("the field {} cannot be kept: kime writes one of that name", name);
  if (written) {
    fail(std::move(message));
  } else if (misplaced_.empty()) {
    misplaced_ = std::move(message);
  }
  if (field_ == Field::other) {
    field_ = Field::ignored;
  }
}

bool RecordSax::parse_error(std::size_t /*position*/, const std::string& /*token*/, const Json::exception& error) {
  overflowed_ = error.id == kNumberOverflow;
  const auto read = static_cast<std::size_t>(cursor_ - begin_);
  problem_ = fmt::format("not JSON at byte {}, near '{}': {}", read, surroundings(line_, read), plain_reason(error.what()));
  return false;
}

/// The original bytes of a piece of what is parsed.
std::string_view RecordSax::bytes(const char* begin, const char* end) const {
  return line_.substr(static_cast<std::size_t>(begin - begin_), static_cast<std::size_t>(end - begin));
}

/// The number that the parser has just read. It stands one byte past its end, except at the end of the text.
std::string_view RecordSax::number_token() const {
  const char* end = is_number_byte(cursor_[-1]) ? cursor_ : cursor_ - 1;
  const char* begin = end;
  while (begin > begin_ && is_number_byte(begin[-1])) {
    --begin;
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

/// Whether a value of another kind than those that were expected is a problem here.
bool RecordSax::is_shown() const {
  return depth_ == 0 || in_numbers() || (depth_ == 1 && (is_numbers() || field_ == Field::qtype));
}

void RecordSax::fail(std::string message) {
  if (problem_.empty()) {
    problem_ = std::move(message);
  }
}

void RecordSax::wrong_value(std::string_view what) {
  if (!problem_.empty()) {
    return;
  }
  const std::string_view name = field_ == Field::ids ? "ids" : "markers";
  if (depth_ == 0) {
    fail(fmt::format("the record is {}, not an object", what));
  } else if (in_numbers()) {
    fail(fmt::format("{}[{}] is {}, not an integer from 0 to {}", name, numbers().size(), what, kMostInteger));
  } else if (is_numbers()) {
    fail(fmt::format("{} is {}, not an array of integers", name, what));
  } else {
    fail(fmt::format(R"(qtype is {}, not 0, 1, 2, "choice", "score" or "noul")", what));
  }
}

/// A field of the outermost object is complete.
void RecordSax::finish_field(const char* end) {
  last_end_ = end;
  if (is_label_) {
    record_.labelled = true;
    record_.label = option_of_label(bytes(value_begin_, end));
    is_label_ = false;
  }
  if (field_ == Field::id) {
    record_.id = bytes(value_begin_, end);
  } else if (field_ == Field::error && *value_begin_ == '{') {
    error_object_ = bytes(value_begin_, end);
  } else if (field_ == Field::other && keep_) {
    record_.kept += ',';
    record_.kept += bytes(key_begin_, key_end_);
    record_.kept += ':';
    record_.kept += bytes(value_begin_, end);
  }
  field_ = Field::ignored;
}

}  // namespace kime
