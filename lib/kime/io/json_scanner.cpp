#include "kime/io/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kime/io/json_bytes.h"
#include "kime/io/json_integers.h"
#include "kime/io/utf8.h"

namespace kime {
namespace {

constexpr std::size_t kDeepest = 1024;
constexpr std::uint64_t kFarPower = 100000;
constexpr std::int64_t kExactPower = 22;
constexpr double kPowers[kExactPower + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Whether any of eight bytes ends a string's plain text: a quote, a backslash, a control character, or no ASCII. A byte after such a one
// may be taken for one too.
bool any_special(std::uint64_t bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  const auto is_zero = [](std::uint64_t x) { return (x - kOnes) & ~x; };
  return ((bytes | (bytes - kOnes * 0x20) | is_zero(bytes ^ (kOnes * '"')) | is_zero(bytes ^ (kOnes * '\\'))) & kHigh) != 0;
}

bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

void JsonScanner::fail(std::string_view expected) {
  if (!failed()) {
    problem_ = fmt::format("{} at byte {}", expected, at_ - begin_ + 1);
    at_ = end_;
  }
}

std::string_view JsonScanner::string() {
  skip_space();
  const char* start = at_;
  if (at_ == end_ || *at_ != '"') {
    fail("expected a string");
    return {};
  }
  ++at_;
  for (;;) {
    for (std::uint64_t bytes = 0; end_ - at_ >= 8; at_ += 8) {
      std::memcpy(&bytes, at_, 8);
      if (any_special(bytes)) {
        break;
      }
    }
    if (at_ == end_ || *at_ == '"') {
      break;
    }
    const unsigned byte = byte_at(at_);
    if (byte == '\\') {
      if (!escape()) {
        return {};
      }
    } else if (byte < 0x20) {
      fail("control character in a string");
      return {};
    } else if (byte < 0x80) {
      ++at_;
    } else if (const std::size_t length = utf8_length(at_, end_); length > 0) {
      at_ += length;
    } else {
      fail("invalid UTF-8");
      return {};
    }
  }
  if (at_ == end_) {
    fail("the line ends in a string");
    return {};
  }
  ++at_;
  return {start, static_cast<std::size_t>(at_ - start)};
}

bool JsonScanner::escape() {
  const auto left = static_cast<std::size_t>(end_ - at_);
  if (left >= 2 && std::string_view("\"\\/bfnrt").find(at_[1]) != std::string_view::npos) {
    at_ += 2;
    return true;
  }
  if (left >= 6 && at_[1] == 'u' && is_hex(at_[2]) && is_hex(at_[3]) && is_hex(at_[4]) && is_hex(at_[5])) {
    at_ += 6;
    return true;
  }
  fail("bad escape in a string");
  return false;
}

bool JsonScanner::digits(DecimalNumber& decimal) {
  const char* start = at_;
  for (; at_ != end_ && is_digit(*at_); ++at_) {
    decimal.digits = decimal.digits * 10 + static_cast<std::uint64_t>(*at_ - '0');
  }
  decimal.count += at_ - start;
  return at_ != start;
}

// By JSON's grammar, without the sign: digits of the whole number, of its fraction, and an exponent. `decimal` gathers what they say.
bool JsonScanner::number_text(DecimalNumber& decimal) {
  skip_space();
  decimal.negative = at_ != end_ && *at_ == '-';
  at_ += decimal.negative ? 1 : 0;
  const char* first = at_;
  bool sound = digits(decimal) && (*first != '0' || at_ - first == 1);
  if (sound && at_ != end_ && *at_ == '.') {
    const char* point = ++at_;
    sound = digits(decimal);
    decimal.exponent = point - at_;
  }
  if (sound && at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    const bool down = at_ != end_ && *at_ == '-';
    at_ += at_ != end_ && (*at_ == '+' || *at_ == '-') ? 1 : 0;
    DecimalNumber power;
    sound = digits(power);
    const auto most = static_cast<std::int64_t>(
        std::min<std::uint64_t>(power.count > 9 ? kFarPower : power.digits, kFarPower));  // far past what float64 holds
    decimal.exponent += down ? -most : most;
  }
  if (!sound) {
    at_ = first;
    fail("expected a number");
  }
  return sound;
}

bool JsonScanner::integers(std::vector<std::uint32_t>& values) {
  if (!take('[')) {
    return false;
  }
  if (take(']')) {
    return true;
  }
  at_ = take_integers(at_, end_, values);
  return take(']');
}

bool JsonScanner::number(double& value) {
  skip_space();
  const char* start = at_;
  DecimalNumber decimal;
  if (!number_text(decimal)) {
    return false;
  }
  // Where the digits and the power of ten are exact, so is what one product or quotient rounds to.
  if (decimal.count <= 19 && decimal.digits <= (std::uint64_t{1} << 53U) && std::abs(decimal.exponent) <= kExactPower) {
    const auto digits = static_cast<double>(decimal.digits);
    const double power = kPowers[static_cast<std::size_t>(std::abs(decimal.exponent))];
    const double size = decimal.exponent < 0 ? digits / power : digits * power;
    value = decimal.negative ? -size : size;
    return true;
  }
  if (std::from_chars(start, at_, value).ec == std::errc()) {
    return true;
  }
  value = std::strtod(std::string(start, at_).c_str(), nullptr);  // too small is a zero, or near one, to a parser of JSON
  if (!std::isfinite(value)) {
    at_ = start;
    fail("number out of range");
    return false;
  }
  return true;
}

bool JsonScanner::word(std::string_view text) {
  skip_space();
  if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, text.size()) != text) {
    return false;
  }
  at_ += text.size();
  return true;
}

bool JsonScanner::null() {
  return word("null");
}

std::string_view JsonScanner::value(std::size_t depth) {
  skip_space();
  const char* start = at_;
  const char next = peek();
  bool sound = true;
  if (next == '"') {
    sound = !string().empty();
  } else if (next == '{' || next == '[') {
    sound = container(depth);
  } else if (next == '-' || is_digit(next)) {
    DecimalNumber decimal;
    sound = number_text(decimal);
  } else if (!word("null") && !word("true") && !word("false")) {
    fail("expected a value");
    sound = false;
  }
  return sound ? std::string_view(start, static_cast<std::size_t>(at_ - start)) : std::string_view();
}

bool JsonScanner::container(std::size_t depth) {
  const bool object = *at_ == '{';
  if (depth + 1 >= kDeepest) {  // the line's own object is level 1
    fail("nested too deep");
    return false;
  }
  ++at_;
  const char close = object ? '}' : ']';
  if (take(close)) {
    return true;
  }
  do {
    if (object && (string().empty() || !take(':'))) {
      fail("expected a field");
      return false;
    }
    if (value(depth + 1).empty()) {
      return false;
    }
  } while (take(','));
  if (!take(close)) {
    fail(object ? "expected ',' or '}'" : "expected ',' or ']'");
    return false;
  }
  return true;
}

bool JsonScanner::at_end() {
  skip_space();
  if (at_ != end_) {
    fail("expected the end of the line");
  }
  return !failed();
}

std::string_view field_of(std::string_view object, std::string_view name) {
  JsonScanner scanner(object);
  if (!scanner.take('{') || scanner.take('}')) {
    return {};
  }
  do {
    const std::string_view quoted = scanner.string();
    if (quoted.empty() || !scanner.take(':')) {
      return {};
    }
    const std::string_view value = scanner.value();
    if (quoted.substr(1, quoted.size() - 2) == name) {
      return value;
    }
  } while (scanner.take(','));
  return {};
}

std::string unquoted(std::string_view string) {
  if (string.find('\\') == std::string_view::npos) {
    return std::string(string.substr(1, string.size() - 2));
  }
  auto parsed = nlohmann::json::parse(string, nullptr, false);  // a lone surrogate's escape has no text
  return parsed.is_string() ? parsed.get<std::string>() : std::string(string);
}

}  // namespace kime
