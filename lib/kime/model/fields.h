// Reads the fields of one JSON object of a configuration file, checked, and remembers the first thing that was wrong.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kime/model/json.h"

namespace kime {

/// Every reader returns a usable value, also after an error, so that a parser reads straight down and asks `error()` once at the end.
/// A field that is null counts as absent, as it does in the Python that writes these files.
class Fields {
 public:
  /// `object` must outlive this. `prefix` stands before field names in messages ("rope_parameters.").
  Fields(const json::Value& object, std::string_view file, std::string prefix = "");

  /// The field, or nullptr when it is absent or null.
  [[nodiscard]] const json::Value* find(const std::string& name) const;

  /// A whole number in [low, high]. Without `absent` the field must be there.
  std::size_t whole(const std::string& name, std::size_t low, std::size_t high, std::optional<std::size_t> absent = {});
  /// A number in [low, high].
  float number(const std::string& name, double low, double high, float absent);
  std::string text(const std::string& name, const std::string& absent);
  bool flag(const std::string& name, bool absent);
  /// The object at `name`; nullptr when absent, and after an error when it is something else.
  const json::Value* object(const std::string& name);

  /// Records "FILE: FIELD is VALUE; expected EXPECTED".
  void wrong(const std::string& name, const json::Value& value, std::string_view expected);
  /// Records that kime cannot run this: "FILE: WHAT".
  void unsupported(std::string_view what);
  /// Records an error found elsewhere.
  void add(const std::optional<Error>& error);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const json::Value& object_;
  std::string file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace kime
