// What a runtime keeps for each device and each stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kime/runtime/context.h"
#include "kime/runtime/driver.h"
#include "kime/runtime/stream_queue.h"

namespace kime {

/// The slabs of one device by number. From any thread.
template <Driver D>
class PoolTable {
 public:
  using Slab = typename D::Slab;

  /// Errors: `device` for an id in use; the slab is then given back.
  Status add(PoolId id, Slab slab, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!pools_.try_emplace(id, Entry{std::move(slab), bytes}).second) {
      return Error(ErrorKind::device, "pool " + std::to_string(id) + " is in use");
    }
    used_ += bytes;
    return {};
  }

  [[nodiscard]] bool has(PoolId id) {
    const std::lock_guard lock(mutex_);
    return pools_.contains(id);
  }

  /// Frees a slab and drops its entry. Where memory is set aside, the slab stays until the table goes.
  /// Errors: `device` for an id that is not in use.
  Status remove(PoolId id) {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(id);
    if (found == pools_.end()) {
      return Error(ErrorKind::device, "pool " + std::to_string(id) + " is not in use: never allocated, or freed already");
    }
    if (set_aside_) {
      kept_.push_back(pools_.extract(found));  // where it is: a call that hangs has its place
    } else {
      used_ -= found->second.bytes;
      pools_.erase(found);
    }
    return {};
  }

  /// The place of `bytes` from a buffer's own offset and `offset` on. Errors: `device` for a pool that is gone, or past its end.
  Result<Place<Slab>> place(const Buffer& buffer, std::size_t offset, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(buffer.pool);
    if (found == pools_.end()) {
      return Error(ErrorKind::device, "pool " + std::to_string(buffer.pool) + " is not in use");
    }
    const std::size_t size = found->second.bytes;
    if (buffer.offset > size || offset > size - buffer.offset || bytes > size - buffer.offset - offset) {
      return Error(ErrorKind::device, std::to_string(bytes) + " bytes at " + std::to_string(buffer.offset + offset) + " are past pool " +
                                          std::to_string(buffer.pool) + " of " + std::to_string(size) + " bytes");
    }
    return Place<Slab>{&found->second.slab, buffer.offset + offset};
  }

  /// From now on nothing is given back: a call that hangs may still use it.
  void set_aside() {
    const std::lock_guard lock(mutex_);
    set_aside_ = true;
  }

  [[nodiscard]] std::size_t used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex_);
    return pools_.size();
  }

 private:
  struct Entry {
    Slab slab;
    std::size_t bytes = 0;
  };
  std::mutex mutex_;
  std::map<PoolId, Entry> pools_;  // a map: places point into it
  std::vector<typename std::map<PoolId, Entry>::node_type> kept_;
  std::size_t used_ = 0;
  bool set_aside_ = false;
};

template <Driver D>
struct StreamState {
  std::unique_ptr<typename D::Stream> native;
  std::shared_ptr<StreamQueue> queue;
  std::mutex marking;  ///< Marks are recorded in the order of their numbers. Of all below.
  Ticket marks = 0;    ///< Marks so far.
  Ticket marked = 0;   ///< The ticket of the last.
  /// What fails late fails the mark behind it. A mark stands between the tasks of different groups, so that all before a mark, back to the
  /// last one, are of one group: this one.
  TaskGroup last_group = kNoGroup;
  bool unmarked = false;  ///< Something has been scheduled since the last mark.
  struct GroupMarks {
    Ticket waited = 0;          ///< The group has waited for this one.
    std::vector<Ticket> marks;  ///< Those behind tasks of the group, of which the ones waited for are forgotten in time.
  };
  std::map<TaskGroup, GroupMarks> groups;
  std::atomic<PoolId> next_pool{0};
};

template <Driver D>
struct DeviceState {
  std::shared_ptr<D> driver;  // before all that it made
  std::size_t ordinal = 0;
  PoolTable<D> pools;
  std::atomic<PoolId> next_pool{kFirstOwnPool};
  std::mutex mutex;  ///< Of all below.
  std::vector<std::shared_ptr<StreamState<D>>> streams;
  std::optional<Error> lost;                ///< Why nothing more is scheduled here.
  std::vector<std::shared_ptr<void>> kept;  ///< What a call that hangs may still use on the host's side.
};

}  // namespace kime
