#include "kime/backend/cuda/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kime::cuda {

namespace {

// A batch's five arrays are under a piece each, so that those of some batches are on their way at once.
constexpr std::size_t kRingPieces = 16;
constexpr std::size_t kRingPiece = std::size_t{128} << 10;

}  // namespace

Result<std::unique_ptr<Stream>> Stream::make(std::size_t ordinal, std::shared_ptr<DeviceContext> context) {
  if (auto bound = context->bind(); !bound) {
    return std::move(bound).error();
  }
  StreamHandle handle = nullptr;
  if (auto made = context->check("cuStreamCreate", context->api().stream_create(&handle, kStreamNonBlocking)); !made) {
    return std::move(made).error();
  }
  return std::make_unique<Stream>(ordinal, std::move(context), handle);
}

Stream::~Stream() {
  if (!relays_.empty() && context_->bind()) {
    static_cast<void>(context_->api().stream_synchronize(handle_));  // it may still empty their pinned memory
  }
  relays_.clear();
  ring_.reset();
  if (context_->bind()) {
    static_cast<void>(context_->api().stream_destroy(handle_));
  }
}

Result<DeviceAddress> Stream::workspace(std::size_t bytes) {
  if (!workspace_) {
    auto made = Slab::on_device(context_, bytes, kSlabAlignment);
    if (!made) {
      return std::move(made).error();
    }
    workspace_.emplace(*std::move(made));
    workspace_bytes_ = bytes;
  }
  if (bytes > workspace_bytes_) {  // graphs that were captured hold its address
    return Error(ErrorKind::device, "a stream's workspace cannot grow");
  }
  return workspace_->address();
}

Status Stream::record(Ticket ticket) {
  if (auto bound = context_->bind(); !bound) {
    return bound;
  }
  return marks_.record(handle_, ticket, std::exchange(source_, nullptr));
}

Status Stream::copy_in(DeviceAddress to, const void* from, std::size_t bytes) {
  if (!std::exchange(has_ring_, true)) {
    if (auto made = PinnedRing::make(context_, kRingPieces, kRingPiece)) {
      ring_ = *std::move(made);
    }
  }
  if (!ring_) {
    return context_->check("cuMemcpyHtoDAsync", context_->api().memcpy_htod_async(to, from, bytes, handle_));
  }
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t at = 0; at < bytes; at += kRingPiece) {
    const std::size_t length = std::min(kRingPiece, bytes - at);
    auto room = ring_->room();
    if (!room) {
      return std::move(room).error();
    }
    std::memcpy(*room, source + at, length);
    if (auto sent = ring_->send(handle_, to + at, length); !sent) {
      return sent;
    }
  }
  return {};
}

Status Stream::copy_staged(const std::shared_ptr<DeviceContext>& source, DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  auto& relay = relays_[source.get()];
  if (!relay) {
    auto made = Relay::make(source, context_);
    if (!made) {
      return std::move(made).error();
    }
    relay = *std::move(made);
  }
  auto copied = relay->copy(handle_, to, from, bytes);
  source_ = relay->left();
  return copied;
}

}  // namespace kime::cuda
