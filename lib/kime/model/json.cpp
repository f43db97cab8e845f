#include "kime/model/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

namespace kime::json {
namespace {

constexpr std::size_t kMaxDepth = 128;  // that of serde_json, with which the safetensors library reads headers
constexpr std::size_t kMaxShown = 80;

// Builds the value, and stops at what the grammar allows but a checkpoint may not hold.
class Builder final : public nlohmann::json_sax<Value> {
 public:
  explicit Builder(Value& root) : root_(root) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return stop("binary data"); }
  bool start_object(std::size_t /*size*/) override { return open(Value::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Value::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (stack_.back()->contains(name)) {
      return stop(fmt::format("{} stands twice in one object", brief_name(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...; last read: '...'": the middle part, since
    // what was last read may be long and no text at all.
    const std::string_view what = error.what();
    const auto begin = what.find(": ");
    auto reason = begin == std::string_view::npos ? what : what.substr(begin + 2);
    reason = reason.substr(0, reason.find("; last read"));
    position_ = position;
    return stop(reason);
  }

  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::size_t position() const { return position_; }

 private:
  bool stop(std::string_view reason) {
    reason_ = reason;
    return false;
  }

  Value* insert(Value value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Value& parent = *stack_.back();
    if (parent.is_array()) {
      return &parent.get_ref<Value::array_t&>().emplace_back(std::move(value));
    }
    return &(parent[key_] = std::move(value));
  }
  bool put(Value value) {
    insert(std::move(value));
    return true;
  }
  bool open(Value value) {
    if (stack_.size() == kMaxDepth) {
      return stop(fmt::format("nested over {} levels", kMaxDepth));
    }
    stack_.push_back(insert(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  Value& root_;
  std::vector<Value*> stack_;  // the open containers; only the innermost grows, so that pointers to the others stay
  std::string key_;
  std::string reason_;
  std::size_t position_ = 0;
};

// What a number or a bare word is made of.
bool in_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

bool is_python_number(const std::string& word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") {
    return true;
  }
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  const bool digits = word.find_first_not_of("0123456789+-.eE") == std::string::npos;
  return digits && end == word.c_str() + word.size() && !std::isfinite(value);
}

std::string quote_python_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text.size());
      out.append(text.substr(i, end - i));
      i = end;
    } else if (in_word(text[i])) {
      const auto begin = i;
      while (i < text.size() && in_word(text[i])) {
        ++i;
      }
      const std::string word(text.substr(begin, i - begin));
      out += is_python_number(word) ? '"' + word + '"' : word;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::string cut(std::string text) {
  if (text.size() > kMaxShown) {
    // No half of a UTF-8 character at the end.
    std::size_t end = kMaxShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      --end;
    }
    text.resize(end);
    text += "...";
  }
  return text;
}

Error error_at(std::string_view file, std::string_view text, std::size_t position, std::string_view reason) {
  const auto before = text.substr(0, std::min(position == 0 ? 0 : position - 1, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const auto column = before.size() - (last == std::string_view::npos ? 0 : last + 1) + 1;
  return {ErrorKind::input, fmt::format("{}: line {}, column {}: {}", file, line, column, reason)};
}

}  // namespace

Result<Value> parse(std::string_view text, std::string_view file, Dialect dialect) {
  // nlohmann's lexer takes a NUL for the end of the text and would leave what follows unread.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return error_at(file, text, nul + 1, "a NUL byte is not JSON");
  }
  std::string quoted;
  if (dialect == Dialect::python) {
    quoted = quote_python_numbers(text);
    text = quoted;
  }
  Value root;
  Builder builder(root);
  if (Value::sax_parse(text.begin(), text.end(), &builder)) {
    return root;
  }
  if (builder.position() != 0) {
    return error_at(file, text, builder.position(), builder.reason());
  }
  return Error(ErrorKind::input, fmt::format("{}: {}", file, builder.reason()));
}

std::string brief(const Value& value) {
  return cut(value.dump(-1, ' ', false, Value::error_handler_t::replace));
}

std::string brief_name(std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < '\x7F'; });
  return plain && name.size() <= kMaxShown ? std::string(name) : brief(Value(name));
}

}  // namespace kime::json
