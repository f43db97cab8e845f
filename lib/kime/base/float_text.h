// The shortest text that reads back to the same float.
#pragma once

#include <string>

namespace kime {

/// Appends the shortest text that reads back to the same float32 or float64, as fmt's `{}` prints it: "1.25", "-0.5", "3", "1e-05".
/// Text of a finite number is a JSON number.
void append_float(std::string& out, float value);
void append_float(std::string& out, double value);

}  // namespace kime
