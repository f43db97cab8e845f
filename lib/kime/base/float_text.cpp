#include "kime/base/float_text.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cstddef>

namespace kime {
namespace {

template <class T>
void append(std::string& out, T value) {
  char text[32];  // -1.7976931348623157e+308 is the longest.
  const auto* end = fmt::format_to(text, FMT_COMPILE("{}"), value);
  out.append(text, static_cast<std::size_t>(end - text));
}

}  // namespace

void append_float(std::string& out, float value) {
  append(out, value);
}
void append_float(std::string& out, double value) {
  append(out, value);
}

}  // namespace kime
