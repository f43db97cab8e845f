// Multidev: pools, buffers and contexts.
#pragma once

#include <bit>

#include "kime/runtime/multidev.h"

namespace kime {

/// Of every slab that the runtime makes for itself: a cache line, and what vector loads of any backend like.
inline constexpr std::size_t kPoolAlignment = 256;

template <Driver D>
Status Multidev<D>::alloc_pool(const Device& device, PoolId pool, std::size_t bytes, std::size_t alignment, MemoryMode mode) {
  calls_.count("alloc_pool");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  if (!std::has_single_bit(alignment)) {
    return Error(ErrorKind::device, "an alignment of " + std::to_string(alignment) + " bytes is no power of two");
  }
  DeviceState<D>& state = **found;
  if (state.pools.has(pool)) {
    return Error(ErrorKind::device, "pool " + std::to_string(pool) + " is in use");
  }
  {
    const std::lock_guard lock(state.mutex);
    if (state.lost) {
      return *state.lost;
    }
  }
  auto slab = state.driver->alloc(device.ordinal, bytes, alignment, mode);
  if (!slab) {
    return std::move(slab).error();
  }
  return state.pools.add(pool, *std::move(slab), bytes);
}

template <Driver D>
Status Multidev<D>::free_pool(const Device& device, PoolId pool) {
  calls_.count("free_pool");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  if ((*found)->pools.has(pool)) {
    for (const auto& stream : streams_of(**found)) {
      settle(StreamOf{*found, stream});
    }
  }
  return drop(**found, pool);
}

template <Driver D>
Status Multidev<D>::drop(DeviceState<D>& device, PoolId pool) {
  if (!device.driver->alive(device.ordinal)) {
    device.pools.set_aside();  // its streams are not waited for: something may be under way still
  }
  return device.pools.remove(pool);
}

template <Driver D>
auto Multidev<D>::place(const Buffer& buffer, std::size_t offset, std::size_t bytes) -> Result<Place<typename D::Slab>> {
  auto device = device_at(buffer.device);
  if (!device) {
    return std::move(device).error();
  }
  return (*device)->pools.place(buffer, offset, bytes);
}

template <Driver D>
auto Multidev<D>::place(const Context& context, Node node, std::size_t bytes) -> Result<Place<typename D::Slab>> {
  const auto buffer = context.state->find(node);
  if (!buffer) {
    return Error(ErrorKind::device, "the context has no " + std::string(to_string(node)));
  }
  return place(*buffer, 0, bytes);
}

template <Driver D>
Status Multidev<D>::memset_zero(const Stream& stream, PoolId pool, std::size_t offset, std::size_t bytes) {
  calls_.count("memset_zero");
  auto on = find(stream);
  if (!on) {
    return std::move(on).error();
  }
  auto where = on->device->pools.place(Buffer{stream.ordinal, pool, 0, 0}, offset, bytes);
  if (!where) {
    return std::move(where).error();
  }
  return run_on(*on, "zero", kNoGroup, [where = *where, bytes](D& driver, auto& native) { return driver.zero(native, where, bytes); });
}

template <Driver D>
Result<Buffer> Multidev<D>::alloc_buffer(const Device& device, std::size_t bytes, MemoryMode mode, const std::optional<Buffer>& old,
                                         const std::optional<Stream>& stream) {
  calls_.count("alloc_buffer");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  if (old && old->device != device.ordinal) {
    return Error(ErrorKind::device, "the old buffer is another device's");
  }
  if (old && old->bytes >= bytes && (*found)->pools.has(old->pool)) {
    return *old;
  }
  auto* next = &(*found)->next_pool;
  if (stream) {
    auto on = find(*stream);
    if (!on) {
      return std::move(on).error();
    }
    next = &on->stream->next_pool;
    if (old) {
      settle(*on);
    }
  }
  if (old) {  // first, so that both are never there at once
    if (auto removed = stream ? drop(**found, old->pool) : free_pool(device, old->pool); !removed) {
      return std::move(removed).error();
    }
  }
  const PoolId pool = next->fetch_add(1);
  if (auto made = alloc_pool(device, pool, bytes, kPoolAlignment, mode); !made) {
    return std::move(made).error();
  }
  return Buffer{device.ordinal, pool, 0, bytes};
}

template <Driver D>
Result<std::optional<Buffer>> Multidev<D>::get_buffer(const Context& context, Node node) {
  calls_.count("get_buffer");
  if (auto found = find(context); !found) {
    return std::move(found).error();
  }
  return context.state->find(node);
}

template <Driver D>
Result<std::size_t> Multidev<D>::get_used_memory(const Device& device) {
  calls_.count("get_used_memory");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  return (*found)->pools.used();
}

// ---- contexts

template <Driver D>
auto Multidev<D>::find(const Context& context) -> Result<DevicePtr> {
  if (!context.state) {
    return Error(ErrorKind::device, "no context");
  }
  if (auto checked = check_life(context.state->life, "a context"); !checked) {
    return std::move(checked).error();
  }
  {
    const std::lock_guard lock(context.state->mutex);
    if (context.state->finalized) {
      return Error(ErrorKind::device, "the context has been finalized");
    }
  }
  return device_at(context.state->device);
}

template <Driver D>
auto Multidev<D>::stream_of(const Context& context) -> Result<StreamOf> {
  if (auto found = find(context); !found) {
    return std::move(found).error();
  }
  if (!context.state->stream) {
    return Error(ErrorKind::device, "the context has no stream");
  }
  return find(Stream{context.state->life, context.state->device, *context.state->stream});
}

template <Driver D>
Result<Context> Multidev<D>::make_context(const Device& device, const std::optional<Stream>& stream, const LoweringOptions& options) {
  calls_.count("make_context");
  if (auto found = find(device); !found) {
    return std::move(found).error();
  }
  auto state = std::make_shared<ContextState>();
  state->life = device.life;
  state->device = device.ordinal;
  state->options = options;
  if (stream) {
    if (auto on = find(*stream); !on) {
      return std::move(on).error();
    }
    if (stream->ordinal != device.ordinal) {
      return Error(ErrorKind::device, "the stream is another device's");
    }
    state->stream = stream->subordinal;
    state->group = ++groups_;
  }
  return Context{std::move(state)};
}

template <Driver D>
Result<Context> Multidev<D>::make_child(const Context& parent, const Child& child) {
  calls_.count("make_child");
  if (auto found = find(parent); !found) {
    return std::move(found).error();
  }
  const ContextState& from = *parent.state;
  const Device device = child.device.value_or(Device{from.life, from.device});
  auto made = make_context(device, child.stream, child.options.value_or(from.options));
  if (!made) {
    return made;
  }
  if (device.ordinal != from.device) {
    auto shares = shares_memory(Device{from.life, from.device}, device);
    if (!shares) {
      return std::move(shares).error();
    }
    if (!*shares) {
      return Error(ErrorKind::device, "the child's device does not share the parent's memory");
    }
  }
  ContextState& state = *made->state;
  if (!child.stream && device.ordinal == from.device) {
    state.stream = from.stream;
    state.group = from.group;
  }
  state.merge = child.merge ? child.merge : from.merge;
  state.parent = parent.state;
  const std::lock_guard lock(parent.state->mutex);
  if (parent.state->finalized) {
    return Error(ErrorKind::device, "the context has been finalized");
  }
  ++parent.state->children;
  return made;
}

template <Driver D>
Result<std::optional<Context>> Multidev<D>::parent(const Context& context) {
  calls_.count("parent");
  if (auto found = find(context); !found) {
    return std::move(found).error();
  }
  if (!context.state->parent) {
    return std::optional<Context>();
  }
  return std::optional<Context>(Context{context.state->parent});
}

template <Driver D>
Status Multidev<D>::finalize(const Context& context) {
  calls_.count("finalize");
  auto found = find(context);
  if (!found) {
    return std::move(found).error();
  }
  ContextState& state = *context.state;
  std::vector<Buffer> own;
  {
    const std::lock_guard lock(state.mutex);
    if (state.finalized) {
      return Error(ErrorKind::device, "the context has been finalized");
    }
    if (state.children > 0) {
      return Error(ErrorKind::device, std::to_string(state.children) + (state.children == 1 ? " child" : " children") +
                                          " of the context still live: finalize them first");
    }
    state.finalized = true;
    own.swap(state.own);
  }
  if (state.parent) {
    const std::lock_guard lock(state.parent->mutex);
    --state.parent->children;
  }
  if (!own.empty()) {
    settle(state);
  }
  Status all;
  for (const Buffer& buffer : own) {
    if (auto freed = drop(**found, buffer.pool); !freed && all) {
      all = std::move(freed);
    }
  }
  return all;
}

// All that may use a context's memory: its stream, which is its children's too, and those that read from it. Without a stream of its own,
// any of the device may.
template <Driver D>
void Multidev<D>::settle(ContextState& context) {
  std::vector<Stream> users;
  {
    const std::lock_guard lock(context.mutex);
    users = context.readers;
  }
  if (context.stream) {
    users.push_back(Stream{context.life, context.device, *context.stream});
  } else if (auto device = device_at(context.device)) {
    for (std::size_t i = 0; i < streams_of(**device).size(); ++i) {
      users.push_back(Stream{context.life, context.device, i});
    }
  }
  for (const Stream& stream : users) {
    auto on = find(stream);
    if (!on) {
      continue;
    }
    settle(*on);
    if (auto device = on->stream->queue->dead() ? device_at(context.device) : Result<DevicePtr>(DevicePtr()); device && *device) {
      (*device)->pools.set_aside();  // it was not waited for
    }
  }
}

// Gives a context's slot for a buffer one of so many bytes: the one it has if that is large enough.
template <Driver D>
Status Multidev<D>::grow(ContextState& state, std::optional<Buffer>& slot, std::size_t bytes, MemoryMode mode) {
  std::optional<Buffer> old;
  {
    const std::lock_guard lock(state.mutex);
    old = slot;
  }
  std::optional<Stream> stream;
  if (state.stream) {
    stream = Stream{state.life, state.device, *state.stream};
  }
  if (old && old->bytes < bytes) {
    settle(state);
  }
  auto buffer = alloc_buffer(Device{state.life, state.device}, bytes, mode, old, stream);
  if (buffer && old == *buffer) {
    return {};
  }
  // Where there is no room for more, what was linked for the old size goes on working.
  auto made = buffer || !old ? buffer : alloc_buffer(Device{state.life, state.device}, old->bytes, mode, {}, stream);
  const std::lock_guard lock(state.mutex);
  if (old) {
    std::erase(state.own, *old);
    slot.reset();
  }
  if (made) {
    slot = *made;
    state.own.push_back(*made);
  }
  return buffer ? Status() : Status(std::move(buffer).error());
}

template <Driver D>
Status Multidev<D>::need(const Context& context, Node node, std::size_t bytes, MemoryMode mode) {
  if (auto found = find(context); !found) {
    return std::move(found).error();
  }
  return grow(*context.state, context.state->buffers[static_cast<std::size_t>(node)], bytes, mode);
}

}  // namespace kime
