// Multidev: devices that are given up.
#pragma once

#include "kime/runtime/multidev.h"

namespace kime {

template <Driver D>
Status Multidev<D>::retire(const Device& device, const Error& why) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  DeviceState<D>& state = **found;
  state.pools.set_aside();
  const auto under_way = [&](const StreamPtr& stream) { return !idle(StreamOf{*found, stream}); };
  if (!state.driver->alive(device.ordinal) || std::ranges::any_of(streams_of(state), under_way)) {
    for (const DevicePtr& lender : lenders_to(state)) {
      lender->pools.set_aside();  // what is under way may use their memory
    }
  }
  const std::lock_guard lock(state.mutex);
  if (!state.lost) {
    state.lost = why;
  }
  for (const auto& stream : state.streams) {
    stream->queue->kill(why);
  }
  return {};
}

// The other devices whose memory this one can use in place.
template <Driver D>
auto Multidev<D>::lenders_to(const DeviceState<D>& device) -> std::vector<DevicePtr> {
  const std::lock_guard lock(mutex_);
  std::vector<DevicePtr> lenders;
  for (const DevicePtr& other : devices_) {
    if (other && other->ordinal != device.ordinal && device.driver->shares_memory(other->ordinal, device.ordinal)) {
      lenders.push_back(other);
    }
  }
  return lenders;
}

template <Driver D>
Status Multidev<D>::set_aside(const Device& device, std::shared_ptr<void> what) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  const std::lock_guard lock((*found)->mutex);
  (*found)->kept.push_back(std::move(what));
  return {};
}

template <Driver D>
Result<std::optional<Error>> Multidev<D>::lost(const Device& device) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  const std::lock_guard lock((*found)->mutex);
  if ((*found)->lost || (*found)->driver->alive(device.ordinal)) {
    return (*found)->lost;
  }
  for (const auto& stream : (*found)->streams) {
    if (const auto dead = stream->queue->dead()) {
      return dead;
    }
  }
  return std::optional<Error>(Error(ErrorKind::device, std::string(name()) + ":" + std::to_string(device.ordinal) + " no longer works"));
}

}  // namespace kime
