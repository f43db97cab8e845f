// A stream of a device, with its marks and what copies to it from other devices.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "kime/backend/cuda/marks.h"
#include "kime/backend/cuda/pinned_ring.h"
#include "kime/backend/cuda/relay.h"

namespace kime::cuda {

class Stream {
 public:
  /// Errors: `device`.
  static Result<std::unique_ptr<Stream>> make(std::size_t ordinal, std::shared_ptr<DeviceContext> context);
  Stream(std::size_t ordinal, std::shared_ptr<DeviceContext> context, StreamHandle handle)
      : ordinal_(ordinal), context_(std::move(context)), handle_(handle), marks_(context_) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  [[nodiscard]] std::size_t ordinal() const { return ordinal_; }
  [[nodiscard]] DeviceContext& context() const { return *context_; }
  [[nodiscard]] StreamHandle handle() const { return handle_; }
  [[nodiscard]] Marks& marks() { return marks_; }

  /// Device memory of its own for what works in it one call after another; as large as what was first asked for. Errors: `device`; more
  /// than that.
  Result<DeviceAddress> workspace(std::size_t bytes);

  Status record(Ticket ticket);
  /// Copies from the host by way of pinned memory, where there is any, so that the call waits for nothing that the stream does.
  Status copy_in(DeviceAddress to, const void* from, std::size_t bytes);
  /// Copies from another device, by way of pinned memory.
  Status copy_staged(const std::shared_ptr<DeviceContext>& source, DeviceAddress to, DeviceAddress from, std::size_t bytes);

 private:
  std::size_t ordinal_;
  std::shared_ptr<DeviceContext> context_;
  StreamHandle handle_;
  Marks marks_;
  std::size_t workspace_bytes_ = 0;
  std::optional<Slab> workspace_;
  bool has_ring_ = false;                                          ///< Whether one was asked for.
  std::unique_ptr<PinnedRing> ring_;                               ///< Made on first use; null where there was no memory for it.
  std::map<const DeviceContext*, std::unique_ptr<Relay>> relays_;  ///< By the device they come from; made on first use.
  EventPtr source_;                                                ///< Of the relay that was used since the last mark.
};

}  // namespace kime::cuda
