// A device's primary context, for all who use the device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "kime/backend/cuda/api.h"
#include "kime/backend/cuda/devices.h"
#include "kime/base/error.h"

namespace kime::cuda {

/// Whatever was made in the context keeps it. All members from any thread.
class DeviceContext {
 public:
  DeviceContext(std::shared_ptr<const DriverApi> api, DeviceFacts facts) : api_(std::move(api)), facts_(std::move(facts)) {}
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;
  ~DeviceContext();

  [[nodiscard]] const DriverApi& api() const { return *api_; }
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }

  /// Makes the context the calling thread's; the first time, makes the context. Errors: `device`.
  Status bind();
  /// Once bind() has succeeded.
  [[nodiscard]] ContextHandle handle() const { return handle_; }
  [[nodiscard]] bool made() const { return handle_ != nullptr; }

  /// Success, or the error of a call, which is remembered where nothing will work after it.
  Status check(std::string_view function, Code code);
  /// False after a sticky error.
  [[nodiscard]] bool alive() const { return !dead_; }
  /// The sticky error; "" while there was none.
  [[nodiscard]] std::string died_of();

 private:
  std::shared_ptr<const DriverApi> api_;
  DeviceFacts facts_;
  std::mutex making_;
  std::atomic<ContextHandle> handle_{nullptr};
  std::atomic<bool> dead_{false};
  std::string died_of_;  ///< Under making_.
};

}  // namespace kime::cuda
