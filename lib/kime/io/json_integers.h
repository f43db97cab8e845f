// Arrays of integers, which are most of a record.
#pragma once

#include <cstdint>
#include <vector>

namespace kime {

/// Appends the integers after an array's `[`, up to `end`, and gives where a parser goes on: at the `]`, or at the first element that is no
/// integer from 0 to 2^32 - 1 as JSON writes it, or has no element after its comma, for the parser to judge.
[[nodiscard]] const char* take_integers(const char* at, const char* end, std::vector<std::uint32_t>& out);

}  // namespace kime
