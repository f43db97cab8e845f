// What single bytes are in JSON.
#pragma once

namespace kime {

[[nodiscard]] constexpr bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

/// The first byte from `at` on that is no white space, or `end`.
[[nodiscard]] constexpr const char* skip_space(const char* at, const char* end) {
  while (at != end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) {
    ++at;
  }
  return at;
}

}  // namespace kime
