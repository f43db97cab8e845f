// The marks of a stream: which tickets it has come to.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kime/backend/cuda/event.h"
#include "kime/runtime/driver.h"

namespace kime::cuda {

/// `record` from one thread at a time; all else from any thread.
class Marks {
 public:
  explicit Marks(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  /// Marks the stream's end with a ticket, which is past all before it. `source`: an event of another device that the stream has waited
  /// for since the last mark; the mark fails where that device has. Errors: the driver's; the ticket has then failed.
  Status record(StreamHandle stream, Ticket ticket, EventPtr source);
  /// Whether the ticket has come. Errors: what failed before it, for all who ask.
  Result<bool> reached(Ticket ticket);
  /// Waits for it. False at the deadline. Errors: as above.
  Result<bool> finish(Ticket ticket, Deadline deadline);
  /// The event of a ticket; none where it has come already. Errors: as above, and a ticket that was never recorded.
  Result<EventPtr> pending(Ticket ticket);

 private:
  struct Mark {
    EventPtr event;
    EventPtr source;
  };
  // With the lock held.
  Result<bool> state_of(Ticket ticket);
  Result<bool> settle_first();
  Result<EventPtr> free_event();

  std::shared_ptr<DeviceContext> context_;
  std::mutex mutex_;
  std::map<Ticket, Mark> pending_;
  std::map<Ticket, Error> failed_;
  Ticket reached_ = 0;  ///< All up to here have come, or have failed.
  std::vector<EventPtr> free_;
};

}  // namespace kime::cuda
