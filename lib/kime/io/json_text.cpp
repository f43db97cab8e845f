#include "kime/io/json_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>

namespace kime {
namespace {

constexpr std::size_t kShown = 60;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNumberBytes = "+-.0123456789Ee";

/// Drops the digits at the front; gives how many.
std::size_t drop_digits(std::string_view& text) {
  const std::size_t count = std::min(text.find_first_not_of(kDigits), text.size());
  text.remove_prefix(count);
  return count;
}

bool drop_one_of(std::string_view& text, std::string_view bytes) {
  if (text.empty() || bytes.find(text.front()) == std::string_view::npos) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string shortened(std::string_view text) {
  if (text.size() <= kShown) {
    return std::string(text);
  }
  std::size_t end = kShown;
  while (end > kShown - 3 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end)) + "...";
}

bool is_json_number(std::string_view text) {
  drop_one_of(text, "-");
  if (!drop_one_of(text, "0") && drop_digits(text) == 0) {
    return false;
  }
  if (drop_one_of(text, ".") && drop_digits(text) == 0) {
    return false;
  }
  if (drop_one_of(text, "eE")) {
    drop_one_of(text, "+-");
    if (drop_digits(text) == 0) {
      return false;
    }
  }
  return text.empty();
}

void tame_numbers(std::string_view text, std::string& out) {
  out = text;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        at += text[at] == '\\' ? 1 : 0;
      }
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_not_of(kNumberBytes, at), text.size());
    const auto number = text.substr(at, end - at);
    double value = 0;
    if (is_json_number(number) && std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc()) {
      const std::size_t sign = number.front() == '-' ? 1 : 0;
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(at + sign), out.begin() + static_cast<std::ptrdiff_t>(end), '0');
      out[at + sign + 1] = '.';  // The shortest such number, 1e309, is long enough for "0.0".
    }
    at = std::max(end, at + 1);
  }
}

}  // namespace kime
