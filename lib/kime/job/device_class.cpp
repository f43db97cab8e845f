#include "kime/job/device_class.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace kime {

std::vector<ClassedDevice> fastest_class(std::vector<ClassedDevice> devices) {
  std::vector<ClassedDevice> classes;  // with the speed of all its devices
  for (const auto& device : devices) {
    const auto found = std::ranges::find(classes, device.bits_class, &ClassedDevice::bits_class);
    if (found == classes.end()) {
      classes.push_back(device);
    } else {
      found->speed_hint += device.speed_hint;
    }
  }
  const auto speed = [](const ClassedDevice& each) { return std::tuple(each.kind, each.speed_hint); };
  const auto fastest = std::ranges::max_element(classes, {}, speed);
  std::erase_if(devices, [&](const ClassedDevice& device) { return device.bits_class != fastest->bits_class; });
  return devices;
}

void tell_of_classes(std::span<const FleetDevice> devices, const std::function<void(const std::string&)>& notice) {
  std::set<std::string> classes;
  for (const auto& device : devices) {
    classes.insert(device.bits_class);
  }
  if (classes.size() > 1 && notice) {
    notice("devices of " + std::to_string(classes.size()) +
           " classes work, so that bits may differ from run to run; --reproducible keeps to one class");
  }
}

}  // namespace kime
