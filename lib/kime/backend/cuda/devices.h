// What devices the driver has.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kime/backend/cuda/api.h"
#include "kime/base/error.h"

namespace kime::cuda {

/// The oldest compute capability that the kernels are made for.
inline constexpr int kNeededMajor = 8;
inline constexpr int kNeededMinor = 0;

struct DeviceFacts {
  DeviceNumber number = 0;
  std::string name;
  std::string uuid;        ///< "GPU-6e0b...", as nvidia-smi writes it.
  std::string pci_bus_id;  ///< "0000:1a:00.0"
  int major = 0;           ///< Compute capability.
  int minor = 0;
  std::size_t memory_bytes = 0;
  std::size_t multiprocessors = 0;
  std::size_t clock_khz = 0;
  std::size_t threads_per_block = 0;
  std::size_t shared_bytes_per_block = 0;
  [[nodiscard]] std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// A device that kime cannot use.
struct LeftOut {
  std::string name;
  std::string pci_bus_id;
  std::string why;  ///< "compute capability 7.5, and kime needs 8.0"
};

struct FoundDevices {
  std::vector<DeviceFacts> devices;
  std::vector<LeftOut> left_out;  ///< Too old, or it could not be asked.
};

/// All devices of the driver, which is initialized. Makes no context. Errors: `device`: there is none, or the driver's own.
Result<FoundDevices> find_devices(const DriverApi& api);

}  // namespace kime::cuda
