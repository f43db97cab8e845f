// Text inside HTML and XML.
#pragma once

#include <string>
#include <string_view>

namespace kime {

/// `text` as it stands in an element or between double quotes: &, <, >, " and ' as references, and what neither HTML nor XML may hold
/// (invalid UTF-8, control characters but tab and line end, U+FFFE and U+FFFF) as U+FFFD.
[[nodiscard]] std::string markup_text(std::string_view text);

}  // namespace kime
