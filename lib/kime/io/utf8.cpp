#include "kime/io/utf8.h"

namespace kime {

std::size_t utf8_length(const char* at, const char* end) {
  const unsigned first = byte_at(at);
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || static_cast<std::size_t>(end - at) < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(at + i) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  const unsigned second = byte_at(at + 1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
                   (first == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

}  // namespace kime
