// The arithmetic number: it grows by one in a release whose scores are not the same bits as those of the release before.
#pragma once

namespace kime {

inline constexpr int kArithmetic = 1;

}  // namespace kime
