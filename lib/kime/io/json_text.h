// Small pieces of JSON text.
#pragma once

#include <string>
#include <string_view>

namespace kime {

/// Appends `text` as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// `text` for a message: at most about 60 bytes of it, "..." where there is more; cut between characters.
[[nodiscard]] std::string shortened(std::string_view text);

/// Whether `text` is a number by JSON's grammar.
[[nodiscard]] bool is_json_number(std::string_view text);

/// Copies `text` with each number that float64 cannot hold turned into a zero of the same length, strings left as they are. A parser
/// that converts numbers then accepts what is valid JSON, at the same positions.
void tame_numbers(std::string_view text, std::string& out);

}  // namespace kime
