// Weights that only a few records need: loaded when the first of these comes.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kime/engine/device_backend.h"

namespace kime {

/// Each checkpoint's once on each device. From any thread; those who ask for a device while its weights are loaded wait for them.
template <Driver D>
class LateWeights {
 public:
  using Backend = DeviceBackend<D>;
  using Weights = std::shared_ptr<const typename Backend::Weights>;
  struct Source {
    const TensorSource* tensors = nullptr;
    std::shared_ptr<const Graph> graph;
  };

  /// The runtime and the tensors outlive it.
  LateWeights(Multidev<D>& runtime, std::vector<Source> models) : runtime_(runtime), models_(std::move(models)), codes_(models_.size()) {}

  /// Before anything else. Devices are numbered in the order in which they come.
  void add_device(const Device& device, const Caps& caps) {
    devices_.emplace_back();
    devices_.back().device = device;
    devices_.back().caps = caps;
  }

  /// Taken from another device that has them, else read from the host. Errors: those of loading; the next one who asks tries again.
  Result<Weights> get(std::size_t device, std::size_t model) {
    PerDevice& on = devices_[device];
    const std::lock_guard loading(on.loading);
    for (const Loaded& each : loaded(model)) {
      if (each.device == device) {
        return each.weights;
      }
    }
    // A stream of its own: a wait for what others have scheduled would take their failures from them.
    if (!on.backend) {
      auto stream = runtime_.new_virtual_device(on.device);
      if (!stream) {
        return std::move(stream).error();
      }
      on.backend.emplace(runtime_, *std::move(stream), on.caps, std::chrono::duration<double>(0));
    }
    auto made = load(*on.backend, model);
    if (!made) {
      return std::move(made).error();
    }
    auto weights = std::make_shared<const typename Backend::Weights>(*std::move(made));
    const std::lock_guard lock(mutex_);
    all_.push_back({device, model, weights});
    return weights;
  }

  /// Frees them all, once nothing uses them: those first that may lie in the memory of others. `told` gets the status of each.
  template <class Told>
  void release(const Told& told) {
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      told(devices_[each->device].backend->release(*each->weights));
    }
    all_.clear();
  }

 private:
  struct PerDevice {
    Device device;
    Caps caps;
    std::mutex loading;  ///< Of the device's weights, and of what is below.
    std::optional<Backend> backend;
  };
  struct Loaded {
    std::size_t device = 0;
    std::size_t model = 0;
    Weights weights;
  };

  std::vector<Loaded> loaded(std::size_t model) {
    const std::lock_guard lock(mutex_);
    std::vector<Loaded> found;
    std::ranges::copy_if(all_, std::back_inserter(found), [&](const Loaded& each) { return each.model == model; });
    return found;
  }

  Result<typename Backend::Weights> load(const Backend& backend, std::size_t model) {
    for (const Loaded& each : loaded(model)) {
      auto gone = runtime_.lost(devices_[each.device].device);
      if (!gone || *gone) {
        continue;
      }
      if (auto shared = backend.share(*each.weights)) {
        return shared;
      }
    }
    auto code = code_of(model);
    if (!code) {
      return std::move(code).error();
    }
    return backend.upload(*models_[model].tensors, *std::move(code));
  }

  Result<std::shared_ptr<CodeCache<D>>> code_of(std::size_t model) {
    const std::lock_guard lock(mutex_);
    if (!codes_[model]) {
      auto made = runtime_.model(models_[model].graph, *models_[model].tensors);
      if (!made) {
        return std::move(made).error();
      }
      codes_[model] = std::make_shared<CodeCache<D>>(runtime_, *std::move(made));
    }
    return codes_[model];
  }

  Multidev<D>& runtime_;
  std::vector<Source> models_;
  std::deque<PerDevice> devices_;  // a deque: a mutex stays where it is
  std::mutex mutex_;               ///< Of all below; held for no longer than a look.
  std::vector<std::shared_ptr<CodeCache<D>>> codes_;
  std::vector<Loaded> all_;  ///< In the order in which they came.
};

}  // namespace kime
