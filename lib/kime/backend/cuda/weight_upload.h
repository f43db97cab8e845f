// Weights on their way to a device.
#pragma once

#include <cstddef>
#include <memory>

#include "kime/backend/cuda/pinned_ring.h"
#include "kime/backend/cuda/stream.h"
#include "kime/backend/cuda/weights.h"

namespace kime::cuda {

/// On the stream's own thread. While one piece is being copied, the next is read and converted.
class WeightUpload final : public WeightSink {
 public:
  /// To `address` on, in stream order. Errors: `device`.
  static Result<WeightUpload> make(Stream& stream, std::shared_ptr<DeviceContext> context, DeviceAddress address) {
    auto ring = PinnedRing::make(std::move(context), 2, kPiece);
    if (!ring) {
      return std::move(ring).error();
    }
    return WeightUpload(stream, address, *std::move(ring));
  }

  Result<std::byte*> room() override { return ring_->room(); }
  Status send(std::size_t offset, std::size_t bytes) override { return ring_->send(stream_.handle(), address_ + offset, bytes); }
  /// Waits until all has been copied.
  Status finish() { return ring_->finish(); }

 private:
  WeightUpload(Stream& stream, DeviceAddress address, std::unique_ptr<PinnedRing> ring)
      : stream_(stream), address_(address), ring_(std::move(ring)) {}

  Stream& stream_;
  DeviceAddress address_;
  std::unique_ptr<PinnedRing> ring_;
};

}  // namespace kime::cuda
