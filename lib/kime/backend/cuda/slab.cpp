#include "kime/backend/cuda/slab.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace kime::cuda {

namespace {

// What to ask for, so that an aligned address lies in it, with the context current. Errors: an alignment that is none, a size past all
// memory, the context's.
Result<std::size_t> room_for(DeviceContext& context, std::size_t bytes, std::size_t alignment) {
  if (!std::has_single_bit(alignment)) {
    return Error(ErrorKind::device, fmt::format("an alignment of {} bytes is no power of two", alignment));
  }
  const std::size_t more = alignment > kSlabAlignment ? alignment : 0;
  if (bytes > std::numeric_limits<std::size_t>::max() - more) {
    return Error(ErrorKind::device, fmt::format("{} bytes are more than any memory", bytes));
  }
  if (auto bound = context.bind(); !bound) {
    return std::move(bound).error();
  }
  return std::max<std::size_t>(bytes + more, 1);  // an empty slab has an address too
}

DeviceAddress aligned(DeviceAddress address, std::size_t alignment) {
  return (address + alignment - 1) & ~(DeviceAddress{alignment} - 1);
}

// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory (1024 bytes; 512 of 4096 are free)"
Error short_of(DeviceContext& context, const Error& error, std::size_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (context.api().mem_get_info(&free, &total) != Code::success) {
    return {ErrorKind::device, fmt::format("{} ({} bytes)", error.message(), bytes)};
  }
  return {ErrorKind::device, fmt::format("{} ({} bytes; {} of {} are free)", error.message(), bytes, free, total)};
}

}  // namespace

Result<Slab> Slab::on_device(std::shared_ptr<DeviceContext> context, std::size_t bytes, std::size_t alignment) {
  const auto room = room_for(*context, bytes, alignment);
  if (!room) {
    return room.error();
  }
  Slab slab(std::move(context));
  const Code code = slab.context_->api().mem_alloc(&slab.start_, *room);
  if (auto got = slab.context_->check("cuMemAlloc", code); !got) {
    slab.start_ = 0;
    return code == Code::out_of_memory ? short_of(*slab.context_, got.error(), *room) : std::move(got).error();
  }
  slab.address_ = aligned(slab.start_, alignment);
  return slab;
}

Result<Slab> Slab::pinned(std::shared_ptr<DeviceContext> context, std::size_t bytes, std::size_t alignment) {
  const auto room = room_for(*context, bytes, alignment);
  if (!room) {
    return room.error();
  }
  Slab slab(std::move(context));
  const auto& api = slab.context_->api();
  const Code code = api.mem_host_alloc(&slab.host_, *room, kHostPortable | kHostDeviceMap);
  if (auto got = slab.context_->check("cuMemHostAlloc", code); !got) {
    slab.host_ = nullptr;
    return Error(ErrorKind::device, fmt::format("{} ({} bytes of pinned memory)", got.error().message(), *room));
  }
  if (auto got = slab.context_->check("cuMemHostGetDevicePointer", api.mem_host_get_device_pointer(&slab.address_, slab.host_, 0)); !got) {
    return std::move(got).error();
  }
  const DeviceAddress first = aligned(slab.address_, alignment);
  slab.host_offset_ = static_cast<std::size_t>(first - slab.address_);
  slab.address_ = first;
  return slab;
}

Slab::~Slab() {
  if (start_ == 0 && host_ == nullptr) {
    return;
  }
  // Where the context has failed its memory goes with it.
  if (context_->bind()) {
    static_cast<void>(host_ != nullptr ? context_->api().mem_free_host(host_) : context_->api().mem_free(start_));
  }
}

}  // namespace kime::cuda
