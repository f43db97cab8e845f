// UTF-8, a character at a time.
#pragma once

#include <cstddef>

namespace kime {

[[nodiscard]] inline unsigned byte_at(const char* at) {
  return static_cast<unsigned char>(*at);
}

/// The length of the character at `at`, whose first byte is no ASCII; 0 where it is none (too long a form, a surrogate, past U+10FFFF,
/// cut off).
[[nodiscard]] std::size_t utf8_length(const char* at, const char* end);

}  // namespace kime
