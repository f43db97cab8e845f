#include "kime/job/run_stats.h"

namespace kime {

nlohmann::json to_json(const std::vector<DeviceStats>& devices, double seconds) {
  auto all = nlohmann::json::array();
  for (const auto& device : devices) {
    const double busy = device.busy_share(seconds);
    all.push_back({{"device", device.name},
                   {"class", device.bits_class},
                   {"precision", name_of(device.precision)},
                   {"streams", device.streams},
                   {"batches", device.batches},
                   {"records", device.records},
                   {"tokens", device.tokens},
                   {"rescued", device.rescued},
                   {"padding", device.padding},
                   {"failures", device.failures},
                   {"busy_share", busy},
                   {"idle_share", 1 - busy},
                   {"retired", device.retired.empty() ? nlohmann::json() : nlohmann::json(device.retired)}});
  }
  return all;
}

}  // namespace kime
