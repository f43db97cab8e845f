#include "kime/job/devices.h"

#include <optional>
#include <string>

#include "kime/backend/cpu/cpu_driver.h"
#include "kime/job/cpu_config.h"
#include "kime/runtime/multidev.h"

namespace kime {

namespace {

nlohmann::json number_or_none(const std::optional<std::size_t>& limit) {
  return limit ? nlohmann::json(*limit) : nlohmann::json();
}

template <Driver D>
Result<nlohmann::json> describe(Multidev<D>& runtime, const RuntimeConfig<D>& config, bool debug) {
  if (!runtime.is_initialized()) {
    if (auto ready = runtime.initialize(config); !ready) {
      return std::move(ready).error();
    }
  }
  auto devices = runtime.static_properties();
  if (!devices) {
    return std::move(devices).error();
  }
  auto limits = runtime.hardware_limits();
  if (!limits) {
    return std::move(limits).error();
  }
  nlohmann::json document;
  for (std::size_t ordinal = 0; ordinal < devices->size(); ++ordinal) {
    auto device = runtime.get_device(ordinal);
    if (!device) {
      return std::move(device).error();
    }
    auto streams = runtime.suggested_num_virtual_devices(*device);
    if (!streams) {
      return std::move(streams).error();
    }
    (*devices)[ordinal]["streams"] = *streams;
    if (debug) {
      if (auto info = runtime.get_debug_info(*device)) {
        (*devices)[ordinal]["debug"] = *std::move(info);
      }
    }
  }
  document["devices"] = *std::move(devices);
  document["limits"] = {{"bucket_tokens", number_or_none(limits->bucket_tokens)},
                        {"threads_per_group", number_or_none(limits->threads_per_group)},
                        {"group_memory_bytes", number_or_none(limits->group_memory_bytes)}};
  if (debug) {
    document["debug"] = runtime.get_global_debug_info();
  }
  return document;
}

}  // namespace

Result<nlohmann::json> describe_devices(const CpuFleetOptions& cpu, bool debug) {
  Multidev<CpuDriver> runtime;
  auto document = describe(runtime, runtime_config(cpu), debug);
  if (document) {
    (*document)["missing"] = nlohmann::json::array({{{"kind", "cuda"}, {"why", "this build has no CUDA"}}});
  }
  return document;
}

}  // namespace kime
