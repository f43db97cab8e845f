// Weights on their way to a device, through two pieces of pinned memory that take turns.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "kime/backend/cuda/event.h"
#include "kime/backend/cuda/slab.h"
#include "kime/backend/cuda/stream.h"
#include "kime/backend/cuda/weights.h"

namespace kime::cuda {

/// On the stream's own thread. While one piece is being copied, the other is filled.
class WeightUpload final : public WeightSink {
 public:
  /// To `address` on, in stream order. Errors: `device`.
  static Result<std::unique_ptr<WeightUpload>> make(Stream& stream, std::shared_ptr<DeviceContext> context, DeviceAddress address);
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;
  /// Waits for the stream where it has not been told to finish: the pieces are still being read.
  ~WeightUpload() override;

  Result<std::byte*> room() override;
  Status send(std::size_t offset, std::size_t bytes) override;
  /// Waits until all has been copied.
  Status finish();

 private:
  struct Half {
    Slab memory;
    EventPtr copied;
    bool sent = false;
  };
  WeightUpload(Stream& stream, DeviceAddress address) : stream_(stream), address_(address) {}
  Status wait(Half& half) const;

  Stream& stream_;
  DeviceAddress address_;
  std::array<std::optional<Half>, 2> halves_;
  std::size_t next_ = 0;
};

}  // namespace kime::cuda
