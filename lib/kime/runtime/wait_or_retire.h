// Waiting for a device no longer than it may take.
#pragma once

#include <chrono>
#include <utility>

#include "kime/runtime/multidev.h"

namespace kime {

/// Waits for `event`, a point of `stream`. False: it was not reached within `timeout` (0: for ever), and the stream's device has been
/// retired for the reason that `why()`, an Error, gives. Errors: the event's own, and what failed before it.
template <Driver D, class Why>
Result<bool> wait_or_retire(Multidev<D>& runtime, const Stream& stream, Result<Event> event, std::chrono::duration<double> timeout,
                            const Why& why) {
  if (!event) {
    return std::move(event).error();
  }
  auto done = runtime.sync_until(*event, deadline_in(timeout));
  if (done && !*done) {
    if (auto device = runtime.get_physical_device(stream)) {
      static_cast<void>(runtime.retire(*device, why()));
    }
  }
  return done;
}

}  // namespace kime
