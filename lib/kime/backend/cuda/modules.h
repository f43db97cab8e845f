// The kernels on a device.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kime/backend/cuda/device_context.h"

namespace kime::cuda {

/// Loads the images when a kernel is first asked for. Any thread; not while it captures.
class Modules {
 public:
  /// `images`: what cuModuleLoadData takes; they outlive it.
  Modules(std::shared_ptr<DeviceContext> context, std::vector<const void*> images)
      : context_(std::move(context)), images_(std::move(images)) {}
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;
  ~Modules();

  /// A kernel that may be launched with so much dynamic shared memory, loaded whole, so that a capture loads nothing. Errors: `device`: the
  /// driver's, naming the kernel.
  Result<FunctionHandle> find(const std::string& name, std::size_t shared_bytes);

 private:
  struct Function {
    FunctionHandle handle = nullptr;
    std::size_t shared_bytes = 0;
  };
  // With the lock held.
  Status load();
  Result<Function*> function(const std::string& name);

  std::shared_ptr<DeviceContext> context_;
  std::vector<const void*> images_;
  std::mutex mutex_;
  std::vector<ModuleHandle> modules_;
  std::map<std::string, Function> functions_;
};

}  // namespace kime::cuda
