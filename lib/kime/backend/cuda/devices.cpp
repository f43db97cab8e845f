#include "kime/backend/cuda/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kime/backend/cuda/errors.h"

namespace kime::cuda {

namespace {

std::string uuid_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Asks about one device; what has been learnt stays in `facts` when a question fails.
class Questions {
 public:
  Questions(const DriverApi& api, DeviceFacts& facts) : api_(api), facts_(facts) {}

  Status ask() {
    std::array<char, 256> text{};
    if (auto told = check("cuDeviceGetName", api_.device_get_name(text.data(), static_cast<int>(text.size()), facts_.number)); !told) {
      return told;
    }
    facts_.name = text.data();
    text = {};
    if (auto told = check("cuDeviceGetPCIBusId", api_.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), facts_.number));
        !told) {
      return told;
    }
    facts_.pci_bus_id = text.data();
    Uuid uuid{};
    if (auto told = check("cuDeviceGetUuid", api_.device_get_uuid(&uuid, facts_.number)); !told) {
      return told;
    }
    facts_.uuid = uuid_text(uuid);
    if (auto told = check("cuDeviceTotalMem", api_.device_total_mem(&facts_.memory_bytes, facts_.number)); !told) {
      return told;
    }
    return ask_attributes();
  }

 private:
  Status check(std::string_view function, Code code) const { return code == Code::success ? Status() : error_of(api_, function, code); }

  Status ask_attributes() {
    const std::pair<Attribute, std::size_t*> sizes[] = {{Attribute::multiprocessors, &facts_.multiprocessors},
                                                        {Attribute::clock_khz, &facts_.clock_khz},
                                                        {Attribute::max_threads_per_block, &facts_.threads_per_block},
                                                        {Attribute::shared_bytes_per_block_optin, &facts_.shared_bytes_per_block}};
    int value = 0;
    for (const auto& [attribute, size] : sizes) {
      if (auto told = ask_attribute(attribute, value); !told) {
        return told;
      }
      *size = static_cast<std::size_t>(std::max(value, 0));
    }
    if (auto told = ask_attribute(Attribute::compute_major, facts_.major); !told) {
      return told;
    }
    return ask_attribute(Attribute::compute_minor, facts_.minor);
  }

  Status ask_attribute(Attribute attribute, int& value) {
    return check("cuDeviceGetAttribute", api_.device_get_attribute(&value, attribute, facts_.number));
  }

  const DriverApi& api_;
  DeviceFacts& facts_;
};

}  // namespace

Result<FoundDevices> find_devices(const DriverApi& api) {
  int count = 0;
  if (const Code code = api.device_get_count(&count); code != Code::success) {
    return error_of(api, "cuDeviceGetCount", code);
  }
  if (count <= 0) {
    return Error(ErrorKind::device, "the NVIDIA driver finds no device");
  }
  FoundDevices found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceFacts facts;
    if (const Code code = api.device_get(&facts.number, ordinal); code != Code::success) {
      found.left_out.push_back({fmt::format("device {}", ordinal), "", error_of(api, "cuDeviceGet", code).message()});
      continue;
    }
    if (auto told = Questions(api, facts).ask(); !told) {
      const std::string name = facts.name.empty() ? fmt::format("device {}", ordinal) : facts.name;
      found.left_out.push_back({name, facts.pci_bus_id, told.error().message()});
      continue;
    }
    if (std::pair(facts.major, facts.minor) < std::pair(kNeededMajor, kNeededMinor)) {
      found.left_out.push_back(
          {facts.name, facts.pci_bus_id,
           fmt::format("compute capability {}, and kime needs {}.{}", facts.capability(), kNeededMajor, kNeededMinor)});
      continue;
    }
    found.devices.push_back(std::move(facts));
  }
  return found;
}

}  // namespace kime::cuda
