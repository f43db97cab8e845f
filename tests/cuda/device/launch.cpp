// The kernels' tests on a device, the first that the driver has: each launch takes the registered memory there and back. The host's kernels
// only say what their names and parameters are.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kime/backend/cuda/modules.h"
#include "kime/backend/cuda/slab.h"
#include "kime/job/cuda_config.h"
#include "tests/cuda/shim/launch.h"
#include "tests/cuda/shim/memory.h"

namespace kime::test {

namespace {

constexpr std::uintptr_t kAlign = 256;  // an address on the device is as far past a multiple of this as it is on the host
// Of a buffer's sentinels on either side, what travels with it, so that a write outside shows.
constexpr std::uintptr_t kTravels = 256;

template <class T>
T or_fault(Result<T> result) {
  if (!result) {
    throw cuda::shim::Fault(result.error().message());
  }
  return *std::move(result);
}
void or_fault(const Status& status) {
  if (!status) {
    throw cuda::shim::Fault(status.error().message());
  }
}

// Registered memory and where it is on the device.
struct Travelling {
  cuda::shim::Range host;
  cuda::DeviceAddress device = 0;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the shim registers addresses
  [[nodiscard]] std::byte* from() const { return reinterpret_cast<std::byte*>(host.begin - kTravels); }
  [[nodiscard]] cuda::DeviceAddress to() const { return device - kTravels; }
  [[nodiscard]] std::size_t bytes() const { return host.end - host.begin + 2 * kTravels; }
};

class TestDevice {
 public:
  TestDevice() {
    const auto config = cuda_config();
    if (config.images.empty()) {
      throw cuda::shim::Fault("this build has no CUDA kernels");
    }
    const auto library = or_fault(cuda::open_driver(config.libcuda));
    api_ = std::make_shared<const cuda::DriverApi>(library.api);
    context_ = std::make_shared<cuda::DeviceContext>(api_, or_fault(cuda::find_devices(*api_)).devices.front());
    modules_.emplace(context_, config.images);
    or_fault(context_->bind());
    check("cuStreamCreate", api_->stream_create(&stream_, cuda::kStreamNonBlocking));
  }

  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
  ~TestDevice() {
    if (context_->bind()) {
      static_cast<void>(api_->stream_destroy(stream_));
    }
  }

  void launch(const cuda::shim::Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const void* params) {
    cuda::FunctionHandle function = or_fault(modules_->find(kernel.name, shared_bytes));
    std::vector<Travelling> all;
    std::size_t bytes = 0;
    for (const auto& range : cuda::shim::registered()) {
      const std::size_t at = (bytes + kTravels + kAlign - 1) / kAlign * kAlign + range.begin % kAlign;
      all.push_back({range, at});
      bytes = at + (range.end - range.begin) + kTravels;
    }
    const auto slab = or_fault(cuda::Slab::on_device(context_, bytes + kTravels, kAlign));
    for (Travelling& each : all) {
      each.device += slab.address();
      check("cuMemcpyHtoDAsync", api_->memcpy_htod_async(each.to(), each.from(), each.bytes(), stream_));
    }
    auto translated = moved(params, kernel.params_bytes, all);
    void* parameters[] = {translated.data()};
    check("cuLaunchKernel of " + kernel.name,
          api_->launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared_bytes), stream_,
                              static_cast<void**>(parameters), nullptr));
    for (const Travelling& each : all) {
      bring_back(each, kernel.name);
    }
  }

 private:
  // The parameters with the device's addresses: every aligned word that points into registered memory, or right behind it, is a pointer.
  static std::vector<std::byte> moved(const void* params, std::size_t bytes, const std::vector<Travelling>& all) {
    std::vector<std::byte> copy(bytes);
    std::memcpy(copy.data(), params, bytes);
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
      std::uintptr_t word = 0;
      std::memcpy(&word, copy.data() + at, sizeof(word));
      for (const Travelling& each : all) {
        if (word >= each.host.begin && word <= each.host.end) {
          word = each.device + (word - each.host.begin);
          std::memcpy(copy.data() + at, &word, sizeof(word));
          break;
        }
      }
    }
    return copy;
  }

  void bring_back(const Travelling& each, const std::string& kernel) {
    std::vector<std::byte> back(each.bytes());
    check("cuMemcpyDtoHAsync", api_->memcpy_dtoh_async(back.data(), each.to(), back.size(), stream_));
    check("kernel " + kernel, api_->stream_synchronize(stream_));
    if (each.host.writable) {
      std::memcpy(each.from(), back.data(), back.size());
    } else if (std::memcmp(each.from(), back.data(), back.size()) != 0) {
      throw cuda::shim::Fault(fmt::format("kernel {} wrote into memory that it may only read", kernel));
    }
  }

  void check(std::string_view function, cuda::Code code) { or_fault(context_->check(function, code)); }

  std::shared_ptr<const cuda::DriverApi> api_;
  std::shared_ptr<cuda::DeviceContext> context_;
  std::optional<cuda::Modules> modules_;
  cuda::StreamHandle stream_ = nullptr;
};

void launch_on_device(const cuda::shim::Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const void* params) {
  static TestDevice device;  // ends before the driver, which was opened while it was made
  device.launch(kernel, grid, block, shared_bytes, params);
}

const bool launches_go_there = (cuda::shim::launch_elsewhere(launch_on_device), true);

}  // namespace

}  // namespace kime::test
