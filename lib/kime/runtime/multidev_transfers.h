// Multidev: copies between the host and nodes, and between devices.
#pragma once

#include <algorithm>

#include "kime/runtime/multidev.h"

namespace kime {

// A stream uses the memory of its own device, and of those that share theirs with it.
template <Driver D>
Status Multidev<D>::reaches(const StreamOf& on, const Buffer& buffer) {
  if (auto device = device_at(buffer.device); !device) {
    return std::move(device).error();
  }
  const std::size_t here = on.device->ordinal;
  if (buffer.device != here && !on.device->driver->shares_memory(buffer.device, here)) {
    return Error(ErrorKind::device, std::string(name()) + ":" + std::to_string(here) + " cannot use a buffer of " + std::string(name()) +
                                        ":" + std::to_string(buffer.device));
  }
  return {};
}

template <Driver D>
Status Multidev<D>::copy_on(const StreamOf& on, const Buffer& from, const Buffer& to, std::size_t bytes, const char* label,
                            TaskGroup group) {
  if (auto reached = reaches(on, to); !reached) {
    return reached;
  }
  auto in = place(from, 0, bytes);
  if (!in) {
    return std::move(in).error();
  }
  auto out = place(to, 0, bytes);
  if (!out) {
    return std::move(out).error();
  }
  return run_on(on, label, group, [in = *in, out = *out, bytes](D& driver, auto& native) { return driver.copy(native, out, in, bytes); });
}

template <Driver D>
Status Multidev<D>::to_buffer(const Context& from, Node node, const Buffer& to) {
  calls_.count("to_buffer");
  auto on = stream_of(from);
  if (!on) {
    return std::move(on).error();
  }
  const auto source = from.state->find(node);
  if (!source) {
    return Error(ErrorKind::device, "the context has no " + std::string(to_string(node)));
  }
  return copy_on(*on, *source, to, std::min(source->bytes, to.bytes), "copy", from.state->group);
}

template <Driver D>
Status Multidev<D>::host_to_buffer(const Stream& stream, const void* from, const Buffer& to, std::size_t bytes) {
  calls_.count("host_to_buffer");
  auto on = find(stream);
  if (!on) {
    return std::move(on).error();
  }
  if (auto reached = reaches(*on, to); !reached) {
    return reached;
  }
  auto out = place(to, 0, bytes);
  if (!out) {
    return std::move(out).error();
  }
  return run_on(*on, "copy in", kNoGroup,
                [from, out = *out, bytes](D& driver, auto& native) { return driver.copy_in(native, out, from, bytes); });
}

template <Driver D>
Status Multidev<D>::buffer_to_host(const Stream& stream, const Buffer& from, void* to, std::size_t bytes) {
  calls_.count("buffer_to_host");
  auto on = find(stream);
  if (!on) {
    return std::move(on).error();
  }
  if (auto reached = reaches(*on, from); !reached) {
    return reached;
  }
  auto in = place(from, 0, bytes);
  if (!in) {
    return std::move(in).error();
  }
  return run_on(*on, "copy out", kNoGroup,
                [to, in = *in, bytes](D& driver, auto& native) { return driver.copy_out(native, to, in, bytes); });
}

// Schedules fn(driver, native, place, piece) for each piece beside a node; false where there is no such node.
template <Driver D>
template <class Piece, class Fn>
Result<bool> Multidev<D>::copy_pieces(const Context& context, Node node, std::span<const Piece> pieces, const char* label, Fn fn) {
  auto on = stream_of(context);
  if (!on) {
    return std::move(on).error();
  }
  const auto buffer = context.state->find(node);
  if (!buffer) {
    return false;
  }
  for (const Piece& piece : pieces) {
    if (auto inside = place(*buffer, piece.offset, piece.bytes); !inside) {
      return std::move(inside).error();
    }
  }
  auto base = place(*buffer, 0, 0);
  if (!base) {
    return std::move(base).error();
  }
  auto scheduled = run_on(*on, label, context.state->group, [base = *base, pieces, fn](D& driver, auto& native) {
    for (const Piece& piece : pieces) {
      if (Status copied = fn(driver, native, Place<typename D::Slab>{base.slab, base.offset + piece.offset}, piece); !copied) {
        return copied;
      }
    }
    return Status();
  });
  if (!scheduled) {
    return std::move(scheduled).error();
  }
  return true;
}

template <Driver D>
Result<bool> Multidev<D>::from_host(const Context& context, Node node, std::span<const HostRead> pieces) {
  calls_.count("from_host");
  return copy_pieces(context, node, pieces, "copy in", [](D& driver, auto& native, const auto& where, const HostRead& piece) {
    return driver.copy_in(native, where, piece.host, piece.bytes);
  });
}

template <Driver D>
Result<bool> Multidev<D>::to_host(const Context& context, Node node, std::span<const HostWrite> pieces) {
  calls_.count("to_host");
  return copy_pieces(context, node, pieces, "copy out", [](D& driver, auto& native, const auto& where, const HostWrite& piece) {
    return driver.copy_out(native, piece.host, where, piece.bytes);
  });
}

template <Driver D>
Status Multidev<D>::init_from_host(const Context& context, const Stream& stream, const Model<D>& model, const TensorSource& tensors) {
  calls_.count("init_from_host");
  auto on = find(stream);
  if (!on) {
    return std::move(on).error();
  }
  if (auto made = need(context, Node::weights, model.layout->bytes(), MemoryMode::device); !made) {
    return made;
  }
  if (auto reached = reaches(*on, *context.state->find(Node::weights)); !reached) {
    return reached;
  }
  auto where = place(context, Node::weights, model.layout->bytes());
  if (!where) {
    return std::move(where).error();
  }
  auto scheduled = run_on(*on, "load", kNoGroup, [model, &tensors, where = *where](D& driver, auto& native) {
    return driver.load(native, *model.graph, *model.layout, tensors, where);
  });
  return scheduled ? await(stream) : scheduled;
}

template <Driver D>
Status Multidev<D>::init_from_device(const Context& dst, Node node, const Context& src, const Stream& stream) {
  calls_.count("init_from_device");
  auto on = find(stream);
  if (!on) {
    return std::move(on).error();
  }
  if (auto found = find(src); !found) {
    return std::move(found).error();
  }
  const auto from = src.state->find(node);
  if (!from) {
    return Error(ErrorKind::device, "the source has no " + std::string(to_string(node)));
  }
  if (auto made = need(dst, node, from->bytes, MemoryMode::device); !made) {
    return made;
  }
  if (src.state->stream) {
    auto written = all_work(src);
    if (!written) {
      return std::move(written).error();
    }
    if (auto waits = wait_on(*on, kNoGroup, *written); !waits) {
      return waits;
    }
  }
  auto scheduled = copy_on(*on, *from, *dst.state->find(node), from->bytes, "copy device to device", kNoGroup);
  return scheduled ? await(stream) : scheduled;
}

template <Driver D>
Result<bool> Multidev<D>::device_to_device(Node node, MergeUse use, const Context& dst, const Context& src) {
  calls_.count("device_to_device");
  auto on = stream_of(dst);
  if (!on) {
    return std::move(on).error();
  }
  if (auto found = find(src); !found) {
    return std::move(found).error();
  }
  const auto from = src.state->find(node);
  const auto to = dst.state->find(node);
  if (!from) {
    if (!to && use == MergeUse::none) {
      return false;
    }
    return Error(ErrorKind::device, "the source has no " + std::string(to_string(node)));
  }
  ContextState& state = *dst.state;
  if (use != MergeUse::none && state.merge && !(*state.merge == MergeNode{node, use})) {
    return Error(ErrorKind::device, "the destination was linked for " + std::string(to_string(state.merge->node)) + " by " +
                                        std::string(to_string(state.merge->use)) + ", not " + std::string(to_string(node)) + " by " +
                                        std::string(to_string(use)));
  }
  if (use == MergeUse::none && from == to) {
    return true;  // inherited, or the same context
  }
  {
    const Stream reader{state.life, state.device, *state.stream};
    // With the context that will free or grow the buffer, which may be one above src.
    ContextState& holder = *src.state->holder(node);
    const std::lock_guard lock(holder.mutex);
    auto& readers = holder.readers;
    if (std::ranges::none_of(readers,
                             [&](const Stream& each) { return each.ordinal == reader.ordinal && each.subordinal == reader.subordinal; })) {
      readers.push_back(reader);
    }
  }
  if (use == MergeUse::streaming) {
    auto shares = shares_memory(Device{state.life, from->device}, Device{state.life, state.device});
    if (!shares) {
      return std::move(shares).error();
    }
    if (!*shares) {
      return Error(ErrorKind::device, "streaming needs devices that share memory");
    }
    const std::lock_guard lock(state.mutex);
    state.merge_source = from;
    state.merge_kind = use;
    return true;
  }
  std::optional<Buffer> target = to;
  if (use == MergeUse::none) {
    if (!to) {
      return false;
    }
  } else {
    // With a routine there is a buffer already: growing waits for the stream, and that may wait for a device that hangs.
    const std::size_t bytes = state.merge_bytes > 0 ? std::min(state.merge_bytes, from->bytes) : from->bytes;
    if (auto grown = grow(state, state.merge_buffer, bytes, MemoryMode::device); !grown) {
      return std::move(grown).error();
    }
    const std::lock_guard lock(state.mutex);
    target = state.merge_buffer;
    state.merge_source = state.merge_buffer;
    state.merge_kind = use;
  }
  auto scheduled = copy_on(*on, *from, *target, std::min(from->bytes, target->bytes), "copy device to device", state.group);
  if (!scheduled) {
    return std::move(scheduled).error();
  }
  return true;
}

}  // namespace kime
