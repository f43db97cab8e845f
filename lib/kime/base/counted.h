// Counts as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kime {

/// 12345 as "12,345".
[[nodiscard]] std::string grouped(std::uint64_t number);
/// "1 record", "3 records".
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view what);

}  // namespace kime
