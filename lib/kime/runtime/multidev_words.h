// Multidev: descriptions.
#pragma once

#include "kime/runtime/multidev.h"

namespace kime {

/// What `kime devices --json` says of a device.
[[nodiscard]] inline nlohmann::json describe_properties(std::string_view runtime, std::size_t ordinal, const DeviceProperties& known) {
  nlohmann::json device = {{"device", std::string(runtime) + ":" + std::to_string(ordinal)},
                           {"kind", known.kind},
                           {"ordinal", ordinal},
                           {"class", known.bits_class},
                           {"name", known.name},
                           {"cores", known.cores},
                           {"numa_node", known.node ? nlohmann::json(*known.node) : nlohmann::json()},
                           {"memory_bytes", known.memory_bytes},
                           {"memory_used_bytes", known.memory_used_bytes},
                           {"memory_modes", known.memory_modes}};
  device.update(known.facts);
  return device;
}

template <Driver D>
Result<nlohmann::json> Multidev<D>::static_properties() {
  calls_.count("static_properties");
  auto opened = driver();
  if (!opened) {
    return std::move(opened).error();
  }
  auto all = nlohmann::json::array();
  for (std::size_t ordinal = 0; ordinal < (*opened)->num_devices(); ++ordinal) {
    all.push_back(describe_properties(name(), ordinal, (*opened)->properties(ordinal)));
  }
  return all;
}

template <Driver D>
nlohmann::json Multidev<D>::get_global_debug_info() {
  calls_.count("get_global_debug_info");
  nlohmann::json calls = nlohmann::json::object();
  for (std::size_t i = 0; i < std::size(kCallNames); ++i) {
    calls[std::string(kCallNames[i])] = calls_.at(i);
  }
  return {{"runtime", name()}, {"initialized", is_initialized()}, {"calls", std::move(calls)}};
}

template <Driver D>
Result<nlohmann::json> Multidev<D>::get_debug_info(const Device& device) {
  calls_.count("get_debug_info");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  DeviceState<D>& state = **found;
  nlohmann::json info = state.driver->debug_info(device.ordinal);
  info["alive"] = state.driver->alive(device.ordinal);
  info["pools"] = state.pools.count();
  info["used_bytes"] = state.pools.used();
  auto streams = nlohmann::json::array();
  const std::lock_guard lock(state.mutex);
  for (const auto& stream : state.streams) {
    const auto dead = stream->queue->dead();
    streams.push_back({{"tasks", stream->queue->last()},
                       {"idle", stream->queue->idle()},
                       {"generation", stream->queue->generation()},
                       {"dead", dead ? nlohmann::json(dead->text()) : nlohmann::json()}});
  }
  info["streams"] = std::move(streams);
  info["lost"] = state.lost ? nlohmann::json(state.lost->text()) : nlohmann::json();
  return info;
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Device& device) {
  return {{"device", std::string(name()) + ":" + std::to_string(device.ordinal)}};
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Stream& stream) {
  return {{"stream", std::string(name()) + ":" + std::to_string(stream.ordinal) + "." + std::to_string(stream.subordinal)}};
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Event& event) {
  nlohmann::json words = describe(Stream{event.life, event.ordinal, event.subordinal});
  words["ticket"] = event.ticket;
  return words;
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Buffer& buffer) {
  return {{"device", std::string(name()) + ":" + std::to_string(buffer.device)},
          {"pool", buffer.pool},
          {"offset", buffer.offset},
          {"bytes", buffer.bytes}};
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Context& context) {
  ContextState& state = *context.state;
  nlohmann::json words = describe(Device{state.life, state.device});
  if (state.stream) {
    words.update(describe(Stream{state.life, state.device, *state.stream}));
  }
  const std::lock_guard lock(state.mutex);
  words["finalized"] = state.finalized;
  words["children"] = state.children;
  nlohmann::json nodes = nlohmann::json::object();
  for (std::size_t node = 0; node < kNodes; ++node) {
    if (const auto& buffer = state.buffers[node]) {
      nodes[std::string(to_string(static_cast<Node>(node)))] = describe(*buffer);
    }
  }
  words["nodes"] = std::move(nodes);
  if (state.merge) {
    words["merge"] = {{"node", to_string(state.merge->node)}, {"use", to_string(state.merge->use)}};
  }
  return words;
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Code<D>& code) {
  const Bucket bucket = std::visit([](const auto& source) { return source.bucket; }, code.state->source);
  nlohmann::json words = {{"code", code.state->name}, {"tokens", bucket.tokens}, {"seqs", bucket.seqs}, {"markers", bucket.markers}};
  if (const auto* merge = std::get_if<MergeSource>(&code.state->source)) {
    words["merge"] = {{"node", to_string(merge->merge.node)}, {"use", to_string(merge->merge.use)}};
  }
  return words;
}

template <Driver D>
nlohmann::json Multidev<D>::describe(const Routine<D>& routine) {
  nlohmann::json words = describe(routine.code);
  words["context"] = describe(routine.context);
  return words;
}

}  // namespace kime
