// JSON as the files of a checkpoint need it: strict where nlohmann's parser is lenient, with errors that name the file and the place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kime/base/error.h"

namespace kime::json {

using Value = nlohmann::json;

/// Which numbers a text may hold. Python's json module, which wrote the configuration files, writes NaN, Infinity and -Infinity; with
/// `python` these, and numbers past float64, become the strings of the same letters, so that whoever wants a number refuses them by name.
enum class Dialect { strict, python };

/// Parses one value. Beyond the grammar: no key twice in an object, no more than 128 levels, no NUL byte.
/// Errors: `input`, "FILE: line 3, column 7: ..."; `file` is only for them.
Result<Value> parse(std::string_view text, std::string_view file, Dialect dialect);

/// A value as it may stand in a message: its JSON, cut to a readable length.
[[nodiscard]] std::string brief(const Value& value);

/// A name from a file as it may stand in a message: itself when that is short printable ASCII, else its JSON, cut.
[[nodiscard]] std::string brief_name(std::string_view name);

}  // namespace kime::json
