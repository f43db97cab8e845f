// Copies between devices that cannot reach one another's memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "kime/backend/cuda/event.h"
#include "kime/backend/cuda/slab.h"

namespace kime::cuda {

/// From one device to a stream of another, through two pieces of pinned memory that take turns. Belongs to the stream; its thread only.
class Relay {
 public:
  static constexpr std::size_t kPiece = std::size_t{4} << 20;

  /// Errors: `device`.
  static Result<std::unique_ptr<Relay>> make(std::shared_ptr<DeviceContext> from, std::shared_ptr<DeviceContext> to);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  /// Its stream has come to its end before.
  ~Relay();

  /// Enqueues the copy: it begins when the stream has come to here. Errors: `device`; part of it has been done then.
  Status copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, std::size_t bytes);
  /// Comes when the last piece has left its device; fails where that device has.
  [[nodiscard]] const EventPtr& left() const { return last_; }

 private:
  struct Piece {
    explicit Piece(Slab&& memory) : memory(std::move(memory)) {}
    Slab memory;
    EventPtr filled;   ///< By the device it comes from.
    EventPtr emptied;  ///< By the stream it goes to.
    bool used = false;
  };
  Relay(std::shared_ptr<DeviceContext> from, std::shared_ptr<DeviceContext> to) : from_(std::move(from)), to_(std::move(to)) {}
  Status prepare();
  Status enqueue(StreamHandle stream, DeviceAddress to, DeviceAddress from, std::size_t bytes);
  Status fill(Piece& piece, DeviceAddress from, std::size_t bytes);
  Status empty(Piece& piece, StreamHandle stream, DeviceAddress to, std::size_t bytes);

  std::shared_ptr<DeviceContext> from_;
  std::shared_ptr<DeviceContext> to_;
  StreamHandle source_ = nullptr;  ///< A stream of the device it comes from.
  EventPtr begin_;
  EventPtr last_;
  std::array<std::optional<Piece>, 2> pieces_;
};

}  // namespace kime::cuda
