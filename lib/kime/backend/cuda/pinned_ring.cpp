#include "kime/backend/cuda/pinned_ring.h"

#include <utility>

namespace kime::cuda {

Result<std::unique_ptr<PinnedRing>> PinnedRing::make(std::shared_ptr<DeviceContext> context, std::size_t pieces, std::size_t piece_bytes) {
  auto memory = Slab::pinned(context, pieces * piece_bytes, kSlabAlignment);
  if (!memory) {
    return std::move(memory).error();
  }
  auto ring = std::unique_ptr<PinnedRing>(new PinnedRing(std::move(context), *std::move(memory)));
  for (std::size_t i = 0; i < pieces; ++i) {
    auto event = Event::make(ring->context_);
    if (!event) {
      return std::move(event).error();
    }
    ring->pieces_.push_back({ring->memory_.host() + i * piece_bytes, *std::move(event), false});
  }
  return ring;
}

PinnedRing::~PinnedRing() {
  if (context_->bind()) {
    static_cast<void>(finish());
  }
}

Status PinnedRing::wait(Piece& piece) const {
  if (!std::exchange(piece.sent, false)) {
    return {};
  }
  return context_->check("cuEventSynchronize", context_->api().event_synchronize(piece.copied->handle()));
}

Result<std::byte*> PinnedRing::room() {
  Piece& piece = pieces_[next_];
  if (auto waited = wait(piece); !waited) {
    return std::move(waited).error();
  }
  return piece.memory;
}

Status PinnedRing::send(StreamHandle stream, DeviceAddress to, std::size_t bytes) {
  Piece& piece = pieces_[next_];
  next_ = (next_ + 1) % pieces_.size();
  const Code code = context_->api().memcpy_htod_async(to, piece.memory, bytes, stream);
  if (auto copied = context_->check("cuMemcpyHtoDAsync", code); !copied) {
    return copied;
  }
  auto recorded = piece.copied->record(stream);
  if (!recorded) {  // then nothing says when the piece is free again
    static_cast<void>(context_->api().stream_synchronize(stream));
    return recorded;
  }
  piece.sent = true;
  return {};
}

Status PinnedRing::finish() {
  Status all;
  for (Piece& piece : pieces_) {
    if (auto waited = wait(piece); !waited) {
      all = std::move(waited);
    }
  }
  return all;
}

}  // namespace kime::cuda
