#include "kime/results/markup.h"

#include "kime/io/utf8.h"

namespace kime {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

std::string_view ascii_text(const char& byte) {
  switch (byte) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\t':
    case '\n':
      return {&byte, 1};
    default:
      return static_cast<unsigned char>(byte) < 0x20 || byte == '\x7f' ? kReplacement : std::string_view(&byte, 1);
  }
}

}  // namespace

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char* at = text.data(); at != text.data() + text.size();) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      out += ascii_text(*at);
      ++at;
      continue;
    }
    const std::size_t length = utf8_length(at, text.data() + text.size());
    const std::string_view character(at, length);
    const bool allowed = length > 0 && character != "\xef\xbf\xbe" && character != "\xef\xbf\xbf";
    out += allowed ? character : kReplacement;
    at += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace kime
