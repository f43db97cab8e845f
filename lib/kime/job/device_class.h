// Devices of one class give the same bits; which ones a run keeps to.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kime/job/lane.h"

namespace kime {

struct ClassedDevice {
  std::size_t ordinal = 0;
  std::string bits_class;
  double speed_hint = 0;  ///< DeviceProperties::speed_hint, which compares devices of one kind.
  std::size_t kind = 0;   ///< Of several kinds: any device of a later one is taken for faster than all of an earlier one.
};

/// Those of the class that is fastest together (the first of equals), in their order.
[[nodiscard]] std::vector<ClassedDevice> fastest_class(std::vector<ClassedDevice> devices);

/// Where they are of several classes, `notice`, if any, hears that bits may differ from run to run.
void tell_of_classes(std::span<const FleetDevice> devices, const std::function<void(const std::string&)>& notice);

}  // namespace kime
