// Pinned memory through which a stream's copies from the host go, so that they run beside its compute and the caller's memory is free at
// once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kime/backend/cuda/event.h"
#include "kime/backend/cuda/slab.h"

namespace kime::cuda {

/// Pieces that take turns: one is filled while others are being copied. On the stream's own thread, with its context current.
class PinnedRing {
 public:
  /// Errors: `device`: no pinned memory.
  static Result<std::unique_ptr<PinnedRing>> make(std::shared_ptr<DeviceContext> context, std::size_t pieces, std::size_t piece_bytes);
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;
  /// Waits for what is still being copied.
  ~PinnedRing();

  /// Room for `piece_bytes`, until it is sent; waits for the copy that used it last. Errors: `device`.
  Result<std::byte*> room();
  /// Enqueues a copy of the first `bytes` of it. Errors: `device`.
  Status send(StreamHandle stream, DeviceAddress to, std::size_t bytes);
  /// Waits for all copies.
  Status finish();

 private:
  struct Piece {
    std::byte* memory;
    EventPtr copied;
    bool sent = false;
  };
  PinnedRing(std::shared_ptr<DeviceContext> context, Slab memory) : context_(std::move(context)), memory_(std::move(memory)) {}
  Status wait(Piece& piece) const;

  std::shared_ptr<DeviceContext> context_;
  Slab memory_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
};

}  // namespace kime::cuda
