// A piece of a device's memory, or of the host's that devices reach directly.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "kime/backend/cuda/device_context.h"

namespace kime::cuda {

/// Bytes: what the driver's own allocations are aligned to, and enough for whatever a kernel or a library reads.
inline constexpr std::size_t kSlabAlignment = 256;

/// Frees itself, on any thread, also after its device has failed.
class Slab {
 public:
  /// `bytes` from an address that is a multiple of `alignment`, a power of two. Errors: `device`; where memory is short with what is free.
  static Result<Slab> on_device(std::shared_ptr<DeviceContext> context, std::size_t bytes, std::size_t alignment);
  static Result<Slab> pinned(std::shared_ptr<DeviceContext> context, std::size_t bytes, std::size_t alignment);

  Slab(Slab&& other) noexcept
      : context_(std::move(other.context_)),
        start_(std::exchange(other.start_, 0)),
        host_(std::exchange(other.host_, nullptr)),
        host_offset_(other.host_offset_),
        address_(other.address_) {}
  Slab& operator=(Slab&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(start_, other.start_);
    std::swap(host_, other.host_);
    std::swap(host_offset_, other.host_offset_);
    std::swap(address_, other.address_);
    return *this;
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab();

  /// For the device; of pinned memory too.
  [[nodiscard]] DeviceAddress address() const { return address_; }
  /// For the host; pinned memory only.
  [[nodiscard]] std::byte* host() const { return static_cast<std::byte*>(host_) + host_offset_; }
  [[nodiscard]] bool is_pinned() const { return host_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<DeviceContext>& context() const { return context_; }

 private:
  explicit Slab(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  std::shared_ptr<DeviceContext> context_;
  DeviceAddress start_ = 0;      ///< What cuMemAlloc gave.
  void* host_ = nullptr;         ///< What cuMemHostAlloc gave.
  std::size_t host_offset_ = 0;  ///< To what is aligned.
  DeviceAddress address_ = 0;
};

}  // namespace kime::cuda
