#include "kime/model/fields.h"

#include <fmt/format.h>

#include <utility>

namespace kime {

Fields::Fields(const json::Value& object, std::string_view file, std::string prefix)
    : object_(object), file_(file), prefix_(std::move(prefix)) {
  if (!object_.is_object()) {
    add(Error(ErrorKind::input, fmt::format("{}: expected a JSON object, found {}", file_, json::brief(object_))));
  }
}

const json::Value* Fields::find(const std::string& name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::size_t Fields::whole(const std::string& name, std::size_t low, std::size_t high, std::optional<std::size_t> absent) {
  const auto* value = find(name);
  if (value == nullptr) {
    if (!absent) {
      add(Error(ErrorKind::input, fmt::format("{}: {}{} is missing", file_, prefix_, name)));
    }
    return absent.value_or(low);
  }
  if (value->is_number_unsigned()) {
    const auto number = value->get<std::size_t>();
    if (number >= low && number <= high) {
      return number;
    }
  }
  wrong(name, *value, fmt::format("a whole number from {} to {}", low, high));
  return low;
}

float Fields::number(const std::string& name, double low, double high, float absent) {
  const auto* value = find(name);
  if (value == nullptr) {
    return absent;
  }
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= low && number <= high) {
      return static_cast<float>(number);
    }
  }
  wrong(name, *value, fmt::format("a number from {} to {}", low, high));
  return absent;
}

std::string Fields::text(const std::string& name, const std::string& absent) {
  const auto* value = find(name);
  if (value == nullptr) {
    return absent;
  }
  if (!value->is_string()) {
    wrong(name, *value, "a string");
    return absent;
  }
  return value->get<std::string>();
}

bool Fields::flag(const std::string& name, bool absent) {
  const auto* value = find(name);
  if (value == nullptr) {
    return absent;
  }
  if (!value->is_boolean()) {
    wrong(name, *value, "true or false");
    return absent;
  }
  return value->get<bool>();
}

const json::Value* Fields::object(const std::string& name) {
  const auto* value = find(name);
  if (value != nullptr && !value->is_object()) {
    wrong(name, *value, "an object");
    return nullptr;
  }
  return value;
}

void Fields::wrong(const std::string& name, const json::Value& value, std::string_view expected) {
  add(Error(ErrorKind::input, fmt::format("{}: {}{} is {}; expected {}", file_, prefix_, name, json::brief(value), expected)));
}

void Fields::unsupported(std::string_view what) {
  add(Error(ErrorKind::unsupported, fmt::format("{}: {}", file_, what)));
}

void Fields::add(const std::optional<Error>& error) {
  if (!error_ && error) {
    error_ = error;
  }
}

}  // namespace kime
