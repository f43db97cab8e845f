#include "kime/backend/cuda/relay.h"

#include <algorithm>
#include <utility>

namespace kime::cuda {

Result<std::unique_ptr<Relay>> Relay::make(std::shared_ptr<DeviceContext> from, std::shared_ptr<DeviceContext> to) {
  std::unique_ptr<Relay> relay(new Relay(std::move(from), std::move(to)));
  if (auto prepared = relay->prepare(); !prepared) {
    return std::move(prepared).error();
  }
  return relay;
}

Status Relay::prepare() {
  auto begin = Event::make(to_);
  if (!begin) {
    return std::move(begin).error();
  }
  begin_ = *std::move(begin);
  for (auto& piece : pieces_) {
    auto memory = Slab::pinned(to_, kPiece, kSlabAlignment);
    if (!memory) {
      return std::move(memory).error();
    }
    piece.emplace(*std::move(memory));
    auto filled = Event::make(from_);
    if (!filled) {
      return std::move(filled).error();
    }
    auto emptied = Event::make(to_);
    if (!emptied) {
      return std::move(emptied).error();
    }
    piece->filled = *std::move(filled);
    piece->emptied = *std::move(emptied);
  }
  if (auto bound = from_->bind(); !bound) {
    return bound;
  }
  return from_->check("cuStreamCreate", from_->api().stream_create(&source_, kStreamNonBlocking));
}

Relay::~Relay() {
  if (source_ != nullptr && from_->bind()) {
    static_cast<void>(from_->api().stream_synchronize(source_));
    static_cast<void>(from_->api().stream_destroy(source_));
  }
}

Status Relay::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  auto copied = enqueue(stream, to, from, bytes);
  if (!copied && from_->bind() && from_->api().stream_synchronize(source_) == Code::success && to_->bind()) {
    // Where a mark is missing nothing says any more when a piece is free.
    static_cast<void>(to_->api().stream_synchronize(stream));
  }
  return copied;
}

Status Relay::enqueue(StreamHandle stream, DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  if (auto bound = to_->bind(); !bound) {
    return bound;
  }
  if (auto marked = begin_->record(stream); !marked) {
    return marked;
  }
  if (auto bound = from_->bind(); !bound) {
    return bound;
  }
  if (auto waits = begin_->wait_in(*from_, source_); !waits) {
    return waits;
  }
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    Piece& piece = *pieces_[at / kPiece % 2];
    const std::size_t size = std::min(kPiece, bytes - at);
    if (auto filled = fill(piece, from + at, size); !filled) {
      return filled;
    }
    if (auto emptied = empty(piece, stream, to + at, size); !emptied) {
      return emptied;
    }
  }
  return {};
}

Status Relay::fill(Piece& piece, DeviceAddress from, std::size_t bytes) {
  if (auto bound = from_->bind(); !bound) {
    return bound;
  }
  if (piece.used) {
    if (auto waits = piece.emptied->wait_in(*from_, source_); !waits) {
      return waits;
    }
  }
  const Code code = from_->api().memcpy_async(piece.memory.address(), from, bytes, source_);
  if (auto copied = from_->check("cuMemcpyAsync", code); !copied) {
    return copied;
  }
  last_ = piece.filled;
  return piece.filled->record(source_);
}

Status Relay::empty(Piece& piece, StreamHandle stream, DeviceAddress to, std::size_t bytes) {
  if (auto bound = to_->bind(); !bound) {
    return bound;
  }
  if (auto waits = piece.filled->wait_in(*to_, stream); !waits) {
    return waits;
  }
  if (auto copied = to_->check("cuMemcpyAsync", to_->api().memcpy_async(to, piece.memory.address(), bytes, stream)); !copied) {
    return copied;
  }
  piece.used = true;
  return piece.emptied->record(stream);
}

}  // namespace kime::cuda
