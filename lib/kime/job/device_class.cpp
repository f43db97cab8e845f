#include "kime/job/device_class.h"

#include <algorithm>
#include <utility>

namespace kime {

std::vector<std::size_t> keep_to_one_class(std::vector<ClassedDevice> devices, bool reproducible,
                                           const std::function<void(const std::string&)>& notice) {
  std::vector<std::pair<std::string, double>> classes;  // with the speed of all its devices
  for (const auto& device : devices) {
    auto found = std::ranges::find(classes, device.bits_class, &std::pair<std::string, double>::first);
    if (found == classes.end()) {
      found = classes.insert(classes.end(), {device.bits_class, 0});
    }
    found->second += device.speed_hint;
  }
  if (classes.size() > 1 && reproducible) {
    const auto fastest = std::ranges::max_element(classes, {}, &std::pair<std::string, double>::second);
    std::erase_if(devices, [&](const ClassedDevice& device) { return device.bits_class != fastest->first; });
  } else if (classes.size() > 1 && notice) {
    notice("devices of " + std::to_string(classes.size()) +
           " classes work, so that bits may differ from run to run; --reproducible keeps to one class");
  }
  std::vector<std::size_t> ordinals;
  ordinals.reserve(devices.size());
  for (const auto& device : devices) {
    ordinals.push_back(device.ordinal);
  }
  return ordinals;
}

}  // namespace kime
