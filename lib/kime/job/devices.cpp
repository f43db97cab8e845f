#include "kime/job/devices.h"

#include <optional>
#include <string>

#include "kime/backend/cpu/cpu_driver.h"
#include "kime/backend/cuda/cuda_driver.h"
#include "kime/job/cpu_config.h"
#include "kime/job/cuda_config.h"
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

// GPUs, those that would be used and those that would not.
void add_cuda(nlohmann::json& document, const CudaDriver::Config& config, StreamStrategy streams, bool debug) {
  auto& missing = document["missing"];
  const auto miss = [&](const char* kind, const std::string& why) { missing.push_back({{"kind", kind}, {"why", why}}); };
  auto driver = CudaDriver::open(config);
  if (!driver) {
    miss("cuda", driver.error().message());
    return;
  }
  const std::string no_kernels = config.images.empty() ? CudaDriver::kNoKernels : "";
  if (!no_kernels.empty()) {
    miss("cuda", no_kernels);
  }
  auto& unused = document["unused"];
  for (std::size_t ordinal = 0; ordinal < (*driver)->num_devices(); ++ordinal) {
    auto device = describe_properties(CudaDriver::kName, ordinal, (*driver)->properties(ordinal));
    if (debug) {
      device["debug"] = (*driver)->debug_info(ordinal);
    }
    if (no_kernels.empty()) {
      device["streams"] = (*driver)->suggested_streams(ordinal, streams);
      document["devices"].push_back(std::move(device));
    } else {
      device["why"] = no_kernels;
      unused.push_back(std::move(device));
    }
  }
  for (const auto& device : (*driver)->left_out()) {
    unused.push_back({{"kind", CudaDriver::kName}, {"name", device.name}, {"pci_bus_id", device.pci_bus_id}, {"why", device.why}});
  }
  if (!(*driver)->no_cublaslt().empty()) {
    miss("cublaslt", (*driver)->no_cublaslt());
  }
}

}  // namespace

Result<nlohmann::json> describe_devices(const CpuFleetOptions& cpu, bool debug) {
  Multidev<CpuDriver> runtime;
  auto document = describe(runtime, runtime_config(cpu), debug);
  if (document) {
    (*document)["unused"] = nlohmann::json::array();
    (*document)["missing"] = nlohmann::json::array();
    add_cuda(*document, cuda_config(), cpu.streams, debug);
  }
  return document;
}

}  // namespace kime
