// A device is tried before it is trusted with a job.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kime/runtime/multidev.h"
#include "kime/runtime/wait_or_retire.h"

namespace kime {

/// Moves a pattern to a device, through two buffers and back: a device that is sick says so now, not in the middle of a job.
template <Driver D>
class DeviceCheck {
 public:
  /// The runtime outlives it. `timeout`: how long the device may take; 0 is for ever.
  DeviceCheck(Multidev<D>& runtime, Device device, Stream stream, std::chrono::duration<double> timeout)
      : runtime_(runtime), device_(std::move(device)), stream_(std::move(stream)), timeout_(timeout) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      host_->pattern[i] = static_cast<std::uint8_t>(1 + i * 7 % 255);  // no byte of it is 0
    }
  }

  /// Errors: `device`, the driver's or what came back wrong. A device that does not answer is retired.
  Status run() {
    Status status = try_it();
    for (const auto& buffer : {first_, second_}) {
      if (buffer) {
        keep_first(status, runtime_.free_pool(device_, buffer->pool));
      }
    }
    if (context_) {
      keep_first(status, runtime_.finalize(*context_));
    }
    return status;
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kHole = 1024;  // bytes [kHole, 2 kHole) are zeroed on the way
  struct Host {
    std::array<std::uint8_t, kBytes> pattern{};
    std::array<std::uint8_t, kBytes> back{};
    std::array<HostRead, 1> reads{};
    bool called = false;
  };

  static void keep_first(Status& status, Status other) {
    if (status && !other) {
      status = std::move(other);
    }
  }

  Status try_it() {
    auto context = runtime_.make_context(device_, stream_);
    if (!context) {
      return std::move(context).error();
    }
    context_ = *std::move(context);
    auto first = runtime_.alloc_buffer(device_, kBytes, MemoryMode::device);
    if (!first) {
      return std::move(first).error();
    }
    first_ = *first;
    auto second = runtime_.alloc_buffer(device_, kBytes, MemoryMode::pinned_host);
    if (!second) {
      return std::move(second).error();
    }
    second_ = *second;
    if (auto needed = runtime_.need(*context_, Node::inputs, kBytes, MemoryMode::device); !needed) {
      return needed;
    }
    if (auto there = host_to_context(); !there) {
      return there;
    }
    return context_to_host();
  }

  // The pattern in the context's node, and in the second buffer.
  Status host_to_context() {
    Host* host = host_.get();
    host->reads = {HostRead{0, host->pattern.data(), kBytes}};
    auto copied = runtime_.from_host(*context_, Node::inputs, host->reads);
    if (!copied) {
      return std::move(copied).error();
    }
    if (auto scheduled = runtime_.host_to_buffer(stream_, host->pattern.data(), *second_, kBytes); !scheduled) {
      return scheduled;
    }
    return runtime_.schedule_task(stream_, [host = host_] {
      host->called = true;
      return Status();
    });
  }

  Status context_to_host() {
    if (auto copied = runtime_.to_buffer(*context_, Node::inputs, *first_); !copied) {
      return copied;
    }
    if (auto zeroed = runtime_.memset_zero(stream_, first_->pool, kHole, kHole); !zeroed) {
      return zeroed;
    }
    if (auto fetched = runtime_.buffer_to_host(stream_, *first_, host_->back.data(), kBytes); !fetched) {
      return fetched;
    }
    if (auto done = wait(); !done) {
      return done;
    }
    auto expected = host_->pattern;
    std::fill_n(expected.begin() + kHole, kHole, std::uint8_t{0});
    if (host_->back != expected) {
      return wrong("a copy through two of its buffers");
    }
    if (auto fetched = runtime_.buffer_to_host(stream_, *second_, host_->back.data(), kBytes); !fetched) {
      return fetched;
    }
    if (auto done = wait(); !done) {
      return done;
    }
    return host_->called && host_->back == host_->pattern ? Status() : wrong("a copy to it and back");
  }

  static Status wrong(const char* what) { return Error(ErrorKind::device, std::string(what) + " came back changed"); }

  Status wait() {
    const auto why = [] { return Error(ErrorKind::device, "it does not answer"); };
    auto done = wait_or_retire(runtime_, stream_, runtime_.all_work(stream_), timeout_, why);
    if (!done) {
      return std::move(done).error();
    }
    if (!*done) {
      static_cast<void>(runtime_.set_aside(device_, host_));
      return why();
    }
    return {};
  }

  Multidev<D>& runtime_;
  Device device_;
  Stream stream_;
  std::chrono::duration<double> timeout_;
  std::shared_ptr<Host> host_ = std::make_shared<Host>();  // copies point into it
  std::optional<Context> context_;
  std::optional<Buffer> first_;
  std::optional<Buffer> second_;
};

}  // namespace kime
