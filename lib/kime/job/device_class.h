// Devices of one class give the same bits; which ones a run keeps to.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kime {

struct ClassedDevice {
  std::size_t ordinal = 0;
  std::string bits_class;
  double speed_hint = 0;  ///< DeviceProperties::speed_hint.
};

/// The ordinals of all devices, in their order; where they are of several classes, `notice` hears that bits may differ from run to run.
/// With `reproducible` only those of the class that is fastest together (the first of equals).
[[nodiscard]] std::vector<std::size_t> keep_to_one_class(std::vector<ClassedDevice> devices, bool reproducible,
                                                         const std::function<void(const std::string&)>& notice);

}  // namespace kime
