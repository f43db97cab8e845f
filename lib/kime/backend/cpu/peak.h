// The machine's own limit, for benchmarks.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/precision.h"

namespace kime::cpu {

/// Operations a second (an add and a multiply count as two) that `threads` threads reach together on registers alone, with the instructions
/// that gemms of that precision take here, over about `time`.
[[nodiscard]] double compute_peak(Precision precision, std::size_t threads, std::chrono::milliseconds time);

/// The instruction set in use ("avx512", ...), all that were compiled, and those that this CPU runs, best first.
[[nodiscard]] std::string_view target_in_use();
[[nodiscard]] std::vector<std::string_view> compiled_targets();
[[nodiscard]] std::vector<std::string_view> runnable_targets();

/// What multiplies in gemms of that precision here: "tdpbf16ps", "vpdpbusd", "fma", ...
[[nodiscard]] std::string_view products_by(Precision precision);

/// Of the SIMD library that the kernels were compiled with: "1.0.3".
[[nodiscard]] std::string highway_version();

}  // namespace kime::cpu
