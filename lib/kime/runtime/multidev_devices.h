// Multidev: the runtime's life, devices and streams.
#pragma once

#include "kime/runtime/multidev.h"

namespace kime {

template <Driver D>
Status Multidev<D>::initialize(const RuntimeConfig<D>& config) {
  calls_.count("initialize");
  if (config.streams.kind == StreamStrategy::Kind::number && (config.streams.count == 0 || config.streams.count > StreamStrategy::kMost)) {
    return Error(ErrorKind::device,
                 std::to_string(config.streams.count) + " streams: a device has 1 to " + std::to_string(StreamStrategy::kMost));
  }
  const std::lock_guard lock(mutex_);
  if (config_) {
    return *config_ == config
               ? Status()
               : Error(ErrorKind::device, "the " + std::string(name()) + " runtime is initialized with another configuration");
  }
  config_ = config;
  life_ = std::make_shared<RuntimeLife>();
  return {};
}

template <Driver D>
bool Multidev<D>::is_initialized() const {
  calls_.count("is_initialized");
  const std::lock_guard lock(mutex_);
  return config_.has_value();
}

template <Driver D>
void Multidev<D>::unsafe_cleanup() {
  calls_.count("unsafe_cleanup");
  std::vector<DevicePtr> devices;
  std::shared_ptr<D> driver;
  {
    const std::lock_guard lock(mutex_);
    if (life_) {
      life_->valid.store(false);
    }
    life_.reset();
    config_.reset();
    limits_.reset();
    devices.swap(devices_);
    driver.swap(driver_);
  }
  for (const auto& device : devices) {
    if (device) {
      std::vector<StreamPtr> streams;
      {
        const std::lock_guard lock(device->mutex);
        streams.swap(device->streams);
      }
      if (!device->driver->alive(device->ordinal)) {
        for (const auto& stream : streams) {
          stream->queue->kill(Error(ErrorKind::device, std::string(name()) + ":" + std::to_string(device->ordinal) + " no longer works"));
        }
      }
      const auto lenders = std::make_shared<std::vector<DevicePtr>>();
      for (const DevicePtr& other : devices) {
        if (other && other != device && device->driver->shares_memory(other->ordinal, device->ordinal)) {
          lenders->push_back(other);
        }
      }
      for (const auto& stream : streams) {
        stream->queue->close(lenders);
      }
    }
  }
}

template <Driver D>
Status Multidev<D>::check_life(const std::shared_ptr<RuntimeLife>& life, std::string_view what) const {
  const std::lock_guard lock(mutex_);
  if (life && !life->valid.load()) {
    return Error(ErrorKind::device, std::string(what) + " of a runtime that has been cleaned up");
  }
  if (!config_) {
    return Error(ErrorKind::device, "the " + std::string(name()) + " runtime is not initialized");
  }
  if (life != life_) {
    return Error(ErrorKind::device, std::string(what) + " of another runtime");
  }
  return {};
}

template <Driver D>
Result<D*> Multidev<D>::driver() {
  const std::lock_guard lock(mutex_);
  if (!config_) {
    return Error(ErrorKind::device, "the " + std::string(name()) + " runtime is not initialized");
  }
  if (!driver_) {
    auto opened = D::open(config_->driver);
    if (!opened) {
      return std::move(opened).error();
    }
    driver_ = *std::move(opened);
    devices_.resize(driver_->num_devices());
  }
  return driver_.get();
}

template <Driver D>
Result<std::size_t> Multidev<D>::num_devices() {
  calls_.count("num_devices");
  auto opened = driver();
  if (!opened) {
    return std::move(opened).error();
  }
  return (*opened)->num_devices();
}

template <Driver D>
auto Multidev<D>::make_device(std::size_t ordinal) -> DevicePtr {
  calls_.count("make_device");
  auto state = std::make_shared<DeviceState<D>>();
  state->driver = driver_;
  state->ordinal = ordinal;
  return state;
}

template <Driver D>
auto Multidev<D>::device_at(std::size_t ordinal) -> Result<DevicePtr> {
  if (auto opened = driver(); !opened) {
    return std::move(opened).error();
  }
  const std::lock_guard lock(mutex_);
  if (ordinal >= devices_.size()) {
    return Error(ErrorKind::device, "there is no " + std::string(name()) + ":" + std::to_string(ordinal) + "; there " +
                                        (devices_.size() == 1 ? "is 1 device" : "are " + std::to_string(devices_.size()) + " devices"));
  }
  if (!devices_[ordinal]) {
    devices_[ordinal] = make_device(ordinal);
  }
  return devices_[ordinal];
}

template <Driver D>
auto Multidev<D>::find(const Device& device) -> Result<DevicePtr> {
  if (auto checked = check_life(device.life, "a device"); !checked) {
    return std::move(checked).error();
  }
  return device_at(device.ordinal);
}

template <Driver D>
auto Multidev<D>::find(const Stream& stream) -> Result<StreamOf> {
  if (auto checked = check_life(stream.life, "a stream"); !checked) {
    return std::move(checked).error();
  }
  auto device = device_at(stream.ordinal);
  if (!device) {
    return std::move(device).error();
  }
  const std::lock_guard lock((*device)->mutex);
  if (stream.subordinal >= (*device)->streams.size()) {
    return Error(ErrorKind::device, "there is no stream " + std::to_string(stream.subordinal) + " of " + std::string(name()) + ":" +
                                        std::to_string(stream.ordinal));
  }
  return StreamOf{*device, (*device)->streams[stream.subordinal]};
}

template <Driver D>
Result<Device> Multidev<D>::get_device(std::size_t ordinal) {
  calls_.count("get_device");
  auto device = device_at(ordinal);
  if (!device) {
    return std::move(device).error();
  }
  const std::lock_guard lock(mutex_);
  return Device{life_, ordinal};
}

template <Driver D>
Result<std::string> Multidev<D>::get_name(const Device& device) {
  calls_.count("get_name");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  return std::string(name()) + ":" + std::to_string(device.ordinal);
}

template <Driver D>
Result<std::string> Multidev<D>::get_name(const Stream& stream) {
  calls_.count("get_name");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  return std::string(name()) + ":" + std::to_string(stream.ordinal) + "." + std::to_string(stream.subordinal);
}

template <Driver D>
Result<std::size_t> Multidev<D>::to_ordinal(const Device& device) {
  calls_.count("to_ordinal");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  return device.ordinal;
}

template <Driver D>
Result<Device> Multidev<D>::get_physical_device(const Stream& stream) {
  calls_.count("physical_device");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  return Device{stream.life, stream.ordinal};
}

template <Driver D>
Result<std::size_t> Multidev<D>::to_subordinal(const Stream& stream) {
  calls_.count("to_subordinal");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  return stream.subordinal;
}

template <Driver D>
Result<std::size_t> Multidev<D>::suggested_num_virtual_devices(const Device& device) {
  calls_.count("suggested_num_virtual_devices");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  StreamStrategy strategy;
  {
    const std::lock_guard lock(mutex_);
    strategy = config_->streams;
  }
  return (*found)->driver->suggested_streams(device.ordinal, strategy);
}

template <Driver D>
Result<Stream> Multidev<D>::new_virtual_device(const Device& device) {
  calls_.count("new_virtual_device");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  DeviceState<D>& state = **found;
  const std::lock_guard lock(state.mutex);
  if (state.lost) {
    return *state.lost;
  }
  const std::size_t subordinal = state.streams.size();
  auto native = state.driver->make_stream(device.ordinal, subordinal);
  if (!native) {
    return std::move(native).error();
  }
  auto stream = std::make_shared<StreamState<D>>();
  stream->native = *std::move(native);
  stream->next_pool = kFirstOwnPool * (subordinal + 2);
  D* driver = state.driver.get();
  const std::size_t ordinal = device.ordinal;
  stream->queue = std::make_shared<StreamQueue>([driver, ordinal] { return driver->alive(ordinal); },
                                                [observer = observer_, ordinal, subordinal](const TaskSpan& span) {
                                                  if (observer) {
                                                    observer(ordinal, subordinal, span);
                                                  }
                                                });
  auto* of_driver = stream->native.get();
  // The thread keeps the device's memory and the stream until it has come back from whatever it is in.
  const auto keep = std::make_shared<std::pair<DevicePtr, StreamPtr>>(*found, stream);
  auto started = stream->queue->start([driver, of_driver](const std::function<void()>& body) { driver->enter(*of_driver, body); }, keep);
  if (!started) {
    return std::move(started).error();
  }
  state.streams.push_back(std::move(stream));
  return Stream{device.life, ordinal, subordinal};
}

template <Driver D>
Result<DeviceProperties> Multidev<D>::properties(const Device& device) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  return (*found)->driver->properties(device.ordinal);
}

template <Driver D>
Result<Caps> Multidev<D>::caps(const Device& device) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  return (*found)->driver->caps(device.ordinal);
}

template <Driver D>
Result<bool> Multidev<D>::shares_memory(const Device& from, const Device& to) {
  auto found = find(from);
  if (!found) {
    return std::move(found).error();
  }
  if (auto other = find(to); !other) {
    return std::move(other).error();
  }
  return (*found)->driver->shares_memory(from.ordinal, to.ordinal);
}

}  // namespace kime
