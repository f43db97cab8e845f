#include "kime/io/json_integers.h"

#include <cstddef>
#include <limits>

#include "kime/io/json_bytes.h"

namespace kime {

const char* take_integers(const char* at, const char* end, std::vector<std::uint32_t>& out) {
  constexpr std::ptrdiff_t kMostDigits = 10;
  for (;;) {
    at = skip_space(at, end);
    const char* stop = at;
    std::uint64_t value = 0;
    while (stop != end && is_digit(*stop) && stop - at < kMostDigits) {
      value = value * 10 + static_cast<std::uint64_t>(*stop++ - '0');
    }
    const char* after = skip_space(stop, end);
    if (stop == at || after == end || value > std::numeric_limits<std::uint32_t>::max() || (*at == '0' && stop - at > 1)) {
      return at;
    }
    if (*after == ']') {
      out.push_back(static_cast<std::uint32_t>(value));
      return after;
    }
    const char* next = *after == ',' ? skip_space(after + 1, end) : end;
    if (next == end || *next == ']') {
      return at;
    }
    out.push_back(static_cast<std::uint32_t>(value));
    at = next;
  }
}

}  // namespace kime
