// Tables of the rotary embedding in a device's memory, shared by all that runs there.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kime/backend/cuda/slab.h"
#include "kime/graph/rope.h"

namespace kime::cuda {

/// cos and sin as RopeAngles has them, each [position][head_width / 2].
struct DeviceRope {
  RopeAngles angles;
  std::size_t positions;
  Slab memory;

  [[nodiscard]] DeviceAddress cosine() const { return memory.address(); }
  [[nodiscard]] DeviceAddress sine() const { return memory.address() + positions * angles.half() * sizeof(float); }
};

/// Any thread; not while it captures.
class DeviceRopes {
 public:
  explicit DeviceRopes(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  /// A table of at least `positions`, filled; a larger one takes the place of the one there is, and who holds the old one keeps it.
  /// Errors: `device`.
  Result<std::shared_ptr<const DeviceRope>> get(float theta, std::size_t head_width, std::size_t positions);

 private:
  Result<std::shared_ptr<const DeviceRope>> make(float theta, std::size_t head_width, std::size_t positions);

  std::shared_ptr<DeviceContext> context_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const DeviceRope>> tables_;
};

}  // namespace kime::cuda
