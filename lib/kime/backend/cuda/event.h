// A CUDA event, owned.
#pragma once

#include <memory>
#include <utility>

#include "kime/backend/cuda/device_context.h"

namespace kime::cuda {

class Event {
 public:
  /// Waiting for it does not spin; it keeps no time. Errors: `device`.
  static Result<std::shared_ptr<Event>> make(std::shared_ptr<DeviceContext> context) {
    if (auto bound = context->bind(); !bound) {
      return std::move(bound).error();
    }
    EventHandle handle = nullptr;
    const Code code = context->api().event_create(&handle, kEventBlockingSync | kEventDisableTiming);
    if (auto made = context->check("cuEventCreate", code); !made) {
      return std::move(made).error();
    }
    return std::make_shared<Event>(std::move(context), handle);
  }
  Event(std::shared_ptr<DeviceContext> context, EventHandle handle) : context_(std::move(context)), handle_(handle) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (context_->bind()) {
      static_cast<void>(context_->api().event_destroy(handle_));
    }
  }

  [[nodiscard]] EventHandle handle() const { return handle_; }
  [[nodiscard]] const std::shared_ptr<DeviceContext>& context() const { return context_; }

  /// The functions of its context; the context of `stream` is current where it says so.
  Status record(StreamHandle stream) { return context_->check("cuEventRecord", context_->api().event_record(handle_, stream)); }
  /// Lets a stream wait for it; the stream's context, perhaps another than its own, is current.
  Status wait_in(DeviceContext& context, StreamHandle stream) const {
    return context.check("cuStreamWaitEvent", context.api().stream_wait_event(stream, handle_, 0));
  }
  /// Whether what was recorded has come. Errors: what the device has come to.
  Result<bool> query() {
    if (auto bound = context_->bind(); !bound) {
      return std::move(bound).error();
    }
    const Code code = context_->api().event_query(handle_);
    if (code == Code::not_ready) {
      return false;
    }
    if (auto asked = context_->check("cuEventQuery", code); !asked) {
      return std::move(asked).error();
    }
    return true;
  }

 private:
  std::shared_ptr<DeviceContext> context_;
  EventHandle handle_;
};

using EventPtr = std::shared_ptr<Event>;

}  // namespace kime::cuda
